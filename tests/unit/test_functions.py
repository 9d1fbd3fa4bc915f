"""Functions and prose of a source file, found by tree-sitter: in good source, unfinished and hostile."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_samples import SAMPLES
from real_functions import with_call_begun_above

from lsp_calib.characters import split_lines
from lsp_calib.syntax import (
    Function,
    documentation_sentence,
    functions,
    has_grammar,
    innermost_function,
    prose_lines,
)
from lsp_calib.syntax.functions import parse, with_brackets_closed
from lsp_calib.syntax.languages import LANGUAGES, RULES
from lsp_calib.syntax.source_tree import Deadline


def only(source: str) -> Function:
    (function,) = functions(split_lines(source), "python")
    return function


def test_a_plain_function() -> None:
    function = only(
        'import os\n\ndef name(a,\n         b):\n    """Say it."""\n    # why\n    return a\n\nx = 1'
    )
    assert function == Function(
        name="name",
        start=2,
        body=5,
        end=7,
        signature_end=4,
        docstring='"""Say it."""',
        code="def name(a,\n         b):\n    # why\n    return a",
        documented=(4, 5),
    )


def test_methods_nested_and_async_functions_come_in_the_order_of_their_def_lines() -> None:
    source = """class A:
    @property
    def one(self):
        def two():
            return lambda: 1
        return two

    async def three(self):
        pass

if True:
    def four(): ...
