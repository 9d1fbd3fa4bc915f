"""The functions that resemble one most: BM25 over the words of their code. No I/O.

An index of bm25s holds the score of each word in each function, so it cannot be changed. What has changed
since it was built is scored beside it, with its statistics of words; `Ranking.build` makes a new one.
Source: Robertson and Zaragoza 2009, in the variant of Lucene (Kamphuis et al. 2020), k1 = 1.5, b = 0.75.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from lsp_calib.summarization.examples import Example, Terms, likeness, terms_of

if TYPE_CHECKING:
    import bm25s
    import numpy as np
    from numpy.typing import NDArray

K1, B = 1.5, 0.75
# From this likeness on two functions count as the same one: a copy would give the answer away.
NEAR_DUPLICATE = 0.9
# A new index is due once so many functions, and this share of all, are scored beside it.
_MOST_BESIDE, _SHARE_BESIDE = 256, 0.05

Group = TypeVar("Group", bound=Hashable)


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
        return index.score(query, query)

    def _beside(self) -> Iterator[tuple[Group, tuple[Terms, ...]]]:
        """The groups that are not in the index as they are now."""
        known = self._index.functions
        return ((group, terms) for group, terms in self._functions.items() if known.get(group) is not terms)


class _Index(Generic[Group]):
    """An index of functions as they were when it was built."""

    def __init__(self, functions: dict[Group, tuple[Terms, ...]]) -> None:
        import numpy as np

        self.functions = functions
        self._rows = [(group, at) for group, terms in functions.items() for at in range(len(terms))]
        terms = [one for several in functions.values() for one in several]
        hashes = np.concatenate([one.hashes for one in terms]) if terms else np.empty(0, np.uint64)
        self._vocabulary, ids, self._frequency = np.unique(hashes, return_inverse=True, return_counts=True)
        self._length = sum(one.length for one in terms) / len(terms) if terms else 0.0
        self._scores = _scores(terms, ids.tolist(), len(self._vocabulary)) if len(hashes) else None

    def best(self, query: Terms, count: int, now: dict[Group, tuple[Terms, ...]]) -> Iterator[Ranked[Group]]:
        """The best of the functions whose groups are still as they were."""
        import numpy as np

        if self._scores is None:
            return
        known = np.flatnonzero(np.isin(self._vocabulary, query.hashes, assume_unique=True))
        scores = self._scores.get_scores_from_ids(known)
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
        lengths = [one.length for _, functions in groups for one in functions]
        average = self._length or (sum(lengths) / len(lengths) if lengths else 1.0)
        for group, functions in groups:
            for at, one in enumerate(functions):
                score = _score(query, one, rarity, average)
                if score > 0:
                    yield Ranked(group, at, score, one)

    def score(self, query: Terms, one: Terms) -> float:
        """The score of a function for a query, with the statistics of the index."""
        return _score(query, one, self._rarity(query), self._length or one.length)

    def _rarity(self, query: Terms) -> NDArray[np.float64]:
        """The weight of each word of a query, by the functions that have it."""
        import numpy as np

        at = np.searchsorted(self._vocabulary, query.hashes)
        inside = np.minimum(at, max(len(self._vocabulary) - 1, 0))
        if len(self._vocabulary):
            same = self._vocabulary[inside] == query.hashes
            frequency = np.where(same, self._frequency[inside], 0)
        else:
            frequency = np.zeros(len(query.hashes))
        n = len(self._rows)
        return np.array([math.log(1 + (n - one + 0.5) / (one + 0.5)) for one in frequency.tolist()])


def _score(query: Terms, one: Terms, rarity: NDArray[np.float64], average: float) -> float:
    """rarity: the weight of each word of the query. average: length of a function."""
    import numpy as np

    _, mine, there = np.intersect1d(query.hashes, one.hashes, assume_unique=True, return_indices=True)
    counts = one.counts[there]
    damped = counts / (counts + K1 * (1 - B + B * one.length / (average or 1.0)))
    return float((rarity[mine] * damped).sum())


def _scores(functions: Sequence[Terms], ids: list[int], words: int) -> bm25s.BM25:
    """The index of bm25s. ids: of the words of all functions one after the other, below `words`."""
    import logging

    import bm25s

    # It logs at every call, and asks for everything to be logged.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")
    documents, at = [], 0
    for one in functions:
        n = len(one.hashes)
        counts = one.counts.astype(int).tolist()
        documents.append(
            [id_ for id_, count in zip(ids[at : at + n], counts, strict=True) for _ in range(count)]
        )
        at += n
    vocabulary = {str(id_): id_ for id_ in range(words)}
    index.index((documents, vocabulary), show_progress=False, create_empty_token=False)
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
            self._ranking.put(at, (terms_of(example.code, b""),))
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
        query = terms_of(code, b"")
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
