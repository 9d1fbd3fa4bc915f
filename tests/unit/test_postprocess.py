"""What of an answer is offered."""

import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, Cut, _unmatched_in, cleaned, offered
from lsp_calib.completion.reasons import Removal
from lsp_calib.syntax.languages import LANGUAGES


def at(before: str, after: str = "", language: str = "plaintext") -> Cursor:
    return Cursor.at([before + after], 0, len(before), language)


def within(
    above: list[str],
    before: str,
    after: str = "",
    below: tuple[str, ...] = (),
    language: str = "python",
) -> Cursor:
    return Cursor.at([*above, before + after, *below], len(above), len(before), language)


REACT = "typescriptreact"
TYPED = ("java", "typescript", REACT, "csharp", "cpp")

# Language, text before the cursor, answer, text behind the cursor, and what is left of the answer.
CUT: dict[str, list[tuple[str, str, str, str, str]]] = {
    "it closes what the editor has closed": [
        ("plaintext", "def f(", "self, x):", ")", "self, x"),
        ("plaintext", "for i in range(", "10):", ")", "10"),
        ("plaintext", "if (", "a === b) {", ")", "a === b"),
        ("plaintext", "let x = {", "a: 1};", "}", "a: 1"),
        ("plaintext", "f(", "a, b); // c", ");", "a, b"),
        # It closes what nothing behind it closes, or what was out of order before.
        ("plaintext", "f(g(", "1), 2", ")", "1), 2"),
        ("plaintext", "f(", "a).b(", ")", "a).b("),
        ("plaintext", "f(", ")(", ")", ")("),
        ("plaintext", "f(", "a)", "", "a)"),
    ],
    "the quote that the editor has written": [
        ("javascript", 'import React from "', 'react";', '"', "react"),
        ("typescriptreact", '<a className="', 'big" onClick={f}', '">', "big"),
        ("c", 'printf("', 'Hello %s\\n", name);', '")', "Hello %s\\n"),
        ("lua", 'require("', 'os");', '")', "os"),
        ("python", 'print("', 'Name:", name', '")', "Name:"),
        ("python", 'print("', 'hello", name)', '")', "hello"),
        ("python", 'print("', 'Name: ", name)', '")', "Name: "),
        ("python", "print('", "it\\'s', name)", "')", "it\\'s"),
        ("python", "print(b'", "a', end)", "')", "a"),
        ("python", 'print(f"', '{a["b"]}: {x}", y)', '")', '{a["b"]}: {x}'),
        ("python", 'print(f"{a}: ', '{b}", c)', '")', "{b}"),
        ("python", 'x = """', 'Say "a" and "b" """ + y', '"""', 'Say "a" and "b" '),
        ("python", 'd = {"a": "', 'b", "c": 1}', '"}', "b"),
        ("python", "print(\"don't ", 'go", x)', '")', "go"),
        ("java", 'String s = "', 'a" + "b" + c;', '";', "a"),
        ("java", 'System.out.println("', '" + name);', '")', ""),
        ("go", "x := `", "SELECT 1`, nil", "`", "SELECT 1"),
        ("javascript", "f(`", "${a}`, b)", "`)", "${a}"),
        ("rust", "fn f<'a>(x: &'a str) { g(\"", 'h", x)', '") }', "h"),
        ("rust", "m('\"', \"", 'a", b)', '")', "a"),
        ("cpp", "f(1'000, \"", 'a", b)', '")', "a"),
        ("csharp", 'var s = $"', '{x}: " + y;', '";', "{x}: "),
        # Quotes of other kinds, and within what the quotes hold.
        ("javascript", "f(`${g(`", "a`)}` + x", "`", "a`)}"),
        ("kotlin", 'x = """', 'a"""', '"""', "a"),
        ("sql", "SELECT 'it", "''s' || x", "'", "''s"),
        ("csharp", 'var path = @"C:\\', 'x" + y', '";', "x"),
        ("rust", 'r#"', 'a" b', '"#', "a"),
        ("python", 'x = "\\', 'n" + y', '"', "n"),
        ("python", 'f"{d["', 'a"]} x", y', '"', 'a"]} x'),
        # Where nobody can tell, nothing is left.
        ("shellscript", 'cd "$(dirname ', '"$0")" || exit', '"', ""),
        ("rust", "fn f<'", "a>(x: &'a str, y", "'", ""),
        ("php", 'x <a href="', '<?php echo $a["b"] ?>">', '"', ""),
    ],
    "the bar that the editor has written": [
        ("rust", "let y = v.map(|", "x| x + 1", "|);", "x"),
        ("rust", "let y = v.map(|", "x, y| x * 2).collect()", "|);", "x, y"),
        ("rust", "let y = v.map(|", "&(a, b)", "|);", "&(a, b)"),
        ("rust", "let mask = A ", "& C ", "| B;", "& C "),
        ("rust", "let mask = A ", "| C ", "| B;", "| C "),
        ("ruby", "v.map { |", "x| x + 1 }", "| }", "x"),
        ("c", "int mask = a ", "| c ", "| b;", "| c "),
    ],
    "it closes the types that the editor has closed": [
        *(
            case
            for language in TYPED
            for case in (
                (language, "Map<", "String, Integer> counts = f();", ">", "String, Integer"),
                (language, "Map<", "String, List<Integer>> counts = f(", ">", "String, List<Integer>"),
                (language, "Map<String, ", "A[]> x", ">", "A[]"),
                (language, "Map<String, List<", "A>> x;", ">>", "A"),
                (language, "Map<", "String, List<A>", ">", "String, List<A>"),
                (language, "Map<", "String, List<A>>", ">", "String, List<A>"),
                # It is none of types.
                (language, "a < ", "b> c", "> d", "b> c"),
                (language, 'f("Map<', "A> x", ">", "A> x"),
                (language, "x = a", " > b", " > c", " > b"),
            )
        ),
        ("typescript", "f(x: Set<", "(a) => b>) {", ">", "(a) => b"),
        ("typescriptreact", "f(x: Set<", "(a) => b>) {", ">", "(a) => b"),
        ("rust", "let m: Map<", "K, V> = f(", ">", "K, V"),
        # It opens another list of types for what stands behind.
        *((name, "Map<", "A> x = new Map<B", ">", "A> x = new Map<B") for name in TYPED if name != REACT),
        # There are no types in brackets.
        *((name, "Map<", "a> x", ">", "a> x") for name in ("c", "go", "html")),
    ],
    "the end of the statement stands behind the brackets": [
        ("javascript", "foo(", "bar();", ");", "bar()"),
        ("javascript", "foo(", "x;", ");", "x"),
        ("javascript", "a[f(", "g(1);", ")];", "g(1)"),
        ("javascript", "if (", "g() {", ") {", "g()"),
        ("javascript", "foo(", ";", ");", ""),
        ("javascript", "for (", ";;", ");", ";;"),
        ("javascript", "for (", "let i = 0;", ");", "let i = 0;"),
        # The end is of what the text itself opens, or it is another one.
        ("javascript", "foo(() => {", "return f();", "});", "return f();"),
        ("javascript", "foo(", "a,", "),", "a,"),
        ("javascript", "foo(", "g(x)", "), y", "g(x)"),
        # Nothing that opens a body stands before what closes the brackets around it.
        ("javascript", "foo(", "() => { x();", ");", ""),
        ("javascript", "foo(", "() => { x(); }", ");", "() => { x(); }"),
        ("javascript", "setTimeout(", "() => {", ");", ""),
        ("javascript", "setTimeout(", "() => {", ", 10);", ""),
        ("javascript", "items.map((item) => ", "{", ");", ""),
        ("javascript", "items.map((item) => ", "({", ")", ""),
    ],
    "the rest of the line again": [
        ("plaintext", "print(", "x)", ")", "x"),
        ("plaintext", "print(", "f(x))", ")", "f(x)"),
        ("plaintext", "def f(", "self, x):", "):", "self, x"),
        ("plaintext", "a = [", "1, 2]", "]", "1, 2"),
        ("plaintext", "x['", "key']", "']", "key"),
        ("plaintext", "s = '", "abc'", "'", "abc"),
        ("plaintext", "f(", "x)", ")   ", "x"),
        ("plaintext", "return ", "a + b", " + b", "a"),
        ("plaintext", "return ", "a + b", "+ b", "a "),
        ("plaintext", "g(", "x, y", ", y)", "x"),
        ("plaintext", "self.", "run(task)", "(task).encode()", "run"),
        ("plaintext", "x = ", "locale.describe(1, 2)", ".describe(", "locale"),
        ("plaintext", "@attrs(repr=", 'True, eq=False)"', ", eq=False)", "True"),
        ("plaintext", "x = ", "a.b", "b", "a."),
        ("python", "for i", "tem in", " in range(n):", "tem"),
        ("python", "return ", "a + b", " + b", "a"),
    ],
}

