"""Summaries as documentation: found again as they were written, and never anything but a comment."""

from __future__ import annotations

import ast
import html
import re
import textwrap

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lsp_calib.characters import has_hidden, split_lines
from lsp_calib.summarization.insertion import WIDTH, Insertion, after_name, insertion, may_insert, noun
from lsp_calib.syntax import Function, functions, has_grammar

SOURCES = {
    "python": "class A:\n    @decorated\n    def add(\n        self\n    ):\n"
    "        # Why.\n        return 1\n",
    "java": "class A {\n    @Override\n    @Named(\n        1\n    )\n"
    "    int add() {\n        return 1;\n    }\n}\n",
    "javascript": "const x = 1;\n\nexport function add(b) {\n  return b;\n}\n",
    "typescript": "class A {\n  add(b: number): number {\n    return b;\n  }\n}\n",
    "go": "package a\n\nfunc add(b int) int {\n\treturn b\n}\n",
    "rust": "impl A {\n    #[inline]\n    #[must_use]\n    fn add(b: u8) -> u8 {\n        b\n    }\n}\n",
    "c": "#include <a.h>\n\nstatic int\nadd(int b)\n{\n    return b;\n}\n",
    "cpp": "template <class T>\nT add(T b) {\n    return b;\n}\n",
    "csharp": "class A {\n    [Pure]\n    int Add(int b) {\n        return b;\n    }\n}\n",
    "ruby": "class A\n  def add(b)\n    b\n  end\nend\n",
    "php": "<?php\nclass A {\n    function add($b) {\n        return $b;\n    }\n}\n",
}
LANGUAGES = [language for language in SOURCES if has_grammar(language)]
HOSTILE = (
    "*/ evil(); /*",
    '""" + evil() + """',
    "''' + evil() + '''",
    'ends with a quote"',
    "ends with a backslash \\",
    "\\",
    '"',
    '\\"""evil()',
    "\\u002a\\u002f evil();",
    "</summary><evil/>",
    "?> evil",
    "```rust evil() ```",
    ">>> evil()",
    "@ts-ignore @deprecated */",
    "#[evil] // evil /* evil",
    "/",
    "*",
    "a\nevil()",
    "a\u2028evil()",
    "a\rb\x0cc",
    "right\u202eleft",
)
sentences = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=300),
    st.lists(
        st.sampled_from([*HOSTILE, "word", "Return", "the sum", " ", "*", "/", '"', "\\"]), max_size=12
    ).map("".join),
)


def only(source: str, language: str) -> Function:
    return functions(split_lines(source), language)[0]


def inserted(sentence: str, language: str, source: str | None = None, at: int = 0) -> Insertion:
    """The insertion at the first function, or another one, which there is."""
    lines = split_lines(source or SOURCES[language])
    made = insertion(lines, functions(lines, language)[at], language, sentence)
    assert made is not None
    return made


def words(documentation: str) -> str:
    """The words of documentation, read without the code under test."""
    text = re.sub(r'^\s*(r?"""|/\*\*|///|//|#|\*(?!/))', "", documentation, flags=re.M)
    text = re.sub(r'("""|\*/)$', "", text)
    return "".join(re.sub(r"</?summary>", "", text).split())


