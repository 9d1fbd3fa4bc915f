"""A suggestion goes on being good while the user types what it says."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion import Completion, Cursor
from lsp_calib.completion.memory import continued
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity, Suggestion, Tier, Timing

line_texts = st.text(st.characters(exclude_characters="\r\n"), max_size=12)
CONFIDENCE = Confidence(
    0.7, 0.8, "total", Tier.REVIEW, "", False, CalibratorRef("c", "prior", "learning", 0), None
)


def completion(cursor: Cursor, text: str) -> Completion:
    suggestion = Suggestion("an-id", "line", text, CONFIDENCE, "m", 3, "model", Timing(1, 2, 3, 4, 5, 6))
    return Completion(suggestion, cursor, Evidence((-0.1, -0.2)), ModelIdentity("m", "Q4", "0" * 64), "v")


def moved(cursor: Cursor, typed: str) -> Cursor:
    lines = list(cursor.lines)
    lines[cursor.line] = cursor.before + typed + cursor.after
    return Cursor.at(lines, cursor.line, cursor.column + len(typed), cursor.language)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    lines = draw(st.lists(line_texts, min_size=1, max_size=5))
    line = draw(st.integers(0, len(lines) - 1))
    cursor = Cursor.at(lines, line, draw(st.integers(0, len(lines[line]))), "python")
    return completion(cursor, draw(line_texts.filter(bool)))


@given(completions(), st.data())
def test_typing_along_leaves_the_same_line_the_same_id_and_the_same_confidence(
    old: Completion, data: st.DataObject
) -> None:
    typed = data.draw(st.integers(0, len(old.suggestion.text) - 1))
    rest = continued(old, moved(old.cursor, old.suggestion.text[:typed]))
    assert rest is not None
    assert rest.expected_line == old.expected_line
    left = old.suggestion.text[typed:]
    assert attrs.evolve(rest.suggestion, doubt=old.suggestion.doubt) == attrs.evolve(
        old.suggestion, text=left, source="memory", timing=Timing()
    )
    assert rest.evidence == old.evidence


@given(completions(), line_texts)
def test_what_is_left_always_makes_the_line_that_was_predicted(old: Completion, typed: str) -> None:
    rest = continued(old, moved(old.cursor, typed))
    if rest is None:
        assert not old.suggestion.text.startswith(typed) or old.suggestion.text == typed
    else:
        assert rest.expected_line == old.expected_line
        assert rest.suggestion.text


@given(completions())
def test_nothing_is_left_once_all_is_typed(old: Completion) -> None:
    assert continued(old, moved(old.cursor, old.suggestion.text)) is None


@pytest.mark.parametrize(
    ("typed", "doubt"), [("", (3, 5)), ("a.", (1, 3)), ("a.b", (0, 2)), ("a.bc", (0, 1)), ("a.bcd", None)]
)
def test_the_span_of_doubt_goes_with_what_is_typed(typed: str, doubt: tuple[int, int] | None) -> None:
    old = completion(Cursor.at(["x = "], 0, 4, "python"), "a.bcd()")
    old = attrs.evolve(old, suggestion=attrs.evolve(old.suggestion, doubt=(3, 5)))
    rest = continued(old, moved(old.cursor, typed))
    assert rest is not None
    assert rest.suggestion.doubt == doubt


OLD = completion(Cursor.at(["above", "x = fo)", "below"], 1, 6, "python"), "o(1")


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor.at(["above", "x = fox)", "below"], 1, 7, "python"),
        Cursor.at(["above", "x = f)", "below"], 1, 5, "python"),
        Cursor.at(["above", "y = fo)", "below"], 1, 6, "python"),
        Cursor.at(["above", "x = foo]", "below"], 1, 7, "python"),
        Cursor.at(["ABOVE", "x = foo)", "below"], 1, 7, "python"),
        Cursor.at(["above", "x = foo)", "BELOW"], 1, 7, "python"),
        Cursor.at(["above", "x = foo)", "below", ""], 1, 7, "python"),
        Cursor.at(["above", "x = foo)", "below"], 1, 7, "plaintext"),
        Cursor.at(["above", "x = foo)", "below"], 1, 5, "python"),
        Cursor.at(["x = foo)", "below"], 0, 7, "python"),
    ],
    ids=[
        "typed-over",
        "deleted",
        "changed",
        "after",
        "above",
        "below",
        "longer",
        "language",
        "back",
        "other-line",
    ],
)
def test_nothing_is_left_once_the_document_went_another_way(cursor: Cursor) -> None:
    assert continued(OLD, Cursor.at(["above", "x = foo)", "below"], 1, 7, "python")) is not None
    assert continued(OLD, cursor) is None
