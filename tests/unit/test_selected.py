"""Suggestions that go on from the item selected in a completion menu."""

from __future__ import annotations

import attrs
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion, Selected
from lsp_calib.values import Evidence, ModelIdentity

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
    made = Completion(
        attrs.evolve(suggestion(text), doubt=doubt),
        asked,
        Evidence(),
        ModelIdentity("m", "", ""),
        "p",
    )
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
    assert Selected.at(cursor, 0, 2, "a\nb") is None
    assert Selected.at(cursor, 0, 1, "a") is None
    assert Selected.at(cursor, 3, 3, "a") is None
    assert Selected.at(cursor, 0, 4, "a") is None
