"""Features of a summary's text and of its fit: the same in the editor and from records."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_eval_summary import WordEncoder

from lsp_calib.calibration.calibrators.calibrator import is_plain, value_of
from lsp_calib.calibration.calibrators.fitting import RECIPES, SUMMARY_RECIPES, recipes_of
from lsp_calib.confidence.features import FEATURES, SUMMARY_FEATURES, SUMMARY_VERSION, summary_features
from lsp_calib.corpus.functions import SummaryItem, function_of
from lsp_calib.corpus.item_worker import OBSERVED
from lsp_calib.corpus.records import Header, ObservationList, Record
from lsp_calib.summarization import features
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.features import FIT_NAMES, NAMES, fit_with_examples, text_features
from lsp_calib.summarization.service import evidence_of
from lsp_calib.syntax import Function
from lsp_calib.values import Evidence, Generation, ModelIdentity, Stop, Timing, Token

SHARES = {
    *("repeated", "ended", "cut-off", "hidden-code", "name-vague"),
    *("code-in-summary", "summary-in-code", "name-in-summary"),
}
CODE = """def read_rows(self, path: str, *, limit=(1, 2)):
    if not path and limit:
        return []
    for row in open(path):
        yield self.parse(row)
"""


def function(code: str, name: str) -> Function:
    return Function(name, 0, 1, code.count("\n") + 1, 1, None, code)


def of(summary: str, code: str = CODE, name: str = "read_rows", **options: object) -> dict[str, float]:
    known = {"answer": summary, "ended": True, "window": 1600, **options}
    return features.text_features(summary, function(code, name), **known)  # type: ignore[arg-type]


@given(st.text(max_size=200), st.text(max_size=400), st.text(max_size=30), st.text(max_size=200))
def test_any_text_has_all_features_in_their_ranges(summary: str, code: str, name: str, answer: str) -> None:
    found = of(summary, code, name, answer=answer, ended=False, window=100)
    assert tuple(found) == features.NAMES
    for key, value in found.items():
        assert math.isfinite(value)
        assert 0.0 <= value <= (1.0 if key in SHARES else math.inf), key


def test_a_summary_that_says_what_the_code_does() -> None:
    found = of("Reads the rows of a path, and parses each row.")
    assert found["words"] == 10
    assert found["repeated"] == 0.0, "rows and row are two words"
    assert (found["calls"], found["branches"], found["parameters"]) == (2, 2, 2)
    assert (found["name-words"], found["name-vague"]) == (2, 0.0)
    assert found["name-in-summary"] == 1.0
    assert found["summary-in-code"] == 1.0, "endings do not matter: read, row, path, pars"
    assert 0.0 < found["code-in-summary"] < 1.0
    assert (found["ended"], found["cut-off"], found["hidden-code"]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("summary", "beyond"),
    [
        ("Read rows.", 0),
        ("The read_rows function is a wrapper for read_rows that uses read_rows to read the rows.", 0),
        ("This method is used to read the specified rows.", 0),
        ("Reads the rows of a path.", 1),
        ("Reads the rows of a path, and parses each row of the path.", 2),
    ],
)
def test_words_beyond_the_name_are_counted_once_and_without_filling(summary: str, beyond: int) -> None:
    assert of(summary)["beyond-name"] == beyond


def test_what_was_cut_repeats_and_says_nothing() -> None:
    found = of("get the thing the thing", "x = 1", "doIt", answer="get the thing the thing. More", window=2)
    assert found["repeated"] == pytest.approx(0.4)
    assert found["cut-off"] == pytest.approx(6 / 29)
    assert found["hidden-code"] == pytest.approx(0.6)
    assert found["name-vague"] == 1.0
    assert (found["parameters"], found["calls"]) == (0, 0)


@pytest.mark.parametrize(
    ("code", "name", "number"),
    [
        ("def f():", "f", 0),
        ("def f(self):", "f", 0),
        ("def f(a, b=g(1, 2), *args, **kw):", "f", 4),
        ("def f(a, *, b):", "f", 2),
        ("public Map<String, Integer> of(Map<String, Integer> a, int b) {", "of", 2),
        ("func (s *T) Add(a int, f func(x, y int) int) {", "Add", 2),
        ("fn add(&mut self, a: Vec<u8>) -> u8 {", "add", 1),
        ("const f = (a) => 1", "f", 0),
        ("def f(a, b", "f", 1),
    ],
)
def test_parameters_are_counted_by_sight(code: str, name: str, number: int) -> None:
    assert of("x", code, name)["parameters"] == number


EXAMPLES = (
    Example("a.py", "load", "def load(path):\n    return open(path)", "Read the rows of a file."),
    Example("b.py", "drop", "def drop(x):\n    del x", "Remove it."),
)


def fitting(summary: str, code: str, name: str, *more: tuple[Any, ...]) -> dict[str, float]:
    """more: examples and their scores."""
    item = SummaryItem("1", "g", "a.py", "python", function(code, name), "", *more)
    return fit_with_examples(WordEncoder(), summary, item.function, item.examples, item.scores)


def test_the_fit_is_that_of_the_words_shared() -> None:
    found = fitting("Read the rows of a file.", CODE, "read_rows", EXAMPLES, (0.5, 0.1))
    assert set(found) == set(FIT_NAMES)
    assert found["neighbours-cosine-max"] == pytest.approx(1.0)
    assert found["neighbours-f1-max"] == pytest.approx(1.0)
    assert found["neighbours-cosine-mean"] < 0.75
    assert (found["bm25-max"], found["bm25-mean"]) == (0.5, pytest.approx(0.3))
    assert 0.0 < found["likeness-max"] < 1.0
    assert found["name-recall"] == pytest.approx(1.0)
    worse = fitting("Nothing at all", CODE, "read_rows", EXAMPLES)
    assert worse["code-cosine"] < found["code-cosine"]
    assert worse["code-precision"] < found["code-precision"]
    assert "bm25-max" not in worse, "it is unknown"


@given(st.text(max_size=60), st.text(max_size=80), st.text(max_size=20))
def test_the_fit_of_any_text_is_finite_and_what_cannot_be_had_is_missing(
    summary: str, code: str, name: str
) -> None:
    found = fitting(summary, code, name)
    assert set(found) <= set(FIT_NAMES)
    assert all(math.isfinite(value) for value in found.values())
    assert not any(key.startswith(("neighbours", "bm25", "likeness")) for key in found)


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
