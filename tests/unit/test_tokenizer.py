"""A text is tokenised as if nothing were remembered, and mostly from memory."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsp_calib
from lsp_calib.inference.local.native import Tokenizer


class Words:
    """A tokeniser that splits into words first, as byte-pair encoding does; counts the bytes it saw."""

    def __init__(self, pattern: bytes = rb"\w+|\s+|[^\w\s]+") -> None:
        self.pattern = re.compile(pattern, re.ASCII)
        self.seen = 0

    def __call__(self, text: bytes, control: bool) -> tuple[int, ...]:
        self.seen += len(text)
        return tuple(hash((word, control)) for word in self.pattern.findall(text))


line = st.sampled_from(["value = 1", "    return x", "", "# a comment's end.", "x\r", "é", "\tif y:", "  "])
text = st.lists(line, max_size=200).map("\n".join)


@given(text, text)
def test_the_tokens_are_those_of_the_whole_text(first: str, more: str) -> None:
    words = Words()
    remembering = Tokenizer(words)
    assert remembering.cuts
    for one in (first, first + more, more + first, first):
        assert remembering(one.encode()) == words(one.encode(), False)
        assert remembering(one.encode(), control=True) == words(one.encode(), True)


@given(text, text)
def test_a_tokeniser_whose_words_cross_line_ends_is_given_whole_texts(first: str, more: str) -> None:
    across = Words(rb"\w+\n\s*|\w+|\s+|[^\w\s]+")
    remembering = Tokenizer(across)
    assert not remembering.cuts
    for one in (first, first + more):
        assert remembering(one.encode()) == across(one.encode(), False)


def test_typing_at_the_end_of_a_text_costs_its_last_piece() -> None:
    words = Words()
    remembering = Tokenizer(words)
    above = b"    value = compute(alpha, beta)\n    total += value\n" * 100
    remembering(above)
    words.seen = 0
    for n in range(20):
        remembering(above + b"    another"[: n % 11])
    assert words.seen < 20 * 1200


def test_what_is_no_part_of_a_window_is_not_kept() -> None:
    words = Words()
    remembering = Tokenizer(words)
    huge = b"value = 1\n" * 10_000
    words.seen = 0
    assert remembering(huge) == remembering(huge)
    assert words.seen == 2 * len(huge)


def test_the_default_models_tokens_are_the_same_with_and_without(model_path: Path) -> None:
    """On every source file of this package."""
    pytest.importorskip("llama_cpp")
    from lsp_calib.inference.backend import Acceleration
    from lsp_calib.inference.local.native import Weights

    weights = Weights(model_path, acceleration=Acceleration(), on_progress=lambda _: None)
    try:
        assert weights.tokenize.cuts
        for path in sorted(Path(lsp_calib.__file__).parent.rglob("*.py")):
            source = path.read_bytes()
            assert weights.tokenize(source) == weights._tokenize(source, False), path
    finally:
        weights.close()