@pytest.mark.parametrize("language", LANGUAGES)
@given(sentence=sentences)
@example(sentence="Return the sum of two numbers.")
@example(sentence=" ".join(["words"] * 60))
def test_what_is_inserted_is_found_again_and_nothing_else_changes(language: str, sentence: str) -> None:
    lines = split_lines(SOURCES[language])
    before = only(SOURCES[language], language)
    made = insertion(lines, before, language, sentence)
    assume(made is not None)
    assert made is not None
    after = made.apply(lines)
    found = functions(after, language)[0]
    assert found.docstring is not None
    assert found.code == before.code
    kept = [*after[: made.line], *after[made.line + len(made.lines) :]]
    assert tuple(kept) == lines
    names = [[one.name for one in functions(every, language)] for every in (lines, after)]
    assert names[0] == names[1]
    assert not any(has_hidden(line) for line in made.lines)
    if language == "python":
        tree = ast.parse("\n".join(after))
        (method,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert [type(node) for node in method.body] == [ast.Expr, ast.Return]
        assert ">>>" not in (ast.get_docstring(method) or "")


@pytest.mark.parametrize("language", LANGUAGES)
@given(sentence=st.lists(st.from_regex(r"[a-zA-Z0-9,()\-]+", fullmatch=True), min_size=1, max_size=40))
def test_a_plain_sentence_comes_back_word_for_word(language: str, sentence: list[str]) -> None:
    assume(any(letter.isalpha() for word in sentence for letter in word))
    text = "Return " + " ".join(sentence)
    made = inserted(text, language)
    found = functions(made.apply(split_lines(SOURCES[language])), language)[0].docstring
    assert found is not None
    expected = text.replace("Return", "add returns", 1) if language == "go" else text
    assert html.unescape(words(found)) == "".join(expected.split())
    longest = max(len(word) for word in text.split())
    assert all(len(line.expandtabs(4)) <= max(WIDTH, longest + 30) for line in made.lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_text_has_no_way_out(language: str) -> None:
    """Either it is a comment, or it is not inserted; "evil" is never code."""
    lines = split_lines(SOURCES[language])
    function = only(SOURCES[language], language)
    for sentence in HOSTILE:
        made = insertion(lines, function, language, sentence)
        if made is None:
            assert not any(letter.isalpha() for letter in sentence), "words can always be a comment"
            continue
        code = "\n".join(one.code for one in functions(made.apply(lines), language))
        assert "evil" not in code, sentence
        inserted = "\n".join(made.lines)
        if language in ("java", "javascript", "typescript", "c", "cpp", "php"):
            assert inserted.count("*/") == 1, sentence
            assert "\\u00" not in inserted or language != "java", sentence
            assert not re.search(r"(?<![\w`])@", inserted), sentence
        if language == "rust":
            assert "```" not in inserted, sentence


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("python", '        """Return it."""\n        # Why.'),
        ("java", "    /** Return it. */\n    @Override"),
        ("javascript", "/** Return it. */\nexport function"),
        ("go", "// add returns it.\nfunc add"),
        ("rust", "    /// Return it.\n    #[inline]"),
        ("c", "/** Return it. */\nstatic int"),
        ("cpp", "/** Return it. */\ntemplate"),
        ("csharp", "    /// <summary>Return it.</summary>\n    [Pure]"),
        ("ruby", "  # Return it.\n  def"),
        ("php", "    /** Return it. */\n    function"),
    ],
)
def test_each_language_in_its_convention(language: str, shown: str) -> None:
    made = inserted("Return it.", language)
    assert shown in "\n".join(made.apply(split_lines(SOURCES[language])))


# A language, the source, and what stands in it once the sentence does. ⏎: a line ends.
BESIDE = r'''
typescript: // @ts-expect-error old⏎function q(a) {⏎  return a;⏎}⏎ => /** Return it. */⏎// @ts-expect-error
go: package a⏎⏎//go:noinline⏎func q() {⏎}⏎ => // q returns it.⏎//⏎//go:noinline
python: def q(a):⏎    # type: (int) -> int⏎    return a⏎ => int⏎    """Return it."""⏎    return a
rust: #[inline]⏎#[cfg(any(⏎    test,⏎))]⏎fn q(a: u8) -> u8 {⏎    a⏎}⏎ => /// Return it.⏎#[inline]⏎#[cfg
javascript: f(a[1]⏎)⏎x = a[2]⏎function q(a) {⏎  return a;⏎}⏎ => x = a[2]⏎/** Return it. */⏎function q
'''