# The same of answers that are left as they are.
WHOLE: dict[str, list[tuple[str, str, str, str]]] = {
    "in doubt a quote behind the cursor ends nothing": [
        ("python", 'f("', 'a", "b', '")'),  # the quote behind ends another string
        ("python", 'f("', "it's", '")'),
        ("python", 'f("', 'a \\"b\\" c', '")'),
        ("python", 'f(x["', "key", '"])'),
        ("python", 'x = "', 'a", b', '"c"'),  # it begins a string
        ("python", "x = ", '"a" + ', '"b"'),
        ("python", "# it's '", "a' and b", "'"),  # prose
        ("plaintext", "I don", "'t know, isn't it", "'"),
        ("javascript", "// don't say \"", 'a" or b', '"'),
        ("javascript", "f(`${", "g(`a`)", "`)"),
        ("swift", 'print("\\(', 'd["a"]) x", y', '"'),
    ],
    "white space before what stands behind the cursor stays": [
        ("javascript", "const r = ", "await ", "fetch(url);"),
        ("python", "if ", "not ", "x in seen:"),
        ("c", "", "return ", "foo();"),
        ("rust", "let ", "mut ", "x = 1;"),
        ("python", "s.split('", ", ", "')"),
        ("python", 'name = input("', "Enter your name: ", '")'),
        ("python", "x = ", "a ", "+ b"),
    ],
    "the end of a word is not the next word": [
        ("python", "for ", "plugin", " in plugins:"),
        ("python", "if ", "axis", " is None:"),
        ("python", "x = ", "color", " or default"),
        ("python", "while ", "operand", " and running:"),
        ("typescript", "const c = ", "canvas", " as HTMLCanvasElement;"),
        ("rust", "let v = ", "bias", " as usize;"),
        ("typescript", "import { ", "Canvas", " as F } from 'x'"),
        ("python", "return ", "plugin", " in"),
    ],
    "a bracket that the answer itself opened stays closed": [
        ("plaintext", "print(", "f(x)", ")"),
        ("plaintext", "a = [", "b[0]", "]"),
        ("plaintext", "f({", "'a': {}", "})"),
        ("plaintext", "print(", "x", ")"),
    ],
    "what may stand in a line twice": [
        ("plaintext", "self.", "name = ", "name"),
        ("plaintext", "f(", "g(x)", "), y"),
    ],
}


def rows(table: Mapping[str, Sequence[tuple[str, ...]]]) -> list[Any]:
    return [pytest.param(*row, id=f"{why}-{n}") for why in table for n, row in enumerate(table[why])]


@pytest.mark.parametrize(("language", "before", "text", "after", "left"), rows(CUT))
def test_where_an_answer_ends(language: str, before: str, text: str, after: str, left: str) -> None:
    found = offered(text, at(before, after, language))
    again = text.removeprefix(left).strip() == after.strip()
    cuts = () if left in ("", text) else (Cut.SUFFIX if again else Cut.PART_OF_SUFFIX,)
    assert (found.text, found.cuts) == (left, cuts)


