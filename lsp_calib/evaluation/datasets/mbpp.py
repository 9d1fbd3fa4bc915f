"""MBPP, mostly basic Python problems (Austin et al. 2021)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.evaluation.correctness import TestedProgram
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text, texts


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

    def program(self, completion: str) -> TestedProgram:
        """completion: a whole program, as the reference is."""
        return TestedProgram(completion, "\n".join([self.setup, *self.tests, ""]), self.entry_points)


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
