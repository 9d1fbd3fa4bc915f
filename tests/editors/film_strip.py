"""Film strips: what an editor shows of a line while a suggestion is typed along, one picture below the other.

    python tests/editors/film_strip.py vscode|neovim STRIP.png [--rising] [--number] [--keys N] [--pause MS]

LSP_CALIB_VSCODE, LSP_CALIB_NVIM: the editor, as .ci/vscode and .ci/neovim print it. The model is the default.
STRIP.png gets each picture that differs from the one before, with the milliseconds since the first key. What
is seen is said too; the exit code is 1 where a picture has no badge or the line does not end where it did.
--rising: with a probability that rises at each key, whatever the server says (rising_server.py).
--number: with the number in VS Code's badge; Neovim's has it.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "vscode"))
sys.path.insert(0, str(Path(__file__).parent / "neovim"))
sys.path.insert(0, str(Path(__file__).parents[1] / "programs"))

import nvim as neovim
from editor import SERVER, SOURCE, TYPED, VSCode, browser_flags, environment_with_model, rising_server
from pictures import BARE
from PIL import Image, ImageChops, ImageDraw, ImageFont

from lsp_calib.inference.models.cards import load_cards

MARKS = "●▲✗"
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"
# A cell of a terminal, and its colours where the editor names none.
CELL, PAPER, INK = (10, 21), "#1e1e2e", "#cdd6f4"
NAMED = {"green": "#a6e3a1", "brown": "#f9e2af", "red": "#f38ba8", "brightbrown": "#f9e2af"}


class Strip:
    """Pictures of a line, each with the milliseconds since the first key."""

    def __init__(self) -> None:
        self._pictures: list[tuple[int, Image.Image]] = []

    def add(self, milliseconds: int, picture: Image.Image) -> None:
        """Adds one that differs from the last one."""
        if self._pictures:
            last = self._pictures[-1][1]
            if not ImageChops.difference(last, picture).getbbox():
                return
        self._pictures.append((milliseconds, picture))

    def save(self, path: Path) -> None:
        width, height = self._pictures[0][1].size
        sheet = Image.new("RGB", (width + 80, (height + 2) * len(self._pictures)), "#808080")
        draw, font = ImageDraw.Draw(sheet), ImageFont.truetype(FONT, 13)
        for row, (milliseconds, picture) in enumerate(self._pictures):
            draw.text((6, row * (height + 2) + 4), f"{milliseconds:>6}", "#ffffff", font)
            sheet.paste(picture, (80, row * (height + 2)))
        sheet.save(path, optimize=True)
        print(f"{path}: {len(self._pictures)} pictures")


def judged(seen: list[tuple[int, str, str, object]]) -> int:
    """Says what was seen, as (milliseconds, line, badge, where the line ends); how much was not to be."""
    ends, wrong = seen[0][3], 0
    for milliseconds, line, badge, end in seen:
        fault = "" if badge and end == ends else "   <-- no badge" if not badge else "   <-- moved"
        wrong += bool(fault)
        print(f"{milliseconds:>6}  {line}  {badge}{fault}")
    print(f"{len(seen)} different ones, {wrong} without a badge or with a line that moved")
    return wrong


def vscode(folder: Path, strip: Strip, wanted: argparse.Namespace) -> int:
    from playwright.sync_api import sync_playwright

    environment = environment_with_model(folder / "home", load_cards()["smollm2-135m"].path)
    workspace = folder / "statistics"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    server = rising_server(folder, SERVER) if wanted.rising else SERVER
    user = BARE | {"lspCalib.badge.number": wanted.number}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**browser_flags())
        window = VSCode(
            browser, folder / "profile", workspace, environment=environment, user=user, viewport=(880, 520),
            machine={"lspCalib.server.path": server},
        )  # fmt: skip
        window.install()
        window.start("averages.py")
        window.until_ready()
        window.command("View: Toggle Primary Side Bar Visibility")
        window.to_end()
        seen = window.suggestion(TYPED)
        window.page.wait_for_timeout(1000)
        cursor = window.page.locator(".editor-instance .cursors-layer .cursor").first.bounding_box()
        box = (0, int(cursor["y"]) - 3, 880, int(cursor["y"] + cursor["height"]) + 3)
        session = window.page.context.new_cdp_session(window.page)
        shots: list[tuple[float, str]] = []

        def shot(event: Any) -> None:
            shots.append((event["metadata"]["timestamp"], event["data"]))
            session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

        session.on("Page.screencastFrame", shot)
        session.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
        window.page.wait_for_timeout(500)
        end = window.film()
        begun = time.time()
        for key in seen["ghost"][: wanted.keys]:
            window.page.keyboard.type(key)
            window.page.wait_for_timeout(wanted.pause)
        window.page.wait_for_timeout(1500)
        frames = end()
        session.send("Page.stopScreencast")
        window.close()
        browser.close()
    for at, data in shots:
        whole = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        strip.add(round(1000 * (at - begun)), whole.crop(box))
    return judged([(one["at"], one["text"], one["badge"], one["end"]) for one in frames])


def _drawn(row: list[Any]) -> Image.Image:
    """A row of a terminal as a picture."""
    width, height = CELL
    sheet = Image.new("RGB", (width * len(row), height + 4), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype(FONT, 16)
    slanted = ImageFont.truetype(FONT.replace("Mono", "Mono-Oblique"), 16)
    for column, cell in enumerate(row):
        color = cell.fg
        color = INK if color == "default" else NAMED.get(color) or f"#{color}"
        draw.text((column * width, 2), cell.data, color, slanted if cell.italics else font)
    return sheet


def in_neovim(folder: Path, strip: Strip, wanted: argparse.Namespace) -> int:
    environment = environment_with_model(folder / "home", load_cards()["smollm2-135m"].path)
    file = folder / "averages.py"
    file.write_text(SOURCE)
    server = f"{neovim.rising(SERVER)} serve --trust-editor" if wanted.rising else SERVER
    (folder / "nvim-state").mkdir()
    window = neovim.Neovim(
        neovim.NVIM, folder / "nvim-state", file, server=server, home=Path(environment["LSP_CALIB_HOME"])
    )
    window.lua("vim.o.termguicolors = true vim.cmd.colorscheme([[catppuccin]])")
    try:
        window.attached()
        window.suggested(f"Go{TYPED.strip()}", 120.0)
        rest = window.ghost()
        screen = window.film()
        time.sleep(1)
        begun = time.monotonic()
        for key in rest[: wanted.keys]:
            screen.keys(key)
            time.sleep(wanted.pause / 1000)
        time.sleep(1)
        screen.close()
    finally:
        window.close()
    told: list[tuple[int, str, str, object]] = []
    for at, text, row in screen.pictures:
        since = round(1000 * (at - begun))
        strip.add(since, _drawn(row))
        mark = next((text.index(one) for one in MARKS if one in text), None)
        line, badge = (text[:mark].rstrip(), text[mark:]) if mark is not None else (text, "")
        if not told or told[-1][1:3] != (line, badge):
            told.append((since, line, badge, len(line)))
    return judged(told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("editor", choices=["vscode", "neovim"])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--rising", action="store_true")
    parser.add_argument("--number", action="store_true")
    parser.add_argument("--keys", type=int, default=16)
    parser.add_argument("--pause", type=int, default=300, help="milliseconds from key to key")
    wanted = parser.parse_args()
    strip = Strip()
    films = {"vscode": vscode, "neovim": in_neovim}
    with tempfile.TemporaryDirectory(prefix="film-") as name:
        folder = Path(name).resolve()
        (folder / "home").mkdir()
        wrong = films[wanted.editor](folder, strip, wanted)
    strip.save(wanted.picture)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
