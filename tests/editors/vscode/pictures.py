"""Pictures of the extension in a real VS Code, for the documentation.

    LSP_CALIB_VSCODE="$(.ci/vscode)" python tests/editors/vscode/pictures.py [FOLDER] [--only X]

FOLDER (default docs/img) gets vscode-badge-light.png and vscode-flow.png, which is animated: typing, ghost
text with its badge, typing along until the badge turns, the rest by Tab, the mark, an edit, the hover. Both
with the default model and the encoder, which must be installed. The extension's icon is drawn as well.
"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from editor import (
    MISSING,
    ROOT,
    SERVER,
    SOURCE,
    TYPED,
    VSCode,
    browser_flags,
    environment_with_model,
)  # fmt: skip
from PIL import Image, ImageColor, ImageDraw, ImageFont

from lsp_calib.inference.models.cards import load_cards, locate_encoder

SQUIGGLES = ".squiggly-hint, .squiggly-info"
# Nothing in the window but the text and the status bar.
BARE = {
    "workbench.activityBar.location": "hidden",
    "workbench.statusBar.visible": True,
    "workbench.layoutControl.enabled": False,
    "workbench.editor.editorActionsLocation": "hidden",
    "window.commandCenter": False,
    "window.customTitleBarVisibility": "never",
    "breadcrumbs.enabled": False,
    "editor.fontSize": 18,
    "editor.lineHeight": 26,
    "editor.hover.delay": 300,
    "editor.renderLineHighlight": "none",
    "editor.cursorBlinking": "solid",
    "editor.guides.indentation": False,
    "editor.scrollbar.vertical": "hidden",
    "editor.overviewRulerLanes": 0,
    "editor.lineNumbersMinChars": 3,
    "editor.stickyScroll.enabled": False,
}
SIZE = (880, 520)
# In an animated picture: milliseconds of a typed character, and of what is to be looked at.
CHARACTER, LOOK = 90, 1600


class Film:
    """Pictures of a page, one after the other, each with the milliseconds that it stays."""

    def __init__(self, vscode: VSCode) -> None:
        self.vscode = vscode
        self.frames: list[tuple[Image.Image, int]] = []
        self.badges: dict[str, str] = {}  # the colours of badges, by their marks

    def take(self, milliseconds: int) -> None:
        seen = self.vscode.drawn()
        if seen["badge"]:
            self.badges[seen["badge"][0]] = seen["color"]
        shot = Image.open(io.BytesIO(self.vscode.page.screenshot())).convert("RGB")
        self.frames.append((shot, milliseconds))

    def type(self, text: str) -> None:
        for character in text:
            self.vscode.page.keyboard.type(character)
            self.vscode.page.wait_for_timeout(60)
            self.take(CHARACTER)

    def save(self, path: Path) -> None:
        """As an APNG: one palette for all, so that what does not change from frame to frame costs nothing."""
        sheet = Image.new("RGB", (SIZE[0], SIZE[1] * 5))
        for i in range(4):
            sheet.paste(self.frames[(len(self.frames) - 1) * i // 3][0], (0, SIZE[1] * i))
        for i, color in enumerate(self.badges.values()):  # a badge is small: its colour would be left out
            top = SIZE[1] * 4 + 40 * i
            sheet.paste(ImageColor.getrgb(color), (0, top, SIZE[0], top + 40))
        palette = sheet.quantize(128, dither=Image.Dither.NONE)
        pictures = [shot.quantize(palette=palette, dither=Image.Dither.NONE) for shot, _ in self.frames]
        pictures[0].save(
            path, save_all=True, append_images=pictures[1:], duration=[stays for _, stays in self.frames],
            loop=0, optimize=True,
        )  # fmt: skip


class Studio:
    """Where pictures are made: one folder for them, one for what they need."""

    def __init__(self, browser: Any, folder: Path, target: Path) -> None:
        self.browser, self.folder, self.target = browser, folder, target
        (folder / "home").mkdir()
        encoder = [file.path for file in locate_encoder().files]
        model = load_cards()["smollm2-135m"].path
        self.environment = environment_with_model(folder / "home", model, encoder)

    def editor(self, name: str, *, light: bool = False) -> VSCode:
        """VS Code with the file and a server that is ready, the side bar closed, the cursor at the end."""
        workspace = self.folder / f"work-{name}"
        workspace.mkdir()
        (workspace / "averages.py").write_text(SOURCE)
        profile = self.folder / f"profile-{name}"
        profile.mkdir()
        vscode = VSCode(
            self.browser,
            profile,
            workspace,
            machine={"lspCalib.server.path": SERVER},
            environment=self.environment,
            user=BARE,
            light=light,
            viewport=SIZE,
        )
        vscode.install()
        vscode.start("averages.py")
        vscode.until_ready()
        if vscode.page.locator(".part.sidebar").is_visible():
            vscode.command("View: Toggle Primary Side Bar Visibility")
        vscode.clear_notifications()
        vscode.to_end()
        return vscode

    def badge(self) -> None:
        vscode = self.editor("text", light=True)
        seen = vscode.suggestion(TYPED)
        tier = seen["badge"].split()[1].rstrip(",")
        vscode.until("the tier in the status bar", lambda: tier in vscode.drawn()["status"])
        vscode.page.screenshot(path=self.target / "vscode-badge-light.png")
        vscode.close()

    def flow(self) -> None:
        vscode = self.editor("flow")
        vscode.suggestion("    r")  # the model is warm, and its first answer not in the film
        vscode.keys("Escape", "Shift+Home", "Shift+Home", "Delete")
        vscode.page.wait_for_timeout(1000)
        film = Film(vscode)
        film.take(600)
        film.type(TYPED)
        seen = vscode.wait_for_suggestion(TYPED)
        vscode.until(
            "the tier in the status bar",
            lambda: seen["badge"].split()[1].rstrip(",") in vscode.drawn()["status"],
        )
        film.take(LOOK)
        if not self._turned(film, seen["ghost"]):
            print("The badge does not turn while this line is typed along.", file=sys.stderr)
        film.take(LOOK)
        vscode.keys("Tab")
        vscode.until("a mark", lambda: vscode.page.locator(SQUIGGLES).count())
        film.take(LOOK)
        film.type(" if values else 0.0")
        vscode.keys("Escape")
        vscode.until("no mark", lambda: not vscode.page.locator(SQUIGGLES).count())
        film.take(LOOK)
        line = vscode.page.locator(".editor-instance .view-line", has_text="def variance").first
        name = line.bounding_box()
        vscode.hovered([name["x"] + 80, name["y"] + name["height"] / 2], lambda text: "smollm2-135m" in text)
        vscode.page.wait_for_timeout(400)
        film.take(2 * LOOK)
        film.save(self.target / "vscode-flow.png")
        vscode.close()

    def _turned(self, film: Film, ghost: str) -> bool:
        """Types along the suggestion until a second badge was seen, and not to its end; whether it was."""
        for character in ghost[:-3]:
            if len(film.badges) > 1:
                break
            film.vscode.page.keyboard.type(character)
            film.vscode.page.wait_for_timeout(400)
            film.take(2 * CHARACTER)
        return len(film.badges) > 1


def icon(path: Path) -> None:
    """The extension's icon: the marks of the three tiers, each in its shape and colour."""
    side, sharp = 128, 4
    sheet = Image.new("RGBA", (side * sharp, side * sharp))
    draw = ImageDraw.Draw(sheet)
    draw.rounded_rectangle((0, 0, side * sharp - 1, side * sharp - 1), 22 * sharp, "#1f1f1f")
    font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf", 40 * sharp)
    marks = (("●", "#89d185"), ("▲", "#e2b340"), ("✗", "#f48771"))
    for (mark, color), x in zip(marks, itertools.count(28, 36), strict=False):
        left, top, right, bottom = draw.textbbox((0, 0), mark, font)
        draw.text((x * sharp - (left + right) / 2, 64 * sharp - (top + bottom) / 2), mark, color, font)
    sheet.resize((side, side), Image.Resampling.LANCZOS).save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "img")
    parser.add_argument("--only", choices=["badge", "flow", "icon"], nargs="+")
    wanted = parser.parse_args()
    if not wanted.only or "icon" in wanted.only:
        icon(ROOT / "editor-configs" / "vscode" / "icon.png")
    if MISSING:
        print(MISSING, file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**browser_flags())
        studio = Studio(browser, Path(name), wanted.folder)
        for scene, make in (("badge", studio.badge), ("flow", studio.flow)):
            if not wanted.only or scene in wanted.only:
                make()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