@pytest.mark.parametrize(("language", "before", "text", "after"), rows(WHOLE))
def test_an_answer_that_is_left_as_it_is(language: str, before: str, text: str, after: str) -> None:
    assert offered(text, at(before, after, language)) == Cleaned(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("x: &'a str) -> &'a str {", "x: &'a str"),
        ("&'a self) -> &'a str {", "&'a self"),
        ("x: &'a str, y: &'a str) -> &'a str {", "x: &'a str, y: &'a str"),
        ("x: [u8; b')' as usize])", "x: [u8; b')' as usize]"),
    ],
)
def test_lifetimes_are_no_strings(text: str, left: str) -> None:
    cursor = Cursor.at(["impl<'a> P<'a> {", "    fn get()"], 1, len("    fn get("), "rust")
    assert offered(text, cursor).text == left


@pytest.mark.parametrize(
    ("language", "before", "text"),
    [
        ("python", "print(", '"hello", name'),
        ("javascript", "import React from ", '"react";'),
        ("c", "printf(", '"Hello %s", name'),
        ("java", "x = ", '"a" + b;'),
    ],
)
def test_typing_the_quote_that_begins_a_text_leaves_its_string(language: str, before: str, text: str) -> None:
    """The editor closes the quote, and the model writes what it wrote before, from there on."""
    string = text.split('"')[1]
    for typed in range(1, len(string) + 1):
        cursor = at(before + text[:typed], '"', language)
        assert before + text[:typed] + offered(text[typed:], cursor).text == f'{before}"{string}'


@pytest.mark.parametrize("after", ["", " ", ")", "]", "}", ", b)", ";", ": int", ".a"])
def test_white_space_before_what_ends_it_goes(after: str) -> None:
    assert offered("x ", at("f([{", after, "python")).text == "x"


DICT = ["def f(root, names):", "    return dict(", "        first=os.path.join(root, names[0]),"]
DOCSTRING = ['"""A document (with a bracket', "that nothing closes", '"""']


@pytest.mark.parametrize("above", [DICT, DOCSTRING + DICT], ids=["", "docstring"])
@pytest.mark.parametrize("closers", [")),)", "))),", ")))", ")),),", ")),})"])
def test_no_closer_is_left_over_at_the_end_of_a_call_over_several_lines(
    above: list[str], closers: str
) -> None:
    before = "        second=os.path.join("
    text = "root, names[1]"
    assert offered(text + closers, within(above, before)).text == f"{text}))"
    # What is closed below is not closed here.
    for below in ("    )", "    ),", "    ).items()"):
        assert offered(text + closers, within(above, before, below=(below,))).text == f"{text})"
        for right in (")", "),"):
            assert offered(text + right, within(above, before, below=(below,))) == Cleaned(text + right)
    for right in (")", "),", "))"):
        assert offered(text + right, within(above, before)) == Cleaned(text + right)


@pytest.mark.parametrize(
    ("language", "above", "before", "text", "after", "below"),
    [
        ("go", ["func main() {"], '\thttp.HandleFunc("/", ', "func(w W, r *R) {", ")", ["}"]),
        ("cpp", ["int main() {"], "  std::sort(v.begin(), v.end(), ", "[](int a, int b) {", ");", ["}"]),
        ("java", ["class A {", "  void f() {"], "    list.forEach(", "x -> {", ");", ["  }", "}"]),
        ("python", ["def f():"], "    g(", "x, [", ", 1)", []),
        ("lua", [], "pcall(", "function() g(", ", x)", []),
    ],
)
def test_nothing_is_left_open_before_what_stands_behind_the_cursor(
    language: str, above: list[str], before: str, text: str, after: str, below: list[str]
) -> None:
    cursor = within(above, before, after, tuple(below), language)
    assert offered(text, cursor).removal is Removal.LEAVES_OPEN
    assert offered(text, cursor.without_closers_behind()).text == (text if cursor.after[0] == ")" else "")


def test_brackets_on_a_line_of_data_are_not_counted() -> None:
    """The loops over its characters would hold up all that the server does."""
    data = "a(b[c]);" * 20_000
    for text in ("x]", "x), y"):
        assert offered(text, at("foo(", ");" + data, "javascript")).text == text
        assert offered(text, at(data + "foo(", ");", "javascript")).text == text
    above = ["a(b[c]);" * 300] * 2_000
    assert offered("}", Cursor.at([*above, ""], 2_000, 0, "javascript")).text == "}"
    assert offered("}", Cursor.at([*above[:20], ""], 20, 0, "javascript")).text == ""


def test_a_quote_behind_a_line_of_data_is_not_looked_into() -> None:
    cursor = at('f("' + "x" * 200_000, '")')
    assert offered('a", b', cursor).text == 'a", b'


@given(parts=st.lists(st.sampled_from(["a", ", ", "(", ")", "[", "]", "{", "}", " "]), max_size=12))
def test_between_brackets_that_the_editor_has_closed_nothing_closes_them(parts: list[str]) -> None:
    """Whatever the model writes there, and wherever it goes on, unless it opens another one for that."""
    text = offered("".join(parts), at("f(", ")")).text
    if not any(True for _ in _unmatched_in(f"f({text})", "")):
        return  # such as `a).b(`
    open_: list[str] = []
    for char in text:
        if char in "([{":
            open_.append(char)
        elif char in ")]}":
            opener = open_.pop() if open_ else ""
            assert opener or char != ")"
            if opener != "([{"[")]}".index(char)]:
                return  # out of order: no bracket is the one behind


# Bidirectional controls, by which a text reads otherwise than it runs: CVE-2021-42574.
TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))


@pytest.mark.parametrize(
    "text",
    [
        *("\x1b[31mred", "a\0b", "a\rb", "bell\a", "\x7f", "\x85", "a\x9bb", chr(0xD800), "\ufffd"),
        *("a\u2028b", "a\u2029b"),
        *(f"if x: {chr(code)}return" for code in TURNING),
        # Joiners and selectors where no script and no emoji has them.
        *("1\ufe0f", "x =\ufe0f 1", "❤\ufe0f\ufe0f", "a\u200d💻", "👩\u200da", "👩\u200c💻", "می\u200c"),
    ],
    ids=ascii,
)
def test_an_answer_with_characters_that_direct_or_hide_is_dropped_whole(text: str) -> None:
    assert offered(text, at("x = ")) == Cleaned("", Removal.HIDDEN_CHARACTERS)


