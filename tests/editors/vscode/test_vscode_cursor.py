"""Where the cursor is, as the extension tells it in a real VS Code; the engine is scripted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from editor import MISSING, MODEL_SECONDS, ROOT, SOURCE, VSCode, server_behind
from told import EVERY, METHOD, Wire

pytestmark = [pytest.mark.model, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
SCRIPTED = ROOT / "tests" / "server" / "scripted_server.py"
END = len(SOURCE.splitlines())  # the number of the empty line at the end, from 0


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "wire.jsonl")


@pytest.fixture
def vscode(editor: Any, environment: dict[str, str], tmp_path: Path, wire: Wire) -> VSCode:
    """With two documents, of which the first is open."""
    workspace, script = tmp_path / "statistics", tmp_path / "lsp-calib-script.json"
    workspace.mkdir()
    for name in ("averages.py", "more.py"):
        (workspace / name).write_text(SOURCE)
    script.write_text(json.dumps({"wire": str(wire.file)}))
    program = server_behind(tmp_path, [str(SCRIPTED), str(script)])
    vscode: VSCode = editor(workspace, environment=environment, machine={"lspCalib.server.path": program})
    vscode.install()
    vscode.start("averages.py")
    vscode.until("the first place", lambda: wire.places() == [("averages.py", 0, 0)], MODEL_SECONDS)
    return vscode


def test_the_place_is_told_when_the_cursor_moves_and_not_while_one_types(vscode: VSCode, wire: Wire) -> None:
    """After the document that it is in; of a long way the last place always."""
    assert wire.methods().index("textDocument/didOpen") < wire.methods().index(METHOD)
    vscode.to_end()
    vscode.until("the end", lambda: wire.places()[-1] == ("averages.py", END, 0))

    before, begun = len(wire.places()), time.monotonic()
    for _ in range(12):
        vscode.keys("ArrowUp")
        vscode.page.wait_for_timeout(40)
    vscode.until("the last place", lambda: wire.places()[-1] == ("averages.py", END - 12, 0))
    told = wire.places()[before:]
    assert told == sorted(told, reverse=True)
    assert len(told) <= (time.monotonic() - begun) / EVERY + 2

    vscode.keys("Control+End")
    vscode.until("the end again", lambda: wire.places()[-1] == ("averages.py", END, 0))
    before, typed = len(wire.places()), wire.methods().count("textDocument/didChange")
    vscode.type("def total(values):")
    vscode.keys("Enter")
    vscode.type("print('sum', (1")
    vscode.page.wait_for_timeout(2000 * EVERY)
    vscode.until("the keys", lambda: wire.methods().count("textDocument/didChange") > typed + 30)
    assert wire.places()[before:] == []

    vscode.show(vscode.workspace / "more.py", line=9)
    vscode.until("the other document", lambda: wire.places()[before:] == [("more.py", 8, 0)])


def test_a_server_that_takes_the_place_of_a_dead_one_is_told_the_place(vscode: VSCode, wire: Wire) -> None:
    vscode.to_end()
    vscode.until("the end", lambda: wire.places()[-1] == ("averages.py", END, 0))
    told = len(wire.places())
    vscode.servers()[0].kill()
    vscode.keys("ArrowUp", "ArrowUp")
    vscode.until("the place", lambda: wire.places()[told:], MODEL_SECONDS)
    assert wire.places()[told:] == [("averages.py", END - 2, 0)]
    assert not vscode.notifications()
