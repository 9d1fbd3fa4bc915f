"""A crash leaves no core dump with source text, and no other process of the user reads it from the memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_model import install

from lsp_calib.corpus.asking import processes
from lsp_calib.errors import ModelError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.process.client import ModelProcess

if sys.platform != "linux":
    pytest.skip("core dumps as Linux makes them", allow_module_level=True)

import ctypes
import resource

SECRET = "a_name_in_the_source"
PR_GET_DUMPABLE = 3

# Says on standard error when the memory is closed. The program follows.
WATCHED = """
import ctypes, os, resource, threading, time
def watch():
    while ctypes.CDLL(None).prctl(3, 0, 0, 0, 0):
        time.sleep(0.01)
    # At once, as the log of the server may write in between.
    os.write(2, f"closed {resource.getrlimit(resource.RLIMIT_CORE)}\\n".encode())
threading.Thread(target=watch, daemon=True).start()
"""
CLOSED = "closed (1, 1)"


@pytest.fixture(autouse=True)
def _cores_are_wanted() -> Iterator[None]:
    """As on a machine that is set up for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("the system's limit forbids core dumps")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def cores(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def message(text: str) -> bytes:
    return f"Content-Length: {len(text)}\r\n\r\n{text}".encode()


OPENED = (
    '{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":'
    f'{{"uri":"file:///a.py","languageId":"python","version":1,"text":"{SECRET} = 1"}}}}}}'
)


def serving(folder: Path, *, program: tuple[str, ...] = ("-m", "lsp_calib")) -> subprocess.Popen[bytes]:
    """A server that has a document, with `folder` as its working folder."""
    server = subprocess.Popen(
        [sys.executable, *program, "serve"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    initialize = '"params":{"processId":null,"rootUri":null,"capabilities":{}}}'
    server.stdin.write(message('{"jsonrpc":"2.0","id":1,"method":"initialize",' + initialize))
    server.stdin.flush()
    assert server.stdout.readline().startswith(b"Content-Length")
    server.stdin.write(message('{"jsonrpc":"2.0","method":"initialized","params":{}}') + message(OPENED))
    server.stdin.flush()
    return server


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_of_the_server_leaves_no_core(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    with serving(folder) as server:
        time.sleep(0.5)
        limit = Path(f"/proc/{server.pid}/limits").read_text().split("Max core file size")[1].split()[:2]
        server.send_signal(number)
        assert server.wait(60) == -number
    assert limit == ["1", "1"]
    assert cores(folder) == []


def test_the_same_crash_elsewhere_leaves_one(tmp_path: Path) -> None:
    """Else the tests beside this one show nothing."""
    if Path("/proc/sys/kernel/core_pattern").read_text()[:1] in ("|", "/", "@"):
        pytest.skip("core dumps go elsewhere on this machine")
    code = f"import os\n{SECRET} = 1\nos.abort()"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == -6
    (core,) = cores(tmp_path)
    assert SECRET.encode() in core.read_bytes()


async def test_a_crash_of_the_model_process_leaves_no_core(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its working folder is the state folder."""
    engine = ModelProcess(EngineChoice(install(monkeypatch, tmp_path, "crash")))
    with pytest.raises(ModelError, match="signal 11"):
        await engine.ready()
    await engine.close()
    assert cores(home) == []


@pytest.mark.usefixtures("home")
def test_the_memory_of_the_server_is_closed_to_others(tmp_path: Path) -> None:
    code = f"{WATCHED}from lsp_calib.__main__ import main\nmain()"
    with serving(tmp_path, program=("-c", code)) as server:
        # It says that it has no model as well, before or after.
        said = [server.stderr.readline().decode().strip() for _ in range(2)]
        server.kill()
    assert CLOSED in said


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("lsp_calib.__main__", ["--version"]),
        ("lsp_calib.inference.process.__main__", ["--model=/nonexistent", "--trial={}"]),
        ("lsp_calib.inference.process.__main__", ["--model=/nonexistent"]),
    ],
    ids=["command line", "trial of a model", "model process"],
)
def test_that_of_every_other_process_too(module: str, arguments: list[str]) -> None:
    code = f"{WATCHED}from {module} import main\ntry:\n    main()\nfinally:\n    time.sleep(0.3)"
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True) as one:
        said = []
        for line in one.stderr:
            said.append(line.strip())
            if said[-1] == CLOSED:
                break  # the model process would wait for clients for half a minute
        one.kill()
    assert said[-1:] == [CLOSED], said


def memory_of_worker(_payload: object) -> list[int]:
    dumpable = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
    return [os.getpid(), dumpable, resource.getrlimit(resource.RLIMIT_CORE)[0]]


def test_that_of_the_workers_of_an_evaluation_too() -> None:
    for pid, *memory in [one.result for one in processes(2, memory_of_worker, {"a": {}, "b": {}})]:
        assert pid != os.getpid()
        assert memory == [0, 1]
