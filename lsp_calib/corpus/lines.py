"""Samples places for line completion from real source, in proportions as people ask for them.

Also reads from a project's folder what an editor's server would read around a place."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, TypeVar

import attrs

from lsp_calib.characters import normalised_line, same_line, split_lines
from lsp_calib.completion import block
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures
from lsp_calib.completion.postprocess import offered
from lsp_calib.completion.prompt import ALONE, Layout, Surroundings
from lsp_calib.completion.related_code import SourceFile, head_of, near_files, related
from lsp_calib.corpus.places import BEHIND_OPENER, STRATA, column_in, is_asked_for
from lsp_calib.errors import DataError
from lsp_calib.exclusion import Exclusion
from lsp_calib.files import read_file
from lsp_calib.languages import language_of, name_of
from lsp_calib.syntax import has_grammar, prose_lines
from lsp_calib.workspace_files import is_made_by_a_program, walk

INSERTING, WRITING_ON = "inserting", "writing-on"
"""The conditions: the text below the line stands, or everything below is left out, as where new code is
written at the end of a file."""

NEW_LINE = "new-line"
"""The condition of a whole line that is being written: of the text below it, the rest of its scope is left
out, because it is not written yet."""

PREFIX, NO_DOCSTRING = "prefix", "no-docstring"
"""The conditions of Spiess et al. 2024: the function from its signature down to the line, with its docstring
or without it, and nothing else."""

GIT = "git"
"""The source of lines that come from commits."""

_MOST_BYTES = 500_000
_SKIPPED_FOLDERS = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "site-packages",
    "build",
    "dist",
}
# Copies of other projects, and what a build leaves. For Python the folders above stay the only ones, and no
# file is looked into: the shipped calibrators rest on what was drawn that way.
_SKIPPED_ELSEWHERE = {
    *_SKIPPED_FOLDERS,
    "3rdparty",
    "bower_components",
    "deps",
    "external",
    "out",
    "target",
    "third-party",
    "third_party",
    "thirdparty",
    "vendor",
}
# Each kind of further lines is drawn for itself: asking for it changes no others.
_DRAWN_AS = {"": "", BEHIND_OPENER: ":openers", NEW_LINE: ":new"}
# Stubs and declarations have no statements to complete.
_NOT_DRAWN = (".pyi", ".pyw", ".d.ts", ".d.mts", ".d.cts")
# Seconds for which a header's project is looked through.
_LOOKING = 0.5
_HEADER = ".h"  # C's and C++'s: it belongs to the language of the files beside it


@attrs.frozen
class LineItem:
    """One place: a cursor in a line from which the rest, `target`, was removed.

    group: items of one group (a project) stay together in cross-validation.
    condition: INSERTING, WRITING_ON, NEW_LINE, PREFIX or NO_DOCSTRING. root, name: the project's folder, and
    the file's path below it, where pieces of other files may be read; empty for a place that is in no
    project. source: GIT for a line of commits, else empty. Such a line has a name, and no root. exclude:
    patterns of files of the project that no model may see, as in `exclusion`.
    """

    id: str
    group: str
    stratum: str
    cursor: Cursor
    target: str
    condition: str = INSERTING
    root: str = ""
    name: str = ""
    source: str = ""
    exclude: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole line, as lines are compared."""
        return normalised_line(self.cursor.before + self.target)

    def is_correct(self, completion: str) -> bool:
        """Exact match of the whole line, ignoring white space at both ends."""
        before = self.cursor.before
        return same_line(before + completion, before + self.target)

    def offered_as_code(self, answer: str) -> str:
        """The text that an editor offers of an answer with a probability; "" without one, or if it opens a
        documentation string: prose has none."""
        text = offered(answer, self.cursor).text
        return "" if text and DocumentFeatures().begins_documentation(self.cursor, text) else text

    def writing_on(self) -> LineItem:
        """The same place in a document that ends with its line."""
        return attrs.evolve(self, cursor=without_below(self.cursor), condition=WRITING_ON)

    def new_line(self) -> LineItem:
        """The same place, at the beginning of a line, in a document where the rest of its scope is not
        written yet."""
        cursor, lines = self.cursor, tuple(self.cursor.lines)
        below = lines[cursor.line + 1 :]
        left = below[lines_of_scope(cursor.before + self.target, below) :]
        shown = attrs.evolve(cursor, lines=(*lines[: cursor.line + 1], *left))
        return attrs.evolve(self, cursor=shown, condition=NEW_LINE)


