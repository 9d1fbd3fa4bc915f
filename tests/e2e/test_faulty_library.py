"""llama.cpp that crashes on this machine's hardware: the product works, or says at once why it cannot.

Library, model, server and crash are real; tests/faulty_library/ says what the fault is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real_server import PATIENCE, SERVER

from lsp_calib.inference.models import converted, sidecar
from lsp_calib.inference.process import acceleration
from lsp_calib.inference.process.acceleration import find_library
from lsp_calib.tools.client import Editor

pytest.importorskip("llama_cpp")
pytestmark = [pytest.mark.model, pytest.mark.skipif(os.name != "posix", reason="signals")]
# What can be tried with the default model here, and what is used where nothing is wrong.
HARDWARE = find_library().hardware()
CANDIDATES = acceleration.Question(HARDWARE, 0, slow_weights=True).candidates
# Beside AMX or a GPU the speeds of trials decide between these, so that a busy moment does.
PLAIN = tuple(one.name for one in CANDIDATES if one.repack)
FAULTY = Path(__file__).resolve().parents[1] / "faulty_library"


def with_fault(environment: dict[str, str], fault: str) -> dict[str, str]:
    inherited = environment.get("PYTHONPATH")
    path = os.pathsep.join([str(FAULTY), *([inherited] if inherited else [])])
    return {**environment, "PYTHONPATH": path, "LSP_CALIB_TEST_FAULT": fault}


def remembered(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setenv("LSP_CALIB_HOME", environment["LSP_CALIB_HOME"])
    return [entry for models in sidecar.read(acceleration.MEMORY).values() for entry in models.values()]


def complete(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "module.py"
    file.write_text("def add(first, second):\n    return first\n", "utf-8")
    command = [sys.executable, "-m", "lsp_calib", "complete", f"{file}:2:12"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "chosen", "words"),
    [
        ("amx", ("cpu-without-amx",), "without AMX: llama.cpp crashed with AMX (signal 11)"),
        ("repack", ("cpu-without-repacking",), "without repacked weights"),
        ("gpu", PLAIN, "without the GPU: llama.cpp crashed with the GPU (signal 11)"),
        ("answer", ("cpu-without-repacking",), "without repacked weights"),
    ],
)
def test_what_crashes_is_avoided_and_said_in_one_line(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    chosen: tuple[str, ...],
    words: str,
) -> None:
    faulty = with_fault(environment, fault)
    done = complete(faulty, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "likely to be right" in " ".join(done.stdout.split())
    assert sum(words in line for line in done.stderr.splitlines()) == 1
    assert "Fatal Python error" not in done.stdout + done.stderr
    [entry] = remembered(environment, monkeypatch)
    assert entry["chosen"] in chosen
    # What was found out once is not found out again: the next start crashes no more.
    log = Path(environment["LSP_CALIB_HOME"]) / "log" / "model.log"
    crashes = log.read_text("utf-8").count("Fatal Python error")
    assert crashes
    assert complete(faulty, tmp_path).returncode == 0
    assert log.read_text("utf-8").count("Fatal Python error") == crashes


async def test_where_every_decode_crashes_the_editor_is_told_at_once(
    environment: dict[str, str], model_path: Path, tmp_path: Path
) -> None:
    # Beside a model of another home converted weights are used, and none are made.
    slow = converted.place(model_path).is_file()
    candidates = acceleration.Question(HARDWARE, 0, slow_weights=slow).candidates
    editor = Editor()
    await editor.start(SERVER, env=with_fault(environment, "decode"), cwd=tmp_path)
    try:
        await editor.open_session(tmp_path, {})
        await editor.until(lambda: editor.state == "error", "the error", PATIENCE)
        assert "prebuilt" in editor.state_message
        assert "lsp-calib doctor" in editor.state_message
        assert [text for text in editor.messages if text == editor.state_message]
        assert not [text for text in editor.messages if "Fatal" in text or "\n" in text]
        # One process that tried everything; before it, where nothing was in doubt, one for the crash.
        log = (tmp_path / "home" / "log" / "model.log").read_text("utf-8")
        assert log.count("Fatal Python error") == len(candidates) + (not HARDWARE.amx)
    finally:
        await editor.close()


def test_where_every_decode_crashes_the_demo_ends_with_the_sentence(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lsp_calib", "demo"],
        env=with_fault(environment, "decode"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 4, done.stdout + done.stderr
    shown = " ".join((done.stdout + done.stderr).split())
    assert "llama.cpp crashes with this model on this machine (signal 11)" in shown
    assert "lsp-calib doctor" in shown
    assert "Fatal Python error" not in shown
    assert "Current thread" not in shown
