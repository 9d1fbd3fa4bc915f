"""HumanEval (Chen et al. 2021), and its functions with one line removed (Bavarian et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.evaluation.correctness import TestedProgram
from lsp_calib.evaluation.datasets.folder import Row, read_items, text
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.text_lines import split_lines


@attrs.frozen
class Synthesis:
    """A function whose body is to be written, given its signature and docstring.

    prompt: source up to and including the docstring. canonical_solution: the body that belongs after it.
    test: code that defines `check`, which is called with the function.
    """

    id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str

    @property
    def group(self) -> str:
        return self.id

    def program(self, completion: str) -> TestedProgram:
        return _program(self.prompt + completion, self.test, self.entry_point)


@attrs.frozen
class Infilling:
    """A function in which one line is missing.

    prompt, suffix: the source before and after the missing line; both hold whole lines.
    canonical_solution: the line, with its indentation and newline.
    """

    id: str
    entry_point: str
    prompt: str
    suffix: str
    canonical_solution: str
    test: str

    @property
    def group(self) -> str:
        """The function: lines of one function belong together in cross-validation."""
        return self.id.split("/", 1)[1].rpartition("/")[0]

    def program(self, completion: str) -> TestedProgram:
        """completion: the line; its newline may be missing."""
        return _program(
            f"{self.prompt}{completion.removesuffix(chr(10))}\n{self.suffix}", self.test, self.entry_point
        )

    def line_item(self) -> LineItem:
        """The same question as an editor would ask it: the cursor at the start of an empty line."""
        above, below = split_lines(self.prompt), split_lines(self.suffix)
        # The prompt ends with a newline; the empty line follows it.
        lines = (*above, *below)
        return LineItem(
            id=self.id,
            group=self.group,
            stratum="line-start",
            cursor=Cursor.at(lines, len(above) - 1, 0, "python"),
            target=self.canonical_solution.removesuffix("\n"),
        )


def _program(source: str, test: str, entry_point: str) -> TestedProgram:
    return TestedProgram(source, f"{test}\ncheck({entry_point})\n", (entry_point,))


def synthesis(folder: Path | None = None) -> Iterator[Synthesis]:
    """The 164 functions. Raises DataError if the data are missing or have another checksum."""

    def make(row: Row) -> Synthesis:
        return Synthesis(
            id=text(row, "task_id"),
            prompt=text(row, "prompt"),
            entry_point=text(row, "entry_point"),
            canonical_solution=text(row, "canonical_solution"),
            test=text(row, "test"),
        )

    return read_items("humaneval", make, folder)


def infilling(folder: Path | None = None) -> Iterator[Infilling]:
    """The 1,033 lines. Raises DataError if the data are missing or have another checksum."""

    def make(row: Row) -> Infilling:
        return Infilling(
            id=text(row, "task_id"),
            entry_point=text(row, "entry_point"),
            prompt=text(row, "prompt"),
            suffix=text(row, "suffix"),
            canonical_solution=text(row, "canonical_solution"),
            test=text(row, "test"),
        )

    return read_items("humaneval-infilling", make, folder)
