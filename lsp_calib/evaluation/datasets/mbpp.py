"""MBPP, mostly basic Python problems (Austin et al. 2021)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.evaluation.correctness import TestedProgram
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text, texts
from lsp_calib.syntax import functions


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
    challenge_tests: tuple[str, ...]

    @property
    def group(self) -> str:
        return self.id

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
        challenge_tests=texts(row, "challenge_test_list"),
    )


def _called(reference: str, tests: tuple[str, ...]) -> tuple[str, ...]:
    """Functions that the reference defines and the tests name, in the reference's order."""
    named = set(re.findall(r"\w+", " ".join(tests)))
    defined = re.findall(r"^def\s+(\w+)", reference, re.MULTILINE)
    return tuple(dict.fromkeys(name for name in defined if name in named))
