"""A film strip of a second opinion in a real VS Code, with the real server and a scripted engine.

    LSP_CALIB_VSCODE="$(.ci/vscode)" python tests/editors/vscode/second_opinion_film.py [PICTURE]

PICTURE (default docs/img/second-opinion-vscode.png) gets the window at four moments: the suggestion that
comes by itself, asked by hand while the model works, the second answer there, the next alternative. No model
is needed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from editor import MISSING, ROOT, VSCode, browser_flags
from pictures import BARE
from PIL import Image, ImageDraw, ImageFont
from two_answers import SURER, TwoAnswers, shown

PICTURE = ROOT / "docs" / "img" / "second-opinion-vscode.png"
SIZE = (860, 460)
ROWS, STATUS = 3 * 26 + 12, 24  # pixels: a function of three lines, and the status bar
NUMBERED = {"lspCalib.badge.number": True}
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"
INK, PAPER, CAPTION = "#cccccc", "#1f1f1f", 34


class Strip:
    """Parts of pictures of a window, one below the other, each under a line that says what was done."""

    def __init__(self, vscode: VSCode) -> None:
        self._vscode = vscode
        self._frames: list[tuple[str, Image.Image]] = []

    def take(self, caption: str) -> None:
        vscode = self._vscode
        vscode.page.wait_for_timeout(700)  # until the status bar is drawn
        shot = Image.open(io.BytesIO(vscode.page.screenshot())).convert("RGB")
        width, height = shot.size
        top = vscode.page.locator(".view-line", has_text="def square_of").first.bounding_box()["y"] - 6
        part = Image.new("RGB", (width, ROWS + STATUS))
        part.paste(shot.crop((0, top, width, top + ROWS)), (0, 0))
        part.paste(shot.crop((0, height - STATUS, width, height)), (0, ROWS))
        self._frames.append((caption, part))
        print(f"--- {caption}", *shown(vscode), sep="\n")

    def save(self, file: Path) -> None:
        width, height = self._frames[0][1].size
        image = Image.new("RGB", (width, (height + CAPTION) * len(self._frames)), PAPER)
        draw, font = ImageDraw.Draw(image), ImageFont.truetype(FONT, 16)
        for number, (caption, part) in enumerate(self._frames):
            top = number * (height + CAPTION)
            draw.text((12, top + 9), caption, INK, font)
            image.paste(part, (0, top + CAPTION))
        image.quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)


def main(picture: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "profile").mkdir()
        answers = TwoAnswers(folder)
        options = answers.options | {"user": answers.options["user"] | BARE | NUMBERED}
        browser = playwright.chromium.launch(**browser_flags())
        vscode = VSCode(browser, folder / "profile", answers.workspace, viewport=SIZE, **options)
        try:
            answers.start(vscode)
            if vscode.page.locator(".part.sidebar").is_visible():
                vscode.command("View: Toggle Primary Side Bar Visibility")
            strip = Strip(vscode)
            answers.type(vscode)
            strip.take("A suggestion comes by itself")
            answers.ask(vscode)
            strip.take("Asked by hand, the model reads the place with the other window: nothing moves")
            answers.release()
            vscode.until("the badge of two", lambda: "2: ●" in shown(vscode)[1])
            strip.take("The second answer is surer: the first one stays, and says what it is worth now")
            vscode.keys("Alt+BracketRight")
            vscode.until("the surer one", lambda: shown(vscode)[0] == SURER)
            strip.take("Alt+] shows the next one, which is the surer one")
            strip.save(picture)
        finally:
            vscode.close()
            browser.close()


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
