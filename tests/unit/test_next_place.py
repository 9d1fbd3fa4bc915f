"""Where a user is expected to go on after a line."""

import pytest

from lsp_calib.completion.context import next_place


@pytest.mark.parametrize(
    ("lines", "indentation", "language"),
    [
        *((["x = 1"], "", "python"), (["    x = 1"], "    ", "python"), (["def f():"], "    ", "python")),
        *((["class A:", "  def f():"], "    ", "python"), (["class A:", "\tdef f():"], "\t\t", "python")),
        (["def f(", "    a,", "):", "    return a"], "", "python"),
        (["for a in b:", "    if a:", "        break"], "    ", "python"),
        *((["x = f("], "    ", "python"), (["x = f(  "], "    ", "python")),
        *(([""], "", "python"), (["returned = 1"], "", "python")),
        *((["if (a) {"], "    ", "go"), (["  return a;"], "  ", "go")),
        *((["label:"], "", "go"), (["\tf({"], "\t\t", "go")),
    ],
)
def test_the_indentation_of_the_next_line(lines: list[str], indentation: str, language: str) -> None:
    place = next_place([*lines, "below"], len(lines) - 1, language)
    assert [*place.lines] == [*lines, indentation, "below"]
    assert (place.line, place.column, place.language) == (len(lines), len(indentation), language)
