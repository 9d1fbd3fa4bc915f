"""Completions that go on from the item selected in the editor's completion menu. Pure."""

from __future__ import annotations

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion


@attrs.frozen
class Selected:
    """An item that is selected in a completion menu: it would replace a part of the cursor's line.

    cursor: after the item, in the document as it would be with it. start: the column where the item begins,
    in code points. replaced: the text that it would replace.
    """

    cursor: Cursor
    start: int
    replaced: str

    @classmethod
    def at(cls, cursor: Cursor, start: int, end: int, text: str) -> Selected | None:
        """The item `text` that would replace the columns from `start` to `end` of the line of `cursor`.

        None if nothing can go on from it: it has several lines, or does not reach the cursor.
        """
        line = cursor.lines[cursor.line]
        if not 0 <= start <= cursor.column <= end <= len(line) or "\n" in text or "\r" in text:
            return None
        lines = (
            *cursor.lines[: cursor.line],
            line[:start] + text + line[end:],
            *cursor.lines[cursor.line + 1 :],
        )
        after = Cursor.at(lines, cursor.line, start + len(text), cursor.language)
        return cls(after, start, line[start:end])

    def extended(self, completion: Completion) -> Completion:
        """A completion at `cursor`, as it is offered while the menu is open: the item, then its text."""
        at = self.cursor
        item = at.before[self.start :]
        line = at.before[: self.start] + at.after
        lines = (*at.lines[: at.line], line, *at.lines[at.line + 1 :])
        old = completion.suggestion
        doubt = None if old.doubt is None else (old.doubt[0] + len(item), old.doubt[1] + len(item))
        return attrs.evolve(
            completion,
            suggestion=attrs.evolve(old, text=item + old.text, doubt=doubt),
            cursor=Cursor.at(lines, at.line, self.start, at.language),
            replaced=self.replaced,
        )
