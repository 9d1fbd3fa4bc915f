"""When a completion is right: it equals the original text, or the tests pass."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Protocol

import attrs

from lsp_calib.errors import LspCalibError
from lsp_calib.evaluation.sandbox.isolation import HERE, Limits, ProgramOutcome, isolated_python
from lsp_calib.evaluation.sandbox.runner import run
from lsp_calib.text_lines import same_line

# Limits for the tests of one function; nearly all reference solutions take a hundredth of this. The limit on
# processor time decides: MBPP/123's reference needs 4.5 s of it, and took over 15 s on a busy machine.
TEST_LIMITS = Limits(wall_s=45.0, cpu_s=10)

_HARNESS = HERE / "harness.py"


def exact_match(before: str, completion: str, target: str) -> bool:
    """Whether the completed line equals the original, ignoring white space at both ends.

    before: the line up to the cursor. target: the original text after the cursor.
    """
    return same_line(before + completion, before + target)


@attrs.frozen
class TestedProgram:
    """A program and code that raises if it is wrong.

    source, tests: Python; the tests see the names of the source. entry_points: names that they call.
    """

    # pytest must not collect this class.
    __test__ = False

    source: str
    tests: str
    entry_points: tuple[str, ...]


class Tested(Protocol):
    """An item whose completion can be tested."""

    @property
    def id(self) -> str: ...

    def program(self, completion: str) -> TestedProgram: ...


@attrs.frozen
class Verdict:
    """passed: every test of the program ran and none raised. why: for people."""

    passed: bool
    why: str
    outcome: ProgramOutcome


def run_tests(program: TestedProgram, *, limits: Limits = TEST_LIMITS) -> Verdict:
    """Run a program and its tests in the sandbox.

    Raises SandboxError if nothing isolates here. Failures of the program are verdicts, not errors.
    """
    payload = {
        "source": program.source,
        "tests": program.tests,
        "entry_points": program.entry_points,
    }
    outcome = run(isolated_python("-c", _harness()), limits=limits, payload=json.dumps(payload))
    if outcome.proved:
        return Verdict(True, "its tests pass", outcome)
    if outcome.succeeded:
        return Verdict(False, "it ended before its tests did", outcome)
    last = (outcome.stderr.strip().splitlines() or [""])[-1]
    return Verdict(False, f"{outcome.words}{': ' if last else ''}{last}", outcome)


def tests_pass(item: Tested, completion: str) -> bool:
    """Whether an item's tests pass with this completion in its place. Raises as `run_tests` does."""
    return run_tests(item.program(completion)).passed


def run_all_tests(answers: Sequence[tuple[Tested, str]]) -> Iterator[Verdict]:
    """The verdicts on (item, completion) pairs, in their order; one for each core at once."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(run_tests, [item.program(completion) for item, completion in answers])
        finally:
            pool.shutdown(cancel_futures=True)


@lru_cache(maxsize=1)
def _harness() -> str:
    try:
        return _HARNESS.read_text("utf-8")
    except OSError as error:
        raise LspCalibError(f"{_HARNESS} is missing: install lsp-calib again.") from error
