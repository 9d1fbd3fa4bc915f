"""What the sandbox costs: `python -c pass` and a small pytest suite, plain and in it, one after the other.

`python tests/programs/sandbox_cost.py` prints medians and ratios. The environment that runs it has pytest.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lsp_calib.studies.sandbox.bwrap import isolated_python, run, run_suite, usable

TESTS = 200


def compare(name: str, plain: Callable[[], object], confined: Callable[[], object], rounds: int) -> None:
    times: dict[Callable[[], object], list[float]] = {plain: [], confined: []}
    for _ in range(rounds):
        for action, taken in times.items():
            started = time.perf_counter()
            action()
            taken.append(time.perf_counter() - started)
    ratio = statistics.median(b / a for a, b in zip(times[plain], times[confined], strict=True))
    before, after = (1000 * statistics.median(taken) for taken in times.values())
    print(f"{name}: {before:.0f} ms plain, {after:.0f} ms in the sandbox, ratio {ratio:.2f}")


def main() -> None:
    usable()
    command = isolated_python("-c", "pass")
    compare("python -c pass", lambda: subprocess.run(command, check=True), lambda: run(command), 40)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "square.py").write_text("def square(x):\n    return x * x\n")
        Path(folder, "test_square.py").write_text(
            "import pytest, square\n"
            f"@pytest.mark.parametrize('x', range({TESTS}))\n"
            "def test_square(x):\n    assert square.square(x) == x ** 2\n"
        )
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        job = {
            "tests": [f"test_square.py::test_square[{x}]" for x in range(TESTS)],
            "paths": ["."],
        }

        def plain() -> None:
            subprocess.run(words, cwd=folder, env=variables, check=True, capture_output=True)

        def confined() -> None:
            assert run_suite(Path(folder), Path(sys.prefix), job).proved

        compare(f"pytest with {TESTS} tests", plain, confined, 9)


if __name__ == "__main__":
    main()
