"""The 1 to 4 scale: a model rates an answer as the people of Haque et al. 2022 rated summaries.

1 is "strongly disagree" that it is right, 4 "strongly agree"; a person's mean of 3 or more counts as correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs

from lsp_calib.errors import DataError

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


def parse_rating(text: str, *, few_shot: bool = False) -> int | None:
    """The rating that an answer gives, 1 to 4, or None for an invalid answer.

    few_shot: only the first line with text counts. After few-shot examples a model answers and then goes on
        with an example of its own, whose rating does not count.

    The rating is a number after "score", "rating", "rate", "answer" or "similarity", else the only number
    ("3", "3/4", "3 - agree"), else the words ("Strongly agree": 4). Two different ones, or one off the scale
    ("5", "2.5"), are invalid, and so is a denial ("I do not agree").

    >>> [parse_rating(text) for text in ("3", "Rating: 4 out of 4", "strongly disagree", "2 or 3", "5")]
    [3, 4, 1, None, None]
    >>> parse_rating("2\\n\\nCode: ...\\nRating: 4", few_shot=True)
    2
    """
    plain = _MARKUP.sub("", text)
    if few_shot:
        plain = next((line for line in plain.splitlines() if line.strip()), "")
    plain = _OF_FOUR.sub("", _RANGE.sub(" ", plain))
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
    counts: tuple[int, int, int, int]
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


def majority_vote(answers: Iterable[str], *, few_shot: bool = False) -> Vote:
    """The vote of one or more answers about the same item, each read by `parse_rating`.

    Raises DataError if there are none. Source: Virk et al. 2024, 6.4.

    >>> majority_vote(["3", "Score: 3", "2", "I cannot rate this."])
    Vote(rating=3, counts=(0, 1, 2, 0), invalid=1)
    """
    ratings = [parse_rating(answer, few_shot=few_shot) for answer in answers]
    if not ratings:
        raise DataError("A vote needs at least one answer.")
    one, two, three, four = (ratings.count(rating) for rating in SCALE)
    counts = (one, two, three, four)
    most = max(counts)
    rating = counts.index(most) + 1 if most else None
    return Vote(rating, counts, ratings.count(None))


def invalid_share(votes: Sequence[Vote]) -> float:
    """Share of all answers, over all items, that gave no rating; in [0, 1].

    Raises DataError if there are none.

    >>> invalid_share([majority_vote(["3", "?"]), majority_vote(["4", "4"])])
    0.25
    """
    answers = sum(sum(vote.counts) + vote.invalid for vote in votes)
    if not answers:
        raise DataError("There are no votes to take a share of.")
    return sum(vote.invalid for vote in votes) / answers
