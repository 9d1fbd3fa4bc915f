"""The bench's report counts what it says it counts."""

from __future__ import annotations

import io

import attrs
import pytest
from rich.console import Console

from lsp_calib.tools.bench import report
from lsp_calib.tools.bench.comparisons import Pairs, PeerAnswer, PeerReading
from lsp_calib.tools.bench.processes import Replayed
from lsp_calib.tools.bench.table import print_report
from lsp_calib.tools.bench.typist import Counts, Place, Reading
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
