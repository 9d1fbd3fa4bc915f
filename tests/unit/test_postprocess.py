"""What of an answer is offered."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, Cut, Removal, _unmatched_in, cleaned, offered
from lsp_calib.syntax.languages import LANGUAGES


@pytest.mark.parametrize(
    ("before", "text", "after", "left"),
    [
        ("def f(", "self, x):", ")", "self, x"),
        ("for i in range(", "10):", ")", "10"),
        ("if (", "a === b) {", ")", "a === b"),
        ("let x = {", "a: 1};", "}", "a: 1"),
        ("f(", "a, b); // c", ");", "a, b"),
        # It closes what nothing behind it closes, or what was out of order before.
        ("f(g(", "1), 2", ")", "1), 2"),
        ("f(", "a).b(", ")", "a).b("),
        ("f(", ")(", ")", ")("),
        ("f(", "a)", "", "a)"),
    ],
)
def test_it_ends_where_it_closes_what_the_editor_has_closed(
    before: str, text: str, after: str, left: str
) -> None:
    found = offered(text, at(before, after))
    assert found.text == left
    assert (Cut.PART_OF_SUFFIX in found.cuts) == (left != text)


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
    ("language", "before", "text", "after", "left"),
    [
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
    ],
)
def test_it_ends_at_the_quote_that_the_editor_has_written(
    language: str, before: str, text: str, after: str, left: str
) -> None:
    """Rather than going on behind it: `printf("Hello", name);")`."""
    assert offered(text, at(before, after, language)).text == left


@pytest.mark.parametrize(
    ("language", "before", "text", "after", "left"),
    [
        ("rust", "let y = v.map(|", "x| x + 1", "|);", "x"),
        ("rust", "let y = v.map(|", "x, y| x * 2).collect()", "|);", "x, y"),
        ("rust", "let y = v.map(|", "&(a, b)", "|);", "&(a, b)"),
        ("rust", "let mask = A ", "& C ", "| B;", "& C "),
        ("rust", "let mask = A ", "| C ", "| B;", "| C "),
        ("ruby", "v.map { |", "x| x + 1 }", "| }", "x"),
        ("c", "int mask = a ", "| c ", "| b;", "| c "),
    ],
)
def test_it_ends_at_the_bar_that_the_editor_has_written(
    language: str, before: str, text: str, after: str, left: str
) -> None:
    """Rather than with a bar of its own: `map(|x| x + 1|)`."""
    assert offered(text, at(before, after, language)).text.rstrip() == left.rstrip()


@pytest.mark.parametrize(
    ("language", "before", "text", "after"),
    [
        ("python", 'f("', 'a", "b', '")'),  # the quote behind ends another string
        ("python", 'f("', "it's", '")'),
        ("python", 'f("', 'a \\"b\\" c', '")'),
        ("python", 'f(x["', "key", '"])'),
        ("python", 'x = "', 'a", b', '"c"'),  # it begins a string
        ("python", "x = ", '"a" + ', '"b"'),
        ("python", "# it's '", "a' and b", "'"),  # prose
        ("plaintext", "I don", "'t know, isn't it", "'"),
        ("javascript", "// don't say \"", 'a" or b', '"'),
        ("javascript", "f(`${g(`", "a`)}` + x", "`"),  # a template in a template
        ("javascript", "f(`${", "g(`a`)", "`)"),
        ("shellscript", 'cd "$(dirname ', '"$0")" || exit', '"'),
        ("swift", 'print("\\(', 'd["a"]) x", y', '"'),
        ("kotlin", 'x = """', 'a"""', '"""'),
        ("sql", "SELECT 'it", "''s' || x", "'"),
        ("csharp", 'var path = @"C:\\', 'x" + y', '";'),
        ("rust", 'r#"', 'a" b', '"#'),
        ("rust", "fn f<'", "a>(x: &'a str, y", "'"),
        ("python", 'x = "\\', 'n" + y', '"'),  # it is escaped without the text
        ("python", 'f"{d["', 'a"]} x", y', '"'),
        ("erb", '<a href="', '<%= url("x") %>">', '"'),
        ("php", 'x <a href="', '<?php echo $a["b"] ?>">', '"'),
    ],
)
def test_in_doubt_a_quote_behind_the_cursor_ends_nothing(
    language: str, before: str, text: str, after: str
) -> None:
    cursor = at(before, after, language)
    assert offered(text, cursor).text == clean(text, cursor)


