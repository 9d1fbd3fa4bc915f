"""Documented functions of a file's repository, shown to the model as examples, for commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsp_calib.commands.source_files import project_of
from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import family_of
from lsp_calib.summarization import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function


class RepositoryExamples:
    """Each repository is read once for each language, for `seconds` at most. exclude: patterns of files that
    no model may see."""

    def __init__(self, exclude: Sequence[str], *, seconds: float) -> None:
        self._exclusion = Exclusion(tuple(exclude))
        self._seconds = seconds
        self._of: dict[Path, WorkspaceExamples] = {}
        self._read: set[tuple[Path, str]] = set()

    def best(self, path: Path, function: Function, language: str) -> Sequence[Example]:
        """The examples for a function of a file, the best first. Blocks while a repository is read."""
        root, at = project_of(path)
        index = self._of.setdefault(root, WorkspaceExamples(root, lambda: self._exclusion))
        if (root, family_of(language)) not in self._read:
            self._read.add((root, family_of(language)))
            index.scan(language, (root / at).parent, seconds=self._seconds)
        return index.best(function, language, at, SHOTS)
