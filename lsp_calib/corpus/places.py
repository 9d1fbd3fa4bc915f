"""Places in lines of source, in the kinds and proportions in which people ask for completions there.

A task is what a model is asked for: places in the source of projects, or in a user's own file of lines. What
an editor's server would read around a place is read from the project's folder.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.characters import indentation_of, normalised_line, same_line, split_lines
from lsp_calib.completion import block
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures
from lsp_calib.completion.postprocess import offered
from lsp_calib.completion.prompt import ALONE, Layout, Surroundings
from lsp_calib.completion.related_code import SourceFile, head_of, near_files, related
from lsp_calib.corpus.source import (
    JSON_LINES,
    Skip,
    language_below,
    lines_of_file,
    project_names,
    read_lines_of,
    source_files,
    why_unread,
    writable,
)
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.exclusion import Exclusion
from lsp_calib.files import open_file
from lsp_calib.languages import name_of
from lsp_calib.syntax import prose_lines
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.workspace_files import is_made_by_a_program

Plain = Mapping[str, Any]
"""JSON types: the data of an item as they are sent to a worker, and its results."""

T = TypeVar("T")
Row = Mapping[str, Any]
INSERTING, WRITING_ON = "inserting", "writing-on"
"""The conditions: the text below the line stands, or everything below is left out, as where new code is
written at the end of a file."""

NEW_LINE = "new-line"
"""The condition of a whole line that is being written: of the text below it, the rest of its scope is left
out, because it is not written yet."""

GIT = "git"
"""The source of lines that come from commits."""
# The share of each kind of place in finished lines, as people ask for completions there. Most requests come
# after Enter, with the indentation already there, and while a word is being typed.
STRATA = {"line-start": 0.10, "after-indentation": 0.40, "mid-line": 0.25, "mid-word": 0.25}
BEHIND_OPENER = "behind-opener"
"""A further kind of place: behind a bracket or quote that opens, where editors have written the closer."""

_LONGEST_ASKED = 160
_MID_LINE = re.compile(r"(?<=[\s(\[{.,=])(?=\S)")
_MID_WORD = re.compile(r"(?<=\w)(?=\w)")
# A quote that follows a word or a quote closes, as far as a line alone tells.
_BEHIND_OPENER = re.compile(r"""(?<=[(\[{])(?=\s*\S)|(?<=(?<![\w"'])["'])(?=[^"'\s])""")
# Each kind of further lines is drawn for itself: asking for it changes no others.
_DRAWN_AS = {"": "", BEHIND_OPENER: ":openers", NEW_LINE: ":new"}
FEWEST = 20
FEWEST_GROUPS = 3
"""Fewer groups cannot be split into parts to fit on, to choose by, and to judge by."""

_OF_A_FILE = re.compile(r".+:(?:[0-9a-f]+\.)?\d+:\d+", re.DOTALL)
# The longest row of the known data sets has less than 40,000 characters.
_LONGEST_ROW = 16 << 20
# In bytes. A larger file beside the item's own is data.
_MOST_BYTES_AROUND = 300_000
_VERSION = re.compile(r"-\d.*")


def is_asked_for(line: str) -> bool:
    """Whether a line is worth a completion: not nearly empty, and not so long that it holds data."""
    return len(line) <= _LONGEST_ASKED and len(line.strip()) > 3


def column_in(line: str, stratum: str, rng: random.Random) -> int | None:
    """A column of this kind in a line, from 0; None if it has none."""
    indentation = len(indentation_of(line))
    if stratum == "line-start":
        return 0
    if stratum == "after-indentation":
        return indentation or None
    pattern = {"mid-line": _MID_LINE, BEHIND_OPENER: _BEHIND_OPENER}.get(stratum, _MID_WORD)
    places = [match.start() for match in pattern.finditer(line) if match.start() > indentation]
    return rng.choice(places) if places else None


def drawn_place(line: str, rng: random.Random) -> tuple[str, int]:
    """A kind of place that the line has, in the proportions in which people ask, and the column."""
    columns = {stratum: column_in(line, stratum, rng) for stratum in STRATA}
    known = {stratum: column for stratum, column in columns.items() if column is not None}
    (stratum,) = rng.choices(list(known), weights=[STRATA[one] for one in known])
    return stratum, known[stratum]


@attrs.frozen
class LineItem:
    """One place: a cursor in a line from which the rest, `target`, was removed.

    group: items of one group (a project) stay together in cross-validation.
    condition: INSERTING, WRITING_ON or NEW_LINE, or a study's. root, name: the project's folder, and
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


_PLAIN = ("group", "stratum", "target", "condition", "root", "name")


def plain(item: LineItem, **more: object) -> dict[str, object]:
    """An item as JSON types."""
    return {
        "item": item.id,
        **{name: getattr(item, name) for name in _PLAIN},
        "lines": list(item.cursor.lines),
        "line": item.cursor.line,
        "column": item.cursor.column,
        "language": item.cursor.language,
        **({"source": item.source} if item.source else {}),
        **({"exclude": list(item.exclude)} if item.exclude else {}),
        **more,
    }


def line_item_of(payload: Plain) -> LineItem:
    """The item from which `plain` made this payload."""
    return LineItem(
        id=payload["item"],
        cursor=Cursor(tuple(payload["lines"]), payload["line"], payload["column"], payload["language"]),
        source=payload.get("source", ""),
        exclude=tuple(payload.get("exclude", ())),
        **{name: payload[name] for name in _PLAIN},
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


def distinct(found: Iterable[T], text: Callable[[T], str], known: Collection[str] = ()) -> list[T]:
    """The first with each text, in order, without those whose text is known.

    >>> distinct(["a", "b ", "a ", "c"], str.strip, {"c"})
    ['a', 'b ']
    """
    first: dict[str, T] = {}
    for one in found:
        first.setdefault(text(one), one)
    return [one for text_, one in first.items() if text_ not in known]


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
            left_out[why_unread(path)] += 1
        prose = prose_lines(lines, language)
        candidates += [
            (path, lines, at) for at, line in enumerate(lines) if at not in prose and is_asked_for(line)
        ]
    if not candidates:
        counted = "; ".join(f"{n} {why}" for why, n in sorted(left_out.items()))
        more = f" Files left out: {counted}." if counted else ""
        raise DataError(f"There is no {name_of(language)} source below {root}.{more}")

    def item(path: Path, lines: Sequence[str], at: int, column: int, stratum: str) -> LineItem:
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
            exclude=exclusion.patterns,
        )

    rng.shuffle(candidates)
    if known is not None:
        candidates = distinct(candidates, lambda one: normalised_line(one[1][one[2]]), known)
    items: list[LineItem] = []
    if kind == NEW_LINE:
        for path, lines, at in candidates[:count]:
            column = len(lines[at]) - len(lines[at].lstrip())
            stratum = "after-indentation" if column else "line-start"
            items.append(item(path, lines, at, column, stratum).new_line())
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
        items.append(item(path, lines, at, column, "mid-line" if stratum == BEHIND_OPENER else stratum))
    return items


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
    lines = lines_of_file(path, _MOST_BYTES_AROUND)
    return () if is_made_by_a_program(path.name, lines) else lines


def in_asking_order(items: Iterable[str]) -> list[str]:
    """Ids of items in the order in which a run asks for them, which has nothing to do with that of the items:
    the answers of an unfinished run are a fair sample."""
    return sorted(items, key=lambda item: hashlib.sha256(item.encode("utf-8", "replace")).digest())


def grouped(items: Sequence[tuple[str, str]]) -> list[str]:
    """The group of each item: its project if there are at least three, else its file.

    items: (id, project); the id of an item of a file is PROJECT/FILE:LINE:COLUMN. Two projects whose items
    are of no files are not taken apart: the user has said what belongs together.

    >>> grouped([("p/a.py:1:1", "p"), ("q/b.py:1:1", "q"), ("r/c.py:1:1", "r")])
    ['p', 'q', 'r']
    >>> grouped([("p/a.py:1:1", "p"), ("p/b.py:1:1", "p"), ("q/a.py:1:1", "q")])
    ['p/a.py', 'p/b.py', 'q/a.py']
    """
    projects = [project for _, project in items]
    if len(set(projects)) >= FEWEST_GROUPS:
        return projects
    if len(set(projects)) > 1 and not all(_OF_A_FILE.fullmatch(item) for item, _ in items):
        return projects
    return [item.rsplit(":", 2)[0] for item, _ in items]


def check_groups(items: Sequence[tuple[str, str]], apart: Collection[str], what: str) -> None:
    """Raises DataError for items of too few files, before the model is asked for hours.

    items: as for `grouped`. apart: the projects that are held out. what: the items' name in the plural.
    """
    fitted = [(item, project) for item, project in items if project not in apart]
    found = sorted(set(grouped(fitted)))
    if len(found) < FEWEST_GROUPS:
        raise DataError(
            f"The {len(fitted)} {what} are of {len(found)} files ({', '.join(found)}). "
            f"Cross-validation needs {FEWEST_GROUPS} files. Name more source, such as the folder of the "
            "project, or ask for more (--samples)."
        )


def held_out(groups: Sequence[str], count: int, seed: int = 0) -> frozenset[str]:
    """Choose `count` of the projects in `groups` to exclude from fitting.

    The choice depends only on their names and the seed: adding a project changes at most one of them.
    Raises DataError if fewer than 3 would be left to fit on.
    """

    def draw(name: str) -> bytes:
        return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()

    names = sorted(set(groups), key=draw)
    if count and len(names) - count < 3:
        raise DataError(
            f"{count} of {len(names)} projects cannot be held out: at least 3 must be left to fit on."
        )
    return frozenset(names[:count])


Judge = Callable[[str, LineItem, Plain, str], bool]
"""Whether a text at an item's cursor is right: (criterion, item, its payload, text). Empty text is not.

A function of a module, so that it can be sent to workers.
"""


def exactly(_: str, item: LineItem, _payload: Plain, text: str) -> bool:
    """The `Judge` of the criterion "exact", which needs nothing but the item."""
    return bool(text) and item.is_correct(text)


EDITOR, PAPER = "editor", "paper"


@attrs.frozen
class Task:
    """A name, and the items as plain data that can be sent to workers: (id, payload) pairs.

    language: the LSP language identifier of all items.
    criteria: the criteria of correctness, as `judge` names them.
    sources: the data set of the items; empty if they come from the projects by which they are grouped.
    judge: tells what is right. doing: what a model does meanwhile, for its progress.
    version: NAME@NUMBER, of a study's task; another number for other items, prompts or verdicts.
    profile: EDITOR, as served: what is shown counts; or PAPER, as in the studies: every item asked counts.
    asks: makes of the task, an engine's choice and `AskingOptions` the `item_worker.Asking` for its items;
    None: they are asked for as by an editor.
    """

    name: str
    items: tuple[tuple[str, Plain], ...]
    language: str = "python"
    criteria: tuple[str, ...] = ("exact",)
    sources: tuple[Origin, ...] = ()
    judge: Judge = exactly
    doing: str = "Completing lines"
    version: str = ""
    profile: str = EDITOR
    asks: Callable[..., Any] | None = None


def line_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    no_suffix: int = 0,
    *,
    language: str | None = None,
    exclude: Sequence[str] = (),
    behind_openers: int = 0,
    new_lines: int = 0,
    first: int | None = None,
    skip: Skip | None = None,
    once: bool = False,
) -> Task:
    """About `samples` places in the source below `paths`, each a project, or in files of JSON lines.

    From each path come equally many.

    no_suffix: about so many further places, from which everything below the line is left out.
    language: of the source; None: as `language_below` finds it. exclude: patterns of files that no model may
    see, neither as documents nor as context. behind_openers: about so many further places behind a bracket or
    quote that opens, from half of which everything below is left out. new_lines: about so many further whole
    lines of which the rest of the scope is left out, of half of them everything below. first: only so many of
    all these, always the same ones; a larger number adds to them. skip: files of which no lines are drawn.
    once: of lines with the same text (`LineItem.text`) only one is drawn.
    Raises DataError for too few places, for duplicate ids, or for several languages; SettingsError for a
    language whose source cannot be read.
    """
    sources = [path for path in paths if not path.name.endswith(JSON_LINES)]
    named = language or language_below(sources)
    if named not in LANGUAGES:
        raise SettingsError(
            f"The source of {named!r} cannot be read. Known languages: {', '.join(LANGUAGES)}."
        )
    roots = project_names(paths)
    each = -(-samples // len(roots))
    further = -(-no_suffix // len(roots))
    special = {
        kind: -(-count // len(roots))
        for kind, count in ((BEHIND_OPENER, behind_openers), (NEW_LINE, new_lines))
        if count
    }
    items: list[LineItem] = []
    for root, name in roots:
        texts = {item.text for item in items} if once else None
        if root.name.endswith(JSON_LINES):
            mine = list(read_own_lines(root))
            if texts is not None:
                mine = distinct(mine, lambda item: item.text, texts)
            chosen = _drawn(f"{seed}:{root.name}", range(len(mine)), each)
            left = [at for at in range(len(mine)) if at not in set(chosen)]
            items += [mine[at] for at in chosen]
            items += [mine[at].writing_on() for at in _drawn(f"{seed}:{root.name}:on", left, further)]
        else:
            mine = sample_lines(root, name, each + further, seed, named, exclude, skip=skip, known=texts)
            items += mine[:each]
            items += [item.writing_on() for item in mine[each:]]
            known = {item.id for item in mine}
            for kind, number in special.items():
                found = sample_lines(*(root, name, number, seed, named, exclude), kind=kind, skip=skip)
                found = [item for item in found if item.id not in known]
                items += [item.writing_on() if at % 2 else item for at, item in enumerate(found)]
                known.update(item.id for item in found)
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} {'different lines' if once else 'lines'} could be drawn; at least {FEWEST} "
            "are needed. Name more source."
        )
    if first is not None:
        wanted = set(in_asking_order(item.id for item in items)[:first])
        items = [item for item in items if item.id in wanted]
    ids = Counter(item.id for item in items)
    twice = next((id_ for id_, count in ids.items() if count > 1), None)
    if twice is not None:
        raise DataError(f"Two lines have the id {twice!r}. Give each one of its own, also across files.")
    languages = sorted({item.cursor.language for item in items})
    if len(languages) > 1:
        raise DataError(
            f"There are lines in {', '.join(languages)}: a calibrator is for one language. "
            "Ask for one at a time."
        )
    return Task("line", tuple((item.id, plain(item)) for item in items), languages[0])


def _drawn(seed: str, places: Sequence[int], count: int) -> list[int]:
    """`count` of the places, or all of them, in order."""
    return sorted(random.Random(seed).sample(places, min(count, len(places))))


def read_own_lines(path: Path) -> Iterator[LineItem]:
    """The user's own items in a file of JSON lines, one at a time. Each line is an object with these strings:

        before     the document up to the cursor
        target     the correct text after the cursor, up to the end of the line
        after      the document from the end of that line, beginning with its newline (may be missing)
        language   an LSP language identifier (may be missing: "plaintext")
        id         unique, also across files (may be missing: the file's name and the line's number)
        group      keeps items together in folds, such as a project (may be missing: the file's name)

    Raises DataError for a line that is not an item.
    """
    seen: set[str] = set()
    group = writable(path.name)

    def make(row: Row) -> LineItem:
        item = _own_item(row, default_id=f"{group}/{len(seen) + 1}", default_group=group)
        if item.id in seen:
            raise ValueError(f"the id {item.id!r} was there before")
        seen.add(item.id)
        return item

    return read_rows(path, make)


def _own_item(row: Row, default_id: str, default_group: str) -> LineItem:
    own = {"after": "", "language": "plaintext", "id": default_id, "group": default_group, **row}
    for name in ("before", "target", "after", "language", "id", "group"):
        if not isinstance(own[name], str):
            raise TypeError(f"{name} is not a string")
    before, target, after = split_lines(own["before"]), own["target"], own["after"]
    if len(split_lines(target)) > 1:
        raise ValueError("target is more than one line")
    if not target.strip():
        raise ValueError("target is empty")
    if after and after[0] not in "\r\n":
        raise ValueError("after does not begin with the newline that ends the line")
    at = len(before) - 1
    return LineItem(
        id=own["id"],
        group=own["group"],
        stratum=_stratum(before[at], target),
        cursor=Cursor.at(split_lines(own["before"] + after), at, len(before[at]), own["language"]),
        target=target,
    )


def _stratum(before: str, target: str) -> str:
    if not before:
        return "line-start"
    if not before.strip():
        return "after-indentation"
    within = (before[-1].isalnum() or before[-1] == "_") and (target[0].isalnum() or target[0] == "_")
    return "mid-word" if within else "mid-line"


def read_rows(path: Path, make: Callable[[Row], T]) -> Iterator[T]:
    """Parse each line of a file, gzip or plain, as a JSON object and make an item of it.

    make: raises KeyError, TypeError or ValueError for an object that is not an item.
    Raises DataError, naming file and line, for a line that cannot be read.
    """
    number = 0
    try:
        with os.fdopen(open_file(path), "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.open(raw) if zipped else raw as file:
                while line := file.readline(_LONGEST_ROW):
                    number += 1
                    if line.strip():
                        yield _row(path, number, line, make)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read beyond line {number}: {error}. Get it again.") from error


def _row(path: Path, number: int, line: bytes, make: Callable[[Row], T]) -> T:
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("it is not a JSON object")
        return make(row)
    except KeyError as error:
        raise DataError(f"{path}, line {number}, cannot be read: it lacks {error}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}, cannot be read: {error}.") from error