@pytest.mark.parametrize("row", BESIDE.strip().split("\n"))
def test_what_a_tool_reads_beside_a_function_stays_beside_it(row: str) -> None:
    language, _, given = row.replace("⏎", "\n").partition(": ")
    source, _, expected = given.partition(" => ")
    made = inserted("Return it.", language, source)
    assert expected in "\n".join(made.apply(split_lines(source)))


def test_in_go_functions_that_begin_a_block_have_their_documentation() -> None:
    source = "package a\n\nfunc main() {\n\t// g adds one.\n\tg := func() {\n\t}\n\tg()\n}\n"
    assert [one.docstring for one in functions(split_lines(source), "go")] == [None, "// g adds one."]
    bare = source.replace("\t// g adds one.\n", "")
    made = inserted("Adds one.", "go", bare, at=1)
    assert functions(made.apply(split_lines(bare)), "go")[1].docstring is not None


def test_long_sentences_take_several_lines() -> None:
    long = "Return " + "the sum of all the numbers " * 6
    made = inserted(long, "java")
    assert (made.lines[0], made.lines[-1]) == ("    /**", "     */")
    made = inserted(long, "python")
    assert made.lines[-1] == '        """'
    assert len(made.lines) == 3


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ('def f():\n    """Old."""\n    return 1\n', "python"),
        ("def f(): return 1\n", "python"),
        ("/** Old. */\nfunction f() {\n}\n", "javascript"),
        ("// Old.\nfunc f() {\n}\n", "go"),
    ],
)
def test_where_there_is_documentation_or_no_place_none_is_inserted(source: str, language: str) -> None:
    function = only(source, language)
    assert not may_insert(function, language)
    assert insertion(split_lines(source), function, language, "New.") is None


def test_nested_functions_are_documented_one_by_one() -> None:
    source = "def outer():\n    def inner():\n        return 1\n\n    return inner\n"
    lines = split_lines(source)
    made = inserted("Return one.", "python", source, at=1)
    assert textwrap.dedent("\n".join(made.lines)) == '"""Return one."""'
    found = functions(made.apply(lines), "python")
    assert [one.docstring for one in found] == [None, '"""Return one."""']
    assert may_insert(functions(lines, "python")[0], "python")


def test_what_it_is_called() -> None:
    assert (noun("python"), noun("java"), noun("plaintext")) == ("docstring", "comment", None)


@pytest.mark.parametrize(
    ("sentence", "name", "documentation"),
    [
        ("Closes the connection.", "Close", "Close closes the connection."),
        ("Close the connection.", "Close", "Close closes the connection."),
        ("This function closes it.", "Close", "Close closes it."),
        ("The method is used to close it.", "Close", "Close: The method is used to close it."),
        ("Always returns nil.", "Close", "Close: Always returns nil."),
        ("Process the file.", "handle", "handle processes the file."),
        ("Success or failure.", "Check", "Check: Success or failure."),
        ("HTTP handler of the page.", "Page", "Page: HTTP handler of the page."),
        ("parse() parses the file.", "parse", "parse() parses the file."),
        ("Sum of all values.", "Sum", "Sum of all values."),
        ("Close, then free it.", "Close", "Close, then free it."),
        ("The function call is traced.", "Trace", "Trace: The function call is traced."),
    ],
)
def test_in_go_a_sentence_begins_with_the_name_and_a_verb(
    sentence: str, name: str, documentation: str
) -> None:
    assert after_name(sentence, name) == documentation


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_line_of_numbers_alone_is_part_of_the_sentence(language: str) -> None:
    for numbers in (["0"] * 31 + ["words", "00"], ["0"] * 38 + ["0000000A", "-"]):
        made = inserted("Return " + " ".join(numbers), language)
        found = functions(made.apply(split_lines(SOURCES[language])), language)[0].docstring or ""
        assert words(found).count("0") == sum(word.count("0") for word in numbers)
