"""The suggestion object on the wire."""

from __future__ import annotations

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.values import utf16_units

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
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
