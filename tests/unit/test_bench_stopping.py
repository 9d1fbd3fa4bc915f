"""A bench that is stopped, by its limit or a signal: what it had read is reported, what it began is ended."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from test_bench_report import reading

from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench.forecast import Stopped, until_stopped
from lsp_calib.tools.bench.report import Notes, is_empty, to_json
from lsp_calib.tools.bench.table import print_report
from lsp_calib.tools.bench.uncached import Burst

CARD = load_cards()["smollm2-135m"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has it")


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


@posix
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


def stopped_notes() -> Notes:
    """Nine keystrokes, one cancelled request, half of a burst: then it was stopped."""
    notes = Notes(CARD, engine="an engine", start_ms=1500.0)
    notes.readings += [reading(at=at, evaluated=40, raw=None) for at in range(9)]
    notes.cancelled.alone = (900.0, 1500)
    notes.cancelled.idle_ms.append(5.0)
    notes.bursts.append(Burst(1, 0.0, 800.0, 1500))
    notes.long_file.append(((10.0, True), (11.0, True)))
    notes.two[0].append(((10.0, True), (20.0, True)))
    return notes


def document(notes: Notes, unfinished: list[str]) -> dict[str, Any]:
    notes.end(Stopped.INTERRUPT, unfinished, 480.0)
    return to_json(notes)


def test_what_was_read_is_in_the_report_with_the_number_of_readings() -> None:
    found = document(stopped_notes(), ["typing", "cancel"])
    assert found["stopped"] == "SIGINT"
    assert found["seconds"] == 480.0
    assert found["steps"] == 9
    assert found["latencyMs"]["keystroke"]["n"] == 9
    assert found["overhead"]["inside"] == 9
    assert found["speed"]["generations"] == 9
    assert found["cancel"]["toIdleMs"]["n"] == 1
    assert found["typingOn"]["atOnceMs"]["n"] == 1
    assert found["typingOn"]["thenMs"] is None
    assert found["typingOn"]["shareUsed"] is None
    assert found["longFile"]["n"] == 1
    assert [one["togetherMs"] and one["togetherMs"]["n"] for one in found["two"]["servers"]] == [1, None]
    assert found["peer"] is None
    assert found["notMeasured"] == dict.fromkeys(
        ("typing", "cancel"), "the bench was stopped by Ctrl-C before this was finished"
    )


@pytest.mark.parametrize(
    "notes", [stopped_notes(), Notes(CARD), Notes(CARD, engine="an engine", start_ms=1.0)]
)
def test_whatever_there_is_can_be_printed(notes: Notes) -> None:
    out = io.StringIO()
    print_report(document(notes, ["typing"]), Console(file=out, width=200, highlight=False))
    text = out.getvalue()
    assert "Stopped by Ctrl-C after 480 s" in text
    assert "Not measured: typing: the bench was stopped by Ctrl-C before this was finished." in text
    if notes.readings:
        assert "9" in text
        assert "(9 answers)" in text


def test_a_bench_without_any_reading_is_empty() -> None:
    assert is_empty(to_json(Notes(CARD)))
    assert is_empty(to_json(Notes(CARD, engine="an engine", start_ms=10.0)))
    assert not is_empty(to_json(stopped_notes()))
    assert not is_empty(to_json(Notes(CARD, readings=[reading()])))