T = TypeVar("T")


def distinct(found: Iterable[T], text: Callable[[T], str], known: Collection[str] = ()) -> list[T]:
    """The first with each text, in order, without those whose text is known.

    >>> distinct(["a", "b ", "a ", "c"], str.strip, {"c"})
    ['a', 'b ']
    """
    first: dict[str, T] = {}
    for one in found:
        first.setdefault(text(one), one)
    return [one for text_, one in first.items() if text_ not in known]


def plain(item: LineItem, **more: object) -> dict[str, object]:
    """An item as JSON types."""
    return {
        "item": item.id,
        "group": item.group,
        "stratum": item.stratum,
        "lines": list(item.cursor.lines),
        "line": item.cursor.line,
        "column": item.cursor.column,
        "language": item.cursor.language,
        "target": item.target,
        "condition": item.condition,
        "root": item.root,
        "name": item.name,
        **({"source": item.source} if item.source else {}),
        **({"exclude": list(item.exclude)} if item.exclude else {}),
        **more,
    }


def line_item_of(payload: Mapping[str, Any]) -> LineItem:
    """The item from which `plain` made this payload."""
    return LineItem(
        id=payload["item"],
        group=payload["group"],
        stratum=payload["stratum"],
        cursor=Cursor(tuple(payload["lines"]), payload["line"], payload["column"], payload["language"]),
        target=payload["target"],
        condition=payload["condition"],
        root=payload["root"],
        name=payload["name"],
        source=payload.get("source", ""),
        exclude=tuple(payload.get("exclude", ())),
    )


def lines_of_scope(first: str, below: Sequence[str]) -> int:
    """How many of the lines `below` the line `first` belong to the block that begins with it: those up to the
    end of its scope, as `completion.block` finds it."""
    for count, line in enumerate(below):
        scope = block.scope_of(first, line)
        if scope is not block.Scope.INSIDE:
            return count + (scope is block.Scope.LAST)
    return len(below)


def without_below(cursor: Cursor) -> Cursor:
    """The cursor in a document that ends with its line."""
    return attrs.evolve(cursor, lines=tuple(cursor.lines[: cursor.line + 1]))


Skip = Callable[[str], bool]
"""Whether no lines of a file are drawn, by its path below the project, with "/" between the parts."""


def source_files(root: Path, language: str = "python", skip: Skip | None = None) -> Iterator[Path]:
    """The source files of a language below `root` (or `root` itself), sorted; folders of third-party code and
    what a build leaves are left out.

    skip: further files to leave out. Raises DataError if `root` is a file of something else.
    """
    if root.is_file():
        _refuse_other(root, language)
        yield root
        return
    python = language == "python"
    skipped = _SKIPPED_FOLDERS if python else _SKIPPED_ELSEWHERE
    for path in sorted(root.rglob("*.py" if python else "*")):
        inside = path.relative_to(root)
        if not _is_of(path, language) or _outside(inside.parts[:-1], skipped):
            continue
        if skip is None or not skip(inside.as_posix()):
            yield path


def languages_below(root: Path) -> set[str]:
    """The languages with a grammar that files below `root` (or `root` itself) are written in.

    Headers alone are C; beside other files they say nothing.
    """
    if root.is_file():
        paths = [root]
    else:
        paths = [
            path
            for path in root.rglob("*")
            if not _outside(path.relative_to(root).parts[:-1], _SKIPPED_ELSEWHERE)
        ]
    drawn = [path for path in paths if not path.name.endswith(_NOT_DRAWN)]
    found = {language_of(path) for path in drawn if path.suffix != _HEADER}
    found = {language for language in found if has_grammar(language)}
    return found or {language_of(path) for path in drawn if path.suffix == _HEADER}