"""
    found = functions(split_lines(source), "python")
    assert [function.name for function in found] == ["one", "two", "three", "four"]
    assert [function.start for function in found] == [2, 3, 7, 11]
    assert found[0].code.startswith("    def one"), "decorators are no part of a function's lines"
    assert found[2].code == "    async def three(self):\n        pass"


@pytest.mark.parametrize(
    ("source", "docstring", "code", "body"),
    [
        ("def f():\n    'd'\n    return 1", "'d'", "def f():\n    return 1", 2),
        ('def f():\n    """d\n    e"""\n    return 1', '"""d\n    e"""', "def f():\n    return 1", 3),
        ('def f():\n    """d"""  # noqa\n    return 1', '"""d"""', "def f():\n    return 1", 2),
        ('def f():\n    """d"""', '"""d"""', "def f():", 2),
        ('def f(é,\n  a): "d"', '"d"', "def f(é,\n  a):", 2),
        ('def f(é): "日"; return é', '"日"', "def f(é): return é", 0),
        ('def f():\n    """d"""; return 1', '"""d"""', "def f():\n    return 1", 1),
        ('def f():\n    f"""{d}"""\n    return 1', None, 'def f():\n    f"""{d}"""\n    return 1', 1),
        ('def f():\n    b"d"\n    return 1', None, 'def f():\n    b"d"\n    return 1', 1),
        ('def f():\n    "d" % 1', None, 'def f():\n    "d" % 1', 1),
    ],
)
def test_documentation_is_told_from_code(source: str, docstring: str | None, code: str, body: int) -> None:
    """A model that summarises is not shown the documentation, wherever it stands, and all of the code."""
    function = only(source)
    assert (function.docstring, function.code, function.body) == (docstring, code, body)


def test_a_signature_goes_from_below_the_decorators_to_its_colon() -> None:
    lines = split_lines('@d\ndef f(\n    a,\n):\n    "d"\n    def g(): pass\n    return g\n')
    found = [(one.name, one.start, one.signature_end) for one in functions(lines, "python")]
    assert found == [("f", 1, 4), ("g", 5, 6)]
    assert only("def f(a: int = (lambda: 1)()) -> {1: 2}:\n    return 1").signature_end == 1


@pytest.mark.parametrize("language", ["plaintext", "cobol", "", "Python"])
def test_a_language_without_a_grammar_has_no_functions(language: str) -> None:
    assert not has_grammar(language)
    assert functions(["def f(): pass"], language) == []
    assert prose_lines(["# c"], language) == set()


@pytest.mark.parametrize(
    "source",
    [
        "(" * 10_000,
        "x = " + "[\n" * 20_000 + "]\n" * 20_000,
        "if 1:\n" * 10_000 + "\n  def f(): pass",
        "def f(a=lambda:\n" * 5_000,
        "\n".join(" " * depth + f"def f{depth}():" for depth in range(300)) + "\n" + " " * 300 + "pass",
        "def f():\n" * 10_000,
        "f(\n" * 10_000 + ")" * 10_000,
        "f(\ndef g():\n" * 5_000,
        "x" * 200_000,
        "\x00\xff\ud800\n" * 10_000,
    ],
    ids=["open", "brackets", "ifs", "lambdas", "nested", "headless", "calls", "begun", "long", "binary"],
)
def test_hostile_source_neither_crashes_nor_hangs(source: str) -> None:
    lines = split_lines(source)
    start = time.process_time()
    functions(lines, "python")
    innermost_function(lines, len(lines) - 1, "python")
    prose_lines(lines, "python")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(("language", "data"), [("python", "x = ["), ("javascript", "function a(){")])
def test_a_line_of_data_hides_no_function(language: str, data: str) -> None:
    """Parsed, such a line would make all below it part of what it leaves open."""
    code = ["def f():", "    return 1"] if language == "python" else ["function f() {", "  return 1;", "}"]
    lines = [data * 20_000, "", *code, "", data * 20_000]
    assert [one.code for one in functions(lines, language)] == ["\n".join(code)]
    found = innermost_function(lines, 2, language)
    assert found is not None
    assert found.code == "\n".join(code)
    assert innermost_function(lines, 0, language) is None


def test_prose_is_comments_and_strings_that_stand_for_themselves() -> None:
    lines = split_lines(
        '"""Module.\n\nMore."""\n# comment\nx = 1  # with code\ny = """not\nprose"""\n\ndef f():\n'
        '    """Doc."""\n    # é\n    return "x"\n'
    )
    assert prose_lines(lines, "python") == {0, 1, 2, 3, 9, 10}


def test_the_innermost_function_holds_the_line_anywhere_in_it() -> None:
    lines = split_lines(
        '@d\ndef f(\n    a,\n):\n    "d"\n    def g():\n        "e"\n\n        return 1\n'
        "    return g\n\nx = 1\nclass A:\n    def m(self): pass\n"
    )
    found = [innermost_function(lines, line, "python") for line in range(len(lines))]
    at = [function.name if function else None for function in found]
    assert at == [None, *["f"] * 4, *["g"] * 4, "f", None, None, None, "m", None]
    assert innermost_function(lines, 1, "plaintext") is None


def test_documentation_above_a_function_belongs_to_it() -> None:
    lines = split_lines("/** D */\n@A\nvoid m() {\n  run(() -> {\n    x();\n  });\n}\n")
    at = [innermost_function(lines, line, "java") for line in range(len(lines))]
    assert [function.name if function else None for function in at] == [*["m"] * 7, None]


@pytest.mark.parametrize(
    ("language", "text", "classes"),
    [
        ("python", "class A:\n  class B:\n    def f(self):\n      def g(): pass\ndef h(): pass\n", "A.B A.B"),
        ("java", "class A { int f() { return 1; } interface B { default int g() { return 1; } } }", "A A.B"),
        ("rust", "impl Q for A { fn f(&self) {} }\ntrait B { fn g(&self) {} }\nmod m { fn h() {} }", "A B"),
        (
            "typescript",
            "export abstract class A<T> { f() { return 1 } }\nclass B { g() { return 1 } }",
            "A B",
        ),
        ("csharp", "class A { int f() { return 1; } struct B { int g() { return 1; } } }", "A A.B"),
        ("ruby", "module A\n  def f\n    1\n  end\nend\nclass B\n  def g\n    1\n  end\nend", "A B"),
    ],
)
def test_a_method_knows_its_class(language: str, text: str, classes: str) -> None:
    of = {one.name: one.within for one in functions(text.split("\n"), language)}
    assert [of["f"], of["g"]] == classes.split()
    assert of.get("h", "") == ""


def closed(source: str, language: str) -> str | None:
    lines = source.split("\n")
    rules, root = RULES.get(language), parse(lines, language)
    found = with_brackets_closed(root, rules, lines, Deadline(10.0))
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
        assert 0 <= function.start < function.signature_end <= len(lines)
        assert function.start < function.end <= len(lines)
        assert function.start <= function.body <= function.end