@pytest.mark.parametrize("language", ["java", "typescript", "typescriptreact", "csharp", "cpp"])
@pytest.mark.parametrize(
    ("before", "text", "after", "left"),
    [
        ("Map<", "String, Integer> counts = f();", ">", "String, Integer"),
        ("Map<", "String, List<Integer>> counts = f(", ">", "String, List<Integer>"),
        ("Map<String, ", "A[]> x", ">", "A[]"),
        ("Map<String, List<", "A>> x;", ">>", "A"),
        ("Map<", "String, List<A>", ">", "String, List<A>"),
        ("Map<", "String, List<A>>", ">", "String, List<A>"),
        # It is none of types.
        ("a < ", "b> c", "> d", "b> c"),
        ('f("Map<', "A> x", ">", "A> x"),
        ("x = a", " > b", " > c", " > b"),
    ],
)
def test_it_ends_where_it_closes_the_types_that_the_editor_has_closed(
    language: str, before: str, text: str, after: str, left: str
) -> None:
    assert offered(text, at(before, after, language)).text == left


def test_it_may_open_another_list_of_types_for_what_stands_behind() -> None:
    for name in ("typescript", "typescriptreact"):
        assert offered("(a) => b>) {", at("f(x: Set<", ">", name)).text == "(a) => b"
    assert offered("K, V> = f(", at("let m: Map<", ">", "rust")).text == "K, V"
    for name in ("java", "typescript", "csharp", "cpp"):
        again = "A> x = new Map<B"
        assert offered(again, at("Map<", ">", name)).text == again


@pytest.mark.parametrize("language", ["c", "go", "html"])
def test_where_there_are_no_types_in_brackets_an_angle_ends_nothing(language: str) -> None:
    assert offered("a> x", at("Map<", ">", language)).text == "a> x"


@pytest.mark.parametrize(
    ("before", "text", "after", "left"),
    [
        ("foo(", "bar();", ");", "bar()"),
        ("foo(", "x;", ");", "x"),
        ("a[f(", "g(1);", ")];", "g(1)"),
        ("if (", "g() {", ") {", "g()"),
        ("foo(", ";", ");", ""),
        ("for (", ";;", ");", ";;"),
        ("for (", "let i = 0;", ");", "let i = 0;"),
        # The end is of what the text itself opens, or it is another one.
        ("foo(() => {", "return f();", "});", "return f();"),
        ("foo(", "a,", "),", "a,"),
        ("foo(", "g(x)", "), y", "g(x)"),
        # Nothing that opens a body stands before what closes the brackets around it.
        ("foo(", "() => { x();", ");", ""),
        ("foo(", "() => { x(); }", ");", "() => { x(); }"),
        ("setTimeout(", "() => {", ");", ""),
        ("setTimeout(", "() => {", ", 10);", ""),
        ("items.map((item) => ", "{", ");", ""),
        ("items.map((item) => ", "({", ")", ""),
    ],
)
def test_what_ends_the_statement_behind_the_brackets_is_not_written_within_them(
    before: str, text: str, after: str, left: str
) -> None:
    assert offered(text, at(before, after, "javascript")).text == left


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


def test_a_line_of_quotes_takes_no_time() -> None:
    def seconds(n: int) -> float:
        cursor = at("f('\"' + \"" + "\\' \\\"" * n, '")')
        start = time.process_time()
        assert offered('a", b', cursor).text == "a"
        return time.process_time() - start

    assert min(seconds(16_000) for _ in range(3)) < 12 * min(seconds(4_000) for _ in range(3))


@pytest.mark.parametrize(
    ("language", "before", "text", "after"),
    [
        ("javascript", "const r = ", "await ", "fetch(url);"),
        ("python", "if ", "not ", "x in seen:"),
        ("c", "", "return ", "foo();"),
        ("rust", "let ", "mut ", "x = 1;"),
        ("python", "s.split('", ", ", "')"),
        ("python", 'name = input("', "Enter your name: ", '")'),
        ("python", "x = ", "a ", "+ b"),
    ],
)
def test_white_space_before_what_stands_behind_the_cursor_stays(
    language: str, before: str, text: str, after: str
) -> None:
    assert offered(text, at(before, after, language)) == Cleaned(text)


@pytest.mark.parametrize("after", ["", " ", ")", "]", "}", ", b)", ";", ": int", ".a"])
def test_white_space_before_what_ends_it_goes(after: str) -> None:
    assert offered("x ", at("f([{", after, "python")).text == "x"


