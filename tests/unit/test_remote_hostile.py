"""Remote servers that send what costs the most: the event loop goes on, and the request ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from remote_scene import QUICK, clean_fixture, request  # noqa: F401 - a fixture

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.choice import Remote
from lsp_calib.inference.remote.engine import RemoteEngine

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n"
STREAM, WHOLE = HEAD % b"text/event-stream", HEAD % b"application/json"
MODELS = b'{"data": [{"id": "m"}]}'
# Seconds of the processor between two turns of other tasks.
LONGEST_TURN = 0.5
PATIENCE = 60.0


def event(choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def tokens(n: int, top: int = 1) -> dict[str, Any]:
    alternatives = {f"t{i}": -9.0 for i in range(top)}
    return {"tokens": ["x"] * n, "token_logprobs": [-1.0] * n, "top_logprobs": [alternatives] * n}


NOTHING = event({"text": "", "logprobs": tokens(1) | {"tokens": [""]}})
# The beginning of an answer, and a piece that is repeated for as long as the other side reads.
ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "events without text": (STREAM, event({"text": ""})),
    "tokens without text": (STREAM, NOTHING),
    "comments": (STREAM, b":\n"),
    "one event without an end": (STREAM + b"data: [", b"[],"),
    "a deep value": (STREAM + b"data: " + b"[" * 200_000 + b"\n\n", b""),
    "many small values": (STREAM + b'data: {"choices": [' + b"[]," * 80_000 + b"{}]}\n\n", b""),
    "many alternatives": (STREAM + event({"text": "x", "logprobs": tokens(1, 15_000)}), NOTHING),
    "a whole answer without an end": (WHOLE, b"[],"),
    "headers without an end": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "an error without an end": (STREAM.replace(b"200 OK", b"500 No"), b"x"),
}


@attrs.define
class Attacker:
    """Answers `/models` as `models` says, and completions with `head` and then `piece` without an end."""

    listening: socket.socket
    head: bytes = b""
    piece: bytes = b""
    models: bytes = MODELS
    pause: float = 0.0
    sent: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}/v1"

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if b"/models" in connection.recv(1 << 16):
                connection.sendall(WHOLE + self.models)
                return
            connection.sendall(self.head)
            data = self.piece if self.pause else self.piece * (65536 // max(len(self.piece), 1))
            while data:
                connection.sendall(data)
                self.sent += len(data)
                time.sleep(self.pause)


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    made = Attacker(socket.create_server(("127.0.0.1", 0)))
    threading.Thread(target=made.serve, daemon=True).start()
    yield made
    made.listening.shutdown(socket.SHUT_RDWR)
    made.listening.close()


async def longest_turn(url: str) -> tuple[float, float]:
    """A request to the server: the longest time of the processor for which no other task had its turn, and
    the seconds until it ended."""
    engine = RemoteEngine(Remote(url), patience=QUICK)
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - began)

    ticking = asyncio.create_task(others())
    began = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            await engine.generate(request(forced="x" * 40))
    except LspCalibError:
        pass
    finally:
        took = time.monotonic() - began
        await asyncio.sleep(0.002)
        ticking.cancel()
        await engine.close()
    return longest, took


@pytest.mark.usefixtures("young_heap")
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_answer_keeps_other_work_from_its_turn(attacker: Attacker, name: str) -> None:
    attacker.head, attacker.piece = ATTACKS[name]
    longest, _ = await longest_turn(attacker.url)
    assert longest < LONGEST_TURN
    assert attacker.sent < 16 << 20


async def test_an_answer_that_drips_ends(attacker: Attacker) -> None:
    """Each piece comes in time, and none of them adds anything."""
    attacker.head, attacker.piece = STREAM, event({"text": ""})
    attacker.pause = 0.01
    _, took = await longest_turn(attacker.url)
    assert took < PATIENCE / 2


async def test_an_answer_has_a_time_limit_as_a_whole(attacker: Attacker) -> None:
    attacker.head, attacker.piece, attacker.pause = STREAM, event({"text": "x", "logprobs": tokens(1)}), 0.2
    engine = RemoteEngine(Remote(attacker.url), patience=attrs.evolve(QUICK, whole=0.5))
    with pytest.raises(LspCalibError, match="did not answer in time"):
        await engine.generate(request(most=100))
    await engine.close()
