"""The same keystrokes twice, and asked of a peer: the same work, in which nothing of another's time falls."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import comparisons
from lsp_calib.tools.bench.comparisons import Pairs, Peer, long_file, where_asked
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.uncached import dense


class Machine:
    """A model that has something to evaluate ahead after each key; it delays a key that comes too soon."""

    def __init__(self) -> None:
        self.ahead = False
        self.keys = 0

    def typist(self, _editor: Any, _scratch: Any, edit: Edit) -> Any:
        machine = self

        class Typist:
            def __init__(self) -> None:
                self.edit = edit

            async def answer(self, _step: Any) -> tuple[float, None]:
                delayed, machine.ahead = machine.ahead, True
                machine.keys += 1
                return (500.0 if delayed else 10.0), None

            def close(self) -> None:
                return

        return Typist()

    async def settled(self, _probe: Any) -> None:
        self.ahead = False


async def test_no_key_in_a_long_file_waits_for_what_is_evaluated_ahead_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, steps = Machine(), []
    pairs: Pairs = []
    monkeypatch.setattr(comparisons, "Typist", machine.typist)
    monkeypatch.setattr(comparisons, "settled", machine.settled)
    edits = select(load_trace(), 48)
    server: Any = SimpleNamespace(editor=None, scratch=None, probe=None)
    await long_file(server, edits, pairs, lambda done, total: steps.append((done, total)))
    assert set(pairs) == {((10.0, True), (10.0, True))}
    # What comes first in a document is not counted.
    assert len(pairs) == machine.keys / 2 - 4
    assert steps[-1] == (machine.keys, machine.keys)


async def test_keys_that_were_typed_in_one_of_both_only_are_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped while the second document of the second turn was typed in: the long one."""
    machine, pairs = Machine(), Pairs()
    monkeypatch.setattr(comparisons, "Typist", machine.typist)
    monkeypatch.setattr(comparisons, "settled", machine.settled)
    server: Any = SimpleNamespace(editor=None, scratch=None, probe=None)

    def stop(done: int, _total: int) -> None:
        machine.ahead = done > 36
        if done == 40:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await long_file(server, select(load_trace(), 48), pairs, stop)
    assert pairs[:11] == [((10.0, True), (10.0, True))] * 11
    assert pairs[11:] == [((10.0, True), (500.0, True))] * 3
    assert where_asked([((10.0, True), (12.0, False))]) == []


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


GOOD = {"tokens_evaluated": 40, "tokens_predicted": 7, "timings": {"prompt_n": 3}, "content": "x"}

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
    for _ in range(2):
        found = await peer.finish_line([5, 6, 7], 7)
    peer.close()
    assert (found.prompt_tokens, found.evaluated, found.generated) == (40, 3, 7)
    assert found.ms > 0
    first = asked[0]
    assert first["prompt"] == [5, 6, 7]
    assert first["n_predict"] == 7
    assert first["cache_prompt"] is True
    assert first["temperature"] == 0
    assert first["ignore_eos"] is True
    assert first["stream"] is False


async def test_a_peer_that_is_something_else_is_said_to_be(serve: Callable[[Answer], str]) -> None:
    for status, content, words in (
        (200, b'{"choices": []}', "is it a llama-server"),
        (404, b"no such thing", "status 404: no such thing"),
        (200, b"<html>", "did not answer"),
    ):
        peer = Peer(serve(lambda *_, answer=(status, content): answer))
        with pytest.raises(LspCalibError, match=words):
            await peer.finish_line([1], 1)
        peer.close()


async def test_a_peer_that_is_not_there_is_named_with_what_to_do() -> None:
    peer = Peer("http://127.0.0.1:9")
    with pytest.raises(LspCalibError, match=r"127\.0\.0\.1:9 did not answer /props .*`llama-server -m MODEL"):
        await peer.describe()


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://host", "http://", "http://host:port", "http://host:99999"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="--peer takes the address"):
        Peer(url)
