"""What a grammar's wheel does not know of its language: each row is needed, and hides no error beside it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest
from gap_examples import EXAMPLE_OF
from language_samples import SAMPLES
from tree_sitter import Parser

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.syntax.languages import LANGUAGES, RULES
from lsp_calib.syntax.rules import Gap

ROWS = [(language, row) for language in LANGUAGES for row in RULES[language].gaps.rows]
NAMES = [f"{language}-{row.since}-{row.mark}" for language, row in ROWS]

# An error in any language, behind a line.
WRONG = " ) ] ="


def has_error(language: str, source: str) -> bool:
    rules = RULES.get(language)
    assert rules is not None
    return Parser(rules.grammar()).parse(source.encode()).root_node.has_error


def rows_of(row: Gap) -> Iterator[int]:
    """The lines of the example that have the construct."""
    found = [at for at, line in enumerate(EXAMPLE_OF[row].split("\n")) if row.read(line) != line]
    assert found
    yield from found


def broken(language: str, lines: list[str], at: int, text: str, *, below: bool = True) -> float:
    """Of a line in the place of another one, which may be the last."""
    document = (*lines[:at], "", *(lines[at + 1 :] if below else ()))
    return text_features(Cursor.at(document, at, 0, language), text)["broken"]


@pytest.mark.parametrize(("language", "row"), ROWS, ids=NAMES)
def test_a_wheel_does_not_know_the_construct(language: str, row: Gap) -> None:
    """Otherwise the row has to go."""
    assert has_error(language, EXAMPLE_OF[row])


@pytest.mark.parametrize(("language", "row"), ROWS, ids=NAMES)
def test_what_is_read_instead_is_in_order_and_as_long(language: str, row: Gap) -> None:
    lines = EXAMPLE_OF[row].split("\n")
    read = [row.read(line) for line in lines]
    assert not has_error(language, "\n".join(read))
    assert [len(line) for line in read] == [len(line) for line in lines]


def test_the_table_is_of_the_wheels_that_are_tested() -> None:
    """Another wheel: look through what it mends, and through its language's release notes."""
    wheels = {RULES[language].gaps.wheel for language in LANGUAGES}
    assert {f"{one.split()[0]} {version(one.split()[0])}" for one in wheels} == wheels


@pytest.mark.parametrize(("language", "row"), ROWS, ids=NAMES)
def test_a_line_with_the_construct_is_not_broken(language: str, row: Gap) -> None:
    lines = EXAMPLE_OF[row].split("\n")
    for at in rows_of(row):
        assert broken(language, lines, at, lines[at]) == 0.0
        assert broken(language, lines, at, lines[at], below=False) == 0.0


@pytest.mark.parametrize(("language", "row"), [one for one in ROWS if one[0] in SAMPLES])
def test_in_a_larger_file_neither_the_construct_nor_its_neighbours_are_broken(
    language: str, row: Gap
) -> None:
    sample = SAMPLES[language][0].rstrip("\n").split("\n")
    example = [line for line in EXAMPLE_OF[row].split("\n") if line not in ("package a", "<?php", "")]
    at_top = row.mark in ("#:", "module", "defer", "assert")
    document = [*example, *sample] if at_top and language != "cpp" else [*sample, "", *example]
    first = document.index(example[0], 0 if document[0] == example[0] else len(sample))
    for at in range(first, first + len(example)):
        assert broken(language, [*document, ""], at, document[at]) == 0.0, document[at]


# Behind `#:` the rest of the line is free.
@pytest.mark.parametrize(("language", "row"), [one for one in ROWS if one[1].mark != "#:"])
def test_an_error_in_or_beside_the_construct_breaks_the_line(language: str, row: Gap) -> None:
    lines = EXAMPLE_OF[row].split("\n")
    for at in rows_of(row):
        assert broken(language, lines, at, lines[at] + WRONG) == 1.0
        beside = [*lines[: at + 1], "", *lines[at + 1 :]]
        assert broken(language, beside, at + 1, WRONG) == 1.0


def test_text_that_is_no_ascii_keeps_its_columns() -> None:
    row = next(one for language, one in ROWS if language == "cpp" and one.mark == "delete")
    line = '  S() = delete("wärum");'
    assert len(row.read(line).encode()) == len(line.encode()) > len(line)


# Lines with what the grammar does not know and the table does not name, such as macros; then one more line of
# the form, and lines that are wrong.
UNKNOWN = [
    (
        "c",
        "int a(void);\nextern int f(int x) __THROW;\nextern int g(char *x, int y) __THROW;\nint b(void);\n",
        "extern int h(long z) __THROW;",
        "extern int h(long z __THROW; ¦ extern int (;",
    ),
    (
        "rust",
        "fn f() {\n    do yeet 1;\n    g();\n    do yeet x + 1;\n    h();\n}\n",
        "    do yeet 2;",
        "    do yeet 2); ¦ let = = 1;",
    ),
    (
        "php",
        "<?php\nfunction f($data) {\n    $a = $data{1};\n    g();\n    $b = $data{2} . 'x';\n    h();\n}\n",
        "    $c = $name{3};",
        "    $c = $name{3; ¦ $c = = 1;",
    ),
]


@pytest.mark.parametrize(("language", "source", "line", "wrong"), UNKNOWN)
def test_a_line_is_not_broken_by_what_other_lines_of_the_file_have_too(
    language: str, source: str, line: str, wrong: str
) -> None:
    lines = source.split("\n")
    at = len(lines) // 2
    document = [*lines[:at], "", *lines[at:]]
    assert broken(language, document, at, line) == 0.0
    assert [one for one in wrong.split(" ¦ ") if not broken(language, document, at, one)] == []
    plain = [one for one in document if not set(one) & {"_", "{"} or one.endswith("{")]
    plain = [one for one in plain if "yeet" not in one]
    assert broken(language, plain, plain.index("", 1), line) == 1.0
