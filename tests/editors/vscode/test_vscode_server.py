"""The server's life as VS Code shows it: slow, restarted, dead, without a model; windows and folders."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from editor import MISSING, MODEL_SECONDS, SERVER, SOURCE, TYPED, VSCode, server_behind

pytestmark = [pytest.mark.model, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
TIMED = Path(__file__).with_name("timed_server.py")


def test_a_server_that_dies_is_started_again_and_one_that_goes_on_dying_is_said(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """Once: nothing but a new server. Five times within minutes: one message, with a way to start it, and
    editing goes on."""
    (tmp_path / "averages.py").write_text(SOURCE)
    vscode: VSCode = editor(tmp_path, environment=environment)
    vscode.install()
    vscode.start("averages.py")
    vscode.to_end()
    assert vscode.suggestion(TYPED)["badge"]

    def another(old: int) -> Any:
        return [one for one in vscode.servers() if one.pid != old]

    for death in range(4):
        server = vscode.until("a server", vscode.servers, MODEL_SECONDS)[0]
        vscode.until(
            "that is ready",
            lambda: vscode.drawn()["label"] and "smollm2" in vscode.drawn()["status"],
            MODEL_SECONDS,
        )
        server.kill()
        vscode.until("the next", lambda pid=server.pid: another(pid), MODEL_SECONDS)
        assert not vscode.notifications()
        if death == 0:  # later, the five deaths could be further apart than the three minutes that count
            vscode.until_ready()
            vscode.keys("Control+End", "Enter")  # VS Code indents the line
            assert vscode.suggestion(TYPED.lstrip())["badge"], "as before"
    vscode.until_ready()

    vscode.servers()[0].kill()
    said = vscode.until("a message", vscode.notifications, MODEL_SECONDS)
    assert "ended several times" in said
    assert "Editing goes on" in said
    vscode.until("the state", lambda: "not working" in vscode.drawn()["status"])
    assert not vscode.drawn()["ghost"]
    vscode.keys("Control+End")
    vscode.type("  # still here")
    vscode.until("what was typed", lambda: any("# still here" in line for line in vscode.lines()))
    vscode.press("Restart")
    vscode.until_ready()


def test_what_a_server_leaves_unanswered_when_it_dies_is_not_shown(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """Nobody reads what VS Code writes any more, and that becomes known only seconds later."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    program = tmp_path / "lingering-lsp-calib"
    server_alone = f'exec 3<&0\n{shlex.quote(SERVER)} "$@" <&3 3<&- &\nexec 3<&- </dev/null\n'
    program.write_text(f"#!/bin/sh\n{server_alone}wait\nsleep 5\n")
    program.chmod(0o755)
    machine = {"lspCalib.server.path": str(program)}
    vscode: VSCode = editor(workspace, environment=environment, machine=machine)
    vscode.install()
    vscode.start("averages.py")
    vscode.to_end()
    vscode.until_ready()
    before = vscode.servers()
    (server,) = (one for one in before if one.cmdline()[0] != "/bin/sh")
    server.kill()
    vscode.keys("Enter")
    vscode.type("# still here")
    for _ in range(30):
        assert not vscode.notifications()
        vscode.page.wait_for_timeout(100)
    vscode.until("the next", lambda: set(vscode.servers()) - set(before), MODEL_SECONDS)
    vscode.until_ready()
    vscode.keys("Enter")
    assert vscode.suggestion(TYPED)["badge"], "as before"
    assert not vscode.notifications()


def test_a_model_that_cannot_run_is_said_with_what_to_do(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "averages.py").write_text(SOURCE)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(200))
    vscode: VSCode = editor(
        tmp_path,
        environment=environment,
        machine={"lspCalib.server.path": SERVER, "lspCalib.trusted.model": str(broken)},
    )
    vscode.install()
    vscode.start("averages.py")
    vscode.until(
        "the state", lambda: re.search("not working|no model", vscode.drawn()["status"]), MODEL_SECONDS
    )
    label = vscode.drawn()["label"]
    assert "broken.gguf" in label + vscode.notifications(), label
    vscode.to_end()
    vscode.type("x = 1")
    vscode.until("what was typed", lambda: "x = 1" in vscode.lines()[-1])
    # The way back is the one that the menu has.
    vscode.command("lsp-calib: Pick a model")
    rows = vscode.until(
        "the models", lambda: any("SmolLM2" in row for row in vscode.rows()) and vscode.rows(), MODEL_SECONDS
    )
    assert re.match(r"SmolLM2 135M.*installed", rows[0]), "what is there comes first"
    assert re.search(r"download \d+ MB", rows[1])
    assert not any("MiniLM" in row for row in rows), "an encoder completes nothing"
    vscode.choose("SmolLM2 135M")
    vscode.until_ready()


def test_several_folders_of_one_workspace_are_all_served(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(SOURCE)
    workspace = tmp_path / "both.code-workspace"
    workspace.write_text(json.dumps({"folders": [{"path": "first"}, {"path": "second"}]}))
    vscode: VSCode = editor(workspace, environment=environment)
    vscode.install()
    vscode.start()
    for name in ("first", "second"):
        vscode.show(tmp_path / name / f"{name}.py")
        vscode.to_end()
        assert vscode.suggestion(TYPED)["badge"]
    assert len(vscode.servers()) == 1
    vscode.command("lsp-calib: Terminal for lsp-calib")
    rows = vscode.until("a question which", lambda: len(found := vscode.rows()) == 2 and found)
    assert "first" in rows[0]
    assert "second" in rows[1]
    vscode.keys("Escape")


def test_an_answer_that_takes_longer_than_vs_code_waits_is_shown(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """VS Code gives up after 750 ms and would show nothing; the suggestion comes when the model has it. One
    that the user has moved on from does not."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    program = server_behind(tmp_path, [str(TIMED), SERVER, "3.0"])
    vscode: VSCode = editor(workspace, environment=environment, machine={"lspCalib.server.path": program})
    vscode.install()
    vscode.start("averages.py")
    vscode.to_end()
    vscode.until_ready()
    vscode.type(TYPED)
    typed = time.monotonic()
    vscode.until(
        "ghost text with a badge", lambda: (seen := vscode.drawn())["ghost"] and seen["badge"], MODEL_SECONDS
    )
    assert time.monotonic() - typed > 2, "held back as long as was meant"

    vscode.keys("Escape", "Enter")
    vscode.type("    ret")
    vscode.page.wait_for_timeout(1500)  # VS Code has given up, the model is at work
    vscode.keys("Control+Home")
    vscode.page.wait_for_timeout(4000)
    assert not vscode.drawn()["ghost"]
    assert not vscode.drawn()["badge"]
