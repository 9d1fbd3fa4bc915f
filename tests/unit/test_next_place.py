"""Where a user is expected to go on after a line."""

import pytest

from lsp_calib.completion.context import next_place


@pytest.mark.parametrize(
    ("lines", "indentation"),
    [
        (["x = 1"], ""),
        (["    x = 1"], "    "),
        (["def f():"], "    "),
        (["class A:", "  def f():"], "    "),
        (["class A:", "\tdef f():"], "\t\t"),
        (["def f(", "    a,", "):", "    return a"], ""),
        (["for a in b:", "    if a:", "        break"], "    "),
        (["x = f("], "    "),
        (["x = f(  "], "    "),
        ([""], ""),
        (["returned = 1"], ""),
    ],
)
def test_the_indentation_in_python(lines: list[str], indentation: str) -> None:
    place = next_place([*lines, "below"], len(lines) - 1, "python")
    assert [*place.lines] == [*lines, indentation, "below"]
    assert (place.line, place.column, place.language) == (len(lines), len(indentation), "python")


@pytest.mark.parametrize(
    ("line", "indentation"), [("if (a) {", "    "), ("  return a;", "  "), ("label:", ""), ("\tf({", "\t\t")]
)
def test_the_indentation_with_braces(line: str, indentation: str) -> None:
    assert next_place([line], 0, "go").before == indentation
