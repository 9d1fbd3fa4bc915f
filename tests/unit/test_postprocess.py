"""What of an answer is offered."""

import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, _unmatched_in, cleaned, offered
from lsp_calib.completion.reasons import Removal
from lsp_calib.syntax.languages import LANGUAGES


def at(before: str, after: str = "", language: str = "plaintext") -> Cursor:
    return Cursor.at([before + after], 0, len(before), language)


def within(
    above: list[str], before: str, after: str = "", below: tuple[str, ...] = (), language: str = "python"
) -> Cursor:
    return Cursor.at([*above, before + after, *below], len(above), len(before), language)


# Language, the reason if nothing is left of the answer, and the document: the answer stands between « and »,
# what goes of it behind ¦. ⏎: a line ends; →: a tab.
ANSWERS = r'''
# it closes what the editor has closed
plaintext: def f(«self, x¦):»)
plaintext: if («a === b¦) {»)
plaintext: f(«a, b¦); // c»);
plaintext: f(g(«1), 2»)
plaintext: f(«a).b(»)
plaintext: f(«)(»)
plaintext: f(«a)»
# the quote that the editor has written
javascript: import React from "«react¦";»"
typescriptreact: <a className="«big¦" onClick={f}»">
c: printf("«Hello %s\n¦", name);»")
python: print("«Name:¦", name»")
python: print('«it\'s¦', name)»')
python: print(f"«{a["b"]}: {x}¦", y)»")
python: print(f"{a}: «{b}¦", c)»")
python: x = """«Say "a" and "b" ¦""" + y»"""
python: d = {"a": "«b¦", "c": 1}»"}
python: print("don't «go¦", x)»")
java REPEATS_SUFFIX: System.out.println("«¦" + name);»")
go: x := `«SELECT 1¦`, nil»`
javascript: f(`«${a}¦`, b)»`)
rust: fn f<'a>(x: &'a str) { g("«h¦", x)»") }
rust: m('"', "«a¦", b)»")
cpp: f(1'000, "«a¦", b)»")
javascript: f(`${g(`«a`)}¦` + x»`
csharp: var path = @"C:\«x¦" + y»";
rust: r#"«a¦" b»"#
python: f"{d["«a"]} x¦", y»"
shellscript REPEATS_SUFFIX: cd "$(dirname «¦"$0")" || exit»"
rust LEAVES_OPEN: fn f<'«¦a>(x: &'a str, y»'
php SURPLUS_CLOSERS: x <a href="«¦<?php echo $a["b"] ?>">»"
# the bar that the editor has written
rust: let y = v.map(|«x¦| x + 1»|);
rust: let y = v.map(|«&(a, b)»|);
rust: let mask = A «| C »| B;
ruby: v.map { |«x¦| x + 1 }»| }
c: int mask = a «| c »| b;
# it closes the types that the editor has closed
java: Map<«String, Integer¦> counts = f();»>
java: Map<«String, List<Integer>¦> counts = f(»>
java: Map<String, «A[]¦> x»>
java: Map<String, List<«A¦>> x;»>>
java: Map<«String, List<A>»>
java: Map<«String, List<A>¦>»>
java: a < «b> c»> d
java: f("Map<«A> x»>
java: x = a« > b» > c
typescript: Map<«String, Integer¦> counts = f();»>
csharp: Map<«String, Integer¦> counts = f();»>
cpp: Map<«String, Integer¦> counts = f();»>
typescript: f(x: Set<«(a) => b¦>) {»>
rust: let m: Map<«K, V¦> = f(»>
java: Map<«A> x = new Map<B»>
c: Map<«a> x»>
html: Map<«a> x»>
# the end of the statement stands behind the brackets
javascript: foo(«bar()¦;»);
javascript: a[f(«g(1)¦;»)];
javascript REPEATS_SUFFIX: foo(«¦;»);
javascript: for («;;»);
javascript: foo(() => {«return f();»});
javascript LEAVES_OPEN: foo(«¦() => { x();»);
javascript: foo(«() => { x(); }»);
javascript LEAVES_OPEN: setTimeout(«¦() => {»);
javascript LEAVES_OPEN: items.map((item) => «¦({»)
# the rest of the line again
plaintext: print(«x¦)»)
plaintext: x['«key¦']»']
plaintext: f(«x¦)»)␣
plaintext: return «a¦ + b» + b
plaintext: return «a ¦+ b»+ b
plaintext: g(«x¦, y», y)
plaintext: self.«run¦(task)»(task).encode()
plaintext: x = «locale¦.describe(1, 2)».describe(
plaintext: x = «a.¦b»b
python: for i«tem¦ in» in range(n):
# in doubt a quote behind the cursor ends nothing
python: f("«a", "b»")
python: x = "«a", b»"c"
python: # it's '«a' and b»'
plaintext: I don«'t know, isn't it»'
javascript: // don't say "«a" or b»"
javascript: f(`${«g(`a`)»`)
swift: print("\(«d["a"]) x", y»"
# white space before what stands behind the cursor stays
javascript: const r = «await »fetch(url);
python: if «not »x in seen:
c: «return »foo();
python: s.split('«, »')
# the end of a word is not the next word
python: for «plugin» in plugins:
python: if «axis» is None:
# a bracket that the answer itself opened stays closed
plaintext: print(«f(x)»)
plaintext: f({«'a': {}»})
plaintext: print(«x»)
# what may stand in a line twice
plaintext: self.«name = »name
plaintext: f(«g(x)»), y
# lifetimes are no strings
rust: impl<'a> P<'a> {⏎    fn get(«x: &'a str¦) -> &'a str {»)
rust: impl<'a> P<'a> {⏎    fn get(«x: [u8; b')' as usize]¦)»)
# nothing is left open before what stands behind the cursor
go LEAVES_OPEN: func main() {⏎→http.HandleFunc("/", «¦func(w W, r *R) {»)⏎}
cpp LEAVES_OPEN: int main() {⏎  std::sort(v.begin(), v.end(), «¦[](int a, int b) {»);⏎}
python LEAVES_OPEN: def f():⏎    g(«¦x, [», 1)
# no closer is left over where the line alone does not tell
python: def f():⏎    x = g(⏎        """⏎        a⏎        «""",»⏎        1,⏎    )
python: def f():⏎    x = g(⏎        """⏎        a⏎        «""",¦)»⏎        1,⏎    )
# marks that are written double are not the rest again
typescript: /**⏎ * **When to «use*»*⏎ */
typescript: /**⏎ * «``»`⏎ */
typescript: if (a «&»& b) {}
python: # **«x*»*
# closers at the end that close nothing go
python: f(«x)¦]»
python: f(⏎    «x)»
python: f(  # see (1⏎    «x)¦)»
python: f(g, {⏎    «'a': ']'})»
python: f(')'⏎    «x)¦)»
python: «'('¦)»
python: return «x¦)» + y)
python: f(«a)¦) + b»
python: x = foo(⏎    a,⏎    bar(«w, h¦),»)
python SURPLUS_CLOSERS: def f():⏎    load(«¦default=None)»path)
python: x = max(len(«x)»)
python SURPLUS_CLOSERS: print(val«¦ue_to_int(value))»ue)
# closers that close something stay
javascript: class A {⏎    return this.#cache.get(⏎      «key, load(key))»
typescript: this.#items = [⏎«]»
rust: #[derive(⏎  Debug⏎«)]»
csharp: #if DEBUG⏎f(#a, [⏎«])»
php: # one⏎#[Route('/', [⏎«])]»
lua: f(#t, {⏎«})»
plaintext: b) «second (c))»
rust: fn f<'a>(x: &'a str, y: u8«)»
python: print("a) first, b«)»
javascript: x.replace(/\)/g, a«)»
javascript: f(/\/\//, [⏎«])»
go: func main() {⏎    parts := strings.«Split(s, `)`)»
javascript: const p = s.«split(`)`)»
typescript: fetch(`https://api.com/${id}`, {⏎  method: 'POST',⏎«})»
python: x = {⏎    "a": """text (⏎    b""",⏎«}»
# what is text above leaves a bracket open
python: parser.add_argument(⏎    help="""⏎    1) first⏎    b) second""",⏎«b)»
java: f(⏎    """⏎    1) first⏎    """,⏎«b)»
ruby: f(<<~TEXT, a⏎  1) first⏎TEXT⏎«b)»
php: f('⏎1) first⏎', a⏎«b)»
c: foo(a, /* 1) first */⏎«b)»
go: foo(a, /* 1) first */⏎«b)»
php: foo(a, /* 1) first */⏎«b)»
c: foo(a, /* 1) first⏎         * 2) second⏎         * 3) third */⏎«b)»
# what is code above closes its brackets
python: f(⏎    x)⏎«x¦)»
c: if (a &&⏎    b) {⏎«x¦)»
c: f(a, 1); /* b */ g(c);⏎«x¦)»
javascript: f("/*", a);⏎g("*/", b);⏎«x¦)»
# a whole line that is the next one again is nothing to offer
python REPEATS_NEXT_LINE: x⏎    «¦return total»⏎⏎    return total
python REPEATS_NEXT_LINE: x⏎«¦    return total»⏎    return total
python: x⏎«return total»⏎    return total
python REPEATS_NEXT_LINE: x⏎    return «¦total»⏎    return total
python: x⏎    name, UnsetMa«rker,»⏎    name, UnsetMarker,
python REPEATS_NEXT_LINE: x⏎    «¦name, UnsetMarker,»⏎    name, UnsetMarker,
python: x⏎    «return total»⏎    pass⏎    return total
python: x⏎    «else:»⏎    else:
python: x⏎    «return total»
# what closes something is not written again above itself
shellscript REPEATS_NEXT_LINE: x⏎«¦  fi»⏎⏎  fi
shellscript REPEATS_NEXT_LINE: x⏎«¦esac»⏎⏎esac
ruby REPEATS_NEXT_LINE: x⏎«¦  end»⏎⏎  end
ruby REPEATS_NEXT_LINE: x⏎«¦=end»⏎⏎=end
lua REPEATS_NEXT_LINE: x⏎«¦  end,»⏎⏎  end,
json REPEATS_NEXT_LINE: x⏎«¦    }],»⏎⏎    }],
cmake REPEATS_NEXT_LINE: x⏎«¦endif()»⏎⏎endif()
vb REPEATS_NEXT_LINE: x⏎«¦End If»⏎⏎End If
sql REPEATS_NEXT_LINE: x⏎«¦END;»⏎⏎END;
java REPEATS_NEXT_LINE: x⏎«¦    });»⏎⏎    });
java REPEATS_NEXT_LINE: x⏎«¦ */»⏎⏎ */
typescript REPEATS_NEXT_LINE: x⏎«¦})();»⏎⏎})();
python REPEATS_NEXT_LINE: x⏎«¦    ]»⏎⏎    ]
python REPEATS_NEXT_LINE: x⏎«¦    """»⏎⏎    """
html REPEATS_NEXT_LINE: x⏎«¦  </div>»⏎⏎  </div>
markdown REPEATS_NEXT_LINE: x⏎«¦```»⏎⏎```
# what closes something else than the next line stays
shellscript: if a; then⏎  if b; then⏎    c⏎«  fi»⏎fi
ruby: def a⏎  if b⏎    c⏎«  end»⏎end
json: {⏎  "a": {⏎    "b": 1⏎«  }»⏎}
html: <div>⏎  <p>⏎«  </p>»⏎</div>
python: x = [⏎«    [],»⏎    [],
# a closer with nothing to close is not written above another
ruby REPEATS_NEXT_LINE: def a⏎  b⏎«¦  end»⏎end
shellscript REPEATS_NEXT_LINE: if a; then⏎  b⏎«¦  fi»⏎fi
json REPEATS_NEXT_LINE: {⏎  "a": 1⏎«¦  }»⏎}
shellscript REPEATS_NEXT_LINE: cat <<EOF⏎a⏎«¦EOF»⏎EOF
python REPEATS_NEXT_LINE: class A:⏎«¦"""»⏎    """
ruby REPEATS_NEXT_LINE: a = <<~SQL⏎  b⏎«¦SQL»⏎SQL
php REPEATS_NEXT_LINE: <?php⏎$a = <<<EOT⏎b⏎«¦EOT;»⏎EOT;
# a closer of an empty block stays
ruby: class A⏎  def a⏎«  end»⏎end
lua: function a()⏎  b(function()⏎«  end»⏎end
json: {⏎  "a": {⏎«  }»⏎}
shellscript: cat <<EOF⏎a⏎«EOT»⏎EOT
# the end of a docstring behind the cursor is not written again
python REPEATS_SUFFIX: def f():⏎    """Do it.⏎    «¦"""»"""⏎    return 1
python: def f():⏎    """Do it.⏎    «More.¦"""»"""⏎    return 1
# cases are compared by their labels
cpp REPEATS_CASE: switch (a) {⏎  case B::d: b(); break;⏎«¦  case B::d:»
cpp: switch (a) {⏎  case B::d: b(); break;⏎«  case B::c:»
cpp REPEATS_CASE: switch (a) {⏎  case 1: {⏎    b();⏎  }⏎«¦  case 1:»
cpp: switch (a) {⏎  case 1: {⏎    b();⏎  }⏎«  case 2:»
java REPEATS_CASE: switch (a) {⏎  case 1 -> b();⏎«¦  case 1 -> c();»
java: switch (a) {⏎  case 1 -> b();⏎«  case 2 -> b();»
java REPEATS_CASE: switch (a) {⏎  default -> b();⏎«¦  default -> c();»
java: switch (a) {⏎  default -> b();⏎«  case 2 -> b();»
rust REPEATS_CASE: match a {⏎    1 => {⏎        b()⏎    }⏎«¦    1 => c(),»
rust: match a {⏎    1 => {⏎        b()⏎    }⏎«    1 if b => c(),»
scala REPEATS_CASE: a match {⏎  case b: Int => c⏎«¦  case b: Int => d»
scala: a match {⏎  case b: Int => c⏎«  case b: String => c»
javascript REPEATS_CASE: switch (a) {⏎  case 'b:c': d()⏎«¦  case 'b:c': e()»
javascript: switch (a) {⏎  case 'b:c': d()⏎«  case 'b:d': d()»
python REPEATS_CASE: match a:⏎    case {'b': 1}: c()⏎«¦    case {'b': 1}: d()»
python: match a:⏎    case {'b': 1}: c()⏎«    case {'b': 2}: c()»
# a docstring that ends below is not ended above
python REPEATS_NEXT_LINE: def f():⏎    """One.⏎⏎    «¦"""»⏎    """⏎    return 1
python: def f():⏎    """One.⏎⏎    «Two.»⏎    """⏎    return 1
python: def f():⏎    """One.⏎⏎    «Two.¦"""»⏎    """⏎    return 1
python: def f():⏎    """One.⏎⏎    «Two.ʼʼʼ»⏎    """⏎    return 1
python SURPLUS_CLOSERS: def f():⏎    """One.⏎⏎    «¦"""»⏎    More."""
python: def f():⏎    """One.⏎⏎    «Two.¦"""»⏎    More."""
# a string that ends below is not ended above
go: package a⏎⏎var q = `SELECT⏎    «a¦`»⏎b`
javascript: const q = `SELECT⏎    «**/*.ts»⏎*/`;
java: class A {⏎  String q = """⏎    SELECT⏎    «a¦""";»⏎    """;⏎}
rust: fn f() {⏎    let q = r#"SELECT⏎    «a¦"#;»⏎    b"#;⏎}
# what marks a definition may stand above the next one too, not twice above its own
python: x⏎«    @property»⏎⏎    @property⏎y
python REPEATS_NEXT_LINE: x⏎«¦    @property»⏎    @property⏎y
java: x⏎«    @Override»⏎⏎    @Override⏎y
java REPEATS_NEXT_LINE: x⏎«¦    @Override»⏎    @Override⏎y
csharp: x⏎«    [TestMethod]»⏎⏎    [TestMethod]⏎y
csharp REPEATS_NEXT_LINE: x⏎«¦    [TestMethod]»⏎    [TestMethod]⏎y
php: x⏎«    #[Override]»⏎⏎    #[Override]⏎y
php REPEATS_NEXT_LINE: x⏎«¦    #[Override]»⏎    #[Override]⏎y
rust: x⏎«#[derive(Debug)]»⏎⏎#[derive(Debug)]⏎y
rust REPEATS_NEXT_LINE: x⏎«¦#[derive(Debug)]»⏎#[derive(Debug)]⏎y
cpp: x⏎«template <typename T>»⏎⏎template <typename T>⏎y
cpp REPEATS_NEXT_LINE: x⏎«¦template <typename T>»⏎template <typename T>⏎y
# other lines are compared across blank lines
python REPEATS_NEXT_LINE: x⏎«¦    return total»⏎⏎    return total
java REPEATS_NEXT_LINE: x⏎«¦template <typename T>»⏎⏎template <typename T>
c REPEATS_NEXT_LINE: x⏎«¦@Override»⏎⏎@Override
'''


