"""Clients that do not read what the server sends, and clients that have closed one of the two directions."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
from scripted_editor import PATIENCE, PROGRAM, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it looks into pipes")

_ID = re.compile(rb'"id": ?(\d+)')
# A server that holds back what it cannot send yet grows by less, and one that does not by hundreds.
MOST_GROWTH = 60 << 20


def frame(method: str, params: Any, identity: int | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if identity is not None:
        message["id"] = identity
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def status(identity: int, padding: str = "") -> bytes:
    params = {"command": "lsp-calib.status", "arguments": [padding] if padding else []}
    return frame("workspace/executeCommand", params, identity)


@attrs.define
class Pipes:
    """A server and the two ends of its pipes that are ours."""

    process: subprocess.Popen[bytes]
    received: bytes = b""

    @property
    def stdin(self) -> int:
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    @property
    def stdout(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.stdin, data) :]

    def receive_until(self, identity: int) -> list[int]:
        """Read up to the answer with an id; the ids of all answers so far."""
        end = time.monotonic() + PATIENCE
        received = bytearray(self.received)
        while b'"id": %d,' % identity not in received[-(1 << 17) :]:
            assert time.monotonic() < end, f"no answer to {identity}"
            data = os.read(self.stdout, 1 << 16)
            assert data, f"the server ended before its answer to {identity}"
            received += data
        self.received = bytes(received)
        return [int(number) for number in _ID.findall(self.received)]

    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    """A server that has been initialized."""
    (tmp_path / "script.json").write_text(json.dumps({"otherwise": {"text": "x"}}))
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(tmp_path / "script.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path / "home"),
    )
    made = Pipes(process)
    made.send(frame("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1))
    made.receive_until(1)
    made.send(frame("initialized", {}) + status(2))
    made.receive_until(2)
    yield made
    process.kill()
    process.wait(PATIENCE)
    for end in (process.stdin, process.stdout):
        assert end is not None
        end.close()


def test_a_client_that_never_reads_costs_a_bounded_amount_of_memory(pipes: Pipes) -> None:
    """Requests are taken as long as their answers have room; all are answered once the client reads."""
    before = pipes.memory()
    requests = [status(number, "x" * 4000) for number in range(1000, 31_000)]
    data, ends = b"".join(requests), list(itertools.accumulate(map(len, requests)))
    os.set_blocking(pipes.stdin, False)
    sent, stuck, grown, end = 0, time.monotonic(), 0, time.monotonic() + PATIENCE
    # Until the server takes no more for a while.
    while time.monotonic() < min(stuck + 1.5, end) and sent < len(data):
        try:
            sent += os.write(pipes.stdin, data[sent : sent + 65536])
            stuck = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        grown = max(grown, pipes.memory() - before)
    assert sent < len(data), f"the server took {sent} bytes of a client that reads nothing"
    assert grown < MOST_GROWTH
    used = sum(psutil.Process(pipes.process.pid).cpu_times()[:2])
    time.sleep(0.5)
    assert sum(psutil.Process(pipes.process.pid).cpu_times()[:2]) - used < 0.2, "it works while it waits"

    os.set_blocking(pipes.stdin, True)
    whole = sum(end <= sent for end in ends)
    rest = ends[whole] - sent if sent > ends[whole - 1] else 0
    last = 999 + whole + (1 if rest else 0)
    # The rest of the request that was cut, while the answers are read.
    writer = threading.Thread(target=pipes.send, args=(data[sent : sent + rest],))
    writer.start()
    answered = pipes.receive_until(last)
    writer.join(PATIENCE)
    assert [number for number in answered if number >= 1000] == list(range(1000, last + 1))


def test_a_client_that_writes_much_before_it_reads_is_answered(pipes: Pipes) -> None:
    """A document of several megabytes and some hundred requests in one go: no deadlock."""
    document = {"uri": "untitled:1", "languageId": "python", "version": 1, "text": "x = 1\n" * 700_000}
    data = frame("textDocument/didOpen", {"textDocument": document}) + b"".join(
        map(status, range(1000, 1500))
    )
    sending = threading.Thread(target=pipes.send, args=(data,), daemon=True)
    sending.start()
    sending.join(PATIENCE)
    assert not sending.is_alive(), "the server waits for a client that waits for it"
    answered = pipes.receive_until(1499)
    assert [number for number in answered if number >= 1000] == list(range(1000, 1500))


def test_a_client_that_reads_no_more_but_goes_on_writing_ends_the_server(pipes: Pipes) -> None:
    assert pipes.process.stdout is not None
    os.close(os.dup(pipes.stdout))
    pipes.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        for _ in range(500):
            pipes.send(status(1000))
            time.sleep(0.02)
    assert pipes.process.wait(5) == 1


def test_a_client_that_never_reads_and_ends_its_messages_ends_the_server(pipes: Pipes) -> None:
    os.set_blocking(pipes.stdin, False)
    for number in range(1000, 5000):
        try:
            os.write(pipes.stdin, status(number))
        except BlockingIOError:
            break
    assert pipes.process.stdin is not None
    pipes.process.stdin.close()
    assert pipes.process.wait(PATIENCE) == 1
