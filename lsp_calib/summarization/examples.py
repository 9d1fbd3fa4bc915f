"""Examples for summaries: functions with the sentence that a person wrote about them, and which of them
resemble a function most, by BM25 over the words of their code. No I/O.

Source: Robertson and Zaragoza 2009, in the variant of Lucene (Kamphuis et al. 2020), k1 = 1.5, b = 0.75.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

# The humps of an identifier: `parseHTTPHeader2` is parse, http, header.
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+")
# Characters of a function that are looked at.
_MOST = 20_000
# In characters. Code that is shorter says nothing, longer code does not fit beside what is asked.
_SHORTEST, _LONGEST = 30, 1_500
_LONGEST_SENTENCE = 160
K1, B = 1.5, 0.75
# From this likeness on two functions count as the same one: a copy would give the answer away.
NEAR_DUPLICATE = 0.9
# Functions that are gone stay in the index until there are so many of them, and more than of those there are.
_MOST_GONE = 256

Group = TypeVar("Group", bound=Hashable)
Length = TypeVar("Length", float, NDArray[np.float64])


@attrs.frozen
class Example:
    """A documented function, as a prompt may show it.

    path: of its file below its project, with `/`; empty for one that is shipped. code: without documentation.
    sentence: the first one of its documentation.
    """

    path: str
    name: str
    code: str
    sentence: str


Terms = dict[str, int]
"""The words of a function, without their order: how often each occurs."""


def has_length(code: str) -> bool:
    """Whether code, as it stands in its file, has a length that an example may have."""
    return _SHORTEST <= len(code) <= _LONGEST


def is_short(sentence: str) -> bool:
    """Whether a sentence of documentation is short enough for an example."""
    return len(sentence) <= _LONGEST_SENTENCE


def words_of(code: str) -> Iterator[str]:
    """The words of its identifiers, strings and comments, in lower case; identifiers are split at case and
    underscores.

    >>> list(words_of("int parseHTTPHeader_v2(my_map);"))
    ['int', 'parse', 'http', 'header', 'my', 'map']
    """
    return (word.lower() for word in _WORD.findall(code[:_MOST]) if len(word) > 1)


def terms_of(code: str) -> Terms:
    """The words of a function's code. Each is one object in all of them, for thousands are kept."""
    return dict(Counter(map(sys.intern, words_of(code))))


def likeness(one: Terms, other: Terms) -> float:
    """The share of the words that two functions have in common, in [0, 1]: weighted Jaccard index."""
    shared = sum(min(n, other.get(word, 0)) for word, n in one.items())
    all_ = sum(one.values()) + sum(other.values()) - shared
    return shared / all_ if all_ else 1.0


@attrs.frozen(eq=False)
class Ranked(Generic[Group]):
    """A function in a ranking: the one at `index` of its group. score: of BM25, above 0."""

    group: Group
    index: int
    score: float
    terms: Terms


class Ranking(Generic[Group]):
    """Functions in groups, such as files, ranked by BM25. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._rows: list[tuple[Group, int, Terms]] = []  # in the order in which they came
        self._of: dict[Group, range] = {}
        # Of each word: the rows that have it, and how often.
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._frequency = Counter[str]()  # in how many functions, those that are gone left out
        self._lengths = array("q")  # words of each function, 0 once it is gone
        self._words = self._count = 0

    def __len__(self) -> int:
        """How many functions there are."""
        return self._count

    def put(self, group: Group, functions: Sequence[Terms]) -> None:
        """Put the functions of a group in the place of those that it had."""
        with self._lock:
            for row in self._of.pop(group, ()):
                self._frequency.subtract(self._rows[row][2].keys())
                self._words -= self._lengths[row]
                self._lengths[row] = 0
                self._count -= 1
            if len(self._rows) - self._count > max(_MOST_GONE, self._count):
                left = {group: [self._rows[row][2] for row in rows] for group, rows in self._of.items()}
                self._clear()
                for one, terms in left.items():
                    self._add(one, terms)
            self._add(group, functions)

    def best(self, query: Terms, count: int) -> list[Ranked[Group]]:
        """At most `count` functions that share words with a query, the best first.

        Of equals, the order is that in which their groups came.
        """
        with self._lock:
            lengths = np.array(self._lengths, dtype=np.float64)
            norms = _norm(lengths, self._average)
            scores = np.zeros(len(self._rows))
            for word in query:
                if word in self._postings:
                    rows, times = (np.array(one) for one in self._postings[word])
                    scores[rows] += self._rarity(word) * times / (times + norms[rows])
            scores[lengths == 0] = 0.0
            order = np.argsort(-scores.round(4), kind="stable")[:count]
            found = [(*self._rows[row], float(scores[row])) for row in order.tolist() if scores[row] > 0]
        return [Ranked(group, at, score, terms) for group, at, terms, score in found]

    def ideal(self, query: Terms) -> float:
        """The score that a query would have if it were a function of the ranking itself."""
        with self._lock:
            norm = _norm(sum(query.values()), self._average or sum(query.values()))
            return sum(self._rarity(word) * n / (n + norm) for word, n in query.items())

    @property
    def _average(self) -> float:
        """Words of a function."""
        return self._words / self._count if self._count else 0.0

    def _rarity(self, word: str) -> float:
        """The weight of a word, by the functions that have it."""
        n = self._frequency[word]
        return math.log(1 + (self._count - n + 0.5) / (n + 0.5))

    def _add(self, group: Group, functions: Sequence[Terms]) -> None:
        if functions:
            self._of[group] = range(len(self._rows), len(self._rows) + len(functions))
        for at, terms in enumerate(functions):
            for word, n in terms.items():
                rows, times = self._postings.setdefault(word, (array("q"), array("q")))
                rows.append(len(self._rows))
                times.append(n)
            self._frequency.update(terms.keys())
            self._lengths.append(sum(terms.values()))
            self._words += self._lengths[-1]
            self._count += 1
            self._rows.append((group, at, terms))


def _norm(length: Length, average: float) -> Length:
    """length: words of a function, or of several."""
    return K1 * (1 - B + B * length / (average or 1.0))


def chosen(
    ranked: Sequence[Ranked[Group]], query: Terms, count: int, admits: Callable[[Ranked[Group]], bool]
) -> Iterator[Ranked[Group]]:
    """Of a ranking those that may be shown: no near-duplicate of the query, nor of one before it.

    admits: whether one may be shown for other reasons; asked for those that are taken else. At most `count`.
    """
    taken: list[Terms] = [query]
    for one in ranked:
        if len(taken) > count:
            return
        if any(likeness(one.terms, other) >= NEAR_DUPLICATE for other in taken) or not admits(one):
            continue
        taken.append(one.terms)
        yield one
