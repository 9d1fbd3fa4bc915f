"""The program that takes away what a line opens: exactly that, and nothing where the line opens nothing."""

from __future__ import annotations

import pytest
from new_openers import without_body

from lsp_calib.completion.context import Cursor

CASES = {
    "a block by indentation": ("if a:¦    b()¦¦    c()¦d()", 0, "if a:¦d()"),
    "blank lines below a block stay": ("if a:¦    b()¦¦¦d()", 0, "if a:¦¦¦d()"),
    "a block in braces, with the line that closes it": ("if (a) {¦  b();¦}¦d();", 0, "if (a) {¦d();"),
    "a call": ("x = f(¦    1,¦    2,¦)¦y = 2", 0, "x = f(¦y = 2"),
    "what closes the bracket around it stays": ("f(¦    [¦        1,¦    ],¦)", 1, "f(¦    [¦)"),
    "arguments below a comma": ("f(a,¦  b)¦g()", 0, "f(a,¦g()"),
    "up to the end": ("def f():¦    return 1", 0, "def f():"),
    "tabs count as wide as they are": ("if a {¦\tb()¦}¦c()", 0, "if a {¦c()"),
    "nothing is opened": ("a = 1¦    b = 2", 0, None),
    "nothing stands in it": ("f(a,¦b)", 0, None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_line_opens_is_taken_away(name: str) -> None:
    source, row, expected = CASES[name]
    lines = source.split("¦")
    target = lines[row].strip()
    before = lines[row][: -len(target)]
    document = (*lines[:row], before, *lines[row + 1 :])
    left = without_body(Cursor.at(document, row, len(before), "python"), target)
    if expected is None:
        assert left is None
    else:
        assert left is not None
        assert [*left.lines[:row], before + target, *left.lines[row + 1 :]] == expected.split("¦")
