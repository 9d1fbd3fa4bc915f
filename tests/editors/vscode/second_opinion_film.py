"""A film strip of a second opinion in a real VS Code, with the real server and a scripted engine.

    LSP_CALIB_VSCODE="$(.ci/vscode)" python tests/editors/vscode/second_opinion_film.py [PICTURE]

PICTURE (default docs/img/second-opinion-vscode.png) gets the window at four moments: the suggestion that
comes by itself, asked by hand while the model works, the second answer there, the next alternative. No model
is needed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from editor import MISSING, ROOT, VSCode, browser_flags
from film_strip import SETTINGS, SIZE, FilmStrip, hide_side_bar
from two_answers import SURER, TwoAnswers, shown

PICTURE = ROOT / "docs" / "img" / "second-opinion-vscode.png"


def main(picture: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "profile").mkdir()
        answers = TwoAnswers(folder)
        options = answers.options | {"user": answers.options["user"] | SETTINGS}
        browser = playwright.chromium.launch(**browser_flags())
        vscode = VSCode(browser, folder / "profile", answers.workspace, viewport=SIZE, **options)
        try:
            answers.start(vscode)
            hide_side_bar(vscode)
            strip = FilmStrip(vscode, "def square_of", 3)
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
