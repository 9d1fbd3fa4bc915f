"""Functions of files that somebody is writing in: a bracket above them is still open."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_samples import SAMPLES
from real_functions import with_call_begun_above

from lsp_calib.syntax import documentation_sentence, functions
from lsp_calib.syntax.functions import parse, with_brackets_closed
from lsp_calib.syntax.languages import LANGUAGES, rules_of
from lsp_calib.syntax.parsing import Allowance


def closed(source: str, language: str) -> str | None:
    lines = source.split("\n")
    rules, root = rules_of(language), parse(lines, language)
    assert rules is not None
    assert root is not None
    found = with_brackets_closed(root, rules, lines, Allowance(10.0))
    return None if found is None else "\n".join(found)


@pytest.mark.parametrize("language", SAMPLES)
def test_functions_below_one_in_which_a_call_is_begun_are_found(language: str) -> None:
    lines = SAMPLES[language][0].split("\n")
    whole = functions(lines, language)
    tried = 0
    for function in whole:
        broken = with_call_begun_above(lines, whole, function)
        if broken is None:
            continue
        tried += 1
        same = [one for one in functions(broken, language) if one.name == function.name]
        assert function.code in [one.code for one in same]
        sentences = [documentation_sentence(one, language) for one in same]
        assert documentation_sentence(function, language) in sentences
    assert tried or len(whole) == 1


@pytest.mark.parametrize(
    ("language", "source", "repaired"),
    [
        ("python", "f(a,\ndef g():\n    pass", "f(a,)\ndef g():\n    pass"),
        ("python", "x = [f({\n\ndef g():\n    pass", "x = [f({})]\n\ndef g():\n    pass"),
        ("python", "f(a  # why (\n# and\ny = 1", "f(a)  # why (\n# and\ny = 1"),
        ("python", "f(é\ny = (\n    1,\n)\n", "f(é)\ny = (\n    1,\n)\n"),
        ("go", "func f() {\n\tg(a\n}\n\nfunc h() {\n}", "func f() {\n\tg(a)\n}\n\nfunc h() {\n}"),
        ("python", "x = {\n    1: (2\ny = 1", "x = {\n    1: (2)}\ny = 1"),
    ],
)
def test_the_bracket_is_closed_before_the_line_that_it_cannot_hold(
    language: str, source: str, repaired: str
) -> None:
    assert closed(source, language) == repaired


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "f(\n    a,\n)\nx = [\n    1]\n"),
        ("python", "s = '''(\nx\n'''\n# f(\nx = 1"),
        ("python", "f(a"),
        ("cpp", "namespace a {\nint f() { return 1; }\n}"),
        ("c", "int f() {\n  switch (x) {\n  case 1:\n    g();\n  }\nend:\n  return 1;\n}"),
    ],
)
def test_a_bracket_that_is_closed_or_may_be_is_left_alone(language: str, source: str) -> None:
    assert closed(source, language) is None


@pytest.mark.parametrize("language", LANGUAGES)
@given(data=st.data())
def test_any_text_has_functions_within_it(language: str, data: st.DataObject) -> None:
    pieces = st.sampled_from(["(", ")", "[", "{", "}", "\n", "  ", "def f():", "f", "int g()", "'", '"', "é"])
    text = "".join(data.draw(st.lists(pieces, max_size=40)))
    lines = text.split("\n")
    for function in functions(lines, language):
        assert 0 <= function.start < function.end <= len(lines)


@pytest.mark.parametrize("part", ["(\n", "(\n{\n", "  (\n(\n", "f(\ndef g():\n"])
def test_hostile_texts_take_little_time(part: str) -> None:
    lines = (part * 5000).split("\n")
    began = time.process_time()
    functions(lines, "python")
    assert time.process_time() - began < 5.0