def rows() -> Iterator[Any]:
    why, n = "", 0
    for row in ANSWERS.strip("\n").split("\n"):
        if row.startswith("# "):
            why, n = row[2:], 0
            continue
        n += 1
        head, _, document = row.partition(": ")
        language, _, removal = head.partition(" ")
        yield pytest.param(language, removal, document, id=f"{why}-{n}")


@pytest.mark.parametrize(("language", "removal", "document"), [*rows()])
def test_what_is_left_of_an_answer(language: str, removal: str, document: str) -> None:
    plain = document.replace("⏎", "\n").replace("→", "\t").replace("ʼ", "'").replace("␣", " ")
    before, answer, after = re.split("[«»]", plain)
    left, _, cut = answer.partition("¦")
    above, column = before.count("\n"), len(before.rpartition("\n")[2])
    found = offered(left + cut, Cursor.at((before + after).split("\n"), above, column, language))
    assert (found.text, found.removal) == (left, Removal[removal] if removal else None)


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


def test_brackets_on_a_line_of_data_are_not_counted() -> None:
    """The loops over its characters would hold up all that the server does."""
    data = "a(b[c]);" * 20_000
    for text in ("x]", "x), y"):
        assert offered(text, at("foo(", ");" + data, "javascript")).text == text
        assert offered(text, at(data + "foo(", ");", "javascript")).text == text
    above = ["a(b[c]);" * 300] * 2_000
    assert offered("}", Cursor.at([*above, ""], 2_000, 0, "javascript")).text == "}"
    assert offered("}", Cursor.at([*above[:20], ""], 20, 0, "javascript")).text == ""


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
        *(
            ("", text, "")
            for text in ("👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈", "❤\ufe0f", "1\ufe0f\u20e3", "↔\ufe0f")
        ),
        *(("", text, "") for text in ("می\u200cخواهم", "क\u094d\u200dष", "ශ\u0dca\u200dර")),
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


