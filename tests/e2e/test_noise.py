"""The tests of the path are able to fail: on a model that returns noise they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from noise import make_noise

pytestmark = [pytest.mark.model, pytest.mark.long, pytest.mark.alone]

TESTS = Path(__file__).with_name("test_path.py")
# What needs a model that knows something. The others hold for any model.
KNOWING = (
    "test_plain_lines_are_completed",
    "test_confidence_is_higher_where_the_model_is_right",
    "test_summary_speaks_of_the_function",
    "test_from_a_keystroke_to_a_label_and_back",
    "test_a_killed_model_process_costs_one_answer",
)


def test_the_path_fails_on_noise(model_path: Path, tmp_path: Path) -> None:
    noise = tmp_path / "noise.gguf"
    make_noise(model_path, noise)
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rA",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'run'}",
        ]
        + [f"{TESTS}::{name}" for name in KNOWING],
        env={**os.environ, "LSP_CALIB_TEST_MODEL": str(noise), "LSP_CALIB_TEST_PATIENCE": "30"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout
    for name in KNOWING:
        assert f"FAILED {TESTS.relative_to(Path.cwd())}::{name}" in result.stdout, result.stdout
