"""Which tokens may come next when the answer has to begin with characters that are already there.

A prompt that ends inside a word or after white space is tokenised unlike anything the model was trained on.
So the prompt is cut back to a boundary and the answer is forced to reproduce the cut text (token healing).
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError

_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


class Vocabulary:
    """The byte strings of all tokens, searchable by prefix.

    pieces: bytes of each token by id; empty for control tokens, which are never allowed while healing.
    tokenize: the model's own tokenisation of bytes, without control tokens.
    """

    def __init__(self, pieces: Sequence[bytes], tokenize: Callable[[bytes], Sequence[int]]) -> None:
        self.pieces = pieces
        self._tokenize = tokenize
        order = sorted((i for i, piece in enumerate(pieces) if piece), key=lambda i: pieces[i])
        self._ids = np.asarray(order, dtype=np.int64)
        self._sorted = [pieces[i] for i in order]
        self._longest = max((len(piece) for piece in pieces), default=0)
        self.spelling = functools.cache(self._spelling)

    def _spelling(self, word: str) -> NDArray[np.int64]:
        """Ids of the tokens that are this word, in any case, with white space and punctuation around it.

        A token that only begins the word is not one of them: what would follow it is unknown.
        """
        wanted = word.casefold()
        # Most tokens are longer or shorter: decode only those that can be the word.
        least = len(wanted)
        found = [
            id
            for id, piece in enumerate(self.pieces)
            if len(piece) >= least and _AROUND.sub("", piece.decode("utf-8", "replace")).casefold() == wanted
        ]
        return np.asarray(found, np.int64)

    def allowed(self, remaining: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that may come next, where `remaining` (not empty) has still to be reproduced.

        These are the tokens that cover all of `remaining`, the shorter ones that do not end inside a word,
        and the first token of its own tokenisation, so that there is always one. Tokens that end inside a
        word are left out: `f` may be likely because of `f(`, which the rest of `foo` rules out.
        Raises EngineError if the vocabulary cannot make these bytes at all.
        """
        covering = self._ids[self._range(remaining)]
        short = [
            int(self._ids[at])
            for size in range(1, min(len(remaining), self._longest + 1))
            if not _splits_word(remaining, size) and (at := self._find(remaining[:size])) is not None
        ]
        # A first token that covers everything is in `covering` already. Before white space `covering` is half
        # of the vocabulary, too long to search for duplicates.
        short += [
            token
            for token in self._first_of(remaining)
            if token not in short and len(self.pieces[token]) < len(remaining)
        ]
        allowed = np.concatenate([covering, np.asarray(short, np.int64)]) if short else covering
        if not allowed.size:
            raise EngineError(f"The model has no token for the {remaining[:1]!r} before the cursor.")
        return allowed

    def _first_of(self, remaining: bytes) -> Sequence[int]:
        """The first token of the model's own tokenisation.

        Where that does not reproduce the bytes (they begin inside a character, which a tokeniser replaces, or
        it puts a space before them), the longest token that does. Empty if there is none at all.
        """
        own = self._tokenize(remaining)[:1]
        if own and self.pieces[own[0]] and remaining.startswith(self.pieces[own[0]]):
            return own
        found = (self._find(remaining[:size]) for size in range(min(len(remaining), self._longest), 0, -1))
        return [int(self._ids[at]) for at in found if at is not None][:1]

    def _range(self, prefix: bytes) -> slice:
        after = _successor(prefix)
        return slice(
            bisect_left(self._sorted, prefix),
            len(self._sorted) if after is None else bisect_left(self._sorted, after),
        )

    def _find(self, piece: bytes) -> int | None:
        at = bisect_left(self._sorted, piece)
        return at if at < len(self._sorted) and self._sorted[at] == piece else None


def _splits_word(text: bytes, at: int) -> bool:
    return _in_word(text[at - 1]) and _in_word(text[at])


def _in_word(byte: int) -> bool:
    # Bytes from 0x80 are parts of characters outside ASCII: usually letters, and never to be split.
    return byte >= 0x80 or byte == 0x5F or chr(byte).isalnum()


def _successor(prefix: bytes) -> bytes | None:
    """The smallest byte string greater than all that begin with `prefix`, None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
