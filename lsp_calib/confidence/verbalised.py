"""A probability that a model states in words, and the fallback if it states none.

Spiess et al. ask at temperature 1.0, find the number by string matching, ask again up to three times if there
is none, and give up with 0.5. As in the paper, the event that the number is about is ignored: "20 % that it
fails" is read as 20 %.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
# Not within a longer number, a name or a date, and not after a minus sign; "-" after a digit is a range's
# dash.
_START = r"(?<![\w.,/])(?<!(?<!\d)[-−])"
_END = r"(?![\w/]|[.,]\d)"
_UNIT = r"\s*(?:%|％|per\s?cent\b|pct\b)"
# The lower end of a range; "and" joins one only after "between".
_FROM = rf"(?:{_NUMBER}(?:{_UNIT})?\s*(?:[-–—]|to\b)\s*|(?<=between ){_NUMBER}(?:{_UNIT})?\s+and\s+)?"
_PER_CENT = re.compile(rf"{_START}{_FROM}{_NUMBER}{_UNIT}", re.IGNORECASE)
_EVEN = re.compile(r"\b(?:50\s*[-/–]\s*50|fifty[-\s/]fifty)\b(?!\s*%)", re.IGNORECASE)
_RATIO = re.compile(rf"{_START}{_NUMBER}\s*(?:/|\(?\bout\s+of\b|\bin\b)\s*{_NUMBER}{_END}", re.IGNORECASE)
# A number without a unit is a probability only if a word says so and links the number to it.
_CUE_WORDS = (
    r"probabilit\w*|likel\w*|chances?|confiden\w*|certain\w*|sure|say|estimate\w*|odds|rat(?:e|ing)|score"
)
_CUE = re.compile(rf"\b(?:{_CUE_WORDS}|scale|p\s*[(=]|answer(?:\s+is\b|\s*:))", re.IGNORECASE)
_LINK_WORDS = r"is|be|as|at|of|to|it|about|around|approximately|roughly|nearly|almost|between|near"
_LINK = rf"(?:[:=≈~(>]|\b(?:{_CUE_WORDS}|{_LINK_WORDS}))"
_LINKED = re.compile(rf"{_LINK}[^\w.]*{_START}{_FROM}{_NUMBER}{_END}", re.IGNORECASE)
_ALONE = re.compile(rf"{_START}{_FROM}{_NUMBER}{_END}", re.IGNORECASE)
# "From 0 to 100" is the question's scale, not an answer.
_SCALE = re.compile(
    r"(?<![\w.])0(?:\.0+)?\s*%?\s*(?:[-–—]|to|and)\s*(?:100|1(?:\.0+)?)(?!\w|\.\d)\s*%?", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n")
_MARKUP = re.compile(r"[*_`$\\]")


def parse_probability(text: str, *, fractions: bool = True) -> float | None:
    """The probability that an answer states, in [0, 1], or None.

    fractions: whether "0.8", "4/5", "8 out of 10" and "50-50" count. They are our addition; without them only
        percentages count, as in the paper.

    The first of these that the answer holds:
    1. a number of per cent: "80%", "80.00 %", "80 percent"; of a range, "70-80%", the middle;
    2. "fifty-fifty" (0.5), or a ratio: "4/5", "8 out of 10";
    3. a number without unit: with a decimal point and up to 1 a probability ("0.8"), else up to 100 a number
       of per cent ("80"). A bare "1" may be either, and is None.
    2 and 3 count if they are the whole answer, or in a sentence about probability; 3 only if the sentence
    links the number to it: "The 3 tests pass" states none, and "the probability that 3 tests pass is 80"
    states 80. A number that is not a probability, such as "150 %", is skipped.
    Source: Spiess et al. 2024, 3.1.2 (Verbalized Self-Ask).

    >>> [parse_probability(text) for text in ("80%", "80.00%", "The probability is about 80.", "0.8", "4/5")]
    [0.8, 0.8, 0.8, 0.8, 0.8]
    >>> parse_probability("Yes, the code is right.") is None
    True
    """
    plain = _SCALE.sub(" ", _MARKUP.sub("", text))
    for match in _PER_CENT.finditer(plain):
        found = _middle(match, per_cent=True)
        if found is not None:
            return found
    if not re.search(r"[^\W\d_]{2}", re.sub(r"out of|\bin\b|fifty", "", plain, flags=re.IGNORECASE)):
        return _without_unit(plain, plain, _ALONE, fractions)
    for sentence in _SENTENCE_END.split(plain):
        cue = _CUE.search(sentence)
        if cue:
            found = _without_unit(sentence, sentence[cue.start() :], _LINKED, fractions)
            if found is not None:
                return found
    return None


def _without_unit(text: str, spoken: str, pattern: re.Pattern[str], fractions: bool) -> float | None:
    """The probability in `text`; a plain number counts only in `spoken`, the part about probability."""
    if fractions and _EVEN.search(text):
        return 0.5
    for match in _RATIO.finditer(text) if fractions else ():
        part, whole = float(match[1]), float(match[2])
        if whole > 0.0 and part <= whole:
            return part / whole
    for match in pattern.finditer(_RATIO.sub(" ", spoken)):
        number = match.groups()[-1]
        decimal = "." in number and float(number) <= 1.0
        if number == "1" or (decimal and not fractions):
            continue
        found = _middle(match, per_cent=not decimal)
        if found is not None:
            return found
    return None


def _middle(match: re.Match[str], *, per_cent: bool) -> float | None:
    """The number, or the middle of the range, that a match of `_FROM` and a number found."""
    # The text's own digits: 99.9 / 100 is not the double nearest to 0.999, "99.9e-2" is.
    ends = [float(number + ("e-2" if per_cent else "")) for number in match.groups() if number is not None]
    return sum(ends) / len(ends) if max(ends) <= 1.0 else None


@attrs.frozen
class Stated:
    """The confidence that asking gave, in [0, 1].

    answers: how many were used, the one with the probability included.
    fell_back: no answer had a probability, and the confidence is 0.5.
    """

    confidence: float
    answers: int
    fell_back: bool


def stated(
    answers: Iterable[str],
    *,
    resamples: int = 3,
    parse: Callable[[str], float | None] = parse_probability,
) -> Stated:
    """The first probability among a first answer and up to three more, else 0.5.

    answers: in the order they were sampled; only as many as needed are taken, so the iterable may sample on
    demand.
    resamples: how often to ask again.
    Raises DataError if the answers run out earlier without a probability: the rule is then incomplete, and
    0.5 would wrongly mean that the model refused.
    Source: Spiess et al. 2024, appendix "Understanding effects of verbalized retry failures".

    >>> stated(["It looks right.", "80%"])
    Stated(confidence=0.8, answers=2, fell_back=False)
    >>> stated(["Yes."] * 4)
    Stated(confidence=0.5, answers=4, fell_back=True)
    """
    if resamples < 0:
        raise DataError(f"The number of resamples must be 0 or more, not {resamples}.")
    used = 0
    for used, answer in enumerate(islice(answers, resamples + 1), start=1):
        found = parse(answer)
        if found is not None:
            return Stated(found, used, fell_back=False)
    if used <= resamples:
        raise DataError(
            f"{used} answers hold no probability; up to {resamples + 1} are asked for before 0.5."
        )
    return Stated(0.5, used, fell_back=True)


@attrs.frozen(eq=False)
class StatedSummary:
    """How often asking failed.

    n: items. fell_back: share that ended in 0.5 because no answer had a probability. half: share of 0.5 from
    either cause, which the paper reports as an upper bound. Both in [0, 1].
    answers: mean number of answers used.
    not_half: bool array of shape (n,); true for the items whose confidence is not 0.5.
    """

    n: int
    fell_back: float
    half: float
    answers: float
    not_half: npt.NDArray[np.bool_]


def summarise_stated(items: Sequence[Stated]) -> StatedSummary:
    """Shares of 0.5 over a data set. Raises DataError if it is empty.

    >>> summary = summarise_stated([Stated(0.5, 4, True), Stated(0.5, 1, False), Stated(0.9, 1, False)])
    >>> round(summary.fell_back, 3), round(summary.half, 3), summary.not_half.tolist()
    (0.333, 0.667, [False, False, True])
    """
    if not items:
        raise DataError("There are no stated confidences to summarise.")
    half = np.array([item.confidence == 0.5 for item in items])
    return StatedSummary(
        n=len(items),
        fell_back=sum(item.fell_back for item in items) / len(items),
        half=float(half.mean()),
        answers=sum(item.answers for item in items) / len(items),
        not_half=~half,
    )
