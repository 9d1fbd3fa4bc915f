"""A model process that crashes before it answers: found out at once, survived if it can be, and said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from scripted_model import ask, install

from lsp_calib.errors import ModelError, ModelFileError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import EngineState
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.process import acceleration, starting
from lsp_calib.inference.process.client import ModelProcess

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.skipif(os.name != "posix", reason="signals")]
States = list[tuple[EngineState, str]]


Scripted = Callable[[str], tuple[ModelProcess, States]]


@pytest.fixture
async def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scripted]:
    """Start engines, which are closed in the end."""
    engines: list[ModelProcess] = []

    def make(name: str) -> tuple[ModelProcess, States]:
        states: States = []
        choice = EngineChoice(install(monkeypatch, tmp_path, name))
        engines.append(ModelProcess(choice, on_state=lambda state, text, _: states.append((state, text))))
        return engines[-1], states

    yield make
    for engine in engines:
        await engine.close()


async def test_a_crash_with_the_fastest_kernels_is_survived_and_remembered(scripted: Scripted) -> None:
    engine, states = scripted("repack")
    assert (await engine.generate(ask("steps 1"))).tokens
    assert [text for state, text in states if "safer way" in text and state is EngineState.LOADING]
    state, text = states[-1]
    assert state is EngineState.READY
    assert "without repacked weights" in text
    assert "lsp-calib doctor" in text
    await engine.close()
    # The next one begins with what works.
    again, states = scripted("repack")
    assert (await again.generate(ask("steps 1"))).tokens
    assert not [text for _, text in states if "unexpectedly" in text]


async def test_where_nothing_works_the_state_is_error_and_says_what_to_do(scripted: Scripted) -> None:
    engine, states = scripted("crash")
    with pytest.raises(ModelFileError, match=r"signal 11.*prebuilt.*remote\.url.*doctor"):
        await engine.ready()
    state, text = states[-1]
    assert state is EngineState.ERROR
    assert "prebuilt" in text
    assert "\n" not in text
    # What ends every kernel is the model's fault: nothing is remembered of the machine.
    assert sidecar.read(acceleration.MEMORY) == {}
    # And nobody waits for it again.
    with pytest.raises(ModelError, match="prebuilt"):
        await engine.generate(ask("steps 1"))


async def test_the_systems_kill_demotes_nothing_and_is_an_error_as_well(scripted: Scripted) -> None:
    engine, states = scripted("killed")
    with pytest.raises(ModelError, match=r"3 times.*signal 9.*smaller model"):
        await engine.ready()
    assert states[-1][0] is EngineState.ERROR
    assert not [text for _, text in states if "safer way" in text]
    assert sidecar.read(acceleration.MEMORY) == {}


async def test_a_process_that_cannot_even_start_is_an_error(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, states = scripted("good")
    program = tmp_path / "broken"
    program.write_text(f"#!{sys.executable}\nimport no_such_module\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ModelError, match=r"3 times.*exit code 1"):
        await engine.ready()
    assert states[-1][0] is EngineState.ERROR


async def test_a_restart_forgets_what_failed(scripted: Scripted) -> None:
    engine, _ = scripted("crash")
    with pytest.raises(ModelFileError):
        await engine.ready()
    await engine.restart()
    with pytest.raises(ModelFileError):
        await engine.ready()


@pytest.mark.parametrize("held", [True, False], ids=["its parent lives", "its parent is gone"])
def test_a_trial_ends_with_the_process_that_wants_to_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """It is not left behind, with a model in memory, where its standard input has ended."""
    path = install(monkeypatch, tmp_path, "slow")
    wanted = json.dumps({"gpu_layers": 0, "amx": True, "repack": True, "threads": 1})
    command = [sys.executable, *starting.PROGRAM, f"--model={path}", "--context=64", f"--trial={wanted}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        if not held:
            child.stdin.close()
        output = child.stdout.read()
    if held:
        assert child.returncode == 0
        assert json.loads(output)["seconds"] > 0
    else:
        assert child.returncode == 1
        assert output == b""
