"""This repository's own history as visits to lines: commit after commit, as its files became what they are.

The commits are those of the first parents up to `HEAD`, so that a file goes from one version to the next and
a merge changes it at once, as a pull does. Python only. Needs a clone with its whole history.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.characters import split_lines
from lsp_calib.corpus.commits import (
    AddedLines,
    Commit,
    changes,
    item_at,
    read_commit,
    read_text,
)
from lsp_calib.corpus.git_objects import ObjectReader, object_reader
from lsp_calib.corpus.git_repository import find_repository
from lsp_calib.corpus.lines import LineItem
from lsp_calib.errors import DataError

ROOT = Path(__file__).parents[2]
HEAD = "d0d6ad5a392768b9e128588039f3d7a07eb6f5bc"
PER_COMMIT, SEED, GROUP, LANGUAGE = 4, 0, "lsp-calib", "python"
_MOST_FILES = 100_000


@attrs.frozen
class Step:
    """A commit. visits: places in lines that it added, in the order of files and lines; none for a merge.

    ranks: for each, how many others of the commit were drawn before it.
    files: every source file that it changed, as it left it; None: it is gone.
    """

    commit: Commit
    visits: tuple[LineItem, ...]
    ranks: tuple[int, ...]
    files: dict[str, tuple[str, ...] | None]


def steps(root: Path = ROOT, head: str = HEAD) -> Iterator[Step]:
    """The commits, oldest first. Raises DataError if the history is not complete."""
    with object_reader(find_repository(root)) as reader:
        added = AddedLines(reader, PurePosixPath("."), LANGUAGE, lambda _: "", Counter())
        for commit in reversed(_first_parents(reader, head)):
            before = read_commit(reader, commit.parents[0]) if commit.parents else None
            found = changes(
                reader,
                before.tree if before else None,
                commit.tree,
                lambda path: path.endswith(".py"),
                lambda _: True,
                _MOST_FILES,
            )
            files = {
                change.path: split_lines(read_text(reader, change.after) or "") if change.after else None
                for change in found
            }
            yield Step(commit, *_visits(added, commit), files)


def _first_parents(reader: ObjectReader, head: str) -> list[Commit]:
    found: list[Commit] = []
    next_: str | None = head
    while next_ is not None:
        commit = read_commit(reader, next_)
        if commit is None:
            raise DataError(f"The commit {next_} is missing: clone the repository with its whole history.")
        found.append(commit)
        next_ = commit.parents[0] if commit.parents else None
    return found


def _visits(added: AddedLines, commit: Commit) -> tuple[tuple[LineItem, ...], tuple[int, ...]]:
    places = [(version, at) for version in added.of(commit) for at in sorted(version.asked)]
    drawn = random.Random(f"{SEED}:{commit.id}").sample(range(len(places)), min(PER_COMMIT, len(places)))
    order = sorted(range(len(drawn)), key=lambda rank: drawn[rank])
    items = tuple(item_at(*places[drawn[rank]], GROUP, SEED, LANGUAGE) for rank in order)
    return items, tuple(order)
