"""From a keystroke to ghost text in VS Code, beside the server's own answer time.

    LSP_CALIB_VSCODE="$(.ci/vscode)" python tests/editors/vscode/latency.py [--keystrokes 60] [--json FILE]

The program types lines, one character after the other, and waits after each until ghost text is drawn (5 s).
The page notes when a key comes in and when another ghost text is drawn; a program between editor and server
(timed_server.py) notes when the server is asked and when it answers. A key without ghost text does not count.
Prints medians and 90th percentiles: from the key to ghost text, the server's own answer, and the difference,
which is what VS Code, the extension and the ways between them take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import attrs
from editor import MISSING, SERVER, SOURCE, VSCode, browser_flags, environment_with_model, timed_server

from lsp_calib.inference.models.cards import load_cards

# Beginnings of lines that follow from the document; each is typed character by character.
LINES = (
    "    return sum(values)", "    center = mean(values)", "    total = sum(values)", "    if not values:",
    "    for value in values:", "    smallest = min(values)", "    largest = max(values)",
)  # fmt: skip
# Notes each key when it comes in, and the first frame after it that has another ghost text than before.
WATCH = """() => {
  window.keys = [];
  const drawn = () => [...document.querySelectorAll('.ghost-text-decoration, .ghost-text')];
  const text = () => drawn().map((one) => one.textContent).join('');
  document.addEventListener('keydown', (event) => {
    if (event.key.length > 1) return;
    window.keys.push({ at: Date.now(), before: text(), drawn: null });
  }, true);
  const look = () => {
    const key = window.keys.at(-1);
    const now = text();
    if (key && key.drawn === null && now && now !== key.before) key.drawn = Date.now();
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


@attrs.frozen
class Timed:
    """One key, in milliseconds: total from the key to ghost text, server from its question to its answer.

    model: whether the model was at work for it; otherwise the server answered from memory.
    """

    total: float
    server: float
    model: bool


def type_lines(vscode: VSCode, journal: Path, wanted: int) -> tuple[list[Timed], int]:
    """Types until so many keys had ghost text of the server, or the lines have been typed thirty times.

    Returns those keys, and how many were typed.
    """
    vscode.until_ready()
    vscode.page.evaluate(WATCH)
    for line in LINES * 30:
        for character in line.lstrip():
            vscode.keys("Escape")  # no ghost text of the key before, which VS Code would shorten by itself
            vscode.page.keyboard.type(character)
            for _ in range(100):
                vscode.page.wait_for_timeout(50)
                if vscode.page.evaluate("() => window.keys.at(-1).drawn !== null"):
                    break
        keys: list[dict[str, Any]] = vscode.page.evaluate("() => window.keys")
        found = matched(keys, [json.loads(row) for row in journal.read_text().splitlines()])
        if len(found) >= wanted:
            break
        vscode.keys("Escape", "Enter")
    return found, len(keys)


def matched(keys: list[dict[str, Any]], notes: list[dict[str, Any]]) -> list[Timed]:
    """The keys whose ghost text the server sent: asked after the key, and answered before it was drawn."""
    asked = {note["id"]: note["at"] for note in notes if note["what"] == "asked"}
    answers = [note for note in notes if note["what"] == "answered" and note["n"]]
    found = []
    for key in keys:
        fits = [
            note for note in answers
            if key["drawn"] and key["at"] <= asked[note["id"]] and note["at"] <= key["drawn"] + 1
        ]  # fmt: skip
        if fits:
            last = fits[-1]
            own = last["at"] - asked[last["id"]]
            found.append(Timed(key["drawn"] - key["at"], own, bool(last["model"])))
    return found


def print_table(found: list[Timed], typed: int) -> None:
    print(f"{len(found)} keystrokes with ghost text from the server, of {typed} typed")
    groups = {
        "all": found,
        "by the model": [one for one in found if one.model],
        "from memory": [one for one in found if not one.model],
    }
    for name, ones in groups.items():
        rows = {
            "key to ghost text": [one.total for one in ones],
            "the server's answer": [one.server for one in ones],
            "the difference": [one.total - one.server for one in ones],
        }
        for what, values in rows.items():
            if len(values) > 1:
                most = statistics.quantiles(values, n=10)[-1]
                median = statistics.median(values)
                print(
                    f"{name:12} {len(ones):3} {what:19} median {median:5.0f} ms, 90 % within {most:5.0f} ms"
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keystrokes", type=int, default=60)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    if MISSING:
        print(MISSING, file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        for part in ("home", "work", "profile"):
            (folder / part).mkdir()
        environment = environment_with_model(folder / "home", load_cards()["smollm2-135m"].path)
        (folder / "work" / "averages.py").write_text(SOURCE)
        program, journal = timed_server(folder, SERVER)
        browser = playwright.chromium.launch(**browser_flags())
        vscode = VSCode(
            browser, folder / "profile", folder / "work",
            machine={"lspCalib.server.path": program}, environment=environment,
        )  # fmt: skip
        try:
            vscode.install()
            vscode.start("averages.py")
            vscode.to_end()
            found, typed = type_lines(vscode, journal, wanted.keystrokes)
        finally:
            vscode.close()
            browser.close()
    print_table(found, typed)
    if wanted.json:
        wanted.json.write_text(json.dumps([attrs.asdict(one) for one in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