@pytest.mark.parametrize(
    ("text", "after", "removal"),
    [
        *(("", after, Removal.EMPTY) for after in ("", ")")),
        *((blank, "", Removal.WHITE_SPACE) for blank in (" ", " \t", "\t \t", "\u3000")),
        ("  ):  ", "):", Removal.REPEATS_SUFFIX),
        ("\x07", "\x07", Removal.HIDDEN_CHARACTERS),
    ],
)
def test_the_reason_why_nothing_is_left_of_an_answer(text: str, after: str, removal: Removal) -> None:
    assert offered(text, at("f(", after)) == Cleaned("", removal)


line_texts = st.text(st.characters(exclude_characters="\r\n"))


@given(st.text(), line_texts, line_texts)
def test_what_is_offered_begins_the_answer_and_holds_no_control_character(
    text: str, before: str, after: str
) -> None:
    """And there is a reason just when nothing is left."""
    found = offered(text, at(before, after))
    shown = found.text
    assert text.startswith(shown)
    assert (found.removal is None) == bool(shown.strip()) == bool(shown)
    assert not any(unicodedata.category(char) == "Cc" and char != "\t" for char in shown)
    joiners = "\u200c\u200d"
    assert not any(unicodedata.category(char) == "Cf" and char not in joiners for char in shown)


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


