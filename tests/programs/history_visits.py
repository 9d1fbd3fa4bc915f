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
from lsp_calib.corpus.commits import AddedLines, Commit, item_at, repository_of
from lsp_calib.corpus.places import LineItem
from lsp_calib.errors import DataError

ROOT = Path(__file__).parents[2]
HEAD = "d0d6ad5a392768b9e128588039f3d7a07eb6f5bc"
PER_COMMIT, SEED, GROUP, LANGUAGE = 4, 0, "lsp-calib", "python"
_MOST = 100_000


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
    with repository_of(root) as found:
        repository = attrs.evolve(found, head=head)
        added = AddedLines(repository, PurePosixPath(), LANGUAGE, lambda _: "", Counter())
        commits = list(repository.commits(_MOST, "--first-parent"))
        if commits[-1].parents:
            raise DataError("The history is not complete: clone the repository with all of it.")
        for commit in reversed(commits):
            changes = [one for one in repository.changes(commit) or () if one[0].endswith(".py")]
            texts = repository.texts([after for *_, after in changes if after])
            files = {path: split_lines(texts.get(after, "")) if after else None for path, _, after in changes}
            yield Step(commit, *_visits(added, commit), files)


def _visits(added: AddedLines, commit: Commit) -> tuple[tuple[LineItem, ...], tuple[int, ...]]:
    places = added.of(commit)
    drawn = random.Random(f"{SEED}:{commit.id}").sample(range(len(places)), min(PER_COMMIT, len(places)))
    order = sorted(range(len(drawn)), key=lambda rank: drawn[rank])
    items = tuple(item_at(*places[drawn[rank]], GROUP, SEED, LANGUAGE) for rank in order)
    return items, tuple(order)
