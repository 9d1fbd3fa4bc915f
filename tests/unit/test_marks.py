"""The tables of long tests and of those that run alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from marks import ALONE, LONG

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("table", [LONG, ALONE], ids=["long", "alone"])
def test_each_name_is_that_of_a_test(table: dict[str, set[str]]) -> None:
    """A test that was renamed would run elsewhere, unnoticed."""
    for file, names in table.items():
        (path,) = TESTS.rglob(file)
        defined = set(re.findall(r"(?:def|class) (\w+)", path.read_text("utf-8")))
        assert {name.partition("[")[0] for name in names} <= defined, file
