"""Reflective measures: what a model says of its own answer, when asked.

"True" or "False": none of the readings is a calibrated probability; Spiess et al. find no consistent
relationship, Virk et al. 94 % of confidences above 0.9.
A probability in words: Spiess et al. ask at temperature 1.0, find the number by string matching, ask again up
to three times if there is none, and give up with 0.5. As in the paper, the event that the number is about is
ignored: "20 % that it fails" is read as 20 %.
A rating, as the people of Haque et al. 2022 rated summaries: 1 is "strongly disagree" that the answer is
right, 4 "strongly agree"; a person's mean of 3 or more counts as correct.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice

import attrs

from lsp_calib.errors import DataError

# A token's text, and the natural logarithm of its probability.
Alternative = tuple[str, float]

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


_PLAIN_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
# Not within a longer number, a name or a date, and not after a minus sign; "-" after a digit is a range's
# dash.
_START = r"(?<![\w.,/])(?<!(?<!\d)[-−])"
_END = r"(?![\w/]|[.,]\d)"
_UNIT = r"\s*(?:%|％|per\s?cent\b|pct\b)"
# The lower end of a range; "and" joins one only after "between".
_FROM = (
    rf"(?:{_PLAIN_NUMBER}(?:{_UNIT})?\s*(?:[-–—]|to\b)\s*|(?<=between ){_PLAIN_NUMBER}(?:{_UNIT})?\s+and\s+)?"
)
_PER_CENT = re.compile(rf"{_START}{_FROM}{_PLAIN_NUMBER}{_UNIT}", re.IGNORECASE)
_EVEN = re.compile(r"\b(?:50\s*[-/–]\s*50|fifty[-\s/]fifty)\b(?!\s*%)", re.IGNORECASE)
_RATIO = re.compile(
    rf"{_START}{_PLAIN_NUMBER}\s*(?:/|\(?\bout\s+of\b|\bin\b)\s*{_PLAIN_NUMBER}{_END}", re.IGNORECASE
)
# A number without a unit is a probability only if a word says so and links the number to it.
_CUE_WORDS = (
    r"probabilit\w*|likel\w*|chances?|confiden\w*|certain\w*|sure|say|estimate\w*|odds|rat(?:e|ing)|score"
)
_CUE = re.compile(rf"\b(?:{_CUE_WORDS}|scale|p\s*[(=]|answer(?:\s+is\b|\s*:))", re.IGNORECASE)
_LINK_WORDS = r"is|be|as|at|of|to|it|about|around|approximately|roughly|nearly|almost|between|near"
_LINK = rf"(?:[:=≈~(>]|\b(?:{_CUE_WORDS}|{_LINK_WORDS}))"
_LINKED = re.compile(rf"{_LINK}[^\w.]*{_START}{_FROM}{_PLAIN_NUMBER}{_END}", re.IGNORECASE)
_ALONE = re.compile(rf"{_START}{_FROM}{_PLAIN_NUMBER}{_END}", re.IGNORECASE)
# "From 0 to 100" is the question's scale, not an answer.
_SCALE = re.compile(
    r"(?<![\w.])0(?:\.0+)?\s*%?\s*(?:[-–—]|to|and)\s*(?:100|1(?:\.0+)?)(?!\w|\.\d)\s*%?", re.IGNORECASE
)
# Words beside which a number still is the whole answer.
_BARE = re.compile(
    r"\b(?:out\s+of|in|fifty|(?:I['’]?d|I\s+would)\s+(?:say|guess)|it['’]?s|it\s+is|at\s+(?:least|most)|"
    r"about|around|I\s+think|or\s+so|approximately|approx|circa|roughly|nearly|almost|probably|maybe|perhaps|only|just|some|"
    r"between|and|to|over|under|above|below|close\s+to)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n")
_STATED_MARKUP = re.compile(r"[*_`$\\]")


def parse_probability(text: str) -> float | None:
    """The probability that an answer states, in [0, 1], or None.

    The first of these that the answer holds, of which the paper has the percentages alone:
    1. a number of per cent: "80%", "80.00 %", "80 percent"; of a range, "70-80%", the middle;
    2. "fifty-fifty" (0.5), or a ratio: "4/5", "8 out of 10";
    3. a number without unit: with a decimal point and up to 1 a probability ("0.8"), else up to 100 a number
       of per cent ("80"). A bare "1" may be either, and is None.
    2 and 3 count if they are the whole answer, but for words such as "about", or in a sentence about
    probability; 3 only if the sentence links the number to it: "The 3 tests pass" states none, and "the
    probability that 3 tests pass is 80" states 80. A number that is not a probability, such as "150 %", is
    skipped.
    Source: Spiess et al. 2024, 3.1.2 (Verbalized Self-Ask).

    >>> [parse_probability(text) for text in ("80%", "80.00%", "The probability is about 80.", "0.8", "4/5")]
    [0.8, 0.8, 0.8, 0.8, 0.8]
    >>> parse_probability("About 80.")
    0.8
    >>> parse_probability("Yes, the code is right.") is None
    True
    """
    plain = _SCALE.sub(" ", _STATED_MARKUP.sub("", text))
    for match in _PER_CENT.finditer(plain):
        found = _middle(match, per_cent=True)
        if found is not None:
            return found
    if not re.search(r"[^\W\d_]{2}", _BARE.sub("", plain)):
        return _without_unit(plain, plain, _ALONE)
    for sentence in _SENTENCE_END.split(plain):
        cue = _CUE.search(sentence)
        if cue:
            found = _without_unit(sentence, sentence[cue.start() :], _LINKED)
            if found is not None:
                return found
    return None


def _without_unit(text: str, spoken: str, pattern: re.Pattern[str]) -> float | None:
    """The probability in `text`; a plain number counts only in `spoken`, the part about probability."""
    if _EVEN.search(text):
        return 0.5
    for match in _RATIO.finditer(text):
        part, whole = float(match[1]), float(match[2])
        if whole > 0.0 and part <= whole:
            return part / whole
    for match in pattern.finditer(_RATIO.sub(" ", spoken)):
        number = match.groups()[-1]
        if number == "1":
            continue
        decimal = "." in number and float(number) <= 1.0
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


def stated(answers: Iterable[str], *, resamples: int = 3) -> Stated:
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
        found = parse_probability(answer)
        if found is not None:
            return Stated(found, used, fell_back=False)
    if used <= resamples:
        raise DataError(
            f"{used} answers hold no probability; up to {resamples + 1} are asked for before 0.5."
        )
    return Stated(0.5, used, fell_back=True)


SCALE = (1, 2, 3, 4)

_MARKUP = re.compile(r"[*_`#]")
# "On a scale of 1 to 4" names no rating; "3/4" and "3 out of 4" are 3.
_RANGE = re.compile(r"\b1\s*(?:-|–|to|through)\s*4\b|\b1, 2, 3,? (?:or|and) 4\b", re.IGNORECASE)
_OF_FOUR = re.compile(r"(?<=[1-4])\s*(?:/|out of|of)\s*4\b", re.IGNORECASE)
_CUED = re.compile(
    r"\b(?:score|rating|rate|similarity|answer)\W{0,3}(?:(?:is|as|of|it|this|that|at|be|a|the|summary)\W+){0,3}"
    r"(\d+(?:\.\d+)?)(?!\w|[-–.,]\d)",
    re.IGNORECASE,
)
# Neither a part of a word, nor the digits behind a comma or a sign: but both ends of "2-3" count.
_NUMBER = re.compile(r"(?<![\w.])(?<!(?<!\d)[-,])\d+(?:\.\d+)?(?!\w)")
_WORDS = re.compile(r"(?:\b(strongly)\s+)?\b(dis)?agree\b(?:\s+(strongly))?", re.IGNORECASE)
_NEGATED = re.compile(r"n[o'’]t\s+(?:\w+\s+)?(?:dis)?agree\b", re.IGNORECASE)


def parse_rating(text: str) -> int | None:
    """The rating that an answer gives, 1 to 4, or None for an invalid answer.

    The rating is a number after "score", "rating", "rate", "answer" or "similarity", else the only number
    ("3", "3/4", "3 - agree"), else the words ("Strongly agree": 4). Two different ones, or one off the scale
    ("5", "2.5"), are invalid, and so is a denial ("I do not agree").

    >>> [parse_rating(text) for text in ("3", "Rating: 4 out of 4", "strongly disagree", "2 or 3", "5")]
    [3, 4, 1, None, None]
    """
    plain = _OF_FOUR.sub("", _RANGE.sub(" ", _MARKUP.sub("", text)))
    numbers = set(_CUED.findall(plain)) or set(_NUMBER.findall(plain))
    if numbers:
        ratings = {float(number) for number in numbers}
    elif _NEGATED.search(plain):
        return None
    else:
        ratings = {_worth(bool(match[1] or match[3]), bool(match[2])) for match in _WORDS.finditer(plain)}
    if len(ratings) != 1:
        return None
    rating = ratings.pop()
    return int(rating) if rating in SCALE else None


def _worth(strongly: bool, disagree: bool) -> float:
    return (1.0 if strongly else 2.0) if disagree else (4.0 if strongly else 3.0)


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
        if not valid:
            return None
        return sum((rating - 1) * count for rating, count in zip(SCALE, self.counts, strict=True)) / (
            3 * valid
        )


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
