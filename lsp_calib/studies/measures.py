"""Confidences by name: of tokens, of entropies, of lengths, and of what a model says of its own answer. Pure.

All raise DataError for input from which no number follows.

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
from itertools import islice
from types import MappingProxyType

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError

# ---------------------------------------------------------------- entropies, lengths and positions


def entropy_confidence(entropies: npt.ArrayLike) -> float:
    """exp of minus the mean entropy: one over the number of tokens the model hesitated between.

    entropies: float array of shape (n,), in nats.
    Returns a float in (0, 1]. Its logarithm is the expected logarithm of `geometric_mean` if each token is
    sampled. So the two are comparable, and neither depends on the vocabulary's size.
    Raises DataError if there are none, or one is negative or no number.
    Source: the token-wise entropy of Malinin & Gales 2021, on the scale of a probability.

    >>> round(entropy_confidence([math.log(2.0), math.log(8.0)]), 6)
    0.25
    """
    return math.exp(-math.fsum(_counted(entropies, "Entropies")) / np.size(entropies))


def length_confidence(lengths: npt.ArrayLike, references: npt.ArrayLike) -> FloatArray:
    """1 for an answer as short as the shortest reference or shorter, 0 for one as long as the longest.

    lengths: array of shape (n,), characters of each answer.
    references: array of shape (m,), characters of the right answers of the data set.
    Returns a float array of shape (n,), linear between the two and clipped to [0, 1].
    It needs the right answers, so it is only a baseline, not a measure for use.
    Raises DataError for a negative length, or if all references are equally long: there is then no scale.
    Source: Spiess et al. 2024, 4.1.3.

    >>> length_confidence([5, 10, 20, 40], [10, 30]).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    answers, right = _counted(lengths, "Lengths"), _counted(references, "Lengths")
    shortest, longest = _extremes(right)
    return np.clip((longest - answers) / (longest - shortest), 0.0, 1.0)


def relative_length(lengths: npt.ArrayLike) -> FloatArray:
    """0 for the shortest answer of the data set, 1 for the longest.

    lengths: array of shape (n,), characters of each answer. Returns a float array of shape (n,), in [0, 1].
    The other description of the same baseline in the same paper, with the opposite sign.
    Raises DataError as `length_confidence` does, for the answers themselves.
    Source: Spiess et al. 2024, 3.1.2.

    >>> relative_length([10, 20, 30]).tolist()
    [0.0, 0.5, 1.0]
    """
    answers = _counted(lengths, "Lengths")
    shortest, longest = _extremes(answers)
    return np.asarray((answers - shortest) / (longest - shortest))


