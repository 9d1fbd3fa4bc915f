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


def table(text: str) -> list[tuple[str, str, str | None]]:
    """A language, documentation in it, and its sentence, if it has one. ⏎: a line ends."""
    found = []
    for row in text.strip().split("\n"):
        language, _, rest = row.partition(": ")
        comment, _, sentence = rest.replace("⏎", "\n").partition(" => ")
        found.append((language, comment, None if sentence == "none" else sentence))
    return found


DOCSTRINGS = r'''
python: """Read a file and return its lines.""" => Read a file and return its lines.
python: r"""Read a file⏎    over two lines.⏎⏎    More.""" => Read a file over two lines.
python: """Read a file⏎⏎    More.""" => Read a file
python: """Read a :class:`~shop.Item` from ``path``.⏎⏎    :param path: p⏎    """ => Read a Item from path.
python: """Read `the item <https://a.b>`_ and :py:func:`it <a.b>`.""" => Read the item and it.
python: """Read it all⏎    Args:⏎        a: b⏎    """ => Read it all
python: """Read it all:⏎⏎    >>> f()⏎    """ => Read it all
python: """Args:⏎        a: the first thing.⏎    """ => none
python: """⏎    ====⏎    Title of it⏎    ====⏎    """ => Title of it
python: """Deprecated.""" => none
python: """TODO write this down.""" => none
python: """""" => none
python: """x = f(1, 2, [3]) + 7""" => none
'''
COMMENTS = r"""
java: /** Sums the {@link Price#value prices} of {@code items}.⏎ * @return s⏎ */ => Sums the prices of items.
java: /**⏎ * <p>Sums &amp; counts⏎ * them all.</p>⏎ * <p>More. */ => Sums & counts them all.
java: /**⏎ * @param a the first.⏎ * @return the sum of it.⏎ */ => none
java: /// Sums **all** the [prices][Price]. => Sums all the prices.
javascript: /**⏎ * @function⏎ * @description Counts the words.⏎ * @param {string} a⏎ */ => Counts the words.
typescript: /** Finds {@link Store.find | one} by its name! Slow. */ => Finds one by its name!
go: // F takes items away.⏎// It may fail. => F takes items away.
go: // F takes items⏎//⏎// More here. => F takes items
c: /**⏎ * @brief Sums a list.⏎ * @param a b⏎ */ => Sums a list.
c: /**⏎ * f - sums a list⏎ */ => f - sums a list
c: /** int f(int a) { return a; } */ => none
c: /** Copyright 2020 by the authors. */ => none
cpp: //! Sums them all.⏎//! \tparam T t => Sums them all.
csharp: /// <inheritdoc /> => none
csharp: /// <param name="a">The first one.</param>⏎/// <summary>Opens it now.</summary> => Opens it now.
ruby: # Opens the {Store#door} of +name+.⏎#⏎# @param name [String] => Opens the Store#door of name.
ruby: # Public: Opens the store. => Opens the store.
ruby: # @param name [String] the name of it. => none
ruby: # :call-seq:⏎#   f(x) -> y⏎#⏎# Opens the store. => Opens the store.
ruby: =begin⏎Opens the store.⏎=end => Opens the store.
php: /**⏎ * Adds two {@see Number} values.⏎ *⏎ * @param int $a⏎ */ => Adds two Number values.
"""


@pytest.mark.parametrize(
    ("language", "comment", "sentence"),
    [
        *table(DOCSTRINGS + COMMENTS.lstrip()),
        (
            "rust",
            "/// Makes an empty [`Shop`](shop::Shop), `None` if none.\n///\n/// # Examples",
            "Makes an empty Shop, None if none.",
        ),
        (
            "csharp",
            '/// <summary>\n/// Opens <see cref="T:Shop.Store"/> at '
            '<paramref name="a"/> &lt; 3.\n/// </summary>\n/// <param name="a">It is a.</param>',
            "Opens Store at a < 3.",
        ),
        ("python", '"""Größe **aller** Dateien \u200bzählen."""', "Größe aller Dateien zählen."),
    ],
)
def test_the_sentence_of_documentation(language: str, comment: str, sentence: str | None) -> None:
    definition = {
        "python": "def f(a):\n    %s\n    return a",
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
        one.name: documentation_sentence(one, language) for one in functions(source.split("\n"), language)
    }
    for name, words in expected.items():
        if words not in (None, "<summary>"):
            assert (found[name] or "").startswith(words)
            assert not set("*/#<>@") & set(found[name] or "")


def test_of_an_undocumented_function_there_is_no_sentence() -> None:
    assert sentence_of("def f(a):\n    return a", "python") is None


PIECES = [
    *(
        "/**",
        "*/",
        "///",
        "# ",
        '"""',
        "<summary>",
        "</summary>",
        "{@link ",
        "}",
        "`",
        "[",
        "](",
        "&lt;",
        "e.g. ",
    ),
    *(")", "<", ">", "@param ", "Adds two numbers. ", "\n", " * ", "é😀", ":class:", "\u202e", "**"),
]


@given(st.sampled_from(sorted(LANGUAGES)), st.lists(st.sampled_from(PIECES)))
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
