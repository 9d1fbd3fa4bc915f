"""Functions with the sentence that a person wrote about them, and the words by which they are found. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The humps of an identifier: `parseHTTPHeader2` is parse, http, header.
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+")
# Characters of a function that are looked at.
_MOST = 20_000
# In characters. Code that is shorter says nothing, longer code does not fit beside what is asked.
_SHORTEST, _LONGEST = 30, 1_500
_LONGEST_SENTENCE = 160
# Languages that people mix in one project, and that read alike.


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


@attrs.frozen(eq=False)
class Terms:
    """The words of a function as keyed hashes, without their order.

    hashes: uint64 array of shape (n,), ascending. counts: float32 array of shape (n,), how often each occurs.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.float32]

    @property
    def length(self) -> float:
        """How many words there are."""
        return float(self.counts.sum())


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


def terms_of(code: str, key: bytes) -> Terms:
    """The words of a function's code, hashed: whoever reads the memory of the process without the key learns
    none of them.

    key: at most 64 bytes. With the same key, the same words have the same hashes.
    """
    import numpy as np

    found = Counter(words_of(code))
    pairs = sorted(
        (int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8, key=key).digest()), n)
        for word, n in found.items()
    )
    return Terms(
        np.array([hash_ for hash_, _ in pairs], np.uint64), np.array([n for _, n in pairs], np.float32)
    )


def likeness(one: Terms, other: Terms) -> float:
    """The share of the words that two functions have in common, in [0, 1]: weighted Jaccard index."""
    import numpy as np

    _, at, there = np.intersect1d(one.hashes, other.hashes, assume_unique=True, return_indices=True)
    shared = float(np.minimum(one.counts[at], other.counts[there]).sum())
    all_ = one.length + other.length - shared
    return shared / all_ if all_ else 1.0
