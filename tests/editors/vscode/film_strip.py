"""Film strips of a real VS Code, for the documentation."""

from __future__ import annotations

import io
from pathlib import Path

from editor import VSCode
from pictures import BARE
from PIL import Image, ImageDraw, ImageFont

SIZE = (860, 460)
# User settings of the window: nothing but the text and the status bar, with probabilities.
SETTINGS = BARE | {
    "lspCalib.badge.number": True,
    "editor.matchBrackets": "never",
    "editor.occurrencesHighlight": "off",
    "editor.lightbulb.enabled": "off",
}
STATUS, CAPTION = 24, 34  # pixels
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"
INK, PAPER = "#cccccc", "#1f1f1f"


class FilmStrip:
    """Parts of pictures of a window, one below the other, each under a line that says what was done.

    A part is as many lines as said, from the one with a text on, and the status bar.
    """

    def __init__(self, vscode: VSCode, first: str, lines: int) -> None:
        self._vscode = vscode
        self._first, self._height = first, lines * SETTINGS["editor.lineHeight"] + 12
        self._frames: list[tuple[str, Image.Image]] = []

    def take(self, caption: str, *, wait: int = 700) -> None:
        """wait: milliseconds until the status bar is drawn."""
        vscode = self._vscode
        vscode.page.wait_for_timeout(wait)
        shot = Image.open(io.BytesIO(vscode.page.screenshot())).convert("RGB")
        width, height = shot.size
        top = vscode.page.locator(".view-line", has_text=self._first).first.bounding_box()["y"] - 6
        part = Image.new("RGB", (width, self._height + STATUS))
        part.paste(shot.crop((0, top, width, top + self._height)), (0, 0))
        part.paste(shot.crop((0, height - STATUS, width, height)), (0, self._height))
        self._frames.append((caption, part))

    def save(self, file: Path) -> None:
        width, height = self._frames[0][1].size
        image = Image.new("RGB", (width, (height + CAPTION) * len(self._frames)), PAPER)
        draw, font = ImageDraw.Draw(image), ImageFont.truetype(FONT, 16)
        for number, (caption, part) in enumerate(self._frames):
            top = number * (height + CAPTION)
            draw.text((12, top + 9), caption, INK, font)
            image.paste(part, (0, top + CAPTION))
        image.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


def hide_side_bar(vscode: VSCode) -> None:
    if vscode.page.locator(".part.sidebar").is_visible():
        vscode.command("View: Toggle Primary Side Bar Visibility")
