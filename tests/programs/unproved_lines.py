"""What HumanEval's tests prove nothing about: the table `unproved` of `lsp_calib/studies/catalogue.toml`.

    python tests/programs/unproved_lines.py [--data-dir DIR]

Prints the lines without which the tests pass, and the functions with assertions that no program fails.
Each of the 1,033 lines is judged twice in the sandbox: with nothing in its place, and with `pass` at
its indentation, for a line that is the whole of a block. About five minutes on two processors.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from lsp_calib.characters import indentation_of
from lsp_calib.studies.sandbox.bwrap import all_tests_pass
from lsp_calib.studies.tasks import Gap, items_of

_IN = " " * 4


def pass_with(place: str, items: Sequence[Gap]) -> list[str]:
    """The ids of the lines whose tests pass with this in their place, without "SingleLineInfilling/"."""
    texts = [place and indentation_of(one.missing) + place for one in items]
    verdicts = all_tests_pass([item.program(text) for item, text in zip(items, texts, strict=True)])
    return [one.id.partition("/")[2] for one, passed in zip(items, verdicts, strict=True) if passed]


def without_a_claim(tests: str) -> int:
    """How many assertions of a constant the tests hold, such as `assert True`."""
    asserted = (one for one in ast.walk(ast.parse(tests)) if isinstance(one, ast.Assert))
    return sum(isinstance(one.test, ast.Constant) for one in asserted)


def table(name: str, values: Iterable[str]) -> str:
    words = ", ".join(f'"{value}"' for value in values)
    return f"{name} = [\n{textwrap.fill(words, 110, initial_indent=_IN, subsequent_indent=_IN)},\n]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path)
    folder = parser.parse_args().data_dir
    items, whole = items_of("humaneval-infilling", folder), items_of("humaneval", folder)
    claims = {one.id: count for one in whole if (count := without_a_claim(one.tests))}
    print("[unproved]")
    print('made_by = "python tests/programs/unproved_lines.py"')
    print(f"lines_asked = {len(items)}")
    print(f"assertions = {sum(claims.values())}")
    print(table("functions_with_assertions", claims))
    print(table("without", pass_with("", items)))
    print(table("with_pass", pass_with("pass", items)))


if __name__ == "__main__":
    main()
