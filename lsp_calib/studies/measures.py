"""What a model says of its own answer, read as a confidence; and token probabilities by position. Pure.

"True" or "False": none of the readings is a calibrated probability; Spiess et al. find no consistent
relationship, Virk et al. 94 % of confidences above 0.9. A probability in words: Spiess et al. ask at
temperature 1.0, find the number by string matching, ask again up to three times if there is none, and give
up with 0.5. As in the paper, the event that the number is about is ignored: "20 % that it fails" is 0.2.
A rating, as the people of Haque et al. 2022 rated summaries: 1 is "strongly disagree" that the answer is
right, 4 "strongly agree".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray, IntArray


@attrs.frozen(eq=False)
class TokenPositions:
    """Probabilities by position 1, 2, and so on: the generations that are at least this long, and the mean
    and the quartiles of their tokens' probabilities; all arrays of shape (positions,)."""

    position: IntArray
    n: IntArray
    mean: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray


def token_positions(logprobs: Sequence[Sequence[float]], *, least: int = 20) -> TokenPositions:
    """Token probabilities by position. logprobs: of each generation's tokens.

    least: positions that fewer generations reach are left out; a later position describes a smaller
    population, the long answers. Source: Virk et al. 2024, Figure 6.
    """
    longest = max(map(len, logprobs))
    columns = [np.exp([item[at] for item in logprobs if len(item) > at]) for at in range(longest)]
    columns = [column for column in columns if column.size >= least]
    return TokenPositions(
        np.arange(1, len(columns) + 1),
        np.array([column.size for column in columns]),
        np.array([column.mean() for column in columns]),
        *np.array([np.quantile(column, [0.25, 0.5, 0.75]) for column in columns]).T,
    )


Alternative = tuple[str, float]
"""A token's text, and the natural logarithm of its probability."""


@attrs.frozen
class TrueFalse:
    """The probabilities, in [0, 1], that an answer gave to true and false; None: not among the likeliest."""

    true: float | None
    false: float | None


def contained_true_false(positions: Sequence[Sequence[Alternative]]) -> TrueFalse:
    """Spiess et al.'s rule: the most probable alternative of the first two tokens that contains the word.

    positions: of each answered token, in order, its five likeliest alternatives.
    "true" or "false" may stand in any case and anywhere in a token: "untrue" contains "true", and the
    probability of a second token is conditional on the first one. So the two can sum to over 1.
    Source: Spiess et al. 2024, 3.1.2, footnote 4 (five tokens, two positions).

    >>> first = [("\\n", math.log(0.7)), (" TRUE", math.log(0.2))]
    >>> second = [("True", math.log(0.75)), ("False", math.log(0.25))]
    >>> answer = contained_true_false([first, second])
    >>> round(answer.true, 6), round(answer.false, 6)
    (0.75, 0.25)
    """
    found = [(text.casefold(), logprob) for position in positions[:2] for text, logprob in position]
    return TrueFalse(*(_largest(p for text, p in found if word in text) for word in ("true", "false")))


def true_token(alternatives: Sequence[Alternative]) -> float | None:
    """Virk et al.'s rule: the probability of the token "True" among the likeliest of the first position.

    alternatives: the five likeliest of the first answered token. White space around the token is no part of
    the word; "true" and "TRUE" are other words. None where it is not among them: an invalid answer.
    Source: Virk et al. 2024, 6.4.

    >>> true_token([("False", math.log(0.5)), (" True", math.log(0.25))])
    0.25
    """
    return _largest(logprob for text, logprob in alternatives if text.strip() == "True")


def _largest(logprobs: Iterable[float]) -> float | None:
    found = max(logprobs, default=None)
    return None if found is None else math.exp(min(found, 0.0))


_MARKUP = re.compile(r"[*_`$#\\]")
# Not within a longer number, a name or a date, and not after a minus sign; "-" after a digit is a dash.
_NUMBER = r"(?<![\w.,/])(?<!(?<!\d)[-−])(\d+(?:\.\d+)?|\.\d+)"
_END = r"(?![\w/%]|[.,]\d)"
_PER_CENT = re.compile(rf"{_NUMBER}\s*(?:%|％|per\s?cent\b)", re.IGNORECASE)
_DECIMAL = re.compile(r"(?<![\w.,/])(0?\.\d+|1\.0+)" + _END)
# The study's own third form, "The probability is about 80.": a number that a word for it leads to.
_CUED = re.compile(
    r"\b(?:probability|confidence|likelihood|chance)\b[^.\n]{0,60}?"
    r"(?::|=|\bis|\bof|\babout|\baround)[^\w.]*(?:about |around |approximately )?" + _NUMBER + _END,
    re.IGNORECASE,
)
_ALONE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*\.?\s*")


