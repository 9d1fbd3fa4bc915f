"""Where documentation stands, as each language's own tool has it; each row names the tool."""

from __future__ import annotations

import pytest
from documentation_layouts import DOXYGEN, GO, JAVA, PHP, PYTHON, RUBY, SEEN, TYPESCRIPT
from language_samples import only

from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.syntax import documentation_sentence, functions

# Seen by one of the tools alone, so that there is nowhere to write another one; or no place for lines.
NO_PLACE = [
    ("python", PYTHON, "def f():\n    return 1\nf.__doc__ = Base.method.__doc__"),
    ("ruby", RUBY, "private # why\ndef f\n1 end"),
    ("cpp", DOXYGEN, "namespace n { int f() {\n} }"),
    ("javascript", TYPESCRIPT, "module.exports = { f: function () {\n} }"),
    ("typescript", TYPESCRIPT, "register(function f() {\n})"),
    ("go", GO, "package a\n\n/* not it */ func F() {\n}"),
]


@pytest.mark.parametrize(("language", "tool", "source", "sentence"), SEEN)
def test_what_the_tool_shows_is_the_documentation(
    language: str, tool: str, source: str, sentence: str | None
) -> None:
    function = only(source, language)
    assert documentation_sentence(function, language) == sentence, tool
    assert (function.docstring is None) is (sentence is None), tool
    assert not (sentence and may_insert(function, language)), tool
    assert "D it" not in function.code


@pytest.mark.parametrize(("language", "tool", "source"), NO_PLACE)
def test_nothing_is_offered_without_a_place_for_it(language: str, tool: str, source: str) -> None:
    function = only(source, language)
    assert not may_insert(function, language), tool
    assert insertion(source.split("\n"), function, language, "Return it.") is None, tool
    assert documentation_sentence(function, language) is None, tool


def test_a_function_in_another_one_has_no_documentation_in_cpp() -> None:
    source = "int g() {\n  /** not it */\n  auto f = [](int a) {\n    return a;\n  };\n  return f(1);\n}"
    _, function = functions(source.split("\n"), "cpp")
    assert (function.name, function.docstring, may_insert(function, "cpp")) == ("f", None, False), DOXYGEN


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("function b() {\n/** D it is. */\nreturn function f() {\n}\n}", "D it is."),
        ("function b() {\nreturn /** D it is. */ function f() {\n}\n}", "D it is."),
        ("function b() {\nreturn function f() {\n}\n}", None),
    ],
)
def test_a_function_that_is_returned_has_documentation(source: str, sentence: str | None) -> None:
    _, function = functions(source.split("\n"), "typescript")
    assert documentation_sentence(function, "typescript") == sentence, TYPESCRIPT
    made = insertion(source.split("\n"), function, "typescript", "Return it.")
    assert (made and made.line) == (None if sentence else 1), TYPESCRIPT


@pytest.mark.parametrize(
    "source",
    ["const f = function g() {\n}", "const f = memo(function g() {\n})", "a.f = (function g() {\n}) as any"],
)
def test_a_function_has_the_name_that_it_is_bound_to(source: str) -> None:
    assert only(source, "typescript").name in ("f", "a.f")


@pytest.mark.parametrize(
    ("language", "tool", "source", "above"),
    [
        ("typescript", TYPESCRIPT, "class X {\n@A({\n  a: 1,\n})\nm() {\n}\n}", "@A({"),
        ("typescript", TYPESCRIPT, "class X {\n@A()\n// remark\nm() {\n}\n}", "@A()"),
        ("typescript", TYPESCRIPT, "class X {\n@A() // why\n@B()\nm() {\n}\n}", "@A() // why"),
        ("javascript", TYPESCRIPT, "const F = memo(function (a) {\n});", "const F"),
        ("java", JAVA, "class X {\nstatic final F f = a -> {\n};\n}", "static final"),
        ("cpp", DOXYGEN, "auto f = [](int a) {\n};", "auto f"),
        ("cpp", DOXYGEN, 'extern "C" int f(int a) {\n}', 'extern "C"'),
        ("cpp", DOXYGEN, "MY_MACRO(x)\nint f(int a) {\n}", "int f"),
        ("cpp", DOXYGEN, "int a;\nMY_MACRO(x) int f(int a) {\n}", "MY_MACRO"),
        ("cpp", DOXYGEN, "class X {\npublic: // plain\nint f() {\n}\n};", "int f"),
        ("typescript", TYPESCRIPT, "export\n/** not it */\nfunction f() {\n}", "export"),
        ("typescript", TYPESCRIPT, "class X {\nstatic\nf() {\n}\n}", "static"),
        ("typescript", TYPESCRIPT, "register(\nfunction f() {\n}\n)", "function f"),
        ("typescript", TYPESCRIPT, "/* plain */ function f() {\n}", "/* plain */ function f"),
        ("php", PHP, "<?php\n#[A]\nfunction f() {\n}", "#[A]"),
        ("php", PHP, "<?php\n/** not it */\nif (true) {\n$x = 1;\n}\nfunction f() {\n}", "function f"),
    ],
)
def test_a_sentence_goes_where_the_tool_looks(language: str, tool: str, source: str, above: str) -> None:
    lines = source.split("\n")
    made = insertion(lines, only(source, language), language, "Return it.")
    assert made is not None, tool
    assert f"/** Return it. */\n{above}" in "\n".join(made.apply(lines)), tool


def test_a_function_of_a_go_variable_gets_its_sentence() -> None:
    lines = ["package a", "", "var F = func(a int) {", "}"]
    made = insertion(lines, only("\n".join(lines), "go"), "go", "Return it.")
    assert made is not None
    assert "// F returns it.\nvar F" in "\n".join(made.apply(lines))


def test_a_value_that_a_function_makes_is_no_function() -> None:
    assert functions(["const x = list.map((a) => {", "  return a;", "});"], "javascript") == []


def test_the_code_is_without_documentation_in_its_body() -> None:
    function = only("fn f() {\n    //! D it\n    //! is.\n    g();\n}", "rust")
    assert function.code == "fn f() {\n    g();\n}"
