"""What is remembered of a document, so that the features of a completion cost time for one line."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

from lsp_calib.completion.context import Cursor
from lsp_calib.syntax.languages import rules_of
from lsp_calib.syntax.region import region_of
from lsp_calib.syntax.source_tree import SourceTree
from lsp_calib.text_lines import comparable

_WORD = re.compile(r"[^\W\d]\w*")

# Two versions of a document are compared by so many lines at once.
_CHUNK = 1024
_MOST_CHANGES = 16


class DocumentIndex:
    """A document without the cursor's line: its tree, and how often each line and each word stands in it.

    While a user types in one line, nothing of it changes. An index that was updated equals a new one.

    repeats, words: how often a line (as `comparable` gives it) or a word stands in it; none is 0.
    size: in characters. below: the next line that is not blank, None at the end.
    tree: of the lines from `first` on, the cursor's empty; None if the language has no grammar.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.repeats: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.size = 0
        self._lines: Sequence[str] = ()
        self._row = 0
        self.language = cursor.language
        self._rules = rules_of(cursor.language)
        self.tree: SourceTree | None = None
        self.first = self._last = 0
        self.below: str | None = None
        self._count(cursor.lines[: cursor.line], 1)
        self._count(cursor.lines[cursor.line + 1 :], 1)
        self._sorted = sorted(self.repeats)
        self._move_to(cursor)

    def update(self, cursor: Cursor) -> None:
        """Make it the index of another version of the document, or of another line of it.

        Its language must be the same.
        """
        old, new, row = self._lines, cursor.lines, self._row
        if new is old and cursor.line == row:
            return
        changes = _changes(old, new)
        if cursor.line == row and len(old) == len(new) and changes in ([], [(row, row + 1, row + 1)]):
            self._lines = new
            return
        # The old cursor's line comes back, the lines that differ are exchanged, the new cursor's line goes.
        self._recount((), old[row : row + 1])
        self._edit(row, row + 1, old[row : row + 1])
        for first, last, new_last in changes:
            self._recount(old[first:last], new[first:new_last])
            self._edit(first, last, new[first:new_last])
        self._recount(new[cursor.line : cursor.line + 1], ())
        self._move_to(cursor)

    def _move_to(self, cursor: Cursor) -> None:
        """Let the tree, which may hold another region of these lines, hold the cursor's; empty its line."""
        self._lines, self._row = cursor.lines, cursor.line
        following = itertools.islice(cursor.lines, cursor.line + 1, None)
        self.below = next((line for line in following if line.strip()), None)
        if self._rules is None:
            return
        first, last = region_of(self._rules, cursor.lines, cursor.line)
        if self.tree is None or first >= self._last or last <= self.first:
            above, below = cursor.lines[first : cursor.line], cursor.lines[cursor.line + 1 : last]
            self.tree = SourceTree(self._rules, (*above, "", *below))
        else:
            end, row = self._last - self.first, cursor.line - first
            self.tree.replace(end - max(self._last - last, 0), end, cursor.lines[self._last : last])
            self.tree.replace(0, max(first - self.first, 0), cursor.lines[first : self.first])
            self.tree.replace(row, row + 1, ("",))
            self.tree.parse(row)
        self.first, self._last = first, last

    def _edit(self, first: int, last: int, lines: Sequence[str]) -> None:
        """Exchange the lines from `first` to (not including) `last` in the tree."""
        longer = len(lines) - (last - first)
        if self.tree is None or first >= self._last:
            return
        if first >= self.first and last <= self._last:
            self.tree.replace(first - self.first, last - self.first, lines)
        elif last <= self.first:
            self.first += longer
        else:
            self.tree = None  # lines of the region and others
        self._last += longer

    def beginning_with(self, text: str) -> int:
        """How many of the lines begin with a text, white space before it aside."""
        first = bisect_left(self._sorted, text)
        last = bisect_right(self._sorted, text, first, key=lambda line: line[: len(text)])
        return sum(map(self.repeats.__getitem__, self._sorted[first:last]))

    def _count(self, lines: Sequence[str], sign: int) -> None:
        for line in lines:
            self.size += sign * len(line)
            self.repeats[comparable(line)] += sign
            for word in _WORD.findall(line):
                self.words[word] += sign

    def _recount(self, old: Sequence[str], new: Sequence[str]) -> None:
        """Count lines of `new` instead of those of `old`."""
        self._count(new, 1)
        self._count(old, -1)
        for line in {comparable(line) for line in (*old, *new)}:
            at = bisect_left(self._sorted, line)
            listed = self._sorted[at : at + 1] == [line]
            if not self.repeats[line]:
                del self.repeats[line]
            if listed and line not in self.repeats:
                del self._sorted[at]
            elif not listed and line in self.repeats:
                self._sorted.insert(at, line)
        for word in {word for line in old for word in _WORD.findall(line)}:
            if not self.words[word]:
                del self.words[word]


def _changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """What differs: (first line, end of the old lines, end of the new lines) for each change.

    Changes at several places are told apart only where none makes the document longer or shorter, and up to
    `_MOST_CHANGES`; otherwise they are one, with all between them.
    """
    head, tail = _common(old, new)
    first, last = head, len(old) - tail
    if len(old) != len(new):
        return [(first, last, len(new) - tail)]
    changes: list[tuple[int, int, int]] = []
    for chunk in range(first, last, _CHUNK):
        end = min(chunk + _CHUNK, last)
        if old[chunk:end] == new[chunk:end]:
            continue
        for at in range(chunk, end):
            if old[at] == new[at]:
                continue
            if changes and changes[-1][1] == at:
                changes[-1] = changes[-1][0], at + 1, at + 1
            else:
                changes.append((at, at + 1, at + 1))
    return changes if len(changes) <= _MOST_CHANGES else [(first, last, last)]


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines at the beginning, and how many of the others at the end, are the same."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head : head + _CHUNK] == new[head : head + _CHUNK]:
        head += _CHUNK
    head = min(head, most)
    while head < most and old[head] == new[head]:
        head += 1
    most -= head
    a, b = len(old), len(new)
    tail = 0
    while tail + _CHUNK <= most and old[a - tail - _CHUNK : a - tail] == new[b - tail - _CHUNK : b - tail]:
        tail += _CHUNK
    while tail < most and old[a - tail - 1] == new[b - tail - 1]:
        tail += 1
    return head, tail