@pytest.mark.parametrize(
    ("language", "before", "text", "after"),
    [
        ("python", "for ", "plugin", " in plugins:"),
        ("python", "if ", "axis", " is None:"),
        ("python", "x = ", "color", " or default"),
        ("python", "while ", "operand", " and running:"),
        ("typescript", "const c = ", "canvas", " as HTMLCanvasElement;"),
        ("rust", "let v = ", "bias", " as usize;"),
        ("typescript", "import { ", "Canvas", " as F } from 'x'"),
        ("python", "return ", "plugin", " in"),
    ],
)
def test_the_end_of_a_word_is_not_the_next_word(language: str, before: str, text: str, after: str) -> None:
    assert offered(text, at(before, after, language)) == Cleaned(text)


def test_no_space_is_left_before_the_one_that_stands_there() -> None:
    assert offered("tem in", at("for i", " in range(n):", "python")).text == "tem"
    assert offered("a + b", at("return ", " + b", "python")).text == "a"


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


@pytest.mark.parametrize(
    ("above", "before", "text", "after", "left"),
    [
        (["x = foo(", "    a,"], "    bar(", "w, h),", ")", "w, h"),
        (["def f():"], "    load(", "default=None)", "path)", ""),
        ([], "x = max(len(", "x)", ")", "x)"),
        ([], "x = struct.Struct", "('!%dI' % (len(b) // 4)).unpack", "(b)", None),
        ([], "print(val", "ue_to_int(value))", "ue)", ""),
        (["def f():"], "    if g(", "x):", "):", "x"),
    ],
)
def test_brackets_keep_their_partners(
    above: list[str], before: str, text: str, after: str, left: str | None
) -> None:
    """None: the text as it is."""
    assert offered(text, within(above, before, after)).text == (text if left is None else left)


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


def test_a_line_of_escaped_quotes_takes_no_time() -> None:
    """As JSON in a string: twice as long takes about twice as long, not four times."""

    def seconds(n: int) -> float:
        cursor = Cursor.at(["x = '" + "\\'" * n, ")"], 1, 0)
        start = time.process_time()
        offered(")", cursor)
        return time.process_time() - start

    assert min(seconds(80_000) for _ in range(3)) < 12 * min(seconds(20_000) for _ in range(3))


def clean(text: str, cursor: Cursor) -> str:
    return offered(text, cursor).text


def at(before: str, after: str = "", language: str = "plaintext") -> Cursor:
    return Cursor.at([before + after], 0, len(before), language)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred",
        "a\0b",
        "a\rb",
        "bell\a",
        "\x7f",
        "\x85",
        "a\x9bb",
        chr(0xD800),
        "\ufffd",
        "a\u2028b",
        "a\u2029b",
    ],
    ids=ascii,
)
def test_an_answer_with_control_characters_is_dropped_whole(text: str) -> None:
    assert clean(text, at("x = ")) == ""


@pytest.mark.parametrize(
    "code", [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], ids=hex
)
def test_an_answer_that_reads_otherwise_than_it_runs_is_dropped_whole(code: int) -> None:
    """Bidirectional controls: CVE-2021-42574."""
    assert clean(f"if x: {chr(code)}return", at("")) == ""


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
    assert [name for name, char in HIDDEN.items() if clean(form.format(char), at("")) != ""] == []


@pytest.mark.parametrize(
    "text",
    [
        "\tx",
        "x\ty",
        "é",
        "e\u0301",
        "日本",
        "😀",
        "a\u00a0b",
        "👩\u200d💻",
        "'👩🏽\u200d🚀'",
        "'🏳\ufe0f\u200d🌈'",
        "'❤\ufe0f'",
        "'1\ufe0f\u20e3'",
        "'↔\ufe0f'",
        "'می\u200cخواهم'",
        "'क\u094d\u200dष'",
        "'ශ\u0dca\u200dර'",
    ],
    ids=ascii,
)
def test_other_characters_stay(text: str) -> None:
    """Joiners and selectors where a script or an emoji has them, too."""
    assert clean(text, at("")) == text


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("'👩", "\u200d💻'", ""),
        ("'👩", "\u200d", "💻'"),
        ("\ufeffimport ", "sys", ""),
        ("x = '\u202eabc", "def'", ""),
        ("x = ", "1", "\u200b"),
    ],
    ids=ascii,
)
def test_what_the_user_has_typed_is_not_held_against_an_answer(before: str, text: str, after: str) -> None:
    assert clean(text, at(before, after)) == text


