"""A block by hand in a real VS Code: its rejected lines are fainter, a key takes the lines to accept."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from editor import MISSING, ROOT, server_behind
from scripted_editor import install_calibrator
from two_answers import TRIGGER, shown

pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

SOURCE = "def total(first, second):\n    return first + second\n\n\ndef product(first, second):\n"
LINES = ("total = 0", "    total += first", "    total *= 2", "    return total", "    # the end")
# The last two are rejected.
PROBABILITIES = (0.97, 0.95, 0.3, 0.02, 0.9)
# Each line of the ghost text below the first, and what lies over them, as rectangles on the page.
GEOMETRY = """() => {
  const rows = [...document.querySelectorAll('.suggest-preview-text .view-line')];
  const lines = rows.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => ({ top, bottom }));
  const spans = [...document.querySelectorAll('.view-lines span')];
  const span = spans.find((one) => getComputedStyle(one, '::before').position === 'absolute');
  if (!span) return { lines, veil: null };
  const style = getComputedStyle(span, '::before');
  const row = span.closest('.view-line').getBoundingClientRect();
  const top = row.top + parseFloat(style.top);
  return { lines, veil: { top, bottom: top + parseFloat(style.height), opacity: style.opacity } };
}"""


def answer(text: str, p: float) -> dict[str, Any]:
    return {"text": text, "logprobs": [math.log(p), -0.0001], "tokens": [text, ""]}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The second line is ready once this file is there."""
    return tmp_path / "release"


@pytest.fixture
def vscode(editor: Any, tmp_path: Path, release: Path) -> Any:
    """An editor with a cursor in an empty body."""
    first, *below = (answer(*one) for one in zip(LINES, PROBABILITIES, strict=True))
    below[0]["heldUntil"] = str(release)
    home, workspace = tmp_path / "home", tmp_path / "numbers"
    workspace.mkdir()
    (workspace / "arithmetic.py").write_text(SOURCE)
    install_calibrator(home)
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps({"answers": {"    ": first}, "inOrder": [*below, {"text": ""}, {"text": ""}]})
    )
    program = ROOT / "tests" / "server" / "scripted_server.py"
    kept = {name: value for name, value in os.environ.items() if name != "LSP_CALIB_MODEL"}
    vscode = editor(
        workspace,
        machine={"lspCalib.server.path": server_behind(tmp_path, [str(program), str(script)])},
        environment=kept | {"LSP_CALIB_HOME": str(home)},
    )
    keys = vscode.folder / "data" / "User" / "keybindings.json"
    keys.write_text(json.dumps([TRIGGER]))
    vscode.install()
    vscode.start("arithmetic.py")
    vscode.until("a server", lambda: "scripted" in vscode.drawn()["status"])
    vscode.clear_notifications()
    vscode.to_end()
    vscode.type("    ")
    vscode.until("a line by itself", lambda: shown(vscode)[0] == LINES[0])
    return vscode


def test_its_rejected_lines_are_fainter_and_a_key_takes_those_to_accept(vscode: Any, release: Path) -> None:
    """Also where it takes longer than VS Code waits. The status bar says how far it is."""
    vscode.keys("Alt+Backslash")
    says = vscode.page.locator(".statusbar-item", has_text="Completing a block: line 2.")
    vscode.until("how far it is", lambda: says.count())
    vscode.page.wait_for_timeout(1500)
    assert shown(vscode)[0] == LINES[0], "what is read stays meanwhile"
    release.touch()
    vscode.until("a badge", lambda: shown(vscode)[1].startswith("● accept through line 2"))
    vscode.until("a block", lambda: "return total" in shown(vscode)[0])
    drawn = vscode.until(
        "what lies over it", lambda: (found := vscode.page.evaluate(GEOMETRY))["veil"] and found
    )
    if picture := os.environ.get("LSP_CALIB_PICTURES"):
        vscode.page.screenshot(path=Path(picture) / "block.png")
    lines, veil = drawn["lines"], drawn["veil"]
    assert len(lines) == len(LINES) - 1
    assert (veil["top"], veil["bottom"]) == pytest.approx((lines[2]["top"], lines[3]["bottom"]), abs=1)
    assert 0.3 < float(veil["opacity"]) < 0.9
    vscode.keys("Alt+Enter")
    taken = ["    total = 0", "    total += first"]
    vscode.until("the lines to accept", lambda: [line.rstrip() for line in vscode.lines()[-2:]] == taken)
    vscode.until("no veil", lambda: not vscode.page.evaluate(GEOMETRY)["veil"])
    assert not says.count()
    vscode.type("!")
    vscode.until("the cursor behind them", lambda: vscode.lines()[-1] == taken[-1] + "!")
