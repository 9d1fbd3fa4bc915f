"""Python functions with tests: HumanEval (Chen et al. 2021), whole and with one line removed (Bavarian et al.
2022), and MBPP, mostly basic Python problems (Austin et al. 2021)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.evaluation.correctness import TestedProgram
from lsp_calib.evaluation.datasets.folder import Row, fields, number, read_items, text, texts
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.syntax import functions
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
    names = "task_id", "prompt", "entry_point", "canonical_solution", "test"
    return read_items("humaneval", lambda row: Synthesis(*fields(row, *names)), folder)


def infilling(folder: Path | None = None) -> Iterator[Infilling]:
    """The 1,033 lines. Raises DataError if the data are missing or have another checksum."""
    names = "task_id", "entry_point", "prompt", "suffix", "canonical_solution", "test"
    return read_items("humaneval-infilling", lambda row: Infilling(*fields(row, *names)), folder)


@attrs.frozen
class Problem:
    """A function described in one sentence.

    task: the sentence. reference: a whole program that solves it, by its authors.
    entry_points: functions of the reference that the tests call. setup: code that the tests need first.
    """

    id: str
    task: str
    reference: str
    entry_points: tuple[str, ...]
    setup: str
    tests: tuple[str, ...]

    @property
    def checks(self) -> str:
        """The code that raises if a program is wrong."""
        return "\n".join([self.setup, *self.tests, ""])

    def as_function(self) -> tuple[str, str, str] | None:
        """The reference as one function to write: the source up to and including a docstring that says the
        task, the function's body, and the source behind it. None if its tests call no function, or several.

        Source: Spiess et al. 2024, 3.2.1.
        """
        lines = self.reference.split("\n")
        found = [one for one in functions(lines, "python") if one.name in self.entry_points]
        if len(found) != 1 or found[0].signature_end >= found[0].end:
            return None
        (function,) = found
        body = lines[function.body : function.end]
        first = next(line for line in body if line.strip())
        indentation = first[: len(first) - len(first.lstrip())]
        task = self.task.replace("\\", r"\\").replace('"', "'")
        before = [*lines[: function.signature_end], f'{indentation}"""{task}"""', ""]
        return "\n".join(before), "\n".join([*body, ""]), "\n".join(lines[function.end :])

    def program(self, completion: str) -> TestedProgram:
        """completion: a whole program, as the reference is."""
        return TestedProgram(completion, self.checks, self.entry_points)


def problems(folder: Path | None = None) -> Iterator[Problem]:
    """The 974 problems. Raises DataError if the data are missing or have another checksum."""
    return read_items("mbpp", _problem, folder)


def _problem(row: Row) -> Problem:
    # Some lines end in carriage returns, which do not belong to the code.
    reference = text(row, "code").replace("\r\n", "\n")
    tests = texts(row, "test_list")
    return Problem(
        id=f"MBPP/{number(row, 'task_id')}",
        task=text(row, "text"),
        reference=reference,
        entry_points=_called(reference, tests),
        setup=text(row, "test_setup_code").replace("\r\n", "\n"),
        tests=tests,
    )


def _called(reference: str, tests: tuple[str, ...]) -> tuple[str, ...]:
    """Functions that the reference defines and the tests name, in the reference's order."""
    named = set(re.findall(r"\w+", " ".join(tests)))
    defined = re.findall(r"^def\s+(\w+)", reference, re.MULTILINE)
    return tuple(dict.fromkeys(name for name in defined if name in named))
