"""The program that asks the server above closers counts what it says."""

from __future__ import annotations

import pytest
from closers import KINDS, LANGUAGES, judged, places

JAVA = ["class A {", "  void f() {", "    g();", "    ", "  }", "}"]


@pytest.mark.parametrize(
    ("new", "doubled", "errors", "closed"),
    [
        ("    h();", False, False, False),
        ("  }", True, True, True),
        ("    h());", True, True, True),
        ("    if (a) {", False, True, False),
        ("    h(;", False, True, True),
    ],
)
def test_an_answer_above_a_closer(new: str, doubled: bool, errors: bool, closed: bool) -> None:
    found = judged(JAVA, 3, "java", new)
    assert (found["doubled"], found["errors"] > 0, found["errors once closed"] > 0) == (
        doubled,
        errors,
        closed,
    )


def test_the_end_of_a_docstring_again() -> None:
    lines = ["def f():", '    """Do it.', "    ", '    """', "    return 1"]
    assert judged(lines, 2, "python", '    """')["doubled"]
    assert not judged(lines, 2, "python", "    More.")["doubled"]
    assert judged(lines, 2, "python", "    More.")["errors"] <= 0


def test_the_places_are_of_all_languages_and_kinds() -> None:
    drawn = places(300)
    assert len(drawn) == len(set(drawn)) == 300
    assert {one.language for one in drawn} == set(LANGUAGES)
    assert {one.kind for one in drawn} == set(KINDS)
    assert min(sum(one.language == language for one in drawn) for language in LANGUAGES) >= 27
