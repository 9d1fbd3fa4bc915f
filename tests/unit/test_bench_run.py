"""What of a bench is measured, what runs beside the server, and that nothing stays of one that is stopped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
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
from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.processes import NICEST, Peer, busy
from lsp_calib.tools.bench.report import Stopped
from lsp_calib.tools.bench.run import Options, until_stopped
from lsp_calib.tools.bench.typist import dense


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"parts": ("typing", "cancel"), "steps": 240, "cancels": 12, "limit": 600.0, "raw": True}),
        (["--short", "--beside", "2"], {"parts": PARTS, "steps": 36, "cancels": 3, "beside": 2}),
        (["--short", "--steps", "48", "--no-raw"], {"steps": 48, "raw": False}),
        *((["--only", part], {"parts": (part,), "beside": 1, "requests": 60}) for part in PARTS),
        (["--only", "beside", "--beside", "3", "--requests", "20"], {"beside": 3, "requests": 20}),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_the_options_say_what_is_measured(
    arguments: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Options] = []
    monkeypatch.setattr("lsp_calib.tools.bench.run.measured", lambda options, _: found.append(options))
    CliRunner().invoke(main, ["bench", *arguments])
    assert {name: getattr(found[0], name) for name in expected} == expected


def test_the_document_of_a_long_prompt_is_not_data_in_which_nothing_is_asked() -> None:
    card = load_cards()["smollm2-135m"]
    lines, line = dense(card, random.Random(0))
    for typed in range(20):
        now = [*lines[:line], "1" * typed + lines[line], *lines[line + 1 :]]
        assert not in_data(Cursor(now, line, typed, "json"))
    shown = sum(
        len(text) for _, text in build_prompt(Cursor(lines, line, 0, "json"), Layout.of(card)).segments
    )
    assert shown > 1200


class Work:
    """Reads one thing after the other; each takes longer than anybody waits. Cleans up when it is stopped."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.read = 0
        self.cleaned = False
        self._then = then

    async def go(self) -> None:
        try:
            self.read += 1
            asyncio.get_running_loop().call_soon(self._then)
            await asyncio.sleep(60)
            self.read += 1
        finally:
            await asyncio.sleep(0.05)
            self.cleaned = True


def run(work: Work, limit: float) -> tuple[Stopped | None, float]:
    began = time.monotonic()
    why = asyncio.run(until_stopped(work.go(), limit))
    return why, time.monotonic() - began


def test_the_limit_cuts_a_reading_short() -> None:
    work = Work()
    why, seconds = run(work, 0.2)
    assert why is Stopped.LIMIT
    assert (work.read, work.cleaned) == (1, True)
    assert seconds < 30


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has it")
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, Stopped.INTERRUPT), (signal.SIGTERM, Stopped.TERMINATE)]
)
@pytest.mark.parametrize("limit", [0.0, 50.0])
def test_a_signal_ends_it_and_what_it_began_is_put_away(
    number: signal.Signals, expected: Stopped, limit: float
) -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        work = Work(lambda: os.kill(os.getpid(), number))
        why, seconds = run(work, limit)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert why is expected
    assert (work.read, work.cleaned) == (1, True)
    assert seconds < 30


def test_work_that_comes_to_its_end_was_not_stopped() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert asyncio.run(until_stopped(work(), 60)) is None


def test_what_goes_wrong_before_it_is_stopped_is_raised() -> None:
    async def work() -> None:
        raise EngineError("The model is gone.")

    with pytest.raises(EngineError, match="is gone"):
        asyncio.run(until_stopped(work(), 60))


def test_what_goes_wrong_while_it_is_put_away_does_not_hide_what_was_read() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise EngineError("The server ended.")

    assert asyncio.run(until_stopped(work(), 0.1)) is Stopped.LIMIT


def test_exit_codes_are_those_of_the_signals_and_the_limit_is_none() -> None:
    assert {one: one.exit_code for one in Stopped} == {
        Stopped.LIMIT: 0,
        Stopped.INTERRUPT: 130,
        Stopped.TERMINATE: 143,
    }


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
        asked.append(body)
        return 200, json.dumps(GOOD).encode()

    peer = Peer(serve(answer) + "/base/")
    found = [await peer.finish_line(prompt, 7) for prompt in ([5, 6, 7], [5, 6, 7, 8])]
    # Of the second prompt it counts another length.
    assert [(one.evaluated, one.same) for one in found] == [(2, True), (2, False)]
    assert found[0].ms > 0
    wanted = {"prompt": [5, 6, 7], "n_predict": 7, "cache_prompt": True, "temperature": 0}
    wanted |= {"ignore_eos": True, "stream": False}
    assert asked[0].items() >= wanted.items()


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


async def test_a_peer_that_is_not_there_is_named_with_what_to_do() -> None:
    peer = Peer("http://127.0.0.1:9")
    with pytest.raises(LspCalibError, match=r"127\.0\.0\.1:9 did not answer /props .*`llama-server -m MODEL"):
        await peer.describe()


def test_what_is_no_address_of_a_peer_is_refused() -> None:
    result = CliRunner().invoke(main, ["bench", "--peer", "ftp://host"])
    assert result.exit_code == 2
    assert "it must be an address like http://localhost:8080" in " ".join(result.output.split())
