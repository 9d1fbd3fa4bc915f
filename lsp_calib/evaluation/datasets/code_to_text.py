"""Functions with the descriptions that programmers wrote (CodeXGLUE, from Husain et al. 2019)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.evaluation.datasets.folder import Row, read_items, text


@attrs.frozen
class Documented:
    """A function or method. code: its source as in the file, including the docstring of a Python function."""

    id: str
    repository: str
    path: str
    name: str
    language: str
    code: str
    summary: str

    @property
    def group(self) -> str:
        return self.repository


def functions(language: str, folder: Path | None = None) -> Iterator[Documented]:
    """The functions of one language, "python" or "java".

    Raises DataError if the data are missing or have another checksum, SettingsError for another language.
    """

    seen: Counter[str] = Counter()

    def make(row: Row) -> Documented:
        name = f"{text(row, 'repo')}/{text(row, 'path')}:{text(row, 'func_name')}"
        seen[name] += 1
        return Documented(
            # Methods in Java may share a name (overloading).
            id=name if seen[name] == 1 else f"{name}#{seen[name]}",
            repository=text(row, "repo"),
            path=text(row, "path"),
            name=text(row, "func_name"),
            language=text(row, "language"),
            code=text(row, "code").replace("\r\n", "\n"),
            summary=text(row, "docstring"),
        )

    return read_items(f"code-to-text-{language}", make, folder)
