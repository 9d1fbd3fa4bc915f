"""`lsp-calib bench`: its report counts what it says it counts, and it can be stopped."""

from __future__ import annotations

import asyncio
import io
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lsp_calib.cli import main
from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import Settings, parse
from lsp_calib.tools.bench import run
from lsp_calib.tools.bench.report import (
    Look,
    Notes,
    Place,
    Reading,
    is_empty,
    median_ratio,
    percentile,
    print_report,
    reading_hour,
    resamples,
    speed,
    spread_of,
    to_json,
)
from lsp_calib.tools.bench.run import Options, dense, measured
from lsp_calib.tools.bench.server import options

CARD = load_cards()["smollm2-135m"]


def reading(place: Place = Place.KEYSTROKE, wall: float = 100.0, **changes: object) -> Reading:
    timing = {"promptTokens": 200, "promptReused": 100, "promptMs": 50.0, "generateMs": 40.0}
    values = {
        "place": place,
        "wall_ms": wall,
        "source": "model",
        "suggestion": {"text": "x", "timing": timing},
        "evaluated": 6,
        "generated": 4,
        "decode_ms": 80.0,
    }
    return Reading(**{**values, **changes})  # type: ignore[arg-type]


FROM_MEMORY = reading(wall=1.0, source="memory", evaluated=0, generated=0, decode_ms=0.0)
NOTHING = reading(source="none", suggestion=None)


def report_of(*readings: Reading) -> dict[str, Any]:
    return to_json(Notes(CARD, readings=list(readings)))


def test_answers_are_counted_by_where_they_came_from() -> None:
    found = report_of(reading(), FROM_MEMORY, NOTHING, reading())["answers"]
    assert found == {"model": 2, "memory": 1, "none": 1, "shareFromMemory": 0.25}


def test_every_keystroke_counts_but_the_first_in_a_document() -> None:
    found = report_of(reading(Place.COLD, wall=900.0), reading(wall=100.0), FROM_MEMORY)["latencyMs"]["all"]
    assert (found["n"], found["p50"][0]) == (2, 50.5)


def test_the_time_over_that_inside_the_library_is_of_what_asked_the_model() -> None:
    found = report_of(reading(wall=99.0), reading(wall=108.0), reading(wall=180.0), FROM_MEMORY)
    assert found["overDecode"][0] == pytest.approx(1.35)


class TestAhead:
    RESTED = (
        reading(Place.REST, wall=900.0, evaluated=80, ahead=220, used=220),
        reading(Place.RETURN, wall=50.0, evaluated=2, ahead=0, used=0),
    )

    def test_what_was_ready_is_told_by_kind_of_place_and_as_time(self) -> None:
        # Of 80 ms the generated tokens take 40; in the others 40 tokens are evaluated: 1,000 a second.
        found = report_of(reading(evaluated=40), *self.RESTED)
        jump = found["ahead"]["jumpAfterRest"]
        assert [jump[name]["p50"][0] for name in ("evaluated", "used", "left")] == [220, 220, 80]
        assert jump["savedMs"]["p50"][0] == 220.0
        assert found["ahead"]["returnAfterRest"]["left"]["p50"][0] == 2

    def test_the_typing_is_what_it_was_without_rests(self) -> None:
        typed = (reading(Place.COLD), reading(Place.JUMP), reading(), FROM_MEMORY)
        alone, both = report_of(*typed), report_of(*typed, *self.RESTED)
        for name in ("steps", "answers", "speed", "overDecode"):
            assert both[name] == alone[name]
        for name in ("jump", "all", "typingModel", "askedModel"):
            assert both["latencyMs"][name] == alone["latencyMs"][name]
        assert both["latencyMs"]["jumpAfterRest"]["p50"][0] == 900.0
        assert alone["ahead"] is alone["readingHour"] is None

    def test_an_hour_of_reading_is_so_many_rests_and_no_more_than_the_limit(self) -> None:
        looks = [Look(300, 2.0), Look(0, 0.0)]
        found = reading_hour(looks)
        assert (found["rests"], found["tokensEach"], found["secondsEach"]) == (2, 150.0, 1.0)
        assert (found["seconds"], found["shareOfACore"]) == (240.0, round(240 / 3600, 3))
        assert reading_hour([Look(300, 9.0)])["seconds"] == found["limitSeconds"] == 720.0

    def test_the_words_hold_it(self) -> None:
        known = notes()
        known.readings += self.RESTED
        known.looks += [Look(300, 2.0)]
        text = printed(to_json(known))
        for words in (
            "Jump, after a look: 220 prompt tokens evaluated before the key, 220 used, 80 left at the key",
            "80 left at the key: 220 ms saved",
            "An hour of reading (240 rests): 480 s of processor time, 13 % of a core",
        ):
            assert words in text