def language_of_file(path: Path, root: Path) -> str:
    """The language of a file: of a header C++ if there is C++ beside it, or else below `root`, its project.

    Raises nothing: what cannot be read says nothing.
    """
    own = language_of(path)
    if path.suffix != _HEADER:
        return own
    try:
        beside = {language_of(other) for other in path.absolute().parent.iterdir() if _tells(other)}
    except OSError:
        beside = set()
    if not beside:
        files = walk(root, path.absolute().parent, _tells, seconds=_LOOKING)
        beside = {"cpp"} if any(language_of(other) == "cpp" for other in files) else set()
    return "cpp" if "cpp" in beside else own


def _tells(path: PurePath) -> bool:
    """Whether a file tells C from C++."""
    return path.suffix != _HEADER and language_of(path) in ("c", "cpp")


def is_source(path: PurePath, language: str) -> bool:
    """Whether lines of a file are drawn for a language, by its path below the project."""
    skipped = _SKIPPED_FOLDERS if language == "python" else _SKIPPED_ELSEWHERE
    return _is_of(path, language) and not _outside(path.parts[:-1], skipped)


def _is_of(path: PurePath, language: str) -> bool:
    if path.suffix == _HEADER:
        return language == "cpp"
    return language_of(path) == language and not path.name.endswith(_NOT_DRAWN)


def _refuse_other(path: Path, language: str) -> None:
    """Raises DataError for a file that the user has named and that is not of the language."""
    # A header that is named alone is of the language that the user says.
    if _is_of(path, language) or (path.suffix == _HEADER and language == "c"):
        return
    own = language_of(path)
    if own == language:
        what = "a stub or holds declarations only: nothing in it is to be completed"
    else:
        what = f"not a {name_of(language)} file: its lines would be taken for {name_of(language)}"
    elsewhere = "or name the folder of the source"
    if own != language and has_grammar(own):
        elsewhere = f"name the folder of the source, or ask for this language alone with --language {own}"
    raise DataError(f"{path} is {what}. Leave it out, {elsewhere}.")


def _outside(folders: Sequence[str], skipped: Collection[str]) -> bool:
    return any(name in skipped or name.startswith(".") for name in folders)


def read_lines_of(path: Path, language: str) -> Sequence[str]:
    """The lines of a source file; none of a link, one that cannot be read, is too large, or was generated
    (but for Python)."""
    lines = _lines_of_file(path, _MOST_BYTES)
    return () if language != "python" and is_made_by_a_program(path.name, lines) else lines


def _lines_of_file(path: Path, most: int) -> tuple[str, ...]:
    """The lines of a file of at most so many bytes; none of a link, or if it cannot be read."""
    try:
        return tuple(split_lines(read_file(path, most, links=False).decode("utf-8-sig")))
    except (OSError, UnicodeDecodeError):
        return ()


def _why_unread(path: Path) -> str:
    """Why `read_lines_of` has no lines of a file, to follow a number of files."""
    try:
        if path.is_symlink():
            return "links"
        if not path.is_file():
            return "no regular files"
        if path.stat().st_size > _MOST_BYTES:
            return f"larger than {_MOST_BYTES // 1000} kB"
        return "generated" if read_file(path, _MOST_BYTES).decode("utf-8-sig").strip() else "empty"
    except UnicodeDecodeError:
        return "not UTF-8 text"
    except OSError:
        return "unreadable"


