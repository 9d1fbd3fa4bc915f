"""The tier of a summary in a sentence: what it says agrees with the number."""

from __future__ import annotations

import re

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.summarization.wording import tier_sentence
from lsp_calib.values import CalibratorRef, Confidence

CONFIDENCE: Confidence = suggestion("x").confidence


def sentence(probability: float | None, n: int = 812) -> str:
    ref = CalibratorRef("c", "shipped" if n else "prior", "shipped", n)
    return tier_sentence(
        attrs.evolve(CONFIDENCE, calibrated=probability, calibrator=ref, reason="no labels yet")
    )


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.53, "about 5 in 10 summaries like this match what a person wrote (812 checked)"),
        (0.02, "fewer than 1 in 20 summaries like this match what a person wrote (812 checked)"),
        (0.99, "more than 19 in 20 summaries like this match what a person wrote (812 checked)"),
        (None, "no labels yet"),
    ],
)
def test_the_sentence(probability: float | None, words: str) -> None:
    assert sentence(probability) == words


def test_without_labels_in_the_language_it_is_a_guess() -> None:
    assert "a guess" in sentence(0.5, n=0)
    assert "checked" not in sentence(0.5, n=0)


@given(st.floats(0, 1))
def test_the_share_is_the_probability_rounded(probability: float) -> None:
    found = re.match(r"(about|fewer than|more than) (\d+) in (\d+) ", sentence(probability))
    assert found is not None
    share = int(found[2]) / int(found[3])
    assert {
        "about": abs(share - probability) <= 0.05 + 1e-9,
        "fewer than": probability <= share,
        "more than": probability >= share,
    }[found[1]]
