"""What is kept together where a calibrator is tried on other items than it is fitted on. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from lsp_calib.errors import DataError

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
