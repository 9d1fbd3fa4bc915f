"""A film strip of the next edit in a real VS Code, with the real server and its own curve.

    LSP_CALIB_VSCODE="$(.ci/vscode)" python tests/editors/vscode/next_edit_film.py [PICTURE]

PICTURE (default docs/img/next-edit-vscode.png) gets the window at four moments: two lines are changed by
hand, the third place is drawn, the key goes there, the key again applies it. No model is needed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from editor import MISSING, ROOT, VSCode, browser_flags, server_behind
from film_strip import SETTINGS, SIZE, FilmStrip, hide_side_bar
from renamed import RENAMED
from test_vscode_next_edit import SCRIPTED, drawn

PICTURE = ROOT / "docs" / "img" / "next-edit-vscode.png"


def main(picture: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "home").mkdir(mode=0o700)
        (folder / "profile").mkdir()
        workspace = folder / "boxes"
        workspace.mkdir()
        (workspace / "box.py").write_text(RENAMED)
        script = folder / "script.json"
        script.write_text(json.dumps({}))
        kept = {name: value for name, value in os.environ.items() if name != "LSP_CALIB_MODEL"}
        browser = playwright.chromium.launch(**browser_flags())
        vscode = VSCode(
            browser,
            folder / "profile",
            workspace,
            machine={"lspCalib.server.path": server_behind(folder, [str(SCRIPTED), str(script)])},
            user=SETTINGS,
            environment=kept | {"LSP_CALIB_HOME": str(folder / "home")},
            viewport=SIZE,
        )
        try:
            vscode.install()
            vscode.start("box.py")
            vscode.until("a server", lambda: "scripted" in vscode.drawn()["status"])
            vscode.clear_notifications()
            hide_side_bar(vscode)
            strip = FilmStrip(vscode, "def draw", len(RENAMED.splitlines()))
            vscode.page.locator(".editor-instance .view-lines").first.click()
            vscode.keys("Control+Home", "ArrowDown")
            for _ in range(2):
                vscode.keys("ArrowDown", "Home", *["ArrowRight"] * len("canvas.line(box."))
                vscode.keys(*["Shift+ArrowRight"] * len("size"))
                vscode.page.keyboard.type("width")
            strip.take("size was renamed by hand, in two lines", wait=400)  # less than a rest
            vscode.keys("ArrowDown")
            vscode.until("the next edit", lambda: drawn(vscode)[0] == "size")
            strip.take("The cursor leaves the line: the next place is drawn")
            print(drawn(vscode))
            vscode.keys("Alt+j")
            strip.take("Alt+J goes there")
            vscode.keys("Alt+j")
            vscode.until("the edit", lambda: "    canvas.text(box.width, 4, box.name)" in vscode.lines())
            vscode.until("the one after it", lambda: drawn(vscode)[0] == "size")
            strip.take("Alt+J again applies it and goes on to the next one")
            print(drawn(vscode))
            strip.save(picture)
        finally:
            vscode.close()
            browser.close()


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
