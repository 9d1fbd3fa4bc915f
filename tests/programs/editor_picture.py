"""Drives an editor to a suggestion inside a real terminal, for a picture (tests/editors/screenshot.sh).

    python editor_picture.py helix|emacs READY DONE

The editor's screen is this terminal's; editor_terminal drives it as in the tests. READY is written once the
suggestion is on the screen; the editor goes on until DONE is there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from editor_terminal import EditorTerminal

HERE = Path(__file__).parent
CONFIGURATIONS = HERE.parents[1] / "editor-configs"
SOURCE = '''\
"""A shopping basket."""


class Basket:
    """Articles and what they cost."""

    def __init__(self):
        self.prices = []

    def add(self, price):
        """Put one more article into the basket."""
        self.prices.append(price)

    def total(self):
        """The sum of all the prices."""
'''
PATIENCE = 120.0  # seconds; the first answer waits for the model to load


def helix(folder: Path) -> EditorTerminal:
    """Helix with a suggestion selected in its menu."""
    (folder / "helix").mkdir()
    shutil.copy(CONFIGURATIONS / "helix" / "languages.toml", folder / "helix")
    program = os.environ.get("LSP_CALIB_HELIX") or "hx"
    editor = EditorTerminal(
        [program, "basket.py"], {"XDG_CONFIG_HOME": str(folder)}, folder, sys.stdout.buffer
    )
    editor.sees(r"^ NOR ")
    editor.keys("georet")
    offered(editor, r"[●▲✗] \S.* text$", "t")
    editor.keys("\x0e")
    editor.sees(r"(accept|review|reject) · ")
    return editor


def emacs(folder: Path) -> EditorTerminal:
    """Emacs with Eglot: grey text and a badge behind it."""
    program = os.environ.get("LSP_CALIB_EMACS") or "emacs"
    init = HERE.parent / "editors" / "emacs" / "init.el"
    dark = "(load-theme 'modus-vivendi t)"
    command = [
        program,
        "-nw",
        "-Q",
        f"--init-directory={folder}",
        "--eval",
        dark,
        "-l",
        str(init),
        "basket.py",
    ]
    editor = EditorTerminal(command, {"LSP_CALIB_CLIENT": "eglot"}, folder, sys.stdout.buffer)
    editor.sees(r"\[eglot:", PATIENCE)
    editor.keys("\x1b>        retu")
    offered(editor, r"retu.*  [●▲✗] (accept|review|reject)$", "u")
    return editor


def offered(editor: EditorTerminal, pattern: str, last: str) -> None:
    """Types the last letter anew until the screen shows what the pattern matches."""

    def seen(screen: str) -> bool:
        if re.search(pattern, screen, re.M):
            return True
        editor.keys("\x7f" + last)
        time.sleep(3)
        return False

    editor.until("a suggestion", seen, PATIENCE)


def main(name: str, ready: Path, done: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "shop"
        folder.mkdir()
        (folder / "basket.py").write_text(SOURCE)
        editor = {"helix": helix, "emacs": emacs}[name](folder)
        try:
            time.sleep(1)
            ready.touch()
            while not done.exists():
                time.sleep(0.1)
        finally:
            editor.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
