"""The bench's report counts what it says it counts: percentiles, intervals, ratios, beside busy processes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import report
from lsp_calib.tools.bench.comparisons import (
    SCOUTED,
    Asked,
    Beside,
    How,
    Pairs,
    PeerAnswer,
    PeerReading,
    Run,
    chosen,
    line_before_each,
    scenes,
)
from lsp_calib.tools.bench.processes import Replayed
from lsp_calib.tools.bench.report import (
    BACK,
    after,
    back_after,
    beside,
    median_ratio,
    percentile,
    ratio_of_percentiles,
    resamples,
    spread_of,
)
from lsp_calib.tools.bench.table import _beside as beside_lines
from lsp_calib.tools.bench.table import print_report
from lsp_calib.tools.bench.trace import load_trace
from lsp_calib.tools.bench.typist import Counts, Place, Reading, tokens_needed
from lsp_calib.tools.bench.uncached import Burst


def reading(place: Place = Place.KEYSTROKE, wall: float = 100.0, **changes: object) -> Reading:
    timing = {"promptTokens": 200, "promptReused": 100, "promptMs": 50.0, "generateMs": 40.0}
    values = {
        "edit": "a file",
        "at": 0,
        "place": place,
        "wall_ms": wall,
        "source": "model",
        "suggestion": {"text": "x", "timing": timing},
        "prompt": tuple(range(200)),
        "needed": 2,
        "evaluated": 6,
        "generated": 4,
        "decode_ms": 80.0,
        "raw": Replayed(ms=90.0, kept=194, evaluated=6),
    }
    return Reading(**{**values, **changes})  # type: ignore[arg-type]


FROM_MEMORY = reading(wall=1.0, source="memory", evaluated=0, generated=0, decode_ms=0.0, raw=None)
NOTHING = reading(source="none", suggestion=None)


class TestAnswers:
    def test_each_is_counted_by_where_it_came_from(self) -> None:
        found = report.answers([reading(), FROM_MEMORY, NOTHING, reading()])
        assert found == {"model": 2, "memory": 1, "none": 1, "shareFromMemory": 0.25}


class TestFaults:
    def test_they_are_summed_over_the_keystrokes(self) -> None:
        found = report.faults(
            [reading(counts=Counts(1, 0, 1, 0)), reading(), reading(counts=Counts(1, 1, 0, 1))]
        )
        assert found == {"typedAlong": 2, "changed": 1, "repeatsRest": 1, "repeatsNext": 1}
        assert report.faults([]) is None


class TestLatencies:
    def test_every_keystroke_counts_but_the_first_in_a_document(self) -> None:
        found = report.latencies([reading(Place.COLD, wall=900.0), reading(wall=100.0), FROM_MEMORY])["all"]
        assert found is not None
        assert (found["n"], found["p50"][0]) == (2, 50.5)


class TestTokens:
    def test_evaluated_ones_are_set_against_those_that_changed(self) -> None:
        found = report.tokens([reading(), reading(), reading(), FROM_MEMORY], Place.KEYSTROKE)
        assert found is not None
        assert found["n"] == 3
        assert found["evaluated"]["p50"][0] == 6
        assert found["needed"]["p50"][0] == 2
        assert found["medianRatio"][0] == 3

    def test_places_are_kept_apart(self) -> None:
        assert report.tokens([reading(), FROM_MEMORY], Place.JUMP) is None


class TestOverhead:
    def test_it_is_the_median_of_the_ratios_where_the_model_was_asked(self) -> None:
        found = report.overhead([reading(wall=99.0), reading(wall=108.0), reading(wall=180.0), FROM_MEMORY])
        assert found["overRaw"][0] == pytest.approx(1.2)
        assert found["overDecode"][0] == pytest.approx(1.35)
        assert found["n"] == 3

    def test_a_bare_loop_that_had_more_to_do_does_not_count(self) -> None:
        unequal = reading(raw=Replayed(ms=500.0, kept=0, evaluated=200))
        found = report.overhead([reading(wall=99.0), unequal])
        assert found["overRaw"][0] == pytest.approx(1.1)
        assert (found["n"], found["unequal"]) == (1, 1)

    def test_it_is_given_by_kind_of_keystroke_as_well(self) -> None:
        found = report.overhead([reading(wall=99.0), reading(Place.JUMP, wall=180.0)])
        assert {place: one["n"] for place, one in found["places"].items()} == {"keystroke": 1, "jump": 1}
        assert found["places"]["jump"]["overRaw"][0] == pytest.approx(2.0)

    def test_without_a_bare_loop_there_is_no_ratio_to_it(self) -> None:
        found = report.overhead([reading(raw=None)])
        assert found["overRaw"] is None
        assert found["overDecode"] is not None


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


def pairs(*times: tuple[float, float], from_memory: tuple[float, float] | None = None) -> Pairs:
    """from_memory: one for which the model was not asked both times."""
    found: Pairs = [((one, True), (two, True)) for one, two in times]
    return found if from_memory is None else [*found, ((from_memory[0], True), (from_memory[1], False))]


class TestComparisons:
    def test_the_long_file_is_set_against_the_short_one(self) -> None:
        found = report.long_file(pairs((10.0, 12.0), (20.0, 22.0), (30.0, 33.0), from_memory=(1.0, 3.0)))
        assert found is not None
        assert found["p50Ms"] == [20.0, 22.0]
        assert found["p50Ratio"][0] == pytest.approx(1.1)
        assert (found["n"], found["asked"]) == (4, 3)
        assert found["extraMs"][0] == pytest.approx(2.0)

    def test_a_long_file_without_questions_to_the_model_has_no_ratio(self) -> None:
        found = report.long_file(pairs(from_memory=(1.0, 3.0)))
        assert found is not None
        assert found["p50Ratio"] is None

    def test_two_servers_are_each_set_against_themselves_alone(self) -> None:
        first = pairs((10.0, 15.0), (20.0, 30.0), from_memory=(1.0, 1.0))
        found = report.two([first, pairs((20.0, 20.0), (20.0, 20.0), (20.0, 90.0))])
        assert found is not None
        assert [one["p50Ratio"][0] for one in found["servers"]] == [1.5, 1.0]

    def test_pairs_that_did_not_do_the_same_work_are_counted(self) -> None:
        def pair(**changes: int) -> PeerReading:
            values = {"prompt": 200, "generated": 4, "theirs": 4} | changes
            return PeerReading(
                place=Place.KEYSTROKE,
                wall_ms=90.0,
                evaluated=6,
                generated=values["generated"],
                predicted=4,
                prompt_tokens=200,
                peer=PeerAnswer(100.0, values["prompt"], 5, values["theirs"]),
            )

        readings = [pair(), pair(prompt=201), pair(generated=3), pair(theirs=9)]
        found = report.against_peer({"build": "b1"}, readings)
        assert found is not None
        assert found["build"] == "b1"
        assert found["p50Ratio"][0] == pytest.approx(0.9)
        assert found["places"]["keystroke"]["n"] == 4
        assert found["places"]["keystroke"]["medianOfRatios"][0] == pytest.approx(0.9)
        assert found["otherPromptLength"] == 1
        assert found["otherAnswerLength"] == 1
        assert found["otherPeerAnswerLength"] == 1


def test_the_table_shows_what_was_measured_and_says_what_was_not() -> None:
    readings = [reading(place) for place in Place for _ in range(3)] + [FROM_MEMORY]
    document = {
        **dict.fromkeys(("cancel", "longFile", "two", "idle", "peer", "beside", "summaries", "stopped")),
        "typingOn": report.typing_on([Burst(20, 3000.0, 900.0, 450), Burst(1, 0.0, 3000.0, 1500)] * 3),
        "model": "a-model",
        "quantisation": "Q4",
        "engine": "an engine",
        "threads": 2,
        "machine": {"processors": 4},
        "startMs": 1500.0,
        "steps": len(readings),
        "latencyMs": report.latencies(readings),
        "answers": report.answers(readings),
        "faults": {"typedAlong": 12, "changed": 1, "repeatsRest": 2, "repeatsNext": 3},
        "tokens": {place.value: report.tokens(readings, place) for place in Place},
        "newLines": report.new_lines([reading(place=Place.NEWLINE, tail=20)]),
        "ahead": {"tokens": 321, "ms": 4321.0},
        "overhead": report.overhead(readings),
        "speed": report.speed(readings),
        "notMeasured": {"peer": "nobody asked"},
    }
    out = io.StringIO()
    print_report(document, Console(file=out, width=160, highlight=False))
    text = out.getvalue()
    assert "a-model" in text
    assert "1 of 12 suggestions" in text
    assert "keystroke" in text
    assert "6 / 2" in text
    assert "1 of 1. Evaluated ahead in pauses: 321 tokens, 4321 ms." in text
    assert "900 [900, 900] ms after the last key" in text
    assert "70 % of that time was used." in text
    assert "1.111 [1.111, 1.111]" in text
    assert "Not measured: peer: nobody asked." in text


def test_what_was_used_of_the_time_spent_typing_is_what_the_answer_came_sooner() -> None:
    bursts = [
        Burst(20, typed_ms=2000.0, then_ms=3500.0, then_tokens=1050),
        Burst(1, typed_ms=0.0, then_ms=5000.0, then_tokens=1500),
    ]
    found = report.typing_on(bursts * 3)
    assert found is not None
    assert found["shareUsed"] == pytest.approx(0.75)
    assert found["keys"] == 20
    assert found["thenMs"]["p50"][0] == 3500
    assert found["thenTokens"]["p50"][0] == 1050
    assert found["atOnceTokens"]["p50"][0] == 1500
    assert report.typing_on([]) is None


def test_new_lines_within_their_line_and_the_text_below_are_counted() -> None:
    within = [reading(place=Place.NEWLINE, evaluated=n, tail=20) for n in (5, 20, 22)]
    beyond = reading(place=Place.NEWLINE, evaluated=23, tail=20)
    others = [reading(evaluated=500), reading(place=Place.NEWLINE), attrs.evolve(FROM_MEMORY, tail=9)]
    assert report.new_lines([*within, beyond, *others]) == {"n": 4, "within": 3}
    assert report.new_lines(others) is None


TIMES = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40)
TOKENS = st.lists(st.integers(0, 5), max_size=30)


class TestSpreads:
    @given(TIMES)
    def test_percentiles_are_those_of_the_readings_and_within_their_intervals(
        self, times: list[float]
    ) -> None:
        found = spread_of(times)
        assert found is not None
        assert found["n"] == len(times)
        for percent in (50, 95):
            value = percentile(times, percent)
            assert value is not None
            assert value[0] == pytest.approx(np.percentile(times, percent), abs=1e-3)
            assert found[f"p{percent}"] == value
            if len(times) < 3:
                assert value[1:] == [None, None]
            else:
                assert value[1] is not None
                assert value[2] is not None
                assert min(times) - 1e-3 <= value[1] <= value[2] <= max(times) + 1e-3

    def test_without_readings_there_is_nothing(self) -> None:
        assert spread_of([]) is None
        assert median_ratio([]) is None
        assert median_ratio([(1.0, 0.0)]) is None
        assert ratio_of_percentiles([], 50) is None
        assert ratio_of_percentiles([(1.0, 0.0)] * 5, 50) is None

    def test_the_interval_of_the_median_holds_the_truth_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(1)
        held = 0
        for _ in range(200):
            found = percentile(list(rng.lognormal(3, 0.6, size=60)), 50)
            assert found is not None
            assert found[1] is not None
            assert found[2] is not None
            held += found[1] <= np.exp(3) <= found[2]
        assert 0.85 <= held / 200 <= 1.0

    def test_readings_that_hang_together_make_wider_intervals(self) -> None:
        rng = np.random.default_rng(2)
        wide, narrow = [], []
        for _ in range(40):
            slow = np.repeat(rng.normal(100, 10, size=25), 8)
            for times, into in ((slow, wide), (rng.permutation(slow), narrow)):
                found = percentile(list(times), 50)
                assert found is not None
                assert found[1] is not None
                assert found[2] is not None
                into.append(found[2] - found[1])
        assert np.median(wide) > 1.2 * np.median(narrow)


class TestRatios:
    @given(TIMES, st.floats(0.1, 10))
    def test_a_constant_factor_is_found_exactly(self, times: list[float], factor: float) -> None:
        pairs = [(factor * time, time) for time in times]
        for found in (
            median_ratio(pairs),
            ratio_of_percentiles(pairs, 50),
            ratio_of_percentiles(pairs, 95),
        ):
            assert found is not None
            assert found[0] == pytest.approx(factor, abs=1e-3)

    def test_pairs_are_drawn_together(self) -> None:
        rng = np.random.default_rng(3)
        times = rng.lognormal(3, 1.5, size=80)
        found = ratio_of_percentiles([(2 * time, time) for time in times], 50)
        apart = ratio_of_percentiles(list(zip(2 * times, rng.permutation(times), strict=True)), 50)
        assert found is not None
        assert apart is not None
        assert found[1] == pytest.approx(2)
        assert found[2] == pytest.approx(2)
        assert apart[1] is not None
        assert apart[1] < 1.9

    def test_a_ratio_to_nothing_is_left_out(self) -> None:
        found = median_ratio([(1.0, 0.0), (3.0, 1.0)])
        assert found is not None
        assert found[0] == 3


class TestResamples:
    @given(st.integers(1, 200))
    def test_they_are_runs_of_consecutive_readings(self, n: int) -> None:
        drawn = resamples(n, np.random.default_rng(0), 50)
        assert drawn.shape == (50, n)
        assert drawn.min() >= 0
        assert drawn.max() < n
        length = max(round(n ** (1 / 3)), 1)
        for first in range(0, n - length + 1, length):
            run = drawn[:, first : first + length]
            assert (np.diff(run, axis=1) % n == 1 % n).all()

    def test_every_reading_is_drawn_as_often_as_any_other(self) -> None:
        counts = np.bincount(resamples(10, np.random.default_rng(0), 5000).ravel())
        assert counts.min() > 0.9 * counts.max()


class TestTokensNeeded:
    @given(TOKENS, st.lists(st.integers(10, 15), min_size=1, max_size=6), TOKENS)
    def test_what_is_put_in_is_what_is_needed(self, head: list[int], new: list[int], tail: list[int]) -> None:
        assert tokens_needed(head + tail, head + new + tail) == len(new)

    @given(TOKENS, TOKENS)
    def test_it_is_between_one_and_the_whole_prompt(self, before: list[int], after: list[int]) -> None:
        needed = tokens_needed(before, after)
        assert max(1, len(after) - len(before)) <= needed <= max(1, len(after))

    @given(TOKENS)
    def test_the_last_token_is_always_evaluated(self, tokens: list[int]) -> None:
        assert tokens_needed(tokens, tokens) == 1

    def test_text_below_a_change_is_not_needed_again(self) -> None:
        above, below = list(range(100, 150)), list(range(200, 260))
        assert tokens_needed([1, *above, 2, *below, 3], [1, *above, 7, 8, 2, *below, 3]) == 2


SCENES = scenes(load_trace())


def asked(key: int, ms: float, at: float = 0.0, generated: int = 5) -> Asked:
    return Asked(key, at, ms, 4, generated)


def quiet(count: int = 60, keys: int = 12) -> list[Asked]:
    """Each key takes its own time."""
    return [asked(at % keys, 100.0 + 10 * (at % keys), 0.2 * at) for at in range(count)]


def slower(by: float | Callable[[int], float], count: int = 60) -> list[Asked]:
    factor = by if callable(by) else lambda _: by
    return [asked(one.key, factor(at) * one.ms, 0.5 * at) for at, one in enumerate(quiet(count))]


def found(run: Run, before: list[Asked] | None = None) -> dict[str, Any]:
    document = beside(Beside(1, 12, quiet() if before is None else before, [run]))
    assert document is not None
    result: dict[str, Any] = document[run.how.value]
    return result


class TestFigures:
    def test_a_constant_factor_is_found_exactly(self) -> None:
        result = found(Run(How.EQUAL, slower(2.5), [], 0.9, False))
        for name in ("p50Ratio", "p95Ratio", "medianOfRatios"):
            assert result[name] == pytest.approx([2.5, 2.5, 2.5])
        assert result["worstRatio"] == 2.5
        assert (result["n"], result["unequal"]) == (60, 0)
        assert (result["busyShare"], result["sameSession"]) == (0.9, False)
        assert result["after"] is None

    def test_the_first_ten_are_told_apart(self) -> None:
        result = found(Run(How.EQUAL, slower(lambda at: 20.0 if at < 3 else 2.0), [], None, None))
        assert result["first"]["n"] == 10
        assert result["first"]["worstRatio"] == 20
        assert result["first"]["medianOfRatios"][0] == 2
        assert result["medianOfRatios"][0] == 2
        assert result["worstRatio"] == 20

    def test_a_run_that_was_stopped_is_set_against_the_same_keys(self) -> None:
        # The keys take longer and longer: against all of the quiet ones, the first of them would be too fast.
        rising = [asked(at, 100.0 * (at + 1)) for at in range(60)]
        run = Run(How.NICE, [asked(at, 150.0 * (at + 1)) for at in range(7)], [], None, True)
        result = found(run, rising)
        assert result["n"] == 7
        assert result["p50Ratio"][0] == pytest.approx(1.5)

    def test_pairs_that_did_other_work_are_left_out_and_counted(self) -> None:
        readings = slower(2.0)
        readings[4] = asked(readings[4].key, 5000.0, generated=60)
        result = found(Run(How.EQUAL, readings, [], None, None))
        assert (result["n"], result["unequal"]) == (59, 1)
        assert result["worstRatio"] == 2
        assert result["first"]["n"] == 9

    def test_without_a_run_there_is_the_quiet_machine_alone(self) -> None:
        document = beside(Beside(1, 12, quiet(9)))
        assert document is not None
        assert document["quietMs"]["n"] == 9
        assert document["equalShare"] is document["niceSameSession"] is None

    def test_without_a_reading_there_is_nothing(self) -> None:
        assert beside(Beside(processes=1)) is None
        document = beside(Beside(1, 12, quiet(3), [Run(How.EQUAL)]))
        assert document is not None
        assert document["equalShare"] is None


class TestAfterwards:
    def test_each_window_has_the_ratios_of_its_seconds(self) -> None:
        readings = [asked(at % 12, 2 * (100.0 + 10 * (at % 12)), at * 0.5) for at in range(10)]
        readings += [asked(at % 12, 100.0 + 10 * (at % 12), at * 0.5) for at in range(10, 24)]
        result = after(quiet(), readings)
        assert result is not None
        assert result["seconds0To5"] == {"n": 10, "medianOfRatios": [2.0, 2.0, 2.0]}
        assert result["seconds5To10"] == {"n": 10, "medianOfRatios": [1.0, 1.0, 1.0]}
        # The first of five of which three are as fast as before.
        assert result["backAfterS"] == 4.0

    def test_it_is_back_at_once_or_never(self) -> None:
        assert back_after([(0.1 * at, BACK) for at in range(5)]) == 0.0
        assert back_after([(0.1 * at, BACK) for at in range(4)]) is None
        assert back_after([(0.1 * at, 1.2) for at in range(40)]) is None
        # One fast reading among slow ones is chance.
        assert back_after([(0.1 * at, 1.0 if at % 4 == 0 else 2.0) for at in range(40)]) is None

    def test_a_key_that_was_not_typed_before_says_nothing(self) -> None:
        assert after(quiet(3), [asked(11, 100.0)]) is None


def test_the_words_hold_the_figures() -> None:
    run = Run(How.NICE, slower(1.5), [asked(0, 100.0, 0.3 * at) for at in range(30)], 0.5, False)
    document = beside(Beside(2, 12, quiet(), [run]))
    assert document is not None
    lines = "\n".join(beside_lines(document))
    out = io.StringIO()
    Console(file=out, width=400, highlight=False).print(lines)
    text = out.getvalue()
    assert "Beside 2 processes at nice 19 in the model's session" in text
    assert "p50 ratio 1.50 [1.50, 1.50]" in text
    assert "(60 pairs)" in text
    assert "The first 10 of them" in text
    assert "back to 1.1 after 0.0 s" in text
    assert "They were not in the model's session." in text


class TestKeys:
    @pytest.mark.parametrize("edit", SCENES, ids=lambda edit: edit.name)
    def test_they_are_typed_in_one_line(self, edit: Any) -> None:
        assert len(edit.steps) == SCOUTED
        assert {step.start[0] for step in edit.steps} == {edit.steps[0].start[0]}
        line = line_before_each(edit)
        for before, step, then in zip(line, edit.steps, line[1:], strict=False):
            assert before[: step.start[1]] + step.text + before[step.end[1] :] == then

    def test_there_are_enough_of_them(self) -> None:
        assert len(SCENES) == 3

    @pytest.mark.parametrize("card", load_cards().values(), ids=lambda card: card.name)
    def test_the_last_line_of_the_document_is_shown_to_no_model(self, card: Any) -> None:
        # It is changed before each key, so that an answer cannot come from memory.
        for edit in SCENES:
            lines, (at, column) = list(edit.before), edit.steps[0].cursor
            other = [*lines[:-1], "visits = 1"]
            before, then = Cursor(lines, at, column, "python"), Cursor(other, at, column, "python")
            assert build_prompt(before, Layout.of(card)) == build_prompt(then, Layout.of(card))

    def test_those_with_short_answers_are_taken(self) -> None:
        tried = [(generated, (0, at)) for at, generated in enumerate([30, 5, 0, 3, 8, 9, 1, 2, 6, 5])]
        assert chosen(tried) == [(0, 1), (0, 3), (0, 4), (0, 7), (0, 8), (0, 9)]

    def test_where_few_are_short_the_shortest_are_taken(self) -> None:
        tried = [(generated, (0, at)) for at, generated in enumerate([30, 20, 0, 3])]
        assert chosen(tried) == [(0, 0), (0, 1), (0, 3)]
        assert chosen([(0, (0, 0))]) == []