def parse_probability(text: str) -> float | None:
    """The probability that an answer states, in [0, 1], or None.

    The first of these that the answer holds: a number of per cent ("80%", "80.00 %", "80 percent"), a decimal
    up to 1 ("0.8"), a number of per cent without its sign that a word such as "probability" leads to ("The
    probability is about 80."), or that is the whole answer ("80"). A bare "1" may be either, and is None. A
    number that is no probability, such as "150 %", is skipped.
    Source: Spiess et al. 2024, 3.1.2 (Verbalized Self-Ask); decimals are ours.

    >>> [parse_probability(text) for text in ("80%", "80.00%", "The probability is about 80.", "0.8", "80")]
    [0.8, 0.8, 0.8, 0.8, 0.8]
    >>> parse_probability("Yes, the code is right.") is None
    True
    """
    plain = _MARKUP.sub("", text)
    alone = _ALONE.fullmatch(plain)
    unsigned = [*_CUED.findall(plain), *([alone[1]] if alone else [])]
    # The text's own digits: 99.9 / 100 is not the double nearest to 0.999, "99.9e-2" is.
    read = [f"{digits}e-2" for digits in _PER_CENT.findall(plain)] + _DECIMAL.findall(plain)
    read += [f"{digits}e-2" for digits in unsigned if digits != "1"]
    return next((number for number in map(float, read) if number <= 1.0), None)


@attrs.frozen
class Stated:
    """The confidence that asking gave, in [0, 1]. answers: how many were used, the one with the probability
    included. fell_back: no answer had a probability, and the confidence is 0.5."""

    confidence: float
    answers: int
    fell_back: bool


def stated(answers: Sequence[str]) -> Stated:
    """The first probability among the answers, in the order they were sampled, else 0.5.

    Source: Spiess et al. 2024, appendix "Understanding effects of verbalized retry failures".

    >>> stated(["It looks right.", "80%"])
    Stated(confidence=0.8, answers=2, fell_back=False)
    >>> stated(["Yes."] * 4)
    Stated(confidence=0.5, answers=4, fell_back=True)
    """
    for used, answer in enumerate(answers, start=1):
        found = parse_probability(answer)
        if found is not None:
            return Stated(found, used, fell_back=False)
    return Stated(0.5, len(answers), fell_back=True)


SCALE = (1, 2, 3, 4)

# "On a scale of 1 to 4" names no rating; "3/4" and "3 out of 4" are 3.
_RANGE = re.compile(r"\b1\s*(?:-|–|to)\s*4\b", re.IGNORECASE)
_OF_FOUR = re.compile(r"(?<=[1-4])\s*(?:/|out of)\s*4\b", re.IGNORECASE)
_RATED = re.compile(
    r"\b(?:score|rating|rate)\W{0,3}(?:(?:is|it|this|as|a|summary)\W+){0,3}(\d+(?:\.\d+)?)", re.IGNORECASE
)
_ANY = re.compile(r"(?<![\w.])(?<!(?<!\d)[-,])\d+(?:\.\d+)?(?!\w)")


def parse_rating(text: str) -> int | None:
    """The rating that an answer gives, 1 to 4, or None for an invalid answer.

    The rating is a number after "score", "rating" or "rate", else the only number ("3", "3/4", "3 - agree").
    Two different ones, or one off the scale ("5", "2.5"), are invalid.

    >>> [parse_rating(text) for text in ("3", "Rating: 4 out of 4", "I agree", "2 or 3", "5")]
    [3, 4, None, None, None]
    """
    plain = _OF_FOUR.sub("", _RANGE.sub(" ", _MARKUP.sub("", text)))
    ratings = {float(number) for number in _RATED.findall(plain) or _ANY.findall(plain)}
    rating = ratings.pop() if len(ratings) == 1 else None
    return int(rating) if rating in SCALE else None


