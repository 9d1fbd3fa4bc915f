"""What runs beside the server: no busy process stays behind, and a peer is asked for the same work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from lsp_calib.cli import main
from lsp_calib.errors import LspCalibError
from lsp_calib.tools.bench.processes import NICEST, Peer, busy

posix = pytest.mark.skipif(os.name != "posix", reason="there are no sessions elsewhere")


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class TestBusyProcesses:
    def test_they_want_a_core_in_a_session_of_their_own_and_are_gone_afterwards(self) -> None:
        with busy(2) as pids:
            children = [psutil.Process(pid) for pid in pids]
            before = [processor_seconds(one) for one in children]
            time.sleep(0.6)
            # However many others want a core, each gets some of it.
            for one, was in zip(children, before, strict=True):
                assert processor_seconds(one) > was
            if os.name == "posix":
                assert [os.getsid(pid) for pid in pids] == pids
        assert len(children) == 2
        assert not any(one.is_running() for one in children)

    @posix
    def test_they_end_when_their_parent_is_killed(self) -> None:
        code = (
            "import time; from lsp_calib.tools.bench.processes import busy\n"
            "with busy(2) as pids: print(*pids, flush=True); time.sleep(60)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        with parent.stdout:
            children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        parent.wait()
        assert len(children) == 2
        psutil.wait_procs(children, timeout=30)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in children)

    @posix
    def test_they_are_as_nice_as_asked_and_in_the_session_of_who_asked(self) -> None:
        with busy(1, nice=NICEST, new_session=False) as [pid]:
            assert psutil.Process(pid).nice() == 19
            assert os.getsid(pid) == os.getsid(0)


GOOD = {"tokens_evaluated": 3, "tokens_predicted": 7, "timings": {"prompt_n": 2}, "content": "x"}

Answer = Callable[[str, dict[str, Any] | None], tuple[int, bytes]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Serve with a function of path and body; gives the address."""
    servers = []

    def started(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._reply(*answer(self.path, body))

            def do_GET(self) -> None:
                self._reply(*answer(self.path, None))

            def _reply(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_the_peer_is_asked_for_just_as_many_tokens_after_the_same_ones(
    serve: Callable[[Answer], str],
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        assert path == "/base/completion"
        assert body is not None
        asked.append(body)
        return 200, json.dumps(GOOD).encode()

    peer = Peer(serve(answer) + "/base/")
    found = [await peer.finish_line(prompt, 7) for prompt in ([5, 6, 7], [5, 6, 7, 8])]
    peer.close()
    # Of the second prompt it counts another length.
    assert [(one.evaluated, one.same) for one in found] == [(2, True), (2, False)]
    assert found[0].ms > 0
    first = asked[0]
    assert first["prompt"] == [5, 6, 7]
    assert first["n_predict"] == 7
    assert first["cache_prompt"] is True
    assert first["temperature"] == 0
    assert first["ignore_eos"] is True
    assert first["stream"] is False


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (200, b'{"choices": []}', "is it a llama-server"),
        (404, b"no such thing", "did not answer /completion .*404"),
        (200, b"<html>", "did not answer"),
    ],
)
async def test_a_peer_that_is_something_else_is_said_to_be(
    serve: Callable[[Answer], str], status: int, content: bytes, words: str
) -> None:
    peer = Peer(serve(lambda *_: (status, content)))
    with pytest.raises(LspCalibError, match=words):
        await peer.finish_line([1], 1)
    peer.close()


async def test_a_peer_that_is_not_there_is_named_with_what_to_do() -> None:
    peer = Peer("http://127.0.0.1:9")
    with pytest.raises(LspCalibError, match=r"127\.0\.0\.1:9 did not answer /props .*`llama-server -m MODEL"):
        await peer.describe()
    peer.close()


def test_what_is_no_address_of_a_peer_is_refused() -> None:
    result = CliRunner().invoke(main, ["bench", "--peer", "ftp://host"])
    assert result.exit_code == 2
    assert "it must be an address like http://localhost:8080" in " ".join(result.output.split())
