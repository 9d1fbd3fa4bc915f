"""The user's own items: a file of JSON lines.

Each line is an object with these strings:

    before     the document up to the cursor
    target     the correct text after the cursor, up to the end of the line
    after      the document from the end of that line, beginning with its newline (may be missing)
    language   an LSP language identifier (may be missing: "plaintext")
    id         unique, also across files (may be missing: the file's name and the line's number)
    group      keeps items together in cross-validation, such as a project (may be missing: the file's name)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lsp_calib.completion.context import Cursor
from lsp_calib.evaluation.datasets.folder import Row, read_rows, text
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.text_lines import split_lines

JSON_LINES = (".jsonl", ".jsonl.gz")


def read_lines(path: Path) -> Iterator[LineItem]:
    """The items of a file of JSON lines, one at a time. Raises DataError for a line that is not an item."""
    seen: set[str] = set()

    def make(row: Row) -> LineItem:
        item = _item(row, default_id=f"{path.name}/{len(seen) + 1}", default_group=path.name)
        if item.id in seen:
            raise ValueError(f"the id {item.id!r} was there before")
        seen.add(item.id)
        return item

    return read_rows(path, make)


def _item(row: Row, default_id: str, default_group: str) -> LineItem:
    before, target = split_lines(text(row, "before")), text(row, "target")
    if len(split_lines(target)) > 1:
        raise ValueError("target is more than one line")
    if not target.strip():
        raise ValueError("target is empty")
    after = text(row, "after") if "after" in row else ""
    if after and after[0] not in "\r\n":
        raise ValueError("after does not begin with the newline that ends the line")
    lines = split_lines(text(row, "before") + after)
    at = len(before) - 1
    return LineItem(
        id=text(row, "id") if "id" in row else default_id,
        group=text(row, "group") if "group" in row else default_group,
        stratum=_stratum(before[at], target),
        cursor=Cursor.at(
            lines, at, len(before[at]), text(row, "language") if "language" in row else "plaintext"
        ),
        target=target,
    )


def _stratum(before: str, target: str) -> str:
    if not before:
        return "line-start"
    if not before.strip():
        return "after-indentation"
    within = (before[-1].isalnum() or before[-1] == "_") and (target[0].isalnum() or target[0] == "_")
    return "mid-word" if within else "mid-line"
