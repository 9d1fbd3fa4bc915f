"""The turns of clients that share the model."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lsp_calib.inference.backend import Preempted
from lsp_calib.inference.engine import Request
from lsp_calib.inference.process import worker as module
from lsp_calib.inference.process.worker import Worker
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing


class Backend:
    """A backend with a cache for three documents. Its runs last until they have to give way, or `end`."""

    documents = 3
    enough = False

    def __init__(self) -> None:
        self.left: Callable[[], float] = lambda: math.inf
        self.began = threading.Semaphore(0)
        self.end = threading.Event()

    def share(self, left: Callable[[], float]) -> None:
        self.left = left

    def resume(self) -> None:
        self.began.release()

    def begin(self, *_: object, **__: object) -> Backend:
        return self

    def advance(self) -> Generation:
        while not self.end.wait(0.01):
            if self.left() <= 0.0:
                raise Preempted
        return Generation("", (), Stop.LENGTH, Timing())

    def close(self) -> None:
        pass


@contextmanager
def typing(clients: int, *, pause: float = 0.0) -> Iterator[Backend]:
    """So many clients whose interactive requests run or wait; the first has asked `pause` seconds before."""
    backend = Backend()
    worker = Worker(lambda *_: None)
    for client in range(clients):
        worker.put(client, 1, Request(Prompt(((Segment.TEXT, "a"),), "", "test"), 4))
        time.sleep(0.0 if client else pause)
    threading.Thread(target=worker.serve, args=(backend,), daemon=True).start()
    assert backend.began.acquire(timeout=20)
    try:
        yield backend
    finally:
        backend.end.set()


def test_clients_take_turns_where_all_fit_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ACTIVE", 0.0)  # who waits counts, however long ago the request came
    with typing(3) as backend:
        assert backend.began.acquire(timeout=20), "the next client's turn"
        assert backend.began.acquire(timeout=20)


def test_where_not_all_fit_each_goes_on_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns would evict each other's tokens for ever: four editors waited minutes for every answer."""
    monkeypatch.setattr(module, "_ACTIVE", 1.0)
    with typing(4, pause=1.1) as backend:
        assert backend.left() == math.inf
        assert not backend.began.acquire(timeout=0.5), "nobody gives way"
