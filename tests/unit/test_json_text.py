"""Values of JSON types become objects of declared types, from any number of threads."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest

from lsp_calib.json_text import converted


def test_one_thread_converts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report and the start of a model read calibrators at the same time, which msgspec may not survive."""
    working, most = 0, 0
    convert = msgspec.convert

    def slow(value: object, kind: type[int]) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        time.sleep(0.01)
        working -= 1
        return convert(value, kind)

    monkeypatch.setattr(msgspec, "convert", slow)
    found: list[int] = []
    threads = [threading.Thread(target=lambda n=n: found.append(converted(n, int))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, sorted(found)) == (1, [0, 1, 2, 3])