@attrs.frozen
class Vote:
    """The vote of several samples: how many gave 1, 2, 3 and 4, and how many gave no rating."""

    counts: tuple[int, ...]
    invalid: int

    @property
    def rating(self) -> int | None:
        """The most frequent one; of equally frequent ones the lowest, so that a tie is no praise. None if all
        were invalid."""
        return 1 + self.counts.index(max(self.counts)) if any(self.counts) else None

    @property
    def confidence(self) -> float | None:
        """The rating on [0, 1]: 1, 2, 3, 4 are 0, 1/3, 2/3, 1. None if all samples were invalid."""
        return None if self.rating is None else (self.rating - 1) / 3

    @property
    def mean_confidence(self) -> float | None:
        """The mean of the valid ratings on [0, 1], which keeps the information that a vote discards. Ours."""
        worth = sum(at * count for at, count in enumerate(self.counts))
        return worth / (3 * sum(self.counts)) if any(self.counts) else None


def majority_vote(answers: Iterable[str]) -> Vote:
    """The vote of answers about one item, each read by `parse_rating`. Source: Virk et al. 2024, 6.4.

    >>> majority_vote(["3", "Score: 3", "2", "I cannot rate this."])
    Vote(counts=(0, 1, 2, 0), invalid=1)
    """
    ratings = [parse_rating(answer) for answer in answers]
    return Vote(tuple(ratings.count(rating) for rating in SCALE), ratings.count(None))


Observed = Mapping[str, float]
Form = Callable[[Observed], float | None]
"""The confidence in [0, 1] of a record's numbers by "OBSERVATION.NAME"; None for an invalid answer."""


def _probability(name: str) -> Form:
    """The exponential of a number."""
    return lambda seen: math.exp(min(seen[name], 0.0)) if name in seen else None


def _contained(seen: Observed) -> float | None:
    """True, or 0 where only false is among the likeliest."""
    found = _probability("ask.contained-true")(seen)
    return 0.0 if found is None and "ask.contained-false" in seen else found


def _normalised(true: str, false: str) -> Form:
    """true / (true + false); one that was not found counts as 0. None if neither was."""

    def confidence(seen: Observed) -> float | None:
        if true not in seen and false not in seen:
            return None
        # Of logarithms: both may be too small for a sum of probabilities.
        one, other = seen.get(true, -math.inf), seen.get(false, -math.inf)
        return 1.0 / (1.0 + math.exp(min(other - one, 700.0)))

    return confidence


def _but_half(seen: Observed) -> float | None:
    """Without every 0.5, whether it was stated or stands for nothing stated."""
    found = seen.get("verbalised.confidence")
    return None if found == 0.5 else found


def _expected(seen: Observed) -> float | None:
    """The mean rating by the model's own probabilities of the four, on [0, 1]. Ours."""
    if not all(f"scale.{rating}" in seen for rating in SCALE):
        return None
    known = np.array([seen[f"scale.{rating}"] for rating in SCALE])
    weights = np.exp(known - known.max())
    return min(max((float(weights @ SCALE) / float(weights.sum()) - 1.0) / (len(SCALE) - 1), 0.0), 1.0)


REFLECTIVE: Mapping[str, tuple[str, Form]] = MappingProxyType(
    {
        "ask": ("ask", _contained),
        "ask-token": ("ask", _probability("ask.true-token")),
        "ask-exact": ("ask", _probability("ask.true")),
        "normalised": ("ask", _normalised("ask.contained-true", "ask.contained-false")),
        "normalised-exact": ("ask", _normalised("ask.true", "ask.false")),
        "verbalised": ("verbalised", lambda seen: seen.get("verbalised.confidence")),
        "verbalised-stated": ("verbalised", _but_half),
        "scale": ("scale", lambda seen: seen.get("scale.shots-vote")),
        "scale-mean": ("scale", lambda seen: seen.get("scale.shots-mean")),
        "scale-reasoned": ("scale", lambda seen: seen.get("scale.reasoned-vote")),
        "scale-number": ("scale", lambda seen: seen.get("scale.vote")),
        "scale-expected": ("scale", _expected),
    }
)
"""What a model says of its answer, by name: the observation that holds it, and its form.

ask, normalised: contained in five of the first two tokens (Spiess et al.). ask-token: the token True of five
(Virk et al.). -exact: over the whole softmax (ours). verbalised: stated, else 0.5; -stated: without any 0.5.
scale: the vote of the samples behind four shots (Virk et al.); -mean: of them; -reasoned: the vote without
shots, -number: of a number alone; -expected: by the model's probabilities (ours).
"""
