"""The lines that a commit added, in each source file that it changed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath

import attrs

from lsp_calib.completion.context import is_asked_for
from lsp_calib.evaluation.git_history.commits import (
    Change,
    Commit,
    UnusableCommitError,
    changes,
    read_commit,
    read_text,
)
from lsp_calib.evaluation.git_history.objects import ObjectReader
from lsp_calib.evaluation.lines import is_source
from lsp_calib.syntax import prose_lines
from lsp_calib.text_lines import normalised_line, split_lines
from lsp_calib.workspace_files import is_made_by_a_program

_MOST_FILES = 200
# The longest rewritten parts (lines before times lines after) that are compared: difflib is slow.
_MOST_COMPARED = 2_000_000


@attrs.frozen
class Version:
    """A file as a commit left it.

    path: below the folder that is looked at, with slashes. added: the numbers of the lines that the commit
    added, from 0. asked: those of them that a completion may be asked for.
    """

    commit: str
    path: str
    lines: tuple[str, ...]
    added: frozenset[int]
    asked: frozenset[int] = frozenset()


@attrs.frozen
class AddedLines:
    """Finds them.

    below: the folder whose files are looked at, from the root of the repository. excluded: why no model may
    see a file, by its path from there; "" for one that may be seen. left_out: counts
    what is left out, in words.
    """

    reader: ObjectReader
    below: PurePosixPath
    language: str
    excluded: Callable[[str], str]
    left_out: Counter[str]

    def of(self, commit: Commit) -> list[Version]:
        """The files with lines that the commit added, by path; none for a merge.

        Moved, indented and renamed lines do not count as added. Generated, excluded and binary files are not
        looked at, nor commits of more files than a person changes in one go.
        """
        if len(commit.parents) > 1:
            return []
        before = None
        if commit.parents:
            parent = read_commit(self.reader, commit.parents[0])
            if parent is None:
                self.left_out["commits whose parent is missing"] += 1
                return []
            before = parent.tree
        try:
            found = changes(self.reader, before, commit.tree, self._is_wanted, self._enters, _MOST_FILES)
        except UnusableCommitError:
            self.left_out["commits of too many files, or that are not complete"] += 1
            return []
        versions: list[Version] = []
        removed: set[str] = set()
        for change in found:
            version, gone = self._compared(commit, change)
            removed.update(gone)
            versions += [version] if version is not None else []
        return [asked for version in versions if (asked := self._asked(version, removed)).asked]

    def _is_wanted(self, path: str) -> bool:
        inside = self._inside(path)
        if inside is None or not is_source(inside, self.language):
            return False
        if self.excluded(path):
            self.left_out["changes of excluded files"] += 1
            return False
        return True

    def _enters(self, path: str) -> bool:
        folder = PurePosixPath(path)
        return self._inside(path) is not None or self.below.is_relative_to(folder)

    def _inside(self, path: str) -> PurePosixPath | None:
        """The path below the folder that is looked at; None for one that is not below it."""
        whole = PurePosixPath(path)
        return whole.relative_to(self.below) if whole.is_relative_to(self.below) else None

    def _compared(self, commit: Commit, change: Change) -> tuple[Version | None, list[str]]:
        """The new version of a file, and the lines that are gone, as they are compared."""
        old, new = read_text(self.reader, change.before), read_text(self.reader, change.after)
        if old is None or new is None:
            self.left_out["changes of large, binary or missing files"] += 1
            return None, []
        before, after = split_lines(old) if old else (), split_lines(new)
        difference = _difference(before, after)
        if difference is None:
            self.left_out["changes of files that were rewritten"] += 1
            return None, []
        added, gone = difference
        removed = [normalised_line(before[at]) for at in gone]
        name = PurePosixPath(change.path).name
        if change.after is None:
            return None, removed
        if is_made_by_a_program(name, after):
            self.left_out["changes of generated files"] += 1
            return None, removed
        inside = self._inside(change.path)
        return Version(commit.id, str(inside), after, frozenset(added)), removed

    def _asked(self, version: Version, removed: set[str]) -> Version:
        added = {at for at in version.added if is_asked_for(version.lines[at])}
        new = {at for at in added if normalised_line(version.lines[at]) not in removed}
        if len(new) < len(added):
            self.left_out["moved lines"] += len(added) - len(new)
        prose = prose_lines(version.lines, self.language) if new else set()
        return attrs.evolve(version, asked=frozenset(new - prose))


def _difference(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[list[int], list[int]] | None:
    """The numbers of the lines of `after` that are new, and of those of `before` that are gone.

    None if so much is rewritten that comparing would take long.
    """
    most = min(len(before), len(after))
    top = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - top) if before[-1 - at] != after[-1 - at]), most - top)
    old, new = before[top : len(before) - end], after[top : len(after) - end]
    if len(old) * len(new) > _MOST_COMPARED:
        return None
    added: list[int] = []
    gone: list[int] = []
    if old and new:
        for _, one, one_end, two, two_end in (
            opcode for opcode in difflib.SequenceMatcher(None, old, new).get_opcodes() if opcode[0] != "equal"
        ):
            gone += range(top + one, top + one_end)
            added += range(top + two, top + two_end)
    else:
        gone, added = list(range(top, top + len(old))), list(range(top, top + len(new)))
    return added, gone
