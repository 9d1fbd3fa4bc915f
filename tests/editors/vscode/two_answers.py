"""A VS Code at a place where the two windows give different answers, the second one surer.

The server is the real one; its engine answers as a script says, the second time once a file is there.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from editor import ROOT, server_behind
from scripted_editor import install_calibrator, install_second

FIRST, SURER = "turn (first + second) ** 2", "turn square(add(first, second))"
TYPED = "    re"
SOURCE = '''\
def add(first, second):
    return first + second


def square(number):
    return number * number


def square_of_sum(first, second):
    """The square of the sum of two numbers."""
'''
ANSWER = {"text": FIRST, "logprobs": [math.log(0.7)] * 3}
# VS Code has no key of its own for this command.
TRIGGER = {"key": "alt+\\", "command": "editor.action.inlineSuggest.trigger"}


class TwoAnswers:
    """What an editor needs for it, in a folder.

    workspace: with `name` in it. options: of a `VSCode`.
    """

    name = "arithmetic.py"

    def __init__(self, folder: Path) -> None:
        self._release, self._journal = folder / "release", folder / "journal"
        home, self.workspace = folder / "home", folder / "numbers"
        self.workspace.mkdir()
        (self.workspace / self.name).write_text(SOURCE)
        install_calibrator(home)
        install_second(home)
        second = {"text": SURER, "logprobs": [math.log(0.95)] * 3, "heldUntil": str(self._release)}
        script = {"answers": {TYPED: ANSWER}, "second": second, "journal": str(self._journal)}
        file = folder / "script.json"
        file.write_text(json.dumps(script))
        program = ROOT / "tests" / "server" / "scripted_server.py"
        kept = {name: value for name, value in os.environ.items() if name != "LSP_CALIB_MODEL"}
        self.options: dict[str, Any] = {
            "machine": {"lspCalib.server.path": server_behind(folder, [str(program), str(file)])},
            "environment": kept | {"LSP_CALIB_HOME": str(home)},
            "user": {"lspCalib.window": "small"},
        }

    def start(self, vscode: Any) -> None:
        """Starts an editor that was made with the options."""
        keys = vscode.folder / "data" / "User" / "keybindings.json"
        keys.write_text(json.dumps([TRIGGER]))
        vscode.install()
        vscode.start(self.name)
        vscode.until("a server", lambda: "scripted" in vscode.drawn()["status"])
        vscode.clear_notifications()

    def type(self, vscode: Any) -> None:
        """At the end of the document; the first answer comes by itself."""
        vscode.to_end()
        vscode.type(TYPED)
        vscode.until("the first answer", lambda: shown(vscode)[0] == FIRST and shown(vscode)[1])

    def ask(self, vscode: Any) -> None:
        """By hand; returns when the model is at the second answer, which waits for `release`."""
        vscode.keys("Alt+Backslash")
        vscode.until("the model at it", lambda: '"background": true' in self._journal.read_text())

    def release(self) -> None:
        self._release.touch()


def shown(vscode: Any) -> tuple[str, str]:
    """The ghost text and its badge."""
    drawn = vscode.drawn()
    return drawn["ghost"], drawn["badge"]
