"""The peer is asked for the same work, and what goes wrong with it is said in words."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.tools.bench.comparisons import Peer

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