@pytest.mark.parametrize(
    "text",
    ["1\ufe0f", "x =\ufe0f 1", "❤\ufe0f\ufe0f", "a\u200d💻", "👩\u200da", "👩\u200c💻", "می\u200c"],
    ids=ascii,
)
def test_joiners_and_selectors_elsewhere_are_hidden(text: str) -> None:
    assert clean(text, at("")) == ""


@pytest.mark.parametrize("text", ["", " ", "\t \t", "\u3000"])
def test_white_space_alone_is_nothing_to_offer(text: str) -> None:
    assert clean(text, at("x")) == ""


def test_white_space_at_the_end_goes_and_at_the_beginning_stays() -> None:
    assert clean("  return x \t ", at("")) == "  return x"


@pytest.mark.parametrize(
    ("before", "text", "after", "offered"),
    [
        ("print(", "x)", ")", "x"),
        ("print(", "f(x))", ")", "f(x)"),
        ("def f(", "self, x):", "):", "self, x"),
        ("a = [", "1, 2]", "]", "1, 2"),
        ("x['", "key']", "']", "key"),
        ("s = '", "abc'", "'", "abc"),
        ("f(", "x)", ")   ", "x"),
        ("return ", "a + b", " + b", "a"),
        ("return ", "a + b", "+ b", "a "),
    ],
)
def test_what_stands_after_the_cursor_is_not_offered_again(
    before: str, text: str, after: str, offered: str
) -> None:
    assert clean(text, at(before, after)) == offered


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [("print(", "f(x)", ")"), ("a = [", "b[0]", "]"), ("f({", "'a': {}", "})"), ("print(", "x", ")")],
)
def test_a_bracket_that_the_answer_itself_opened_stays_closed(before: str, text: str, after: str) -> None:
    assert clean(text, at(before, after)) == text


def test_an_answer_that_is_all_there_already_is_nothing_to_offer() -> None:
    assert clean(")", at("f(", ")")) == ""


@pytest.mark.parametrize(
    ("text", "after", "removal"),
    [
        ("", "", Removal.EMPTY),
        ("", ")", Removal.EMPTY),
        (" \t", "", Removal.WHITE_SPACE),
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
    offered = clean(text, at(before, after))
    assert text.startswith(offered)
    assert offered == "" or offered.strip()
    assert not any(unicodedata.category(char) == "Cc" and char != "\t" for char in offered)
    assert not any(unicodedata.category(char) == "Cf" and char not in "\u200c\u200d" for char in offered), (
        "none but joiners"
    )


def within(
    above: list[str],
    before: str,
    after: str = "",
    below: tuple[str, ...] = (),
    language: str = "python",
) -> Cursor:
    return Cursor.at([*above, before + after, *below], len(above), len(before), language)


@pytest.mark.parametrize(
    ("before", "text", "after", "left"),
    [
        ("g(", "x, y", ", y)", "x"),
        ("self.", "run(task)", "(task).encode()", "run"),
        ("x = ", "locale.describe(1, 2)", ".describe(", "locale"),
        ("@attrs(repr=", 'True, eq=False)"', ", eq=False)", "True"),
    ],
)
def test_an_answer_ends_where_it_writes_the_rest_of_the_line_again(
    before: str, text: str, after: str, left: str
) -> None:
    assert offered(text, at(before, after)) == Cleaned(left, None, (Cut.PART_OF_SUFFIX,))


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("self.", "name = ", "name"),
        ("f(", "g(x)", "), y"),
        ("f(", "a)", ") + b)"),
        ("x = ", "a.b", "b"),
    ],
)
def test_what_may_stand_in_a_line_twice_is_offered(before: str, text: str, after: str) -> None:
    assert offered(text, at(before, after)).text == clean(text, at(before, after))


_METHODS = [
    line
    for at in range(700)
    for line in (
        f"    def f{at}(self):",
        "        a = 1",
        "        b = 2",
        "        c = 3",
        "        d = 4",
        "",
    )
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


@pytest.mark.parametrize("line", [" " * 99, "/*" * 99, "/* 1) a */" * 9, '"  ' * 99, "1) " * 99, "**" * 99])
def test_a_long_line_above_takes_no_time(line: str) -> None:
    def seconds(n: int) -> float:
        cursor = Cursor.at([line * n + "(", ")"], 1, 0, "c")
        start = time.process_time()
        offered(")", cursor)
        return time.process_time() - start

    assert min(seconds(1600) for _ in range(3)) < 12 * min(seconds(400) for _ in range(3)) + 0.01


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