class TestSpeed:
    def test_it_is_of_long_prompts_and_of_generated_lines(self) -> None:
        # 4 generated tokens in 40 ms are 3 that had to be evaluated; 100 ms are left for 200 of the prompt.
        cold = reading(Place.COLD, evaluated=200, decode_ms=140.0, suggestion=None, source="none")
        assert speed([cold, reading(), reading()]) == {
            "promptTokensPerS": 2000.0,
            "generatedTokensPerS": 75.0,
            "prompts": 1,
            "generations": 2,
        }

    def test_it_is_not_known_where_no_prompt_was_long(self) -> None:
        assert speed([reading(), FROM_MEMORY]) is None
        assert speed([reading(Place.COLD, suggestion=None, source="none", evaluated=200)]) is None


def notes() -> Notes:
    """Nine keystrokes and one cancelled request: then it was stopped."""
    found = Notes(CARD, engine="an engine", start_ms=1500.0, stopped="SIGINT", seconds=480.0)
    found.readings += [reading(evaluated=40) for _ in range(9)]
    found.cancelled.uncancelled = (900.0, 1500)
    found.cancelled.idle_ms.append(5.0)
    return found


def printed(document: dict[str, Any]) -> str:
    out = io.StringIO()
    print_report(document, Console(file=out, width=300, highlight=False))
    return out.getvalue()


def test_the_words_hold_the_figures() -> None:
    text = printed(to_json(notes()))
    for words in (
        *("an engine", "Stopped by Ctrl-C after 480 s", "keystroke", "0 % of 9.", "1.250 [1.250, 1.250]"),
        *("(9 answers)", "From cancelling to an idle model: p50 5 ms"),
    ):
        assert words in text


@pytest.mark.parametrize("known", [Notes(CARD), Notes(CARD, engine="an engine", start_ms=1.0)])
def test_a_bench_without_any_reading_is_empty_and_can_be_printed(known: Notes) -> None:
    assert is_empty(to_json(known))
    assert CARD.name in printed(to_json(known))
    assert not is_empty(to_json(notes()))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (240, 12, 8, 600.0)),
        (["--short"], (36, 3, 3, 600.0)),
        (["--short", "--steps", "48", "--limit", "0"], (48, 3, 3, 0.0)),
    ],
)
def test_the_options_say_what_is_measured(
    arguments: list[str], expected: tuple[int, int, int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Options] = []
    monkeypatch.setattr(run, "measured", lambda options, _: found.append(options) or report_of(reading()))
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == 0, result.output
    assert attrs.astuple(found[0], recurse=False)[1:] == expected


@pytest.mark.parametrize("ahead", [True, False])
def test_the_server_takes_each_setting_of_the_bench(ahead: bool) -> None:
    given = options(Settings(threads=3), ahead=ahead)
    found, complaints = parse(given)
    assert complaints == []
    assert (found.comments, found.feedback, found.diagnostics) == ("on", False, False)
    assert (found.prefetch, found.threads) == (ahead, 3)


class TestStopping:
    """While it reads; each reading takes longer than anybody waits."""

    @pytest.fixture(autouse=True)
    def _without_a_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.interrupt = self.cleaned = False
        self.error: Exception | None = None

        async def read(_scratch: object, _options: Options, notes: Notes, _say: object) -> None:
            notes.readings.append(reading())
            if self.error is not None:
                raise self.error
            try:
                if self.interrupt:
                    signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                self.cleaned = True

        @contextmanager
        def scratch(_trusted: object) -> Iterator[SimpleNamespace]:
            yield SimpleNamespace(chosen=CARD)

        monkeypatch.setattr(run, "_all", read)
        monkeypatch.setattr(run, "scratch_folder", scratch)

    def measured(self, limit: float) -> dict[str, Any]:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return measured(Options(limit=limit), lambda _: None)
        finally:
            signal.signal(signal.SIGINT, handler)

    def test_the_limit_cuts_a_reading_short(self) -> None:
        found = self.measured(0.1)
        assert (found["stopped"], found["steps"], self.cleaned) == ("limit", 1, True)

    def test_ctrl_c_ends_it_with_what_was_read(self) -> None:
        self.interrupt = True
        found = self.measured(0)
        assert (found["stopped"], found["steps"], self.cleaned) == ("SIGINT", 1, True)

    @pytest.mark.parametrize("error", [EngineError("The model is gone."), TimeoutError()])
    def test_what_goes_wrong_is_raised(self, error: Exception) -> None:
        self.error = error
        with pytest.raises(type(error)):
            self.measured(50)


def test_the_document_of_a_long_prompt_is_not_data_in_which_nothing_is_asked() -> None:
    lines, line = dense(CARD, random.Random(0))
    for typed in range(20):
        now = [*lines[:line], "1" * typed + lines[line], *lines[line + 1 :]]
        assert not in_data(Cursor(now, line, typed, "json"))
    prompt = build_prompt(Cursor(lines, line, 0, "json"), Layout.of(CARD))
    assert sum(len(text) for _, text in prompt.segments) > 1200


TIMES = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40)


