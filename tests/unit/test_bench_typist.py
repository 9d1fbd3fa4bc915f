"""Suggestions that change under the cursor, or repeat what is there."""

from __future__ import annotations

import pytest

from lsp_calib.tools.bench.trace import Kind, Step
from lsp_calib.tools.bench.typist import Counts, Shown, before_last_line, repeats_next, repeats_rest
from lsp_calib.values import Prompt, Segment

BEFORE = Shown((0, 4), "foo(1)")


def counted(step: Step, text: str | None, before: Shown | None = BEFORE) -> tuple[int, int]:
    lines = ["x = "]
    cursor = step.apply(lines)
    found = Counts().after(before, step, lines, Shown(cursor, text))
    return found.typed_along, found.changed


def typed(text: str, column: int = 4) -> Step:
    return Step(Kind.TYPE, (0, column), (0, column), text, 100, False)


def test_what_stays_is_typed_along_and_not_changed() -> None:
    assert counted(typed("f"), "oo(1)") == (1, 0)
    assert counted(typed("foo("), "1)") == (1, 0)


@pytest.mark.parametrize("text", ["oo(2)", "oo(1", "foo(1)", "", None])
def test_anything_else_is_a_change(text: str | None) -> None:
    assert counted(typed("f"), text) == (1, 1)


@pytest.mark.parametrize(
    ("step", "before"),
    [
        (typed("g"), BEFORE),
        (typed("foo(1)"), BEFORE),
        (typed("f", column=2), BEFORE),
        (typed("f"), None),
        (typed("f"), Shown((0, 4), None)),
        (Step(Kind.BACKSPACE, (0, 3), (0, 4), "", 100, False), BEFORE),
        (Step(Kind.DELETE, (0, 2), (0, 4), "f", 100, False), BEFORE),
    ],
    ids=["other", "all-of-it", "elsewhere", "first", "nothing-shown", "backspace", "replaced"],
)
def test_what_is_not_typed_along_may_change(step: Step, before: Shown | None) -> None:
    assert counted(step, "anything", before) == (0, 0)


@pytest.mark.parametrize(
    ("line", "column", "text", "repeats"),
    [
        ("f()", 2, "a)", True),
        ("f()", 2, "g(a)", False),
        ("f()", 2, "a", False),
        ("x = y + z", 4, "y + z", True),
        ("x = ", 4, "y", False),
        ("x = [ ]  ", 5, "1]", True),
    ],
)
def test_repeating_the_rest_of_the_line(line: str, column: int, text: str, repeats: bool) -> None:
    assert repeats_rest([line], (0, column), text) is repeats


@pytest.mark.parametrize(
    ("lines", "text", "repeats"),
    [
        (["  ", "", "  return a"], "return a", True),
        (["  ", "  return ab"], "return a", False),
        (["", "", ")"], ")", False),
        (["  return a", "  return a"], "", False),
        (["  "], "return a", False),
    ],
)
def test_repeating_the_next_line(lines: list[str], text: str, repeats: bool) -> None:
    assert repeats_next(lines, (0, len(lines[0])), text) is repeats


def test_the_counts_add_up() -> None:
    lines = ["f()", "f(a)"]
    once = Counts(3, 1, 5, 2).after(None, typed("("), lines, Shown((0, 2), "a)"))
    twice = once.after(None, typed("("), lines, Shown((0, 2), "a"))
    assert twice == Counts(typed_along=3, changed=1, repeats_rest=6, repeats_next=3)


@pytest.mark.parametrize(
    ("segments", "left"),
    [
        ([("control", "<P>"), ("text", "a\nb\n"), ("control", "<S>"), ("text", "below")], "a\n"),
        ([("text", "a\nb\n    return")], "a\n"),
        ([("text", "only\n")], ""),
        ([("text", "")], ""),
    ],
)
def test_what_stood_before_the_line_just_finished(segments: list[tuple[str, str]], left: str) -> None:
    prompt = Prompt(tuple((Segment(kind), text) for kind, text in segments), ".x", "1")
    before = before_last_line(prompt)
    assert before.segments[-1] == (Segment.TEXT, left)
    assert before.segments[:-1] == prompt.segments[: len(before.segments) - 1]
    assert before.forced == ""
