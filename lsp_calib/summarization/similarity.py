"""How similar two texts are, from the states of their tokens: cosine, and greedy matching. Pure."""

from __future__ import annotations

import re

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.errors import DataError

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
