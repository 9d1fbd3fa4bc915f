"""The bench's report counts what it says it counts: percentiles, intervals, ratios, beside busy processes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import report
from lsp_calib.tools.bench.beside import Asked, Beside, How, Run, last_keys, line_before_each
from lsp_calib.tools.bench.processes import Repeated
from lsp_calib.tools.bench.report import (
    Notes,
    Stopped,
    is_empty,
    median_ratio,
    percentile,
    print_report,
    ratio_of_percentiles,
    resamples,
    spread_of,
    to_json,
)
from lsp_calib.tools.bench.trace import load_trace
from lsp_calib.tools.bench.typist import Place, Reading

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
        "raw": Repeated(ms=90.0, evaluated=6, same=True),
    }
    return Reading(**{**values, **changes})  # type: ignore[arg-type]


FROM_MEMORY = reading(wall=1.0, source="memory", evaluated=0, generated=0, decode_ms=0.0, raw=None)
NOTHING = reading(source="none", suggestion=None)


def test_answers_are_counted_by_where_they_came_from() -> None:
    found = report.answers([reading(), FROM_MEMORY, NOTHING, reading()])
    assert found == {"model": 2, "memory": 1, "none": 1, "shareFromMemory": 0.25}


def test_every_keystroke_counts_but_the_first_in_a_document() -> None:
    found = report.latencies([reading(Place.COLD, wall=900.0), reading(wall=100.0), FROM_MEMORY])["all"]
    assert (found["n"], found["p50"][0]) == (2, 50.5)


class TestTheSameTokensElsewhere:
    def test_it_is_the_median_of_the_ratios_where_the_model_was_asked(self) -> None:
        found = report.overhead([reading(wall=99.0), reading(wall=108.0), reading(wall=180.0), FROM_MEMORY])
        assert found["medianOfRatios"][0] == pytest.approx(1.2)
        assert found["overDecode"][0] == pytest.approx(1.35)
        assert (found["n"], found["inside"]) == (3, 3)

    def test_what_had_more_to_do_does_not_count(self) -> None:
        unequal = reading(raw=Repeated(ms=500.0, evaluated=200, same=False))
        found = report.overhead([reading(wall=99.0), unequal])
        assert found["medianOfRatios"][0] == pytest.approx(1.1)
        assert (found["n"], found["unequal"]) == (1, 1)

    def test_it_is_given_by_kind_of_keystroke_as_well(self) -> None:
        found = report.overhead([reading(wall=99.0), reading(Place.JUMP, wall=180.0)])
        assert {place: one["n"] for place, one in found["places"].items()} == {"keystroke": 1, "jump": 1}
        assert found["places"]["jump"]["medianOfRatios"][0] == pytest.approx(2.0)

    def test_without_a_bare_loop_there_is_no_ratio_to_it(self) -> None:
        found = report.overhead([reading(raw=None)])
        assert found["medianOfRatios"] is None
        assert found["overDecode"] is not None

    def test_a_peer_is_described(self) -> None:
        asked = [reading(wall=90.0, peer=Repeated(100.0, 5, same)) for same in (True, True, False)]
        found = report.against_peer({"build": "b1"}, [*asked, FROM_MEMORY])
        assert (found["build"], found["n"], found["unequal"]) == ("b1", 2, 1)
        assert found["p50Ratio"][0] == pytest.approx(0.9)
        assert found["peerEvaluated"]["p50"][0] == 5
        assert report.against_peer({}, [reading()]) is None


class TestSpeed:
    def test_it_is_of_long_prompts_and_of_generated_lines(self) -> None:
        # 4 generated tokens in 40 ms are 3 that had to be evaluated; 100 ms are left for 200 of the prompt.
        cold = reading(Place.COLD, evaluated=200, decode_ms=140.0, suggestion=None, source="none")
        assert report.speed([cold, reading(), reading()]) == {
            "promptTokensPerS": 2000.0,
            "generatedTokensPerS": 75.0,
            "prompts": 1,
            "generations": 2,
        }

    def test_it_is_not_known_where_no_prompt_was_long(self) -> None:
        assert report.speed([reading(), FROM_MEMORY]) is None
        assert report.speed([reading(Place.COLD, suggestion=None, source="none", evaluated=200)]) is None


def asked(key: int, ms: float, at: float = 0.0, generated: int = 5) -> Asked:
    return Asked(key, at, ms, 4, generated)


def quiet(count: int = 60, keys: int = 12) -> list[Asked]:
    """Each key takes its own time."""
    return [asked(at % keys, 100.0 + 10 * (at % keys), 0.2 * at) for at in range(count)]


def slower(by: float, count: int = 60) -> list[Asked]:
    return [asked(one.key, by * one.ms, 0.5 * at) for at, one in enumerate(quiet(count))]


def beside(run: Run, before: list[Asked] | None = None) -> dict[str, Any]:
    return report.beside(Beside(1, 12, quiet() if before is None else before, [run]))[run.how.value]


class TestBesideBusyProcesses:
    def test_a_constant_factor_is_found_exactly(self) -> None:
        found = beside(Run(How.EQUAL, slower(2.5)))
        for name in ("p50Ratio", "p95Ratio", "medianOfRatios"):
            assert found[name] == pytest.approx([2.5, 2.5, 2.5])
        assert (found["n"], found["unequal"], found["worstRatio"]) == (60, 0, 2.5)

    def test_a_run_that_was_stopped_is_set_against_the_same_keys(self) -> None:
        # The keys take longer and longer: against all of the quiet ones, the first of them would be too fast.
        rising = [asked(at, 100.0 * (at + 1)) for at in range(60)]
        found = beside(Run(How.NICE, [asked(at, 150.0 * (at + 1)) for at in range(7)]), rising)
        assert found["n"] == 7
        assert found["p50Ratio"][0] == pytest.approx(1.5)

    def test_pairs_that_did_other_work_are_left_out_and_counted(self) -> None:
        readings = slower(2.0)
        readings[4] = asked(readings[4].key, 5000.0, generated=60)
        found = beside(Run(How.EQUAL, readings))
        assert (found["n"], found["unequal"], found["worstRatio"]) == (59, 1, 2)
        found = beside(Run(How.EQUAL, [asked(0, 5000.0, generated=60)]))
        assert (found["n"], found["unequal"], found["worstRatio"]) == (0, 1, None)

    def test_without_a_run_there_is_the_quiet_machine_alone(self) -> None:
        found = report.beside(Beside(1, 12, quiet(9), [Run(How.EQUAL)]))
        assert found["quietMs"]["n"] == 9
        assert found["equalShare"] is found["niceSameSession"] is None
        assert report.beside(Beside(processes=1)) is None

    def test_each_window_afterwards_has_the_ratios_of_its_seconds(self) -> None:
        after = [asked(at % 12, 2 * (100.0 + 10 * (at % 12)), at * 0.5) for at in range(10)]
        after += [asked(at % 12, 100.0 + 10 * (at % 12), at * 0.5) for at in range(10, 24)]
        found = beside(Run(How.EQUAL, slower(2.0), after))["after"]
        assert found["seconds0To5"] == {"n": 10, "medianOfRatios": [2.0, 2.0, 2.0]}
        assert found["seconds5To10"] == {"n": 10, "medianOfRatios": [1.0, 1.0, 1.0]}
        # A key that was not typed before says nothing.
        found = beside(Run(How.EQUAL, slower(2.0), [asked(11, 100.0)]), quiet(3))["after"]
        assert found["seconds0To5"] == {"n": 0, "medianOfRatios": None}


class TestKeysThatAreRepeated:
    def test_they_are_typed_in_one_line_of_code(self) -> None:
        found = list(filter(None, map(last_keys, load_trace())))
        assert len(found) >= 3
        for edit in found:
            assert {step.start[0] for step in edit.steps} == {edit.steps[0].start[0]}
            line = line_before_each(edit)
            for before, step, then in zip(line, edit.steps, line[1:], strict=False):
                assert before[: step.start[1]] + step.text + before[step.end[1] :] == then


def notes(stopped: Stopped | None = Stopped.INTERRUPT) -> Notes:
    """Nine keystrokes, one cancelled request, and some keys beside two others: then it was stopped."""
    found = Notes(CARD, ["typing", "cancel"], engine="an engine", start_ms=1500.0, stopped=stopped)
    peer = Repeated(50.0, 6, same=True)
    found.readings += [reading(evaluated=40, peer=peer) for _ in range(9)]
    found.cancelled.alone = (900.0, 1500)
    found.cancelled.idle_ms.append(5.0)
    found.beside = Beside(2, 12, quiet(), [Run(How.NICE, slower(1.5), [asked(0, 100.0)])])
    found.seconds, found.missing = 480.0, {"raw": "nobody asked"}
    return found


def test_what_was_read_is_in_the_report_with_the_number_of_readings() -> None:
    found = to_json(notes())
    assert (found["stopped"], found["seconds"], found["steps"]) == ("SIGINT", 480.0, 9)
    assert found["latencyMs"]["keystroke"]["n"] == 9
    assert found["evaluated"]["keystroke"]["p50"][0] == 40
    assert found["overhead"]["inside"] == 9
    assert found["speed"]["generations"] == 9
    assert found["cancel"]["toIdleMs"]["n"] == 1
    assert found["beside"]["niceSameSession"]["n"] == 60
    cut = dict.fromkeys(("typing", "cancel"), "the bench was stopped by Ctrl-C before this was finished")
    assert found["notMeasured"] == {**cut, "raw": "nobody asked"}
    assert to_json(notes(None))["notMeasured"] == {"raw": "nobody asked"}


def printed(document: dict[str, Any]) -> str:
    out = io.StringIO()
    print_report(document, Console(file=out, width=300, highlight=False))
    return out.getvalue()


def test_the_words_hold_the_figures() -> None:
    text = printed(to_json(notes()))
    assert "bare llama.cpp loop: no pair" not in text
    for words in (
        *("an engine", "Stopped by Ctrl-C after 480 s", "keystroke", "0 % of 9.", "1.111 [1.111, 1.111]"),
        "Over the peer, same tokens: median of ratios 2.000 [2.000, 2.000]",
        *("(9 answers)", "From cancelling to an idle model: p50 5 ms", "worst 1.50"),
        "Beside 2 processes at nice 19 in the model's session",
        "After they had ended: median of ratios 1.00 (1) in seconds 0 to 5",
        "Not measured: raw: nobody asked.",
    ):
        assert words in text


@pytest.mark.parametrize("known", [Notes(CARD), Notes(CARD, engine="an engine", start_ms=1.0)])
def test_a_bench_without_any_reading_is_empty_and_can_be_printed(known: Notes) -> None:
    assert is_empty(to_json(known))
    assert CARD.name in printed(to_json(known))
    assert not is_empty(to_json(notes()))
    assert not is_empty(to_json(Notes(CARD, readings=[reading(raw=None)])))


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
        assert spread_of([]) is median_ratio([]) is ratio_of_percentiles([], 50) is None
        assert median_ratio([(1.0, 0.0)]) is ratio_of_percentiles([(1.0, 0.0)] * 5, 50) is None

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


class TestRatios:
    @given(TIMES, st.floats(0.1, 10))
    def test_a_constant_factor_is_found_exactly(self, times: list[float], factor: float) -> None:
        pairs = [(factor * time, time) for time in times]
        found = median_ratio(pairs), ratio_of_percentiles(pairs, 50), ratio_of_percentiles(pairs, 95)
        assert [one[0] for one in found] == pytest.approx([factor] * 3, abs=1e-3)

    def test_pairs_are_drawn_together(self) -> None:
        rng = np.random.default_rng(3)
        times = rng.lognormal(3, 1.5, size=80)
        found = ratio_of_percentiles([(2 * time, time) for time in times], 50)
        apart = ratio_of_percentiles(list(zip(2 * times, rng.permutation(times), strict=True)), 50)
        assert found[1:] == pytest.approx([2, 2])
        assert apart[1] < 1.9

    def test_a_ratio_to_nothing_is_left_out(self) -> None:
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
