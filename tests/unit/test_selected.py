"""Suggestions on the wire, and those that go on from the item selected in a completion menu."""

from __future__ import annotations

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion, Selected
from lsp_calib.values import Evidence, ModelIdentity, utf16_units

texts = st.text("ab😀 .", max_size=5)


@given(texts, texts, texts, texts, texts, texts.filter(bool), st.integers(0, 5))
def test_the_line_becomes_what_it_would_with_the_item_and_the_suggestion(
    start: str, typed: str, rest: str, end: str, item: str, text: str, back: int
) -> None:
    """The cursor stands in what the item replaces, between `typed` and `rest`."""
    line = start + typed + rest + end
    cursor = Cursor.at(["above", line, "below"], 1, len(start + typed), "python")
    selected = Selected.at(cursor, len(start), len(start + typed + rest), item)
    assert selected is not None
    assert selected.cursor.before == start + item
    assert selected.cursor.after == end
    assert item.endswith(selected.lead)
    asked = selected.cursor.without_before(len(selected.lead))
    begun = item.removesuffix(selected.lead)
    assert (asked.before, asked.after) == (start + begun, end)
    assert typed.startswith(begun)
    assert not selected.lead or typed == begun or typed[len(begun)] != selected.lead[0]
    text = selected.lead + text
    doubt = (min(back, len(text) - 1), len(text))
    shown = attrs.evolve(suggestion(text), doubt=doubt)
    made = Completion(shown, asked, Evidence(), ModelIdentity("m", "", ""), "p")
    found = selected.extended(made)
    assert found is not None
    assert found.present_line == line
    assert found.expected_line == made.expected_line == start + begun + text + end
    assert found.suggestion.text == begun + text
    assert found.suggestion.text.startswith(item)
    assert found.suggestion.doubt is not None
    assert found.suggestion.text[slice(*found.suggestion.doubt)] == text[slice(*doubt)]
    assert found.cursor.column == len(start)


def test_what_does_not_begin_with_the_item_is_not_offered_beside_it() -> None:
    cursor = Cursor.at(["os.pa"], 0, 5, "python")
    selected = Selected.at(cursor, 3, 5, "path")
    assert selected is not None
    made = Completion(suggestion("rdir"), cursor, Evidence(), ModelIdentity("m", "", ""), "p")
    assert selected.extended(made) is None


def test_an_item_that_nothing_can_go_on_from() -> None:
    cursor = Cursor.at(["abc"], 0, 2, "python")
    for start, end, item in ((0, 2, "a\nb"), (0, 1, "a"), (3, 3, "a"), (0, 4, "a")):
        assert Selected.at(cursor, start, end, item) is None


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf16_units_are_those_of_the_encoding(text: str) -> None:
    assert utf16_units(text) == len(text.encode("utf-16-le")) // 2


@given(st.floats(0, 1), st.floats(0, 1))
def test_probabilities_are_sent_as_they_are(calibrated: float, raw: float) -> None:
    """Rounded, they could not be compared with those of the library."""
    one = suggestion("x")
    one = attrs.evolve(one, confidence=attrs.evolve(one.confidence, calibrated=calibrated, raw=raw))
    assert (one.to_wire()["confidence"], one.to_wire()["rawConfidence"]) == (calibrated, raw)


@pytest.mark.parametrize(
    ("text", "doubt", "sent"),
    [
        ("f(x)", (2, 3), {"start": 2, "end": 3}),
        ("'🐍' + name", (6, 10), {"start": 7, "end": 11}),
        ("é🐍🐍", (1, 3), {"start": 1, "end": 5}),
        ("f(x)", None, None),
    ],
)
def test_the_doubtful_span_counts_as_editors_do(
    text: str, doubt: tuple[int, int] | None, sent: dict[str, int] | None
) -> None:
    assert attrs.evolve(suggestion(text), doubt=doubt).to_wire()["doubt"] == sent