# Each is written with its name in Unicode, or the reason that it is here.
HIDDEN = {
    "zero width space": "\u200b",
    "zero width no-break space (byte order mark)": "\ufeff",
    "word joiner": "\u2060",
    "invisible times": "\u2062",
    "soft hyphen": "\u00ad",
    "Mongolian vowel separator": "\u180e",
    "a tag, as hidden orders to a model are written in": "\U000e0041",
    "cancel tag": "\U000e007f",
    "interlinear annotation": "\ufff9",
    "musical begin beam": "\U0001d173",
    "combining grapheme joiner": "\u034f",
    "Hangul filler, a letter to JavaScript": "\u3164",
    "halfwidth Hangul filler": "\uffa0",
    "Hangul choseong filler": "\u115f",
    "Khmer inherent vowel": "\u17b4",
    "Braille blank": "\u2800",
    "Mongolian variation selector": "\u180b",
    "variation selector 1": "\ufe00",
    "variation selector 16": "\ufe0f",
    "variation selector 17, as bytes are smuggled in": "\U000e0100",
    "not assigned, and ignored": "\U000e0fff",
    "zero width joiner": "\u200d",
    "zero width non-joiner": "\u200c",
}


@pytest.mark.parametrize("form", ["is{}_admin", "x = 1{}", "{}return x", "a {} b", "'日{}本'"])
def test_an_answer_with_a_character_that_nobody_can_see_is_dropped_whole(form: str) -> None:
    """What is left without it would be another text than the one whose probability is known."""
    assert [name for name, char in HIDDEN.items() if offered(form.format(char), at("")).text] == []


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        *(("", text, "") for text in ("\tx", "x\ty", "é", "e\u0301", "日本", "😀", "a\u00a0b", "👩\u200d💻")),
        # Joiners and selectors where a script or an emoji has them.
        *(("", text, "") for text in ("'👩🏽\u200d🚀'", "'🏳\ufe0f\u200d🌈'", "'❤\ufe0f'", "'1\ufe0f\u20e3'")),
        *(
            ("", text, "")
            for text in ("'↔\ufe0f'", "'می\u200cخواهم'", "'क\u094d\u200dष'", "'ශ\u0dca\u200dර'")
        ),
        # What the user has typed.
        ("'👩", "\u200d💻'", ""),
        ("'👩", "\u200d", "💻'"),
        ("\ufeffimport ", "sys", ""),
        ("x = '\u202eabc", "def'", ""),
        ("x = ", "1", "\u200b"),
    ],
    ids=ascii,
)
def test_other_characters_stay(before: str, text: str, after: str) -> None:
    assert offered(text, at(before, after)) == Cleaned(text)


def test_white_space_at_the_end_goes_and_at_the_beginning_stays() -> None:
    assert offered("  return x \t ", at("")).text == "  return x"


@pytest.mark.parametrize(
    ("text", "after", "removal"),
    [
        ("", "", Removal.EMPTY),
        ("", ")", Removal.EMPTY),
        *((blank, "", Removal.WHITE_SPACE) for blank in (" ", " \t", "\t \t", "\u3000")),
        (")", ")", Removal.REPEATS_SUFFIX),
        ("  ):  ", "):", Removal.REPEATS_SUFFIX),
        ("is\u200b_admin", "", Removal.HIDDEN_CHARACTERS),
        ("\ufffd", "", Removal.HIDDEN_CHARACTERS),
        ("\x07", "\x07", Removal.HIDDEN_CHARACTERS),
    ],
)
def test_the_reason_why_nothing_is_left_of_an_answer(text: str, after: str, removal: Removal) -> None:
    assert offered(text, at("f(", after)) == Cleaned("", removal)


@given(st.text(max_size=9), st.text(st.characters(exclude_characters="\r\n"), max_size=9))
def test_there_is_a_reason_just_when_nothing_is_left(text: str, after: str) -> None:
    answer = offered(text, at("x", after))
    assert (answer.removal is None) == bool(answer.text)


@given(
    st.text(),
    st.text(st.characters(exclude_characters="\r\n")),
    st.text(st.characters(exclude_characters="\r\n")),
)
def test_what_is_offered_begins_the_answer_and_holds_no_control_character(
    text: str, before: str, after: str
) -> None:
    shown = offered(text, at(before, after)).text
    assert text.startswith(shown)
    assert shown == "" or shown.strip()
    assert not any(unicodedata.category(char) == "Cc" and char != "\t" for char in shown)
    joiners = "\u200c\u200d"
    assert not any(unicodedata.category(char) == "Cf" and char not in joiners for char in shown)


_METHODS = [
    line
    for at in range(700)
    for line in (f"    def f{at}(self):", *(f"        {name} = 1" for name in "abcd"), "")
]


@pytest.mark.parametrize(
    ("above", "before", "text", "below"),
    [
        # The outermost statement begins too far above.
        (
            ["class Long:", *_METHODS, "    def last(self):", "        if a:", "            b()"],
            "        ",
            "else:",
            _METHODS,
        ),
        # A string that began above ends on the line.
        (["def f():", "    x = g(", '        """', "        a"], "        ", '""",', ["        1,", "    )"]),
        # What looks like a statement stands in a string.
        (
            [
                '"""A page.',
                *["", "x"] * 6,
                "",
                "if it is not set:",
                *["x"] * 15,
                '"""',
                *["x"] * 5,
                "from there import (",
            ],
            "    ",
            "A",
            [
                ")",
                "y = (",
                ")",
                '        raise ValueError("not %r" %',
                "                         a)",
                "        return f(a) or [",
                "        ]",
                '        raise ValueError("not %r: %r" %',
                "                         (a, ', '.join(y)))",
            ],
        ),
    ],
)
def test_no_closer_is_left_over_where_the_line_alone_does_not_tell(
    above: list[str], before: str, text: str, below: list[str]
) -> None:
    cursor = Cursor.at([*above, before, *below], len(above), len(before), "python")
    assert offered(text, cursor) == Cleaned(text)
    for closers in (")", "]", "),", "})"):
        assert offered(text + closers, cursor).text == text