# A choice with two cases, and a place for a third between them.
CHOICES = {
    "c": "  switch (a) {\n  case 1:\n    f();\n\n    break;«  case {}:»  case 2:\n    g();\n  }",
    "java": "  switch (a) {\n    case 1:\n      f();«    case {}:»    case 2:\n      g();\n  }",
    "go": "\tswitch a {\n\tcase 1:\n\t\tf()«\tcase {}:»\tcase 2:\n\t\tg()\n\t}",
    "python": "match a:\n    case 1:\n        f()«    case {}:»    case 2:\n        g()",
    "ruby": "case a\nwhen 1\n  f«when {}»when 2\n  g\nend",
    "scala": "  a match {\n    case 1 =>\n      f()«    case {} =>»    case 2 =>\n      g()\n  }",
}


@pytest.mark.parametrize("language", CHOICES)
def test_a_case_is_not_offered_twice_in_a_choice(language: str) -> None:
    above, (case,), below = (part.split("\n") for part in re.split("[«»]", CHOICES[language]))
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
        cursor = within([*above, inner[:2] + above[0]], "", "", tuple(below), language)
        assert offered(nested, cursor).text == nested


def test_each_default_is_offered_once() -> None:
    above = ["switch (a) {", "  default:", "    f();"]
    assert offered("  default:", within(above, "", "", ("}",), "c")).removal is Removal.REPEATS_CASE
    above = ["f x =", "  case x of", "    A -> 1", "    B -> 2"]
    assert offered("  case x of", within(above, "", "", (), "haskell")).text


BLOCK_COMMENT = {
    **dict.fromkeys(("c", "cpp"), "int f(void) { return 1; }"),
    **dict.fromkeys(("java", "csharp"), "class A { }"),
    **dict.fromkeys(("javascript", "javascriptreact", "typescript", "php"), "function f() { return 1; }"),
    "typescriptreact": "function f() { return 1; }",
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
            again = Removal.REPEATS_NEXT_LINE if below[0] == before + text else Removal.SURPLUS_CLOSERS
            assert found.removal is (None if left else again)
        # The end below is that of another comment.
        cursor = within(above, before, "", (code, "", "/** Other */", code, error), language)
        assert offered(text, cursor) == Cleaned(text)


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