def _counted(numbers: npt.ArrayLike, what: str) -> FloatArray:
    values = np.asarray(numbers, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all((values >= 0.0) & np.isfinite(values)):
        raise DataError(f"{what} must be a list of at least one number, each 0 or more.")
    return values


def _extremes(values: FloatArray) -> tuple[float, float]:
    shortest, longest = float(values.min()), float(values.max())
    if shortest == longest:
        raise DataError(f"All lengths are {shortest:g}; no length lies between them.")
    return shortest, longest


@attrs.frozen(eq=False)
class TokenPositions:
    """Probabilities by position; all arrays of shape (positions,).

    position: 1, 2, and so on. n: generations that are at least this long. mean, median: of their tokens'
    probabilities. low, high: the quartiles.
    """

    position: IntArray
    n: IntArray
    mean: FloatArray
    median: FloatArray
    low: FloatArray
    high: FloatArray


def token_positions(logprobs: Sequence[Sequence[float]], *, least: int = 20) -> TokenPositions:
    """Mean, median and quartiles of the token probability at each position.

    logprobs: the log-probabilities of each generation's tokens.
    least: positions that fewer generations reach are left out; a later position describes a smaller
        population, the long answers.
    Raises DataError if fewer than `least` generations reach any position.
    Source: Virk et al. 2024, Figure 6.

    >>> positions = token_positions([[0.0, -1.0], [0.0]], least=1)
    >>> positions.n.tolist(), positions.mean.round(2).tolist()
    ([2, 1], [1.0, 0.37])
    """
    lengths = np.sort([len(item) for item in logprobs])
    # The length that `least` generations reach or surpass.
    longest = int(lengths[-least]) if lengths.size >= least else 0
    if longest < 1:
        raise DataError(f"No token position is reached by {least} generations.")
    columns = [np.exp([item[at] for item in logprobs if len(item) > at]) for at in range(longest)]
    quartiles = np.array([np.quantile(column, [0.25, 0.5, 0.75]) for column in columns])
    return TokenPositions(
        position=np.arange(1, longest + 1),
        n=np.array([column.size for column in columns]),
        mean=np.array([column.mean() for column in columns]),
        median=quartiles[:, 1],
        low=quartiles[:, 0],
        high=quartiles[:, 2],
    )


# ---------------------------------------------------------------- reading what a model says

Alternative = tuple[str, float]
"""A token's text, and the natural logarithm of its probability."""

_ROUNDING = 1e-6


@attrs.frozen
class TrueFalse:
    """The probabilities that an answer gave to true and to false; both in [0, 1].

    None: the word is not among the alternatives examined. Its probability then has an upper bound, but is
    unknown.
    """

    true: float | None
    false: float | None


def contained_true_false(positions: Sequence[Sequence[Alternative]]) -> TrueFalse:
    """Spiess et al.'s rule: the most probable alternative that contains the word.

    positions: for each answered token, in order, its alternatives in any order: of the first two the five
    likeliest count.
    "true" or "false" may stand in any case and anywhere in a token: "untrue" contains "true", and the
    probability of a second token is conditional on the first one. So the two can sum to over 1.
    Raises DataError for impossible log-probabilities.
    Source: Spiess et al. 2024, 3.1.2, footnote 4 (five tokens, two positions).

    >>> first = [("\\n", math.log(0.7)), (" TRUE", math.log(0.2))]
    >>> second = [("True", math.log(0.75)), ("False", math.log(0.25))]
    >>> answer = contained_true_false([first, second])
    >>> round(answer.true, 6), round(answer.false, 6)
    (0.75, 0.25)
    """
    found = [alternative for position in positions[:2] for alternative in _likeliest(position)]
    return TrueFalse(
        true=_largest(logprob for text, logprob in found if "true" in text.casefold()),
        false=_largest(logprob for text, logprob in found if "false" in text.casefold()),
    )


def true_token(alternatives: Sequence[Alternative]) -> float | None:
    """Virk et al.'s rule: the probability of the token "True" among the five likeliest of the first position.

    alternatives: those of the first answered token, in any order. White space around the token is not part of
        the word; "true" and "TRUE" count as other words.
    Returns None where it is not among them: an invalid answer. Raises DataError as `contained_true_false`.
    Source: Virk et al. 2024, 6.4.

    >>> true_token([("False", math.log(0.5)), (" True", math.log(0.25))])
    0.25
    """
    return _largest(logprob for text, logprob in _likeliest(alternatives) if text.strip() == "True")


def _likeliest(alternatives: Sequence[Alternative]) -> list[Alternative]:
    for text, logprob in alternatives:
        if not logprob <= _ROUNDING:  # NaN fails this too
            raise DataError(f"The log-probability of {text!r} is {logprob}; it must be a number not above 0.")
    return sorted(alternatives, key=lambda alternative: -alternative[1])[:5]


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
    up to 1 ("0.8"), a number of per cent without its sign that is the whole answer ("80"), or that a word
    such as "probability" leads to ("The probability is about 80."). A bare "1" may be either, and is None. A
    number that is no probability, such as "150 %", is skipped.
    Source: Spiess et al. 2024, 3.1.2 (Verbalized Self-Ask); decimals are ours.

    >>> [parse_probability(text) for text in ("80%", "80.00%", "The probability is about 80.", "0.8", "80")]
    [0.8, 0.8, 0.8, 0.8, 0.8]
    >>> parse_probability("Yes, the code is right.") is None
    True
    """
    plain = _MARKUP.sub("", text)
    whole = _ALONE.fullmatch(plain)
    per_cent = [match[1] for match in _PER_CENT.finditer(plain)]
    decimals = [match[1] for match in _DECIMAL.finditer(plain)]
    cued = [match[1] for match in _CUED.finditer(plain)] + ([whole[1]] if whole else [])
    # The text's own digits: 99.9 / 100 is not the double nearest to 0.999, "99.9e-2" is.
    read = [float(f"{digits}e-2") for digits in per_cent] + [float(digits) for digits in decimals]
    read += [float(f"{digits}e-2") for digits in cued if digits != "1"]
    return next((number for number in read if number <= 1.0), None)


@attrs.frozen
class Stated:
    """The confidence that asking gave, in [0, 1].

    answers: how many were used, the one with the probability included.
    fell_back: no answer had a probability, and the confidence is 0.5.
    """

    confidence: float
    answers: int
    fell_back: bool


def stated(answers: Iterable[str], *, resamples: int = 3) -> Stated:
    """The first probability among a first answer and up to three more, else 0.5.

    answers: in the order they were sampled; only as many as needed are taken, so the iterable may sample on
    demand. resamples: how often to ask again.
    Raises DataError if the answers run out earlier without a probability: 0.5 would then wrongly mean that
    the model refused.
    Source: Spiess et al. 2024, appendix "Understanding effects of verbalized retry failures".

    >>> stated(["It looks right.", "80%"])
    Stated(confidence=0.8, answers=2, fell_back=False)
    >>> stated(["Yes."] * 4)
    Stated(confidence=0.5, answers=4, fell_back=True)
    """
    used = 0
    for used, answer in enumerate(islice(answers, resamples + 1), start=1):
        found = parse_probability(answer)
        if found is not None:
            return Stated(found, used, fell_back=False)
    if used <= resamples:
        raise DataError(
            f"{used} answers hold no probability; up to {resamples + 1} are asked for before 0.5."
        )
    return Stated(0.5, used, fell_back=True)


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
    """The result of several samples.

    rating: the most frequent valid rating; of equally frequent ones the lowest, so that a tie is no praise.
        None if all were invalid.
    counts: how many gave 1, 2, 3 and 4. invalid: how many gave none.
    """

    rating: int | None
    counts: tuple[int, ...]
    invalid: int

    @property
    def confidence(self) -> float | None:
        """The rating on [0, 1]: 1, 2, 3, 4 are 0, 1/3, 2/3, 1. None if all samples were invalid."""
        return None if self.rating is None else (self.rating - 1) / 3

    @property
    def mean_confidence(self) -> float | None:
        """The mean of the valid ratings on [0, 1], which keeps the information that a vote discards. Ours."""
        valid = sum(self.counts)
        worth = sum((rating - 1) * count for rating, count in zip(SCALE, self.counts, strict=True))
        return worth / (3 * valid) if valid else None


def majority_vote(answers: Iterable[str]) -> Vote:
    """The vote of one or more answers about the same item, each read by `parse_rating`.

    Raises DataError if there are none. Source: Virk et al. 2024, 6.4.

    >>> majority_vote(["3", "Score: 3", "2", "I cannot rate this."])
    Vote(rating=3, counts=(0, 1, 2, 0), invalid=1)
    """
    ratings = [parse_rating(answer) for answer in answers]
    if not ratings:
        raise DataError("A vote needs at least one answer.")
    counts = tuple(ratings.count(rating) for rating in SCALE)
    most = max(counts)
    rating = counts.index(most) + 1 if most else None
    return Vote(rating, counts, ratings.count(None))


# ---------------------------------------------------------------- reflective confidences of records

Observed = Mapping[str, float]
Form = Callable[[Observed], float | None]
"""The confidence in [0, 1] of a record's numbers by "OBSERVATION.NAME"; None for an invalid answer."""


def _probability(name: str) -> Form:
    """The exponential of a number."""
    return lambda seen: math.exp(min(seen[name], 0.0)) if name in seen else None


def _contained(seen: Observed) -> float | None:
    """True, or 0 where only false is among the likeliest."""
    if "ask.contained-true" in seen:
        return math.exp(min(seen["ask.contained-true"], 0.0))
    return 0.0 if "ask.contained-false" in seen else None


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
    logs = [seen.get(f"scale.{rating}") for rating in SCALE]
    known = np.array([value for value in logs if value is not None])
    if known.size < len(SCALE):
        return None
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
