"""Correct because its tests pass: the references do, what is wrong or only looks right does not."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from marks import repetitions

from lsp_calib.studies import tasks
from lsp_calib.studies.sandbox.bwrap import TEST_LIMITS, TestedProgram, all_tests_pass, run_tests

pytestmark = pytest.mark.usefixtures("walls")

TESTS = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\ncheck(square)\n"
RIGHT = "def square(x):\n    return x * x\n"


def passes(source: str, tests: str = TESTS) -> bool:
    return run_tests(TestedProgram(source, tests, ("square",))).proved


def test_what_is_right_passes() -> None:
    assert passes(RIGHT)


@pytest.mark.parametrize(
    "source",
    [
        "def square(x):\n    return x + x\n",
        "",
        "def square(x:\n",
        "square = 4",
        "x = '\ud800'",
        "\0",
        "return",
    ],
)
def test_what_is_wrong_or_no_python_does_not(source: str) -> None:
    assert not passes(source)


@pytest.mark.parametrize(
    "source",
    [
        "import math\nfrom collections import deque\nimport os.path\n" + RIGHT,
        "import collections.abc, sys\nsys.setrecursionlimit(5000)\n" + RIGHT,
        "print('noise')\n" + RIGHT,
        "import numbers as sum\nmax = 0\n" + RIGHT,
        "square = lambda x: x * x",
        "class Square:\n    def __call__(self, x):\n        return x ** 2\nsquare = Square()",
        "import threading\nthreading.Thread(target=input, daemon=True).start()\n" + RIGHT,
        "if __name__ == '__main__':\n    raise SystemExit(1)\n" + RIGHT,
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n" + RIGHT,
    ],
)
def test_ordinary_code_is_not_taken_for_an_attack(source: str) -> None:
    assert passes(source)


def test_tests_see_the_helpers_of_the_source() -> None:
    assert passes(
        "def helper(x):\n    return x - 1\ndef square(x):\n    return x * x\n",
        "assert square(helper(4)) == 9",
    )


def test_a_function_may_have_a_builtin_name() -> None:
    program = TestedProgram("def sum(a, b):\n    return 42\n", "assert sum(1, 2) == 42", ("sum",))
    assert run_tests(program).proved


def test_many_are_judged_at_once_and_told_in_order() -> None:
    sources = [RIGHT if at % 3 else "square = abs" for at in range(12)]
    found = list(all_tests_pass([TestedProgram(one, TESTS, ("square",)) for one in sources]))
    assert found == [bool(at % 3) for at in range(12)]


def test_giving_up_ends_those_that_run() -> None:
    sleeper = TestedProgram("import time\ntime.sleep(60)", "", ())
    found = all_tests_pass([TestedProgram(RIGHT, TESTS, ("square",)), *[sleeper] * 40])
    started = time.monotonic()
    assert next(found)
    found.close()
    assert time.monotonic() - started < TEST_LIMITS.wall_s / 2


def drawn_of(items: Sequence[Any]) -> list[Any]:
    """All in `make test-thorough`; in `make test-long` about a fifth, always the same, by a hash of names."""
    parts = repetitions(thorough=1, long=5)
    drawn = [item for item in items if hashlib.sha256(item.id.encode()).digest()[0] % parts == 0]
    assert len(drawn) > len(items) / (2 * parts)
    return drawn


def references(name: str, data: Path) -> list[tasks.Gap]:
    found = tasks.items_of(name, data)
    return [one.gap("") for one in found] if name == "mbpp" else found


class TestReferences:
    """A few of each; in `make test-long` a fifth, drawn by a hash; all of them in `make test-thorough`."""

    @pytest.mark.parametrize(
        ("name", "every", "wrong", "most_by_chance"),
        [
            ("humaneval", 20, lambda _: "    return None\n", 0),
            ("humaneval-infilling", 100, lambda _: "        raise ValueError", 0),
            ("mbpp", 100, lambda one: one.missing.replace("return", "return not"), 2),
        ],
        ids=["humaneval", "infilling", "mbpp"],
    )
    def test_pass_and_others_do_not(
        self, data: Path, name: str, every: int, wrong: Callable[[tasks.Gap], str], most_by_chance: int
    ) -> None:
        items = references(name, data)[::every]
        assert all(all_tests_pass([item.program(item.missing) for item in items]))
        assert sum(all_tests_pass([item.program(wrong(item)) for item in items])) <= most_by_chance

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("name", "count", "times"),
        [("humaneval", 164, 1), ("humaneval-infilling", 1033, 1), ("mbpp", 974, 3)],
    )
    def test_pass_each_time(self, data: Path, name: str, count: int, times: int) -> None:
        found = references(name, data)
        assert len(found) == count
        drawn = [item.program(item.missing) for item in drawn_of(found)]
        for _ in range(repetitions(thorough=times, long=1)):
            assert sum(all_tests_pass(drawn)) == len(drawn)
