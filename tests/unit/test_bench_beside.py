"""Beside busy processes: which keys are typed, and what is made of the readings."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench.comparisons import (
    SCOUTED,
    Asked,
    Beside,
    How,
    Run,
    chosen,
    line_before_each,
    scenes,
)
from lsp_calib.tools.bench.report import BACK, after, back_after, beside
from lsp_calib.tools.bench.table import _beside as beside_lines
from lsp_calib.tools.bench.trace import load_trace

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
