"""Where documentation stands, as each language's own tool has it; comments for tools are none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from documentation_layouts import DOXYGEN, GO, JAVA, PHP, PYTHON, RUBY, SEEN, TYPESCRIPT
from language_samples import only

from lsp_calib.exclusion import Exclusion
from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.syntax.languages.tool_comments import TOOL_COMMENTS, is_for_tool

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


SENTENCE = "Finds the largest of all the prices."
BODY = "a + a + 1 + 2 + 3 + 4 + 5 + 6"
# What stands above a function and below it.
AROUND = {
    "c": ("", f"int f(int a) {{\n    return {BODY};\n}}"),
    "cpp": ("", f"int f(int a) {{\n    return {BODY};\n}}"),
    "csharp": ("class A {", f"int F(int a) {{\n    return {BODY};\n}}\n}}"),
    "go": ("package a", f"func f(a int) int {{\n\treturn {BODY}\n}}"),
    "java": ("class A {", f"int f(int a) {{\n    return {BODY};\n}}\n}}"),
    "javascript": ("", f"function f(a) {{\n    return {BODY};\n}}"),
    "php": ("<?php", f"function f($a) {{\n    return {BODY.replace('a', '$a')};\n}}"),
    "python": ("", ""),
    "ruby": ("", f"def f(a)\n  {BODY}\nend"),
    "rust": ("", f"fn f(a: i32) -> i32 {{\n    {BODY}\n}}"),
    "typescript": ("", f"function f(a: number) {{\n    return {BODY};\n}}"),
    "typescriptreact": ("", f"function f(a: number) {{\n    return {BODY};\n}}"),
}
DOCUMENTATION = {
    **dict.fromkeys(("c", "cpp", "java", "javascript", "php", "typescript", "typescriptreact"), "/** %s */"),
    **dict.fromkeys(("csharp", "rust"), "/// %s"),
    "go": "// %s",
    "ruby": "# %s",
    "python": '    """%s"""',
}
LICENCE = """
// Copyright (c) 2020 The Authors
// Licensed under the Apache License, Version 2.0 (the "License");
// you may obtain a copy of the licence there.
"""
# (language, tool, comment)
COMMENTS = [
    ("c", "cppcheck", "// cppcheck-suppress unusedFunction"),
    ("c", "clang-format", "// clang-format off"),
    ("c", "lcov", "/* LCOV_EXCL_START */"),
    ("c", "Coverity", "/* coverity[leaked_storage] */"),
    ("c", "Sonar", "// NOSONAR"),
    ("c", "REUSE", "/* SPDX-License-Identifier: MIT */"),
    ("c", "licence", "/*\n * Copyright (c) 2020 The Authors. All rights reserved.\n * Use it.\n */"),
    ("c", "licence", LICENCE.strip()),
    ("cpp", "clang-tidy", "// NOLINTNEXTLINE(readability-function-size): it is a table"),
    ("cpp", "include-what-you-use", "// IWYU pragma: keep"),
    ("cpp", "compiler", "#pragma GCC diagnostic push"),
    ("csharp", "ReSharper", "// ReSharper disable once UnusedMember.Global"),
    ("csharp", "compiler", "#pragma warning disable CS0168"),
    ("go", "Go", "//go:noinline"),
    ("go", "Go", "//export f"),
    ("go", "golangci-lint", "//nolint:gocyclo // it is a table"),
    ("go", "golangci-lint", "// nolint:gocyclo, errcheck"),
    ("go", "staticcheck", "//lint:ignore U1000 called by name"),
    ("go", "code generators", "// Code generated by protoc-gen-go. DO NOT EDIT."),
    ("java", "Checkstyle", "// CHECKSTYLE:OFF"),
    ("java", "JetBrains", "//noinspection unused"),
    ("javascript", "ESLint", "// eslint-disable-next-line complexity -- a table"),
    ("javascript", "Prettier", "// prettier-ignore"),
    ("javascript", "Istanbul", "/* istanbul ignore next */"),
    ("javascript", "bundlers", "/*#__NO_SIDE_EFFECTS__*/"),
    ("typescript", "TypeScript", "// @ts-ignore"),
    ("typescript", "TypeScript", "/** @ts-expect-error the old signature stays */"),
    ("php", "PHP_CodeSniffer", "// phpcs:ignore Generic.Files"),
    ("php", "PHPUnit", "/** @codeCoverageIgnore */"),
    ("php", "Psalm", "/**\n * @psalm-suppress MixedReturnStatement\n * @codeCoverageIgnore\n */"),
    ("python", "type checkers", "    # type: (int) -> int"),
    ("python", "flake8", "    # noqa: E501"),
    ("python", "Pylint", "    # pylint: disable=too-many-locals"),
    ("python", "coverage.py", "    # pragma: no cover"),
    ("ruby", "RuboCop", "# rubocop:disable Metrics/AbcSize"),
    ("ruby", "SimpleCov", "# :nocov:"),
    ("ruby", "RBS", "#: (Array[Float] prices) -> Float"),
    ("ruby", "Ruby", "# frozen_string_literal: true"),
    ("ruby", "RDoc", "# :nodoc:"),
    ("rust", "lcov", "/// LCOV_EXCL_START"),
]


def source_of(language: str, *comments: str) -> list[str]:
    above, function = AROUND[language]
    if language == "python":
        return "\n".join(("def f(a):", *comments, f"    return {BODY}")).split("\n")
    return "\n".join((above, *comments, function)).split("\n")


@pytest.mark.parametrize(("language", "tool", "comment"), COMMENTS)
def test_alone_it_is_no_documentation(language: str, tool: str, comment: str) -> None:
    lines = source_of(language, comment)
    function = only(lines, language)
    assert function.docstring is None, tool
    made = insertion(lines, function, language, SENTENCE)
    assert made is not None
    after = list(made.apply(lines))
    found = documentation_sentence(only(after, language), language)
    assert found == (SENTENCE if language != "go" else f"f finds{SENTENCE[5:]}")


@pytest.mark.parametrize(("language", "tool", "comment"), COMMENTS)
@pytest.mark.parametrize("above", [True, False])
def test_it_hides_no_sentence(language: str, tool: str, comment: str, above: bool) -> None:
    sentence = DOCUMENTATION[language] % SENTENCE
    if comment.startswith("// Copyright") and not above:
        sentence = f"\n{sentence}"  # a licence ends with its paragraph
    lines = source_of(language, *((sentence, comment) if above else (comment, sentence)))
    assert documentation_sentence(only(lines, language), language) == SENTENCE, tool


def test_it_makes_no_example(tmp_path: Path) -> None:
    index = WorkspaceExamples(tmp_path, lambda: Exclusion())
    comment = "// cppcheck-suppress unusedFunction"
    index.put("a", "c", source_of("c", comment))
    assert len(index) == 0
    index.put("a", "c", source_of("c", DOCUMENTATION["c"] % SENTENCE, comment))
    assert len(index) == 1


@pytest.mark.parametrize(
    ("language", "comment", "expected"),
    [
        ("ruby", "# rubocop:disable Metrics/AbcSize", f"# {SENTENCE}\n# rubocop"),
        ("ruby", "# frozen_string_literal: true", f"true\n# {SENTENCE}\ndef"),
        ("c", "/* SPDX-License-Identifier: MIT */", f"MIT */\n/** {SENTENCE} */\nint"),
        ("c", "// cppcheck-suppress unusedFunction", f"/** {SENTENCE} */\n// cppcheck"),
        ("go", "//nolint:gocyclo", "prices.\n//\n//nolint:gocyclo\nfunc"),
        ("go", "// #nosec G204", "prices.\n// #nosec G204\nfunc"),
        ("php", "/** @codeCoverageIgnore */", f"/** {SENTENCE} */\n/** @codeCoverageIgnore */"),
        ("python", "    # type: (int) -> int", f'-> int\n    """{SENTENCE}"""'),
    ],
)
def test_a_sentence_goes_where_the_tool_still_sees_its_comment(
    language: str, comment: str, expected: str
) -> None:
    """gofmt 1.27.3 makes a paragraph of its own of directives; the comments of a file stay above."""
    lines = source_of(language, comment)
    made = insertion(lines, only(lines, language), language, SENTENCE)
    assert made is not None
    assert expected in "\n".join(made.apply(lines))


PROSE = (
    "Suppress warnings of cppcheck here.|Skip lines with noqa or NOLINT in them.|Eslint is started here.|"
    "Copyright notices are collected.|Licensed users are counted.|Generated code is skipped, as @generated."
    "|Code generated by the template is checked.|Do not edit the list while it is read.|Typed: the kind.|"
    "Type: what the kind of it is.|Export the prices to a file.|Line by line the file is read.|"
    "Global names are collected.|Nosec and rubocop are asked.|Frozen string literals are counted.|"
    "Region of the map that is shown.|This function is generated at run time.|Permission is granted to all."
)


@pytest.mark.parametrize("language", sorted(AROUND))
def test_prose_that_mentions_a_tool_is_documentation(language: str) -> None:
    for sentence in PROSE.split("|"):
        lines = source_of(language, DOCUMENTATION[language] % sentence)
        assert documentation_sentence(only(lines, language), language) == sentence


def test_a_line_between_two_that_describe_is_left_out() -> None:
    lines = source_of("go", "// f finds", "//nolint:gocyclo", "// the largest.")
    assert documentation_sentence(only(lines, "go"), "go") == "f finds the largest."


def test_a_pragma_that_is_of_the_file_ends_its_comment() -> None:
    lines = source_of("c", "/* All of the prices. */", "#pragma once")
    assert only(lines, "c").docstring is None


def test_the_table_names_a_tool_for_each_pattern_in_each_language() -> None:
    families = {"javascriptreact": "javascript", "typescript": "javascript", "typescriptreact": "javascript"}
    assert {families.get(language, language) for language in LANGUAGES} == set(TOOL_COMMENTS)
    assert all(tool and pattern for rows in TOOL_COMMENTS.values() for tool, pattern in rows)


def test_hostile_comments_take_little_time() -> None:
    start = time.process_time()
    for language in TOOL_COMMENTS:
        for part in (" ", "a ", "copyright ", "nolint:a,", "@", "generated by "):
            assert is_for_tool(f"// {part * 100_000}", language) in (True, False)
        assert is_for_tool("/**" + "\n * eslint " * 20_000, language) in (True, False)
    for language, line in (("ruby", "# rubocop:disable X"), ("rust", "// x")):
        found = only([*[line] * 80_000, *AROUND[language][1].split("\n")], language)
        assert found.docstring is None
    assert time.process_time() - start < 15
