"""Which of the stored labels a refit rests on: the last ones, of each line and each visit only some. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# However many there are, a line weighs no more than five visits (`label_weights.MOST_OF_ONE_LINE`), and a
# visit no more than one label. So many rows of each say the same, and leave room for others.
MOST_ALIKE = 20
# Rows that are looked at for one that is taken: a store of one line alone is not read to its end.
REACH = 10


def last_of_each(
    rows: Iterable[tuple[T, Hashable, Hashable]], most: int, *, alike: int = MOST_ALIKE
) -> Iterator[T]:
    """The first `most` rows, at most `alike` of each line and of each visit.

    rows: (row, line, visit), the newest first. No more than REACH * `most` of them are looked at.
    Whether a label is right has no part in this, so what is taken is as good a sample as all were.

    >>> list(last_of_each([(n, n // 3, n) for n in range(9)], 4, alike=1))
    [0, 3, 6]
    """
    lines: Counter[Hashable] = Counter()
    visits: Counter[Hashable] = Counter()
    taken = 0
    for number, (row, line, visit) in enumerate(rows, 1):
        if lines[line] < alike and visits[visit] < alike:
            lines[line] += 1
            visits[visit] += 1
            taken += 1
            yield row
        if taken == most or number == REACH * most:
            return
