"""What a summary's confidence follows from: the same in the editor and from records."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.calibrators.calibrator import is_plain, value_of
from lsp_calib.calibration.calibrators.fitting import RECIPES, SUMMARY_RECIPES, recipes_of
from lsp_calib.confidence.features import FEATURES, SUMMARY_FEATURES, SUMMARY_VERSION, summary_features
from lsp_calib.corpus.functions import function_of
from lsp_calib.corpus.item_worker import OBSERVED
from lsp_calib.corpus.records import Header, ObservationList, Record
from lsp_calib.summarization.features import NAMES, text_features
from lsp_calib.summarization.service import evidence_of
from lsp_calib.values import Evidence, Generation, ModelIdentity, Stop, Timing, Token

TIMING = Timing(0, 0, 0.0, 0.0, 0.0)


def test_each_feature_of_the_recipes_is_known_and_none_has_the_name_of_a_lines() -> None:
    for recipe in SUMMARY_RECIPES:
        for name in recipe.features:
            assert is_plain(name) or name in SUMMARY_FEATURES or name in FEATURES
    assert not SUMMARY_FEATURES.keys() & FEATURES.keys()
    assert OBSERVED.version == SUMMARY_VERSION, "other counts than these are left out of a confidence"
    assert recipes_of("summary") == SUMMARY_RECIPES
    assert recipes_of("line") == recipes_of("infill") == RECIPES


@given(
    st.lists(st.floats(-20.0, 0.0), max_size=8),
    st.dictionaries(st.sampled_from(NAMES), st.floats(0.0, 1e5), max_size=20),
)
def test_there_is_what_can_be_had(logprobs: list[float], counted: dict[str, float]) -> None:
    found = summary_features(logprobs, None, Stop.LINE, counted)
    assert (found == {}) == (not logprobs)
    assert all(math.isfinite(value) for value in found.values())
    assert "entropy-mean" not in found
    with_entropies = summary_features(logprobs, [1.0] * len(logprobs), Stop.LINE, counted)
    assert with_entropies.get("entropy-mean", 1.0) == pytest.approx(1.0)
    for name in ("calls", "words"):
        assert (f"log-{name}" in found) == (bool(logprobs) and name in counted)


def test_the_editor_and_the_records_say_the_same() -> None:
    function = function_of("def area(r):\n    return 3.14 * r * r", "python")
    assert function is not None
    sentence = "Compute the area of a circle."
    tokens = tuple(Token(n, -0.25 * n, 0.0, word) for n, word in enumerate(sentence.split()))
    generation = Generation(sentence, tokens, Stop.END_OF_TEXT, TIMING)
    shown = evidence_of(sentence, function, generation, 1000)
    counted = text_features(sentence, function, answer=sentence, ended=True, window=1000)
    record = Record(
        *("r/a.py:area", "r", "function", {"best-f1": True}, True, Stop.END_OF_TEXT.value),
        tokens=tuple(token.id for token in tokens),
        logprobs=tuple(token.logprob for token in tokens),
        typed_logprobs=(0.0,) * len(tokens),
        observed={"text": tuple(counted.values())},
    )
    header = Header("summary", "python", ModelIdentity("m", "", "0" * 64), "v", 0, observations=OBSERVED)
    known: Evidence = record.evidence(header)
    assert known.features == pytest.approx(dict(shown.features))
    for name in SUMMARY_RECIPES[2].features:
        assert name == "entropy-mean" or value_of(name, shown) is not None
    # Numbers of another version are not these.
    older = attrs.evolve(header, observations=ObservationList(OBSERVED.version + 1, OBSERVED.names))
    assert not SUMMARY_FEATURES.keys() & record.evidence(older).features.keys()