def sample_lines(
    root: Path,
    group: str,
    count: int,
    seed: int = 0,
    language: str = "python",
    exclude: Sequence[str] = (),
    *,
    kind: str = "",
    skip: Skip | None = None,
    known: Collection[str] | None = None,
) -> list[LineItem]:
    """At most `count` places in the files of a language below `root`, a line at most once.

    exclude: patterns of files that no model may see. kind: BEHIND_OPENER: all places are behind a bracket or
    quote that opens; NEW_LINE: all are whole lines, after their indentation, each as `LineItem.new_line`;
    else of the kinds and in the proportions of `STRATA`. skip: as for `source_files`. known: the `text` of
    lines that are not drawn; no two with one text are. None: each place is a line of its own.
    Deterministic for the same files and seed. Generated and minified files are left out (but for Python).
    Raises DataError if there is no such file.
    """
    # The bytes draw as the text does, also for a name that is not UTF-8.
    drawing = f"{seed}:{group}{_DRAWN_AS[kind]}"
    rng = random.Random(drawing.encode("utf-8", "surrogatepass"))
    candidates: list[tuple[Path, Sequence[str], int]] = []
    exclusion = Exclusion(tuple(exclude))
    left_out = Counter[str]()
    for path in source_files(root, language, skip):
        if exclusion.reason(str(path)):
            left_out["excluded"] += 1
            continue
        lines = read_lines_of(path, language)
        if not lines:
            left_out[_why_unread(path)] += 1
        prose = prose_lines(lines, language)
        candidates += [
            (path, lines, at) for at, line in enumerate(lines) if at not in prose and is_asked_for(line)
        ]
    if not candidates:
        counted = "; ".join(f"{n} {why}" for why, n in sorted(left_out.items()))
        more = f" Files left out: {counted}." if counted else ""
        raise DataError(f"There is no {name_of(language)} source below {root}.{more}")
    rng.shuffle(candidates)
    if known is not None:
        candidates = distinct(candidates, lambda one: normalised_line(one[1][one[2]]), known)
    items: list[LineItem] = []
    if kind == NEW_LINE:
        for path, lines, at in candidates[:count]:
            column = len(lines[at]) - len(lines[at].lstrip())
            stratum = "after-indentation" if column else "line-start"
            item = _item(root, group, path, lines, at, column, stratum, language, exclusion.patterns)
            items.append(item.new_line())
        return items
    weights = {BEHIND_OPENER: 1.0} if kind == BEHIND_OPENER else dict(STRATA)
    while candidates and weights and len(items) < count:
        # Draw the kind first, then a line with such a place. Drawing lines first would give too few places of
        # the kinds that not every line has.
        (stratum,) = rng.choices(list(weights), weights=list(weights.values()))
        columns = (column_in(lines[at], stratum, rng) for _, lines, at in candidates)
        drawn = next(((n, column) for n, column in enumerate(columns) if column is not None), None)
        if drawn is None:
            del weights[stratum]
            continue
        n, column = drawn
        path, lines, at = candidates.pop(n)
        place = "mid-line" if stratum == BEHIND_OPENER else stratum
        items.append(_item(root, group, path, lines, at, column, place, language, exclusion.patterns))
    return items


def _item(
    root: Path,
    group: str,
    path: Path,
    lines: Sequence[str],
    at: int,
    column: int,
    stratum: str,
    language: str,
    exclude: tuple[str, ...] = (),
) -> LineItem:
    name = path.relative_to(root).as_posix() if root.is_dir() else path.name
    shown = [*lines[:at], lines[at][:column], *lines[at + 1 :]]
    return LineItem(
        id=f"{group}/{name}:{at + 1}:{column + 1}",
        group=group,
        stratum=stratum,
        cursor=Cursor.at(shown, at, column, language),
        target=lines[at][column:],
        root=str(root) if root.is_dir() else "",
        name=name if root.is_dir() else "",
        exclude=exclude,
    )


# In bytes. A larger file beside the item's own is data.
_MOST_BYTES_AROUND = 300_000
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
    lines = _lines_of_file(path, _MOST_BYTES_AROUND)
    return () if is_made_by_a_program(path.name, lines) else lines
