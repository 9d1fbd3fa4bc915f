"""How a summary fits its function and what is known of similar ones, by a sentence encoder. Pure, given it.

Reference-free: none of these numbers needs the sentence that a person wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lsp_calib.summarization.examples import Example, likeness, terms_of
from lsp_calib.summarization.similarity import TokenStates, cosine, greedy_match, plain_words
from lsp_calib.syntax import Function

NAMES = (
    "neighbours-cosine-max",
    "neighbours-cosine-mean",
    "neighbours-f1-max",
    "neighbours-agree",
    "code-neighbours-cosine-max",
    "bm25-max",
    "bm25-mean",
    "likeness-max",
    "code-cosine",
    "code-precision",
    "code-recall",
    "code-f1",
    "name-cosine",
    "name-recall",
)
"""The features, in the order of records.

neighbours-...: similarity of the summary to the sentences of the examples in its prompt; neighbours-agree:
mean cosine of these sentences among each other. code-neighbours-cosine-max: of the function's words to their
sentences. bm25-max, -mean: what BM25 says of the examples, over what it says of the function itself.
likeness-max: the most words in common with the code of one. code-...: similarity of the summary to the words
of the code, with the summary as the candidate. name-...: to the words of the function's name.
"""


class Encodes(Protocol):
    """What is needed of an encoder."""

    def encode(self, text: str) -> TokenStates:
        """The states of the tokens of a text in the form of `plain_words`."""
        ...


def fit_features(
    encoder: Encodes,
    summary: str,
    function: Function,
    examples: Sequence[Example],
    scores: Sequence[float] = (),
) -> dict[str, float]:
    """The features of a summary, by the names in `NAMES`; one that cannot be had is missing.

    summary: not empty. examples: of its prompt, the best first. scores: of BM25 for each, over that of the
    function itself; empty if unknown. Code beyond what the encoder takes at once is left out.
    """
    told = _states(encoder, summary)
    code = _states(encoder, function.code)
    name = _states(encoder, function.name)
    values: dict[str, float] = {}
    if told is None:
        return values
    sentences = [states for one in examples if (states := _states(encoder, one.sentence)) is not None]
    if sentences:
        near = [cosine(told, one) for one in sentences]
        values["neighbours-cosine-max"] = max(near)
        values["neighbours-cosine-mean"] = sum(near) / len(near)
        values["neighbours-f1-max"] = max(greedy_match(told.words, one.words).f1 for one in sentences)
        if code is not None:
            values["code-neighbours-cosine-max"] = max(cosine(code, one) for one in sentences)
    if len(sentences) > 1:
        values["neighbours-agree"] = mean_cosine(sentences)
    if scores:
        values |= {"bm25-max": max(scores), "bm25-mean": sum(scores) / len(scores)}
    if examples:
        own = terms_of(function.code)
        values["likeness-max"] = max(likeness(own, terms_of(one.code)) for one in examples)
    if code is not None:
        match = greedy_match(told.words, code.words)
        values |= {"code-cosine": cosine(told, code), "code-f1": match.f1}
        values |= {"code-precision": match.precision, "code-recall": match.recall}
    if name is not None:
        values |= {
            "name-cosine": cosine(told, name),
            "name-recall": greedy_match(told.words, name.words).recall,
        }
    return values


def mean_cosine(texts: Sequence[TokenStates]) -> float:
    """The mean over all pairs of two or more texts, in [-1, 1]."""
    pairs = [cosine(one, other) for at, one in enumerate(texts) for other in texts[:at]]
    return sum(pairs) / len(pairs)


def _states(encoder: Encodes, text: str) -> TokenStates | None:
    """None for a text without a word."""
    return encoder.encode(text) if plain_words(text) else None
