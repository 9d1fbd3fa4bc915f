"""The first sentence of documentation, in each language and in the markup of its tools."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_samples import SAMPLES

from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES


def sentence_of(source: str, language: str) -> str | None:
    (function,) = functions(source.split("\n"), language)
    return documentation_sentence(function, language)


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ('"""Read a file and return its lines."""', "Read a file and return its lines."),
        ('r"""Read a file\n    over two lines.\n\n    More."""', "Read a file over two lines."),
        ('"""Read a file\n\n    More."""', "Read a file"),
        (
            '"""Read a :class:`~shop.Item` from ``path``.\n\n    :param path: p\n    """',
            "Read a Item from path.",
        ),
        ('"""Read `the item <https://a.b>`_ and :py:func:`it <a.b>`."""', "Read the item and it."),
        ('"""Read it all\n    Args:\n        a: b\n    """', "Read it all"),
        ('"""Read it all:\n\n    >>> f()\n    """', "Read it all"),
        ('"""Args:\n        a: the first thing.\n    """', None),
        ('"""\n    ====\n    Title of it\n    ====\n    """', "Title of it"),
        ('"""Deprecated."""', None),
        ('"""TODO write this down."""', None),
        ('""""""', None),
        ('"""x = f(1, 2, [3]) + 7"""', None),
        ('"""Größe **aller** Dateien \u200bzählen."""', "Größe aller Dateien zählen."),
    ],
)
def test_docstrings(docstring: str, sentence: str | None) -> None:
    assert sentence_of(f"def f(a):\n    {docstring}\n    return a", "python") == sentence


@pytest.mark.parametrize(
    ("language", "comment", "sentence"),
    [
        (
            "java",
            "/** Sums the {@link Price#value prices} of {@code items}.\n * @return s\n */",
            "Sums the prices of items.",
        ),
        ("java", "/**\n * <p>Sums &amp; counts\n * them all.</p>\n * <p>More. */", "Sums & counts them all."),
        ("java", "/**\n * @param a the first.\n * @return the sum of it.\n */", None),
        ("java", "/// Sums **all** the [prices][Price].", "Sums all the prices."),
        (
            "javascript",
            "/**\n * @function\n * @description Counts the words.\n * @param {string} a\n */",
            "Counts the words.",
        ),
        ("typescript", "/** Finds {@link Store.find | one} by its name! Slow. */", "Finds one by its name!"),
        ("go", "// F takes items away.\n// It may fail.", "F takes items away."),
        ("go", "// F takes items\n//\n// More here.", "F takes items"),
        (
            "rust",
            "/// Makes an empty [`Shop`](shop::Shop), `None` if none.\n///\n/// # Examples",
            "Makes an empty Shop, None if none.",
        ),
        ("c", "/**\n * @brief Sums a list.\n * @param a b\n */", "Sums a list."),
        ("c", "/**\n * f - sums a list\n */", "f - sums a list"),
        ("c", "/** int f(int a) { return a; } */", None),
        ("c", "/** Copyright 2020 by the authors. */", None),
        ("cpp", "//! Sums them all.\n//! \\tparam T t", "Sums them all."),
        (
            "csharp",
            '/// <summary>\n/// Opens <see cref="T:Shop.Store"/> at '
            '<paramref name="a"/> &lt; 3.\n/// </summary>\n/// <param name="a">It is a.</param>',
            "Opens Store at a < 3.",
        ),
        ("csharp", "/// <inheritdoc />", None),
        (
            "csharp",
            '/// <param name="a">The first one.</param>\n/// <summary>Opens it now.</summary>',
            "Opens it now.",
        ),
        (
            "ruby",
            "# Opens the {Store#door} of +name+.\n#\n# @param name [String]",
            "Opens the Store#door of name.",
        ),
        ("ruby", "# Public: Opens the store.", "Opens the store."),
        ("ruby", "# @param name [String] the name of it.", None),
        ("ruby", "# :call-seq:\n#   f(x) -> y\n#\n# Opens the store.", "Opens the store."),
        ("ruby", "=begin\nOpens the store.\n=end", "Opens the store."),
        (
            "php",
            "/**\n * Adds two {@see Number} values.\n *\n * @param int $a\n */",
            "Adds two Number values.",
        ),
    ],
)
def test_comments(language: str, comment: str, sentence: str | None) -> None:
    definition = {
        "java": "class A {\n%s\nint f(int a) { return a; }\n}",
        "javascript": "%s\nfunction f(a) { return a; }",
        "typescript": "%s\nfunction f(a: number) { return a; }",
        "go": "%s\nfunc F(a int) int { return a }",
        "rust": "%s\nfn f(a: u8) -> u8 { a }",
        "csharp": "class A {\n%s\nint F(int a) { return a; }\n}",
        "ruby": "%s\ndef f(a)\n  a\nend",
        "php": "<?php\n%s\nfunction f($a) { return $a; }",
    }.get(language, "%s\nint f(int a) { return a; }")
    assert sentence_of(definition % comment, language) == sentence


@pytest.mark.parametrize("language", SAMPLES)
def test_the_documentation_of_the_samples_is_prose(language: str) -> None:
    source, expected = SAMPLES[language]
    found = {
        function.name: documentation_sentence(function, language)
        for function in functions(source.split("\n"), language)
    }
    for name, words in expected.items():
        if words is None or words == "<summary>":
            continue
        assert (found[name] or "").startswith(words)
        assert not set("*/#<>@") & set(found[name] or "")


def test_of_an_undocumented_function_there_is_no_sentence() -> None:
    assert sentence_of("def f(a):\n    return a", "python") is None


@given(
    st.sampled_from(sorted(LANGUAGES)),
    st.lists(
        st.sampled_from(
            [
                *("/**", "*/", "///", "# ", '"""', "<summary>", "</summary>", "{@link ", "}", "`", "[", "]("),
                *(")", "<", ">", "@param ", "Adds two numbers. ", "\n", " * ", "é😀", ":class:", "\u202e"),
                *("&lt;", "e.g. ", "**"),
            ]
        )
    ),
)
def test_whatever_documentation_holds_the_sentence_is_one_clean_line(
    language: str, pieces: list[str]
) -> None:
    sentence = documentation_sentence(Function("f", 0, 1, 2, 1, "".join(pieces), ""), language)
    if sentence is not None:
        assert sentence == " ".join(sentence.split()) != ""
        assert "\u202e" not in sentence


@pytest.mark.parametrize(
    "piece", ["{@link ", "[a](", "<a ", "`", ":a:`", "**a", "a. ", "{A ", "<summary>", "+a", "/* "]
)
def test_hostile_documentation_takes_no_time(piece: str) -> None:
    start = time.process_time()
    for language in LANGUAGES:
        documentation_sentence(Function("f", 0, 1, 2, 1, piece * 100_000, ""), language)
    assert time.process_time() - start < 5
