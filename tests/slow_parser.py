"""A parser in tree-sitter's place that takes its time for texts with the word "slow" in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tree_sitter

_Parser = tree_sitter.Parser


class SlowParser:
    """spend: lets seconds pass. piece: seconds for each piece of a slow text. end: seconds for the
    end of one of so many bytes, in one go.
    calls: parses. pieces: what was read. finished: sizes of slow texts that it has read to their end.
    """

    def __init__(
        self,
        spend: Callable[[float], None],
        piece: float = 0.0,
        end: Callable[[int], float] = lambda _: 0.0,
    ) -> None:
        self._spend, self.piece, self._end = spend, piece, end
        self.calls = 0
        self.finished: list[int] = []
        self.pieces: list[bytes] = []

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        """Parse all that is parsed in this process, until `patch` is undone."""
        patch.setattr(tree_sitter, "Parser", lambda grammar: _OfGrammar(self, _Parser(grammar)))

    def read(self, read: Callable[..., bytes], progress: Callable[[int, bool], bool]) -> bytes:
        """The text. Raises ValueError, as tree-sitter does, if it is told to stop."""
        text = b""
        while piece := bytes(read(len(text), (0, 0))):
            self.pieces.append(piece)
            text += piece
            self._spend(self.piece if b"slow" in text else 0.0)
            if progress(len(text), False):
                raise ValueError("stopped")
        if progress(len(text), False):
            raise ValueError("stopped")
        if b"slow" in text:
            self._spend(self._end(len(text)))
            self.finished.append(len(text))
        return text


class _OfGrammar:
    def __init__(self, shared: SlowParser, parser: tree_sitter.Parser) -> None:
        self._shared, self._parser = shared, parser

    def parse(self, source: Any, *old: Any, progress_callback: Any = None) -> tree_sitter.Tree:
        self._shared.calls += 1
        text = source if progress_callback is None else self._shared.read(source, progress_callback)
        return self._parser.parse(text, *old)
