"""Examples for summaries: functions with the sentence that a person wrote about them, and which of them
resemble a function most, by BM25 over the words of their code. No I/O.

An index of bm25s holds the score of each word in each function, so it cannot be changed. What has changed
since it was built is scored beside it, with its statistics of words; `Ranking.build` makes a new one.
Source: Robertson and Zaragoza 2009, in the variant of Lucene (Kamphuis et al. 2020), k1 = 1.5, b = 0.75.
"""

from __future__ import annotations

import logging
import math
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs
import numpy as np

if TYPE_CHECKING:
    import bm25s

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
# A new index is due once so many functions, and this share of all, are scored beside it.
_MOST_BESIDE, _SHARE_BESIDE = 256, 0.05

Group = TypeVar("Group", bound=Hashable)


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
        self._functions: dict[Group, tuple[Terms, ...]] = {}
        self._index = _Index[Group]({})
        self._count = self._changed = 0

    def __len__(self) -> int:
        """How many functions there are."""
        return self._count

    def put(self, group: Group, functions: Sequence[Terms]) -> None:
        """Put the functions of a group in the place of those that it had."""
        with self._lock:
            before = len(self._functions.pop(group, ()))
            self._count += len(functions) - before
            self._changed += len(functions) + before
            if functions:
                self._functions[group] = tuple(functions)

    @property
    def changed(self) -> int:
        """How many functions have come or gone since the last `build`, at most."""
        return self._changed

    @property
    def is_due(self) -> bool:
        """Whether so much has changed since the last `build` that it shows in time or in the scores."""
        return self._changed > max(_MOST_BESIDE, _SHARE_BESIDE * self._count)

    def build(self) -> None:
        """Make a new index. It takes about a second for 10,000 functions; queries go on meanwhile."""
        with self._lock:
            functions, changed = dict(self._functions), self._changed
        index = _Index(functions)
        with self._lock:
            self._index = index
            self._changed -= changed

    def best(self, query: Terms, count: int) -> list[Ranked[Group]]:
        """At most `count` functions that share words with a query, the best first.

        Of equals, the order is that in which their groups came.
        """
        with self._lock:
            index, functions = self._index, dict(self._functions)
            beside = list(self._beside())
        found = list(index.best(query, count, functions))
        found += index.beside(query, beside)
        order = {group: at for at, group in enumerate(functions)}
        found.sort(key=lambda one: (-round(one.score, 4), order[one.group], one.index))
        return found[:count]

    def ideal(self, query: Terms) -> float:
        """The score that a query would have if it were a function of the ranking itself."""
        with self._lock:
            index = self._index
        return index.ideal(query)

    def _beside(self) -> Iterator[tuple[Group, tuple[Terms, ...]]]:
        """The groups that are not in the index as they are now."""
        known = self._index.functions
        return ((group, terms) for group, terms in self._functions.items() if known.get(group) is not terms)


class _Index(Generic[Group]):
    """An index of functions as they were when it was built."""

    def __init__(self, functions: dict[Group, tuple[Terms, ...]]) -> None:
        self.functions = functions
        self._rows = [(group, at) for group, terms in functions.items() for at in range(len(terms))]
        terms = [one for several in functions.values() for one in several]
        self._frequency = Counter(word for one in terms for word in one)
        self._length = sum(_length(one) for one in terms) / len(terms) if terms else 0.0
        self._scores = _scores(terms) if self._frequency else None

    def best(self, query: Terms, count: int, now: dict[Group, tuple[Terms, ...]]) -> Iterator[Ranked[Group]]:
        """The best of the functions whose groups are still as they were."""
        known = [word for word in query if word in self._frequency]
        if self._scores is None or not known:
            return
        scores = self._scores.get_scores(known)
        # More than wanted: some may be gone. Ties at the end are cut by their order, as in `Ranking.best`.
        taken = min(len(scores), max(4 * count, count + 256))
        for row in np.argsort(-scores, kind="stable")[:taken].tolist():
            group, at = self._rows[row]
            if scores[row] > 0 and now.get(group) is self.functions[group]:
                yield Ranked(group, at, float(scores[row]), self.functions[group][at])

    def beside(
        self, query: Terms, groups: Sequence[tuple[Group, tuple[Terms, ...]]]
    ) -> Iterator[Ranked[Group]]:
        """The functions of groups that are not in the index, with the statistics of the index."""
        rarity = self._rarity(query)
        lengths = [_length(one) for _, functions in groups for one in functions]
        average = self._length or (sum(lengths) / len(lengths) if lengths else 1.0)
        for group, functions in groups:
            for at, one in enumerate(functions):
                score = _score(one, rarity, average)
                if score > 0:
                    yield Ranked(group, at, score, one)

    def ideal(self, query: Terms) -> float:
        """The score of a function for its own words, with the statistics of the index."""
        return _score(query, self._rarity(query), self._length or _length(query))

    def _rarity(self, query: Terms) -> dict[str, float]:
        """The weight of each word of a query, by the functions that have it."""
        n = len(self._rows)
        found = ((word, self._frequency[word]) for word in query)
        return {word: math.log(1 + (n - one + 0.5) / (one + 0.5)) for word, one in found}


def _length(one: Terms) -> int:
    """How many words there are."""
    return sum(one.values())


def _score(one: Terms, rarity: dict[str, float], average: float) -> float:
    """rarity: the weight of each word of the query. average: length of a function."""
    norm = K1 * (1 - B + B * _length(one) / (average or 1.0))
    shared = ((weight, one[word]) for word, weight in rarity.items() if word in one)
    return sum(weight * n / (n + norm) for weight, n in shared)


def _scores(functions: Sequence[Terms]) -> bm25s.BM25:
    """The index of bm25s."""
    import bm25s

    # It logs at every call, and asks for everything to be logged.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")
    documents = [list(Counter(one).elements()) for one in functions]
    index.index(documents, show_progress=False, create_empty_token=False)
    return index


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


class ExamplePool:
    """Given examples, for those who have them in memory: data sets, tests.

    The groups, such as repositories, are those of `groups`, one for each example.
    """

    def __init__(self, examples: Sequence[Example], groups: Sequence[str] | None = None) -> None:
        self._examples = examples
        self._groups = groups
        self._ranking = Ranking[int]()
        for at, example in enumerate(examples):
            self._ranking.put(at, (terms_of(example.code),))
        self._ranking.build()

    def best(self, code: str, count: int, without: str | None = None) -> list[Example]:
        """The examples that resemble a function most, the best first, near-duplicates left out.

        without: a group of which none is taken.
        """
        return [example for example, _ in self.scored(code, count, without)]

    def scored(
        self,
        code: str,
        count: int,
        without: str | None = None,
        admits: Callable[[int], bool] = lambda _at: True,
    ) -> list[tuple[Example, float]]:
        """As `best`, each with its score over the one that the function itself would have.

        admits: whether the example at an index may be taken.
        """
        query = terms_of(code)
        ideal = self._ranking.ideal(query)
        groups = self._groups
        ranked = self._ranking.best(query, max(20 * count, 200))
        admitted = chosen(
            ranked,
            query,
            count,
            lambda one: (
                admits(one.group) and (groups is None or without is None or groups[one.group] != without)
            ),
        )
        return [(self._examples[one.group], one.score / ideal if ideal else 0.0) for one in admitted]
