"""The files around a place in a project, read from its folder: what an editor's server would read."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from lsp_calib.completion.prompt import ALONE, Layout, Surroundings
from lsp_calib.completion.related_code import SourceFile, head_of, near_files, related
from lsp_calib.evaluation.lines import LineItem, source_files
from lsp_calib.exclusion import Exclusion
from lsp_calib.files import read_file
from lsp_calib.text_lines import split_lines
from lsp_calib.workspace_files import is_made_by_a_program

# In bytes. A larger file is data.
_MOST_BYTES = 300_000
_VERSION = re.compile(r"-\d.*")


def surroundings_of(item: LineItem, layout: Layout) -> Surroundings:
    """What the prompt of an item holds besides its document; nothing for a layout without room for it, and
    for a place that is in no project. For a line of a commit there are no other files: today's know what was
    written later."""
    if not layout.related or not item.name:
        return ALONE
    root, cursor = Path(item.root or item.group), item.cursor
    files: list[SourceFile] = []
    if item.root:
        names = near_files(item.name, head_of(cursor.lines), _names(root, cursor.language, item.exclude))
        files = [SourceFile(name, lines) for name in names if (lines := _lines(root / name))]
    found = related(cursor, layout.shown(cursor), item.name, files, layout.related)
    return Surroundings(_VERSION.sub("", root.name), item.name, found)


@functools.lru_cache(maxsize=4)
def _names(root: Path, language: str, exclude: tuple[str, ...]) -> tuple[str, ...]:
    """The source files of a project that a model may see."""
    exclusion = Exclusion(exclude)
    shown = (path for path in source_files(root, language) if not exclusion.reason(str(path)))
    return tuple(path.relative_to(root).as_posix() for path in shown)


@functools.lru_cache(maxsize=200)
def _lines(path: Path) -> tuple[str, ...]:
    """The lines of a file; none if it cannot be read, or no person has written it."""
    try:
        lines = split_lines(read_file(path, _MOST_BYTES, links=False).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return ()
    return () if is_made_by_a_program(path.name, lines) else tuple(lines)
