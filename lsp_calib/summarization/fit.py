"""How a summary fits its function and what is known of similar ones, by the states of a sentence encoder.

Cosine, and greedy matching. Pure, given the encoder.

Reference-free: none of these numbers needs the sentence that a person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.errors import DataError
from lsp_calib.summarization.examples import Example, likeness, terms_of
from lsp_calib.syntax import Function

_CAMEL = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")


@attrs.frozen(eq=False)
class TokenStates:
    """A text as an encoder sees it.

    states: float array of shape (tokens, dimensions), special tokens included.
    special: bool array of shape (tokens,): the marks of beginning and end that no text has.
    """

    states: FloatArray
    special: BoolArray

    @property
    def words(self) -> FloatArray:
        """The states of the text's own tokens, shape (n, dimensions)."""
        return self.states[~self.special]


@attrs.frozen
class Match:
    """precision: how well the candidate's tokens are found in the reference; recall: the other way round.

    Both are mean cosines, in [-1, 1].
    """

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where one of them is not positive."""
        if self.precision <= 0.0 or self.recall <= 0.0:
            return 0.0
        return 2.0 * self.precision * self.recall / (self.precision + self.recall)


def plain_words(text: str) -> str:
    """The words of a text in lower case, identifiers split into theirs, without punctuation.

    That is the form of the summaries that people rated (Haque et al. 2022, from FunCom's data), so the
    thresholds found there hold for texts in this form.

    >>> plain_words("Return `maxSize`, or -1 if there's no HTTPServer.")
    'return max size or 1 if there s no http server'
    """
    return " ".join(_WORD.findall(_CAMEL.sub(" ", text))).lower()


def cosine(candidate: TokenStates, reference: TokenStates) -> float:
    """The cosine between the means of two texts' states, special tokens included; in [-1, 1].

    That is how all-MiniLM-L6-v2 was trained to be used. 0 if one of the means is 0.
    Source: Reimers & Gurevych 2019 (Sentence-BERT), mean pooling.
    """
    one, two = (_unit(text.states.mean(axis=0, keepdims=True)) for text in (candidate, reference))
    return float(np.clip(one[0] @ two[0], -1.0, 1.0))


def greedy_match(candidate: npt.ArrayLike, reference: npt.ArrayLike) -> Match:
    """Each token is matched with the most similar one of the other text, by cosine; the means are the scores.

    candidate, reference: float arrays of shape (n, dimensions) and (m, dimensions): states of tokens. Give
    those of the texts' own tokens (`TokenStates.words`), punctuation included if there is any, and special
    tokens left out. All tokens weigh the same: there are no inverse document frequencies, and nothing is
    rescaled against a baseline.
    Returns scores of 0 if one of the texts has no token. Raises DataError on other shapes.
    Source: Zhang et al. 2020, BERTScore, section 3 (there, special tokens weigh nothing as well).
    """
    a, b = np.asarray(candidate, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise DataError(f"States must have shape (tokens, dimensions); theirs are {a.shape} and {b.shape}.")
    if not a.size or not b.size:
        return Match(0.0, 0.0)
    similar = np.clip(_unit(a) @ _unit(b).T, -1.0, 1.0)
    return Match(float(similar.max(axis=1).mean()), float(similar.max(axis=0).mean()))


def _unit(rows: FloatArray) -> FloatArray:
    """The rows with length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = rows / np.where(lengths > 0.0, lengths, 1.0)
    return unit


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
