"""What a model is asked for: a task of items, the lines of source, and which projects are held out."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.corpus.lines import (
    NEW_LINE,
    LineItem,
    Skip,
    distinct,
    languages_below,
    plain,
    sample_lines,
)
from lsp_calib.corpus.places import BEHIND_OPENER, Plain, in_asking_order
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.files import open_file
from lsp_calib.languages import name_of
from lsp_calib.syntax.languages import LANGUAGES

T = TypeVar("T")
JSON_LINES = (".jsonl", ".jsonl.gz")
Row = Mapping[str, Any]

# The longest row of the known data sets has less than 40,000 characters.
_LONGEST_ROW = 16 << 20

FEWEST = 20

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


def language_below(paths: Sequence[Path]) -> str:
    """The language of the source below `paths`: Python if there is any, else the only one with a grammar.

    Raises DataError if there are several.
    """
    found = set[str]().union(*map(languages_below, paths))
    if not found or "python" in found:
        return "python"
    if len(found) > 1:
        raise DataError(
            f"There is source in {', '.join(map(name_of, sorted(found)))}: a calibrator is for one language. "
            f"Choose it, such as --language {min(found)}."
        )
    return found.pop()


def project_names(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """The resolved paths, sorted, each once, with the names of their projects.

    Raises DataError if one of them holds another: the same lines would be of two projects, and what is fitted
    on one would be judged by the other.
    """
    roots = sorted({path.resolve() for path in paths})
    for root in roots:
        holding = next((other for other in roots if other in root.parents), None)
        # Lines of the user's own are read from no source.
        if holding is not None and not root.name.endswith(JSON_LINES):
            raise DataError(
                f"{root} lies in {holding}: each PATH is a project of its own, and the same lines would be "
                "fitted on in one and judged in the other. Leave one of the two out."
            )
    names = Counter(root.name for root in roots)
    # Two folders named src are two projects.
    named = [(root, root.name if names[root.name] == 1 else root.as_posix().lstrip("/")) for root in roots]
    return [(root, _writable(name)) for root, name in named]


def _writable(name: str) -> str:
    """A name of a file as files can hold it: one that is not UTF-8 is escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def some_of(found: Sequence[T], samples: int | None, seed: int) -> list[T]:
    """So many of the items, drawn at random, in their order; None: all."""
    if samples is None or samples >= len(found):
        return list(found)
    return [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), samples))]


def _drawn(seed: str, places: Sequence[int], count: int) -> list[int]:
    """`count` of the places, or all of them, in order."""
    return sorted(random.Random(seed).sample(places, min(count, len(places))))


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
    group = _writable(path.name)

    def make(row: Row) -> LineItem:
        item = _own_item(row, default_id=f"{group}/{len(seen) + 1}", default_group=group)
        if item.id in seen:
            raise ValueError(f"the id {item.id!r} was there before")
        seen.add(item.id)
        return item

    return read_rows(path, make)


def _own_item(row: Row, default_id: str, default_group: str) -> LineItem:
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
                        yield _item(path, number, line, make)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read beyond line {number}: {error}. Get it again.") from error


def _item(path: Path, number: int, line: bytes, make: Callable[[Row], T]) -> T:
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("it is not a JSON object")
        return make(row)
    except KeyError as error:
        raise DataError(f"{path}, line {number}, cannot be read: it lacks {error}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}, cannot be read: {error}.") from error


def text(row: Row, name: str) -> str:
    """A field that has to be a string. Raises KeyError or TypeError."""
    value = row[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value