class TestSpreads:
    @given(TIMES)
    def test_percentiles_are_those_of_the_readings_and_within_their_intervals(
        self, times: list[float]
    ) -> None:
        found = spread_of(times)
        assert found["n"] == len(times)
        for percent in (50, 95):
            value = percentile(times, percent)
            assert value[0] == pytest.approx(np.percentile(times, percent), abs=1e-3)
            assert found[f"p{percent}"] == value
            if len(times) < 3:
                assert value[1:] == [None, None]
            else:
                assert min(times) - 1e-3 <= value[1] <= value[2] <= max(times) + 1e-3

    def test_without_readings_there_is_nothing(self) -> None:
        assert spread_of([]) is median_ratio([]) is median_ratio([(1.0, 0.0)]) is None

    def test_the_interval_of_the_median_holds_the_truth_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(1)
        held = 0
        for _ in range(200):
            found = percentile(list(rng.lognormal(3, 0.6, size=60)), 50)
            held += found[1] <= np.exp(3) <= found[2]
        assert 0.85 <= held / 200 <= 1.0

    def test_readings_that_hang_together_make_wider_intervals(self) -> None:
        rng = np.random.default_rng(2)
        wide, narrow = [], []
        for _ in range(40):
            slow = np.repeat(rng.normal(100, 10, size=25), 8)
            for times, into in ((slow, wide), (rng.permutation(slow), narrow)):
                found = percentile(list(times), 50)
                into.append(found[2] - found[1])
        assert np.median(wide) > 1.2 * np.median(narrow)


@given(TIMES, st.floats(0.1, 10))
def test_a_constant_factor_is_found_exactly(times: list[float], factor: float) -> None:
    assert median_ratio([(factor * time, time) for time in times])[0] == pytest.approx(factor, abs=1e-3)


def test_a_ratio_to_nothing_is_left_out() -> None:
    assert median_ratio([(1.0, 0.0), (3.0, 1.0)])[0] == 3


@given(st.integers(1, 200))
def test_resamples_are_runs_of_consecutive_readings(n: int) -> None:
    drawn = resamples(n, np.random.default_rng(0), 50)
    assert drawn.shape == (50, n)
    assert drawn.min() >= 0
    assert drawn.max() < n
    length = max(round(n ** (1 / 3)), 1)
    for first in range(0, n - length + 1, length):
        run = drawn[:, first : first + length]
        assert (np.diff(run, axis=1) % n == 1 % n).all()
