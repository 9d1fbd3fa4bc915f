"""Tokenises texts of which most was tokenised a keystroke ago. Pure, given the model's tokeniser."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

Tokenize = Callable[[bytes, bool], tuple[int, ...]]

# Between a letter or digit and the end of its line the patterns by which a text is split into words before
# the merges (byte-pair encoding) all have a boundary. SentencePiece's merges may cross it.
_BOUNDARY = re.compile(rb"(?<=[A-Za-z0-9])(?=\r?\n)")
# Pieces are this long at least, in bytes: only the last one changes as the text grows at its end.
_PIECE = 512
_KEPT = 128
# Longer texts do not come from an editor's window, and are not worth keeping.
_LONGEST_KEPT = 1 << 16
# Every kind of word before a line's end, and every kind of text that may follow it.
_SAMPLE = (
    b"class Alpha:\n    def beta(self, x1):\n        return x1\n\n\n    gamma = 12\n\tdelta = 3.14e10\r\n\r\n"
    b"import os\nfrom a import b\n\n\nvalue = 0x1F\n# A comment's end\n    self.items = THE_END9\n  \n"
    b"else\n\xc3\xa9t\xc3\xa9 = x\n'''text\n...\nanother\n\n    @decorator\nend\r\n\t\tnested\nlast\n"
)


class Tokenizer:
    """A model's tokeniser with a memory.

    tokenize: token ids of UTF-8 bytes; with True, control tokens are recognised. The tokens of a text are the
    same as without the memory: it is cut only where a sample shows that this model's tokeniser allows it.
    """

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._remembered = functools.lru_cache(_KEPT)(tokenize)
        self.cuts = _may_be_cut(tokenize)

    def __call__(self, text: bytes, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of UTF-8 bytes; control tokens are recognised only where `control` is set."""
        if len(text) > _LONGEST_KEPT:
            return self._tokenize(text, control)
        if control or not self.cuts:
            return self._remembered(text, control)
        tokens: list[int] = []
        start = 0
        while (cut := _BOUNDARY.search(text, start + _PIECE)) is not None:
            tokens += self._remembered(text[start : cut.start()], False)
            start = cut.start()
        return (*tokens, *self._remembered(text[start:], False))


def _may_be_cut(tokenize: Tokenize) -> bool:
    whole = tokenize(_SAMPLE, False)
    return all(
        tokenize(_SAMPLE[: cut.start()], False) + tokenize(_SAMPLE[cut.start() :], False) == whole
        for cut in _BOUNDARY.finditer(_SAMPLE)
    )
