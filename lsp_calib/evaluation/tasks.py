"""The tasks: their items, and which of them are held out."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import attrs

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.completion.context import BEHIND_OPENER, Cursor
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.datasets.own import JSON_LINES, read_lines
from lsp_calib.evaluation.lines import NEW_LINE, LineItem, Skip, languages_below, sample_lines
from lsp_calib.evaluation.runner import Plain, in_asking_order
from lsp_calib.languages import name_of
from lsp_calib.syntax.languages import LANGUAGES

FEWEST_GROUPS = 3
"""Fewer groups cannot be split into parts to fit on, to choose by, and to judge by."""


_OF_A_FILE = re.compile(r".+:(?:[0-9a-f]+\.)?\d+:\d+", re.DOTALL)


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
            f"Cross-validation needs {FEWEST_GROUPS} files. Name more source, such as the "
            "folder of the project."
        )


FEWEST = 20


@attrs.frozen
class Task:
    """A name, and the items as plain data that can be sent to workers: (id, payload) pairs.

    language: the LSP language identifier of all items.
    criteria: the criteria of correctness, names of `criteria.CRITERIA`.
    sources: the data set of the items; empty if they come from the projects by which they are grouped.
    study: whether models are asked as the studies ask, see `study_worker`, and not as an editor does.
    """

    name: str
    items: tuple[tuple[str, Plain], ...]
    language: str = "python"
    criteria: tuple[str, ...] = ("exact",)
    sources: tuple[Origin, ...] = ()
    study: bool = False


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
) -> Task:
    """About `samples` places in the source below `paths`, each a project, or in files of JSON lines.

    no_suffix: about so many further places, from which everything below the line is left out.
    language: of the source; None: as `language_below` finds it. exclude: patterns of files that no model may
    see, neither as documents nor as context. behind_openers: about so many further places behind a bracket or
    quote that opens, from half of which everything below is left out. new_lines: about so many further whole
    lines of which the rest of the scope is left out, of half of them everything below. first: only so many of
    all these, always the same ones; a larger number adds to them. skip: files of which no lines are drawn.
    Raises DataError for too few places, for duplicate ids, or for several languages; SettingsError for a
    language whose source cannot be read.
    """
    sources = [path for path in paths if not path.name.endswith(JSON_LINES)]
    named = language or language_below(sources)
    items = draw(
        tuple(paths),
        samples,
        seed,
        no_suffix,
        language=named,
        exclude=exclude,
        behind_openers=behind_openers,
        new_lines=new_lines,
        skip=skip,
    )
    if first is not None:
        chosen = set(in_asking_order(item.id for item in items)[:first])
        items = [item for item in items if item.id in chosen]
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


def infill_task(folder: Path | None, samples: int | None, seed: int, *, tests: bool = True) -> Task:
    """Lines removed from the functions of HumanEval, to be filled in; each function is a group.

    folder: the evaluation data; None: LSP_CALIB_DATA. samples: number of lines, drawn at random; None: all.
    tests: also judge by the functions' tests (in the sandbox).
    Raises DataError if the data are missing.
    """
    from lsp_calib.evaluation.datasets.folder import data_set
    from lsp_calib.evaluation.datasets.python_problems import infilling

    found = list(infilling(folder))
    if samples is not None and samples < len(found):
        drawn = random.Random(seed).sample(range(len(found)), samples)
        found = [found[at] for at in sorted(drawn)]
    entry = data_set("humaneval-infilling")
    items = ((one.id, plain(one.line_item(), infilling=attrs.asdict(one))) for one in found)
    return Task(
        "infill",
        tuple(items),
        criteria=("exact", "tests") if tests else ("exact",),
        sources=(Origin(entry.name, entry.sha256[:12], len(found)),),
    )


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


def draw(
    paths: tuple[Path, ...],
    samples: int,
    seed: int,
    no_suffix: int = 0,
    *,
    language: str = "python",
    exclude: Sequence[str] = (),
    behind_openers: int = 0,
    new_lines: int = 0,
    skip: Skip | None = None,
) -> list[LineItem]:
    """About `samples` places, equally many from each path, and about `no_suffix` further ones to write on.

    behind_openers, new_lines, skip: as for `line_task`. Asking for further ones does not change the others.
    Raises DataError if there are too few, SettingsError for a language without a grammar.
    """
    if language not in LANGUAGES:
        raise SettingsError(
            f"The source of {language!r} cannot be read. Known languages: {', '.join(LANGUAGES)}."
        )
    named = project_names(paths)
    each = -(-samples // len(named))
    further = -(-no_suffix // len(named))
    special = {
        kind: -(-count // len(named))
        for kind, count in ((BEHIND_OPENER, behind_openers), (NEW_LINE, new_lines))
        if count
    }
    items: list[LineItem] = []
    for root, name in named:
        if root.name.endswith(JSON_LINES):
            mine = list(read_lines(root))
            chosen = _drawn(f"{seed}:{root.name}", range(len(mine)), each)
            left = [at for at in range(len(mine)) if at not in set(chosen)]
            items += [mine[at] for at in chosen]
            items += [mine[at].writing_on() for at in _drawn(f"{seed}:{root.name}:on", left, further)]
        else:
            mine = sample_lines(root, name, each + further, seed, language, exclude, skip=skip)
            items += mine[:each]
            items += [item.writing_on() for item in mine[each:]]
            known = {item.id for item in mine}
            for kind, number in special.items():
                found = sample_lines(*(root, name, number, seed, language, exclude), kind=kind, skip=skip)
                found = [item for item in found if item.id not in known]
                items += [item.writing_on() if at % 2 else item for at, item in enumerate(found)]
                known.update(item.id for item in found)
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} lines could be drawn; at least {FEWEST} are needed. Name more source."
        )
    return items


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
    return [(root, root.name if names[root.name] == 1 else root.as_posix().lstrip("/")) for root in roots]


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


def plain(item: LineItem, **more: object) -> Plain:
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


def line_item_of(payload: Plain) -> LineItem:
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