@pytest.mark.parametrize(
    ("language", "above", "before", "text", "after"),
    [
        ("typescript", "/**", " * **When to ", "use*", "*"),
        ("typescript", "/**", " * **Gotchas", "*", "*"),
        ("typescript", "/**", " * ", "``", "`"),
        ("typescript", "/**", " * ", "`", "``"),
        ("typescript", "", "if (a ", "&", "& b) {}"),
        ("python", "", "# **", "x*", "*"),
    ],
)
def test_marks_that_are_written_double_are_not_the_rest_again(
    language: str, above: str, before: str, text: str, after: str
) -> None:
    lines = [above, before + after, " */"] if above else [before + after]
    assert offered(text, Cursor.at(lines, len(lines) // 2, len(before), language)) == Cleaned(text)


@pytest.mark.parametrize(
    ("above", "before", "text", "after", "left"),
    [
        ([], "f(", "x))", "", "x)"),
        ([], "f(", "x)]", "", "x)"),
        (["f("], "    ", "x))", "", "x)"),
        (["f("], "    ", "x)", "", "x)"),
        (["f(  # see (1"], "    ", "x))", "", "x)"),
        (["f(g, {"], "    ", "'a': ']'})", "", "'a': ']'})"),
        (["f(')'"], "    ", "x))", "", "x)"),
        ([], "", "'(')", "", "'('"),
        ([], "return ", "x)", " + y)", "x"),
        ([], "f(x)) + g(", "y))", "", "y)"),
        ([], "f(", "a)) + b", "", "a)"),
        # Brackets keep their partners.
        (["x = foo(", "    a,"], "    bar(", "w, h),", ")", "w, h"),
        (["def f():"], "    load(", "default=None)", "path)", ""),
        ([], "x = max(len(", "x)", ")", "x)"),
        (
            [],
            "x = struct.Struct",
            "('!%dI' % (len(b) // 4)).unpack",
            "(b)",
            "('!%dI' % (len(b) // 4)).unpack",
        ),
        ([], "print(val", "ue_to_int(value))", "ue)", ""),
        (["def f():"], "    if g(", "x):", "):", "x"),
    ],
)
def test_closers_at_the_end_that_close_nothing_go(
    above: list[str], before: str, text: str, after: str, left: str
) -> None:
    """Also where the line is out of order without the text."""
    assert offered(text, within(above, before, after)).text == left


@pytest.mark.parametrize(
    ("language", "above", "before", "text"),
    [
        ("javascript", ["class A {", "    return this.#cache.get("], "      ", "key, load(key))"),
        ("javascriptreact", ["    this.#update("], "    ", "state)"),
        ("typescript", ["this.#items = ["], "", "]"),
        ("css", ["#header {", "  color: red;"], "", "}"),
        ("rust", ["#[derive(", "  Debug"], "", ")]"),
        ("php", ["#[Route(", "  '/'"], "", ")]"),
        ("csharp", ["#if DEBUG", "f(#a, ["], "", "])"),
        ("python", ["x = a // max("], "    b,", " 1)"),
        ("php", ["# one", "#[Route('/', ["], "", "])]"),
        # In doubt: no comment mark is known, strings are of another kind, or one has no end.
        ("lua", ["f(#t, {"], "", "})"),
        ("shellscript", ["case $1 in"], "  ", "start)"),
        ("plaintext", [], "b) ", "second (c))"),
        ("rust", [], "fn f<'a>(x: &'a str, y: u8", ")"),
        ("python", [], 'print("a) first, b', ")"),
        ("javascript", [], r"x.replace(/\)/g, a", ")"),
        ("javascript", ["f(/\\/\\//, ["], "", "])"),
        # In a template literal or a raw string brackets are text, and slashes no comment.
        ("go", ["func main() {"], "    parts := strings.", "Split(s, `)`)"),
        ("go", [], "x := f(`\\`", ")"),
        ("javascript", [], "const p = s.", "split(`)`)"),
        ("typescript", ["fetch(`https://api.com/${id}`, {", "  method: 'POST',"], "", "})"),
        # What seems open above is not what hides an opener from its closer.
        ("python", ["x = {", '    "a": """text (', '    b""",'], "", "}"),
    ],
)
def test_closers_that_close_something_stay(language: str, above: list[str], before: str, text: str) -> None:
    assert offered(text, within(above, before, language=language)) == Cleaned(text)


@pytest.mark.parametrize(
    ("language", "above"),
    [
        ("python", ["parser.add_argument(", '    help="""', "    1) first", '    b) second""",']),
        ("python", ["f(", '    """1) first', '    12) second""",']),
        ("java", ["f(", '    """', "    1) first", '    """,']),
        ("ruby", ["f(<<~TEXT, a", "  1) first", "TEXT"]),
        ("php", ["f('", "1) first", "', a"]),
        ("rust", ['f("', "    1) first", '", a']),
        ("go", ["f(`1) first", "2) second`,"]),
        *(
            (language, ["foo(a, /* 1) first */"])
            for language in (
                "c",
                "cpp",
                "csharp",
                "go",
                "java",
                "javascript",
                "php",
                "rust",
                "typescriptreact",
            )
        ),
        ("c", ["foo(a, /* 1) first", "         * 2) second", "         * 3) third */"]),
    ],
)
@pytest.mark.parametrize("text", [")", "b)"])
def test_what_is_text_above_leaves_a_bracket_open(language: str, above: list[str], text: str) -> None:
    assert offered(text, within(above, "", language=language)) == Cleaned(text)


@pytest.mark.parametrize(
    ("language", "above"),
    [
        ("python", ["f(", "    x)"]),
        ("python", ["f(", "    x) + g"]),
        ("c", ["if (a &&", "    b) {"]),
        ("c", ["f(a, 1); /* b */ g(c);"]),
        ("javascript", ['f("/*", a);', 'g("*/", b);']),
    ],
)
def test_what_is_code_above_closes_its_brackets(language: str, above: list[str]) -> None:
    assert offered("x)", within(above, "", language=language)).text == "x"


LINES_ABOVE = (" " * 99, "/*" * 99, "/* 1) a */" * 9, '"  ' * 99, "1) " * 99, "**" * 99)


@pytest.mark.parametrize(
    ("cursor", "size", "text", "left", "slack"),
    [
        (lambda n: at("f('\"' + \"" + "\\' \\\"" * n, '")'), 4_000, 'a", b', "a", 0.0),
        # As JSON in a string.
        (lambda n: Cursor.at(["x = '" + "\\'" * n, ")"], 1, 0), 20_000, ")", "", 0.0),
        *(
            (lambda n, line=line: Cursor.at([line * n + "(", ")"], 1, 0, "c"), 400, ")", "", 0.01)
            for line in LINES_ABOVE
        ),
    ],
    ids=["quotes", "escaped quotes", *(f"{line[:6]!r} above" for line in LINES_ABOVE)],
)
def test_a_long_line_takes_no_time(
    cursor: Callable[[int], Cursor], size: int, text: str, left: str, slack: float
) -> None:
    """Twice as long takes about twice as long, not four times."""

    def seconds(n: int) -> float:
        place = cursor(n)
        start = time.process_time()
        assert offered(text, place).text == left
        return time.process_time() - start

    assert min(seconds(4 * size) for _ in range(3)) < 12 * min(seconds(size) for _ in range(3)) + slack


@pytest.mark.parametrize("language", LANGUAGES)
def test_in_each_language_closers_in_comments_close_nothing(language: str) -> None:
    """And surplus ones are known for what they are: a language without a mark is missing in the table."""
    mark = "#" if language in ("python", "ruby") else "//"
    assert offered("x))", within([f"f(  {mark} see (1"], "    ", language=language)).text == "x)"


@pytest.mark.parametrize(("first", "text"), [("class A {", "}"), ("describe('a', () => {", "})")])
@pytest.mark.parametrize("lines", [10, 230, 5000])
def test_what_is_opened_far_above_may_be_closed(lines: int, first: str, text: str) -> None:
    """Also above the lines that are read."""
    above = [first, *["  f(x);"] * lines]
    assert offered(text, within(above, "", language="javascript")) == Cleaned(text)


def test_in_a_long_document_nothing_is_surplus_that_the_lines_not_read_may_open() -> None:
    """All lines of a shorter one are read, and none opens it."""
    assert offered("f(x))", within(["  f(x);"] * 100, "", language="java")).text == "f(x)"
    assert offered("f(x))", within(["  f(x);"] * 5000, "", language="java")).text == "f(x))"


@pytest.mark.parametrize(
    ("before", "text", "below", "removal"),
    [
        ("    ", "return total", ("", "    return total"), Removal.REPEATS_NEXT_LINE),
        ("", "    return total", ("    return total  ",), Removal.REPEATS_NEXT_LINE),
        ("", "return total", ("    return total",), None),
        ("    r", "eturn total", ("", "    return total"), Removal.REPEATS_NEXT_LINE),
        ("    return ", "total", ("    return total",), Removal.REPEATS_NEXT_LINE),
        ("  return ", "total", ("    return total",), None),
        ("    name, UnsetMa", "rker,", ("    name, UnsetMarker,",), None),
        ("    ", "name, UnsetMarker,", ("    name, UnsetMarker,",), Removal.REPEATS_NEXT_LINE),
        ("    ", "return total", ("    pass", "    return total"), None),
        ("    ", "else:", ("    else:",), None),
        ("    ", "return total", (), None),
    ],
)
def test_a_whole_line_that_is_the_next_one_again_is_nothing_to_offer(
    before: str, text: str, below: tuple[str, ...], removal: Removal | None
) -> None:
    assert offered(text, within(["x"], before, "", below)).removal == removal


@pytest.mark.parametrize(
    ("language", "line"),
    [
        *(("shellscript", line) for line in ("fi", "  fi", "done", "esac", ";;", "}")),
        *(("ruby", line) for line in ("end", "  end", "  end)", "=end", "  }", "  })")),
        *(("lua", line) for line in ("end", "  end,", "end)")),
        *(("json", line) for line in ("}", "  }", "  },", "  ]", "    }],")),
        *(("vim", "endif"), ("cmake", "endif()"), ("makefile", "endef"), ("vb", "End If"), ("sql", "END;")),
        *(("java", line) for line in ("}", "    }", "    });", "*/", " */")),
        *(("typescript", line) for line in ("}", "});", "})();", "  },", "  ];")),
        *(("python", line) for line in (")", "    ]", "    },", '    """', "'''")),
        *(("html", line) for line in ("</p>", "  </div>", "-->")),
        ("markdown", "```"),
    ],
)
@pytest.mark.parametrize("blank", [[], [""]])
def test_what_closes_something_is_not_written_again_above_itself(
    language: str, line: str, blank: list[str]
) -> None:
    for typed in range(len(line) - len(line.lstrip()) + 1):
        cursor = within(["x"], line[:typed], "", (*blank, line), language)
        assert offered(line[typed:], cursor).removal is Removal.REPEATS_NEXT_LINE


@pytest.mark.parametrize(
    ("language", "above", "line", "below"),
    [
        ("shellscript", ["if a; then", "  if b; then", "    c"], "  fi", "fi"),
        ("ruby", ["def a", "  if b", "    c"], "  end", "end"),
        ("json", ["{", '  "a": {', '    "b": 1'], "  }", "}"),
        ("java", ["class A {", "  void f() {"], "  }", "}"),
        ("html", ["<div>", "  <p>"], "  </p>", "</div>"),
        *(
            ("python", ["x = ["], line, line)
            for line in ("    0,", "    a,", "    [],", "    (),", "    '',")
        ),
    ],
)
def test_what_closes_something_else_than_the_next_line_stays(
    language: str, above: list[str], line: str, below: str
) -> None:
    assert offered(line, within(above, "", "", (below,), language)) == Cleaned(line)


@pytest.mark.parametrize(
    ("language", "above", "line", "below"),
    [
        ("ruby", ["def a", "  b"], "  end", "end"),
        ("ruby", ["def a"], "  end", "end"),
        ("lua", ["function a()", "  b()"], "  end", "end"),
        ("shellscript", ["if a; then", "  b"], "  fi", "fi"),
        ("shellscript", ["for a in b; do", "  c"], "  done", "done"),
        ("json", ["{", '  "a": 1'], "  }", "}"),
        ("shellscript", ["cat <<EOF", "a"], "EOF", "EOF"),
        ("python", ["class A:"], '"""', '    """'),
        ("python", ["    def f():"], "    '''", "        '''"),
        ("shellscript", ["cat <<-'END_OF_IT' > b", "a"], "\tEND_OF_IT", "\tEND_OF_IT"),
        ("ruby", ["a = <<~SQL", "  b"], "SQL", "SQL"),
        ("php", ["<?php", "$a = <<<EOT", "b"], "EOT;", "EOT;"),
    ],
)
def test_a_closer_with_nothing_to_close_is_not_written_above_another(
    language: str, above: list[str], line: str, below: str
) -> None:
    cursor = within(above, "", "", (below,), language)
    assert offered(line, cursor).removal is Removal.REPEATS_NEXT_LINE


@pytest.mark.parametrize(
    ("language", "above", "line", "below"),
    [
        ("ruby", ["class A", "  def a"], "  end", "end"),
        ("ruby", ["class A", "  a.each do |b|"], "  end", "end"),
        ("lua", ["function a()", "  b(function()"], "  end", "end"),
        ("json", ["{", '  "a": {'], "  }", "}"),
        ("shellscript", ["cat <<EOF", "a"], "EOT", "EOT"),
    ],
)
def test_a_closer_of_an_empty_block_stays(language: str, above: list[str], line: str, below: str) -> None:
    assert offered(line, within(above, "", "", (below,), language)).text == line


@pytest.mark.parametrize("text", ['"""', 'More."""'])
@pytest.mark.parametrize("below", [[], ["", "def g():", '    """Do."""']])
def test_the_end_of_a_docstring_behind_the_cursor_is_not_written_again(text: str, below: list[str]) -> None:
    above = ["def f():", '    """Do it.']
    cursor = within(above, "    ", '"""', ("    return 1", *below))
    assert offered(text, cursor).text == text.removesuffix('"""')


@pytest.mark.parametrize(
    ("language", "above", "line", "other"),
    [
        ("cpp", ["switch (a) {", "  case 1: b(); break;"], "  case 1: c(); break;", "  case B::c: c();"),
        ("cpp", ["switch (a) {", "  case B::d: b(); break;"], "  case B::d:", "  case B::c:"),
        ("cpp", ["switch (a) {", "  case 1: {", "    b();", "  }"], "  case 1:", "  case 2:"),
        ("java", ["switch (a) {", "  case 1 -> b();"], "  case 1 -> c();", "  case 2 -> b();"),
        ("java", ["switch (a) {", "  default -> b();"], "  default -> c();", "  case 2 -> b();"),
        ("ruby", ["case a", "when 1 then b"], "when 1 then c", "when 2 then b"),
        ("rust", ["match a {", "    1 => {", "        b()", "    }"], "    1 => c(),", "    1 if b => c(),"),
        ("shellscript", ["case $a in", "  x) b ;;"], "  x) c ;;", "  y) b ;;"),
        ("scala", ["a match {", "  case b: Int => c"], "  case b: Int => d", "  case b: String => c"),
        ("javascript", ["switch (a) {", "  case 'b:c': d()"], "  case 'b:c': e()", "  case 'b:d': d()"),
        (
            "python",
            ["match a:", "    case {'b': 1}: c()"],
            "    case {'b': 1}: d()",
            "    case {'b': 2}: c()",
        ),
    ],
)
def test_cases_are_compared_by_their_labels(language: str, above: list[str], line: str, other: str) -> None:
    cursor = within(above, "", "", (), language)
    assert offered(line, cursor).removal is Removal.REPEATS_CASE
    assert offered(other, cursor).text == other


CASES = [
    (
        "c",
        ["  switch (a) {", "  case 1:", "    f();", "", "    break;"],
        "  case {}:",
        ["  case 2:", "    g();", "  }"],
    ),
    (
        "java",
        ["  switch (a) {", "    case 1:", "      f();"],
        "    case {}:",
        ["    case 2:", "      g();", "  }"],
    ),
    ("go", ["\tswitch a {", "\tcase 1:", "\t\tf()"], "\tcase {}:", ["\tcase 2:", "\t\tg()", "\t}"]),
    ("python", ["match a:", "    case 1:", "        f()"], "    case {}:", ["    case 2:", "        g()"]),
    ("ruby", ["case a", "when 1", "  f"], "when {}", ["when 2", "  g", "end"]),
    (
        "scala",
        ["  a match {", "    case 1 =>", "      f()"],
        "    case {} =>",
        ["    case 2 =>", "      g()", "  }"],
    ),
]


@pytest.mark.parametrize(("language", "above", "case", "below"), CASES)
def test_a_case_is_not_offered_twice_in_a_choice(
    language: str, above: list[str], case: str, below: list[str]
) -> None:
    inner = " " * 8
    for typed in (0, len(case) - len(case.lstrip()), len(case) - len(case.lstrip()) + 2):
        for value in ("1", "2", "3"):
            line = case.format(value)
            cursor = within(above, line[:typed], "", (inner + "h()", *below), language)
            found = offered(line[typed:], cursor)
            assert found == (Cleaned(line[typed:]) if value == "3" else Cleaned("", Removal.REPEATS_CASE))
    # In another choice, above or below, beside this one or in it, the same case may stand.
    for value in ("1", "2"):
        line = case.format(value)
        assert offered(line, within([*above, *below, above[0]], "", "", (), language)).removal is None
        nested = "    " + line
        assert (
            offered(nested, within([*above, inner[:2] + above[0]], "", "", tuple(below), language)).text
            == nested
        )


def test_each_default_is_offered_once() -> None:
    above = ["switch (a) {", "  default:", "    f();"]
    assert offered("  default:", within(above, "", "", ("}",), "c")).removal is Removal.REPEATS_CASE
    above = ["f x =", "  case x of", "    A -> 1", "    B -> 2"]
    assert offered("  case x of", within(above, "", "", (), "haskell")).text


BLOCK_COMMENT = {
    **dict.fromkeys(("c", "cpp"), "int f(void) { return 1; }"),
    **dict.fromkeys(("java", "csharp"), "class A { }"),
    **dict.fromkeys(
        ("javascript", "javascriptreact", "typescript", REACT, "php"), "function f() { return 1; }"
    ),
    "go": "func f() {}",
    "rust": "fn f() {}",
}


@pytest.mark.parametrize("error", ["", "f( ) ) = ="])
@pytest.mark.parametrize(("language", "code"), BLOCK_COMMENT.items())
def test_a_comment_that_ends_below_is_not_ended_above(language: str, code: str, error: str) -> None:
    """Whether or not the document is in order elsewhere."""
    head = {"php": ["<?php"], "go": ["package a", ""]}.get(language, [])
    above = [*head, "/**", " * One"]
    for before, text, left in (
        ("", " */", ""),
        (" ", "*/", ""),
        (" *", "/", ""),
        (" * ", "two */", "two"),
        (" * ", "two", "two"),
    ):
        for below in ((" */",), (" * More", " */"), (" * More */",)):
            found = offered(text, within(above, before, "", (*below, code, error), language))
            assert found.text == left, (before, text, below)
            expected = (
                None
                if left
                else Removal.REPEATS_NEXT_LINE
                if below[0] == before + text
                else Removal.SURPLUS_CLOSERS
            )
            assert found.removal is expected
        # The end below is that of another comment.
        cursor = within(above, before, "", (code, "", "/** Other */", code, error), language)
        assert offered(text, cursor) == Cleaned(text)


@pytest.mark.parametrize("end", [['    """', "    return 1"], ["    More.", '    """'], ['    More."""']])
@pytest.mark.parametrize(
    ("text", "left"), [('"""', ""), ("Two.", "Two."), ('Two."""', "Two."), ("Two.'''", "Two.'''")]
)
def test_a_docstring_that_ends_below_is_not_ended_above(end: list[str], text: str, left: str) -> None:
    above, below = ["def f():", '    """One.', ""], ["", "", "def g():", '    """Other."""']
    assert offered(text, within(above, "    ", "", (*end, *below))).text == left
    # The mark below opens the documentation of another function.
    assert offered(text, within(above, "    ", "", ("    return 1", *below))) == Cleaned(text)


@pytest.mark.parametrize(
    ("language", "above", "text", "left", "below"),
    [
        ("go", ["package a", "", "var q = `SELECT"], "a`", "a", ["b`"]),
        ("javascript", ["const q = `SELECT"], "a`;", "a", ["b`;"]),
        ("javascript", ["const q = `SELECT"], "**/*.ts", "**/*.ts", ["*/`;"]),
        ("java", ["class A {", '  String q = """', "    SELECT"], 'a""";', "a", ['    """;', "}"]),
        ("rust", ["fn f() {", '    let q = r#"SELECT'], 'a"#;', "a", ['    b"#;', "}"]),
    ],
)
def test_a_string_that_ends_below_is_not_ended_above(
    language: str, above: list[str], text: str, left: str, below: list[str]
) -> None:
    assert offered(text, within(above, "    ", "", tuple(below), language)).text == left


MARKS = [
    ("python", "    @property"),
    ("python", "@pytest.fixture"),
    ("java", "    @Override"),
    ("typescript", "  @Input()"),
    ("javascript", "  @observable"),
    ("typescriptreact", "  @Input()"),
    ("javascriptreact", "  @observable"),
    ("csharp", "    [TestMethod]"),
    ("php", "    #[Override]"),
    ("rust", "#[derive(Debug)]"),
    ("cpp", "template <typename T>"),
]


@pytest.mark.parametrize("blank", [[""], ["", "  "]])
@pytest.mark.parametrize(("language", "line"), MARKS)
def test_what_marks_a_definition_may_stand_above_the_next_one_too(
    language: str, line: str, blank: list[str]
) -> None:
    """Two definitions with a decorator: of the first one only that is written."""
    size = len(line) - len(line.lstrip())
    for typed in (0, size, size + 2):
        cursor = within(["x"], line[:typed], "", (*blank, line, "y"), language)
        assert offered(line[typed:], cursor) == Cleaned(line[typed:])


@pytest.mark.parametrize(("language", "line"), MARKS)
def test_what_marks_a_definition_is_not_written_twice_above_it(language: str, line: str) -> None:
    found = offered(line, within(["x"], "", "", (line, "y"), language))
    assert found.removal == Removal.REPEATS_NEXT_LINE


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", "    return total"),
        ("java", "template <typename T>"),
        ("c", "@Override"),
        ("lua", "@x = total"),
    ],
)
def test_other_lines_are_compared_across_blank_lines(language: str, line: str) -> None:
    found = offered(line, within(["x"], "", "", ("", line), language))
    assert found.removal == Removal.REPEATS_NEXT_LINE


code = st.text("ab()[]{}'# ,.", max_size=12)


@given(code, code, code, st.lists(code, max_size=2), st.lists(code, max_size=2))
def test_what_is_offered_begins_the_answer_and_says_what_is_missing(
    before: str, text: str, after: str, above: list[str], below: list[str]
) -> None:
    cursor = within(above, before, after, tuple(below))
    whole, found = cleaned(text, cursor), offered(text, cursor)
    assert whole.text.startswith(found.text)
    assert bool(found.text.strip()) == (found.removal is None)
    if whole.removal is not None:
        assert found == whole
    elif found.removal is None:
        assert (found.text == whole.text) == (not found.cuts)
    if not set(text) & set("()[]{}'") and not after and not below:
        assert found == whole
