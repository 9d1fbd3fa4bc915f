"""How long a bench takes, and one that is stopped: what it had read is reported, what it began is ended."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_bench_report import reading

from lsp_calib.cli import main
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.models.speeds import Speed
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.forecast import Cost, Forecast, Part, Stopped, Unit, Watch, about, until_stopped
from lsp_calib.tools.bench.report import Notes, is_empty, to_json
from lsp_calib.tools.bench.run import _SWITCHES, Options, chosen, costs
from lsp_calib.tools.bench.table import print_report
from lsp_calib.tools.bench.uncached import Burst

CARD = load_cards()["qwen2.5-coder-1.5b"]
SPEED = Speed(1.0, 40, 60.0, 10.0)


def total(options: Options, speed: Speed = SPEED) -> float:
    return Forecast(costs(options, Unit.of(CARD, speed))).left(0.0)


@given(
    slower=st.floats(0.2, 30.0),
    work=st.lists(st.floats(5.0, 500.0), min_size=2, max_size=5),
    wait=st.floats(0.0, 60.0),
)
def test_the_rest_is_foreseen_by_how_long_the_first_part_took(
    slower: float, work: list[float], wait: float
) -> None:
    parts = list(Part)[: len(work)]
    forecast = Forecast({part: Cost(each, wait) for part, each in zip(parts, work, strict=True)})
    forecast.did(parts[0], 1.0)
    elapsed = slower * work[0] + wait
    true = slower * sum(work[1:]) + wait * (len(work) - 1)
    # The less was done, the more of the first guess is in it.
    share = work[0] / (work[0] + 3.0)
    between = sorted((1.0, slower))
    foreseen = forecast.left(elapsed)
    assert foreseen == pytest.approx((share * slower + (1 - share)) * sum(work[1:]) + wait * (len(work) - 1))
    assert between[0] * sum(work[1:]) <= foreseen - wait * (len(work) - 1) + 1e-6
    assert foreseen - wait * (len(work) - 1) <= between[1] * sum(work[1:]) + 1e-6
    assert abs(foreseen - true) <= abs(sum(work[1:]) * (1 - slower)) + 1e-6


def test_at_the_end_nothing_is_left() -> None:
    forecast = Forecast({Part.TYPING: Cost(10, 3), Part.IDLE: Cost(0, 11)})
    assert forecast.left(0) == 24
    forecast.did(Part.TYPING, 1.0)
    assert forecast.unfinished() == [Part.IDLE]
    forecast.did(Part.IDLE, 1.0)
    assert forecast.left(500) == 0
    assert forecast.unfinished() == []


def test_more_to_do_takes_longer_and_so_does_a_slower_model() -> None:
    short = Options(steps=36, cancels=3, typing_on=False, long_file=False, idle=2.0)
    assert total(short) < total(Options()) < total(Options(two=True)) < total(Options(two=True, beside=1))
    assert total(Options(), Speed(10.0, 40, 6.0, 1.0)) > 5 * total(Options())
    assert total(attrs.evolve(short, raw=False)) <= total(short)


def test_a_model_that_was_never_measured_is_judged_by_its_size() -> None:
    small = Unit.of(load_cards()["smollm2-135m"], None)
    large = Unit.of(CARD, None)
    assert 3 * small.key < large.key
    assert small.window < large.window


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TestWords:
    def test_at_the_start_it_says_how_long_it_takes_and_how_long_at_most(self) -> None:
        said: list[str] = []
        watch = Watch(Forecast({Part.TYPING: Cost(240)}), said.append, 600)
        watch.announce(measured=True)
        assert said == [
            "This takes about 4 min (by this model's speed on this machine); at most 10 min (--limit)."
        ]

    def test_it_says_if_the_limit_will_not_do(self) -> None:
        said: list[str] = []
        Watch(Forecast({Part.TYPING: Cost(1500)}), said.append, 600).announce(measured=False)
        assert said[0].startswith(
            "This takes about 25 min (a guess by the model's size), longer than the time"
        )
        assert "limit of 10 min" in said[0]
        assert "--limit" in said[0]

    def test_it_says_where_it_is_from_time_to_time_and_what_is_left_then(self) -> None:
        said: list[str] = []
        clock = Clock()
        watch = Watch(Forecast({Part.TYPING: Cost(40)}), said.append, 600, clock)
        for done in range(1, 41):
            clock.now += 20  # 20 s for what was to take one
            watch.did(Part.TYPING, f"Typing: {done} of 40.", done, 40)
        assert said[0].startswith("Typing: 1 of 40. About")
        assert len(said) == 40
        # 39 keys of 20 s each: by and by it finds that out.
        assert said[9] == "Typing: 10 of 40. About 8 min left."
        assert said[-1] == "Typing: 40 of 40. Less than 10 s left."

    def test_a_fast_machine_is_not_talked_about(self) -> None:
        said: list[str] = []
        clock = Clock()
        watch = Watch(Forecast({Part.TYPING: Cost(40)}), said.append, 600, clock)
        for done in range(1, 41):
            clock.now += 0.1
            watch.did(Part.TYPING, "Typing.", done, 40)
        assert said == []

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(3, "less than 10 s"), (42, "about 40 s"), (239, "about 4 min"), (7200, "about 2.0 h")],
    )
    def test_durations_are_as_rough_as_an_estimate(self, seconds: float, words: str) -> None:
        assert about(seconds) == words


class TestParts:
    def test_only_names_every_part_but_the_peer(self) -> None:
        assert tuple(_SWITCHES) == PARTS
        assert len(PARTS) == len(Part) - 1

    def test_what_is_given_goes_before_what_a_part_is_by_itself(self) -> None:
        options = Options(**chosen(short=True, only=["beside", "idle"], given={"beside": 3, "idle": 5.0}))
        assert options.parts() == (Part.IDLE, Part.BESIDE)
        assert (options.beside, options.idle) == (3, 5.0)

    def test_without_a_choice_the_usual_parts_are_measured(self) -> None:
        usual = Options(**chosen(short=False, only=(), given={}))
        assert usual.parts() == (Part.TYPING, Part.CANCEL, Part.TYPING_ON, Part.LONG_FILE, Part.IDLE)
        assert usual.limit == 600
        short = Options(**chosen(short=True, only=(), given={"peer": "http://127.0.0.1:9", "beside": 2}))
        assert short.parts() == (Part.TYPING, Part.CANCEL, Part.IDLE, Part.PEER, Part.BESIDE)

    def test_nothing_to_measure_is_a_mistake_in_the_options(self) -> None:
        result = CliRunner().invoke(main, ["bench", "--only", "beside", "--beside", "0"])
        assert result.exit_code == 2
        assert "There is nothing to measure" in result.output


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_measured_alone(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that the user leaves out do not turn it off again."""
    found: list[Options] = []
    monkeypatch.setattr("lsp_calib.tools.bench.run._measured", lambda options, _: found.append(options))
    CliRunner().invoke(main, ["bench", "--only", part])
    assert [one.value.lower() for one in found[0].parts()] == [part.replace("-", "")]


SMALL = load_cards()["smollm2-135m"]
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
    notes = Notes(SMALL, engine="an engine", start_ms=1500.0)
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
    "notes", [stopped_notes(), Notes(SMALL), Notes(SMALL, engine="an engine", start_ms=1.0)]
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
    assert is_empty(to_json(Notes(SMALL)))
    assert is_empty(to_json(Notes(SMALL, engine="an engine", start_ms=10.0)))
    assert not is_empty(to_json(stopped_notes()))
    assert not is_empty(to_json(Notes(SMALL, readings=[reading()])))
