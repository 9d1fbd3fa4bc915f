"""What the text of a summary and its function say about the summary, and how it fits its function by the
states of a sentence encoder: cosine, and greedy matching. Pure, given the encoder.

Cheap numbers that may tell summaries like a person's from others; which of them do is for records to show.
Nothing here parses, so that broken code and any language give numbers; none needs the sentence that a person
wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.summarization.examples import Example, likeness, terms_of, words_of
from lsp_calib.syntax import Function
from lsp_calib.syntax.rules import words as _words

NAMES = (
    "words",
    "characters",
    "repeated",
    "ended",
    "cut-off",
    "code-lines",
    "code-characters",
    "code-words",
    "calls",
    "branches",
    "parameters",
    "hidden-code",
    "name-words",
    "name-vague",
    "code-in-summary",
    "summary-in-code",
    "name-in-summary",
    "beyond-name",
)
"""The features, in the order of records.

words, characters: of the summary. repeated: share of its words that stood in it before. ended: 1 if the
model ended its answer by itself, 0 if it was cut. cut-off: share of the answer after its first sentence.
code-lines, code-characters, code-words: of the function without documentation. calls, branches, parameters:
their numbers, by sight. hidden-code: share of the code beyond what the model saw. name-words: words of the
function's name. name-vague: share of them that are short or say little. code-in-summary: share of the code's
different words that the summary has; summary-in-code: share of the summary's that the code has;
name-in-summary: share of the name's that the summary has. beyond-name: how many different words of the
summary are neither in the function's name nor say little. In these four, words that every text has do not
count, and endings do not matter.
"""


_VAGUE = _words(
    "get set do run main call execute exec process handle perform apply make data value values item items "
    "obj object tmp temp foo bar baz test func function method helper util utils init new impl internal "
    "wrapper thing stuff info manager default base"
)
# Words of a summary that are true of any function.
_FILLING = _words("class code java python program current given specified use used call called allow")
_SHORT = 3
_EVERYWHERE = _words(
    "a an the of to and or in on at by for from with as is are be been it its this that these those if when "
    "into not no all any each one given which will can has have return returns"
)
_KEYWORDS = _words(
    "if for while switch catch return elif else except with assert def func fn function new and or not in "
    "sizeof using lock synchronized when match throw raise yield await typeof super this"
)
_CALL = re.compile(r"([^\W\d]\w*)\s*\(")
_BRANCH = re.compile(
    r"\b(?:if|elif|elsif|unless|for|foreach|while|until|case|when|except|catch|rescue|match|switch)\b|&&|\|\|"
)
_OWN = re.compile(r"&?\s*(?:mut\s+)?(?:self|cls|this)\b")
_OPENING, _CLOSING = "([{<", ")]}>"


def text_features(
    summary: str, function: Function, *, answer: str, ended: bool, window: int
) -> dict[str, float]:
    """The features of a summary, by the names in `NAMES`; all are there.

    summary: the first sentence, as it is shown. answer: all that the model wrote. ended: whether it ended its
    answer by itself. window: characters of the code that it saw.
    """
    words, code = plain_words(summary).split(), function.code
    told, coded = _content(words), _content(words_of(code))
    named = plain_words(function.name).split()
    known = _content((*named, *_VAGUE, *_FILLING))
    whole = " ".join(answer.split())
    values = {
        "words": len(words),
        "characters": len(summary),
        "repeated": 1.0 - len(set(words)) / len(words) if words else 0.0,
        "ended": ended,
        "cut-off": max(len(whole) - len(summary), 0) / len(whole) if whole else 0.0,
        "code-lines": sum(bool(line.strip()) for line in code.split("\n")),
        "code-characters": len(code),
        "code-words": sum(1 for _ in words_of(code)),
        "calls": sum(
            match[1] not in _KEYWORDS and match[1] != function.name for match in _CALL.finditer(code)
        ),
        "branches": len(_BRANCH.findall(code)),
        "parameters": _parameters(code, function.name),
        "hidden-code": max(len(code) - window, 0) / len(code) if code else 0.0,
        "name-words": len(named),
        "name-vague": _share(word in _VAGUE or len(word) < _SHORT for word in named),
        "code-in-summary": _share(word in told for word in coded),
        "summary-in-code": _share(word in coded for word in told),
        "name-in-summary": _share(word in told for word in _content(named)),
        "beyond-name": len(told - known),
    }
    return {name: float(values[name]) for name in NAMES}


def _content(words: Iterable[str]) -> set[str]:
    """The different words without those that every text has, and without endings."""
    return {_stem(word) for word in words if word not in _EVERYWHERE}


def _stem(word: str) -> str:
    """The word without an ending of English, if enough is left.

    >>> [_stem(word) for word in ("parses", "parsed", "parsing", "is", "class")]
    ['pars', 'pars', 'pars', 'is', 'class']
    """
    if word.endswith("ss"):
        return word
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _share(found: Iterable[bool]) -> float:
    values = [*found]
    return sum(values) / len(values) if values else 0.0


def _parameters(code: str, name: str) -> int:
    """How many parameters the first brackets after a function's name hold, its own object aside.

    >>> _parameters("def put(self, key: Map[str, int], *, value=(1, 2)):", "put")
    2
    """
    found = re.search(rf"{re.escape(name)}\s*(?:<[^()]*>)?\s*\(", code) if name else None
    if found is None:
        return 0
    depth, start, parts = 0, found.end(), []
    for at in range(found.end(), len(code)):
        char = code[at]
        if char in _OPENING:
            depth += 1
        elif char in _CLOSING and code[at - 1] not in "-=":  # not an arrow
            depth -= 1
        if depth < 0 or (char == "," and depth == 0):
            parts.append(code[start:at].strip())
            start = at + 1
        if depth < 0:
            break
    return sum(bool(part.strip("*/")) and not _OWN.match(part) for part in parts)


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
    Returns scores of 0 if one of the texts has no token.
    Source: Zhang et al. 2020, BERTScore, section 3 (there, special tokens weigh nothing as well).
    """
    a, b = np.asarray(candidate, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if not a.size or not b.size:
        return Match(0.0, 0.0)
    similar = np.clip(_unit(a) @ _unit(b).T, -1.0, 1.0)
    return Match(float(similar.max(axis=1).mean()), float(similar.max(axis=0).mean()))


def _unit(rows: FloatArray) -> FloatArray:
    """The rows with length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = rows / np.where(lengths > 0.0, lengths, 1.0)
    return unit


class Encodes(Protocol):
    """What is needed of an encoder."""

    def encode(self, text: str) -> TokenStates:
        """The states of the tokens of a text in the form of `plain_words`."""
        ...


def fit_features(
    encoder: Encodes,
    summary: str,
    function: Function,
) -> dict[str, float]:
    """How similar a summary, the candidate, is to the words of the code and of the function's name; what
    cannot be had is missing.

    summary: not empty. Code beyond what the encoder takes at once is left out.
    """
    told = states_of(encoder, summary)
    code = states_of(encoder, function.code)
    name = states_of(encoder, function.name)
    values: dict[str, float] = {}
    if told is None:
        return values
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


def states_of(encoder: Encodes, text: str) -> TokenStates | None:
    """None for a text without a word."""
    return encoder.encode(text) if plain_words(text) else None


FIT_NAMES = (
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
"""How a summary fits its function and what its examples say, in the order of records.

neighbours-...: similarity of the summary to the sentences of the examples in its prompt; neighbours-agree:
mean cosine of these sentences among each other. code-neighbours-cosine-max: of the function's words to their
sentences. bm25-max, -mean: what BM25 says of the examples, over what it says of the function itself.
likeness-max: the most words in common with the code of one. code-...: similarity of the summary to the words
of the code, with the summary as the candidate. name-...: to the words of the function's name.
"""


def fit_with_examples(
    encoder: Encodes,
    summary: str,
    function: Function,
    examples: Sequence[Example] = (),
    scores: Sequence[float] = (),
) -> dict[str, float]:
    """As `fit_features`, with what the examples of the prompt say, by the names in `FIT_NAMES`.

    scores: of BM25 for each example, over the one that the function itself would have; empty if unknown.
    """
    values = fit_features(encoder, summary, function)
    told, code = states_of(encoder, summary), states_of(encoder, function.code)
    if told is None:
        return values
    sentences = [states for one in examples if (states := states_of(encoder, one.sentence)) is not None]
    if sentences:
        near = [cosine(told, one) for one in sentences]
        values["neighbours-cosine-max"] = max(near)
        values["neighbours-cosine-mean"] = sum(near) / len(near)
        values["neighbours-f1-max"] = max(greedy_match(told.words, one.words).f1 for one in sentences)
        if code is not None:
            values["code-neighbours-cosine-max"] = max(cosine(code, one) for one in sentences)
    if len(sentences) > 1:
        values["neighbours-agree"] = _mean_cosine(sentences)
    if scores:
        values |= {"bm25-max": max(scores), "bm25-mean": sum(scores) / len(scores)}
    if examples:
        own = terms_of(function.code)
        values["likeness-max"] = max(likeness(own, terms_of(one.code)) for one in examples)
    return values


def _mean_cosine(texts: Sequence[TokenStates]) -> float:
    """The mean over all pairs of two or more texts, in [-1, 1]."""
    pairs = [cosine(one, other) for at, one in enumerate(texts) for other in texts[:at]]
    return sum(pairs) / len(pairs)
