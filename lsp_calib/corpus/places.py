"""Places in finished lines, in the kinds and proportions in which people ask for completions. Pure."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lsp_calib.characters import indentation_of
from lsp_calib.errors import DataError

Plain = Mapping[str, Any]
"""JSON types: the data of an item as they are sent to a worker, and its results."""

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


def in_asking_order(items: Iterable[str]) -> list[str]:
    """Ids of items in the order in which a run asks for them, which has nothing to do with that of the items:
    the answers of an unfinished run are a fair sample."""
    return sorted(items, key=lambda item: hashlib.sha256(item.encode("utf-8", "replace")).digest())


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
