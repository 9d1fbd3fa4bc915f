"""A dictionary that holds so many entries at most: the one that was used longest ago makes room."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRU(OrderedDict[K, V]):
    """Setting a key, and `recall`, make it the one used last; `in`, `[]` and `get` look without using it.

    >>> one = LRU[str, int](2)
    >>> one["a"], one["b"] = 1, 2
    >>> one.recall("a")
    1
    >>> one["c"] = 3
    >>> list(one)
    ['a', 'c']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)

    def amend(self, key: K, value: V) -> None:
        """Another value of a key that is there, which does not count as a use."""
        super().__setitem__(key, value)

    def recall(self, key: K) -> V | None:
        """The value of a key, which counts as used now; None without one."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)
