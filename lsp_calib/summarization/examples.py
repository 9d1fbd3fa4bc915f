"""Functions with the sentence that a person wrote about them, and the words by which they are found. Pure."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator

import attrs

# The humps of an identifier: `parseHTTPHeader2` is parse, http, header.
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+")
# Characters of a function that are looked at.
_MOST = 20_000
# In characters. Code that is shorter says nothing, longer code does not fit beside what is asked.
_SHORTEST, _LONGEST = 30, 1_500
_LONGEST_SENTENCE = 160


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
