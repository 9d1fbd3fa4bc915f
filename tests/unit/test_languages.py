"""Each language: functions with documentation apart, prose, and how a line fits into its document."""

from __future__ import annotations

import math
import time
from pathlib import PurePath

import pytest
from language_samples import SAMPLES, only

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.languages import identifier_of, is_chosen, language_of, name_of
from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.syntax import functions, has_grammar, prose_lines
from lsp_calib.syntax.functions import MOST_BYTES
from lsp_calib.syntax.languages import LANGUAGES

BRACES = sorted(set(LANGUAGES) - {"python"})
BRACKETS = "()[]{}"


def lines_of(language: str) -> list[str]:
    return SAMPLES[language][0].split("\n")


def judged(lines: list[str], row: int, text: str, language: str, *, below: bool = True) -> dict[str, float]:
    document = (*lines[:row], "", *(lines[row + 1 :] if below else ()))
    return text_features(Cursor.at(document, row, 0, language), text)


def place_in(source: str) -> tuple[list[str], int, str]:
    """The lines, the row of the mark, and what stands before it there."""
    lines = source.split("\n")
    row = next(row for row, line in enumerate(lines) if "«»" in line)
    return lines, row, lines[row].removesuffix("«»")


@pytest.mark.parametrize("language", SAMPLES)
def test_functions_are_found_with_their_documentation(language: str) -> None:
    source, expected = SAMPLES[language]
    lines = source.split("\n")
    found = functions(lines, language)
    assert [function.name for function in found] == list(expected)
    for function in found:
        words = expected[function.name]
        assert (function.docstring is None) == (words is None), function
        if words is not None:
            assert words in (function.docstring or "")
            assert words not in function.code
        assert lines[function.start : function.end] == function.code.split("\n")
        assert function.start < function.signature_end <= function.end
        assert function.start <= function.body <= function.end
        assert function.name.split(".")[-1].split(":")[-1] in "".join(
            lines[function.start : function.signature_end]
        )


# As sent by Eglot (modes in Emacs), Neovim (file types), Helix and Zed (names of languages).
@pytest.mark.parametrize(
    ("sent", "language"),
    [
        *(("python-base", "python"), ("js", "javascript"), ("js-base", "javascript")),
        *(("tsx", "typescriptreact"), ("typescript-ts-base", "typescript"), ("c++", "cpp"), ("C++", "cpp")),
        *(("cs", "csharp"), ("c-sharp", "csharp"), ("C#", "csharp"), ("Python", "python"), ("Go", "go")),
        *(("javascript.jsx", "javascriptreact"), ("typescript.tsx", "typescriptreact")),
    ],
)
def test_a_language_is_known_by_the_names_that_editors_send(sent: str, language: str) -> None:
    assert identifier_of(sent) == language
    assert has_grammar(identifier_of(sent))
    assert is_chosen(language, (sent,))
    assert identifier_of(language) == language


@pytest.mark.parametrize("language", ["markdown", "prompt", "instructions", "chatagent", "skill"])
def test_text_gets_completions_only_if_its_language_is_named(language: str) -> None:
    """The last four are VS Code's, of what is written for language models."""
    assert not is_chosen(language, ("*",))
    assert is_chosen(language, ("*", language))


def test_each_language_with_a_grammar_has_a_name_and_file_names() -> None:
    for language in LANGUAGES:
        assert has_grammar(language)
        assert name_of(language) != language
    endings = ["c", "cpp", "cs", "go", "java", "js", "jsx", "php", "py", "rb", "rs", "ts", "tsx"]
    assert {language_of(PurePath(f"a.{ending}")) for ending in endings} == set(LANGUAGES)


@pytest.mark.parametrize(
    ("language", "source", "docstring", "start"),
    [
        ("javascript", "/** D */ function f() {}", "/** D */", 0),
        ("javascript", "/* no */\nfunction f() {}", None, 1),
        ("javascript", "x = 1; /** no */\nfunction f() {}", None, 1),
        ("javascript", "/** D */\nexport default () => {\n}", "/** D */", 1),
        ("javascript", "/** D */\nconst f = async function () {}", "/** D */", 1),
        ("typescript", "/** D */\n@A()\n// why\n@B class X { m() {} }", None, 3),
        ("typescript", "class X {\n/** D */\n@A()\n/** no */\nm() {} }", "/** D */", 4),
        ("java", "class X {\n/** D */\n@A @B(1)\n@C\nvoid m() {} }", "/** D */", 4),
        ("java", "class X {\n// no\nvoid m() {} }", None, 2),
        ("go", "// D\n// e\nfunc f() {}", "// D\n// e", 2),
        ("go", "// D\n\n// e\nfunc f() {}", "// e", 3),
        ("go", "//\n// D\n//\n// e\n//\nfunc f() {}", "// D\n//\n// e", 5),
        ("go", "// D\n//go:noinline\nfunc f() {}", "// D", 2),
        ("go", "/* D */\nfunc f() {}", "/* D */", 1),
        ("rust", "/// D\n#[a]\n// why\nfn f() {}", "/// D", 3),
        ("rust", "/// D\n/// e\nfn f() {}", "/// D\n/// e", 2),
        ("rust", "// no\nfn f() {}", None, 1),
        ("c", "/** D */\nint f(void) { }", "/** D */", 1),
        ("c", "/** ---- */\nint f(void) { }", None, 1),
        ("c", "int x; // x\nint f(void) { }", None, 1),
        ("c", "/// D\n/// e\nint *(*f(int a))(int) { }", "/// D\n/// e", 2),
        ("cpp", "/// D\ntemplate <class T>\nint f() { }", "/// D", 1),
        ("cpp", "struct X {\n//! D\nX() : a(1) {}\n};", "//! D", 2),
        ("csharp", "class X {\n/// D\n[A, B(1)]\n// why\n[C] void M() {} }", "/// D", 4),
        ("csharp", "class X {\n/// D\n/// e\nvoid M() => N(); }", "/// D\n/// e", 3),
        ("csharp", "class X {\n// no\nvoid M() {} }", None, 2),
        ("csharp", "//// no\nint Main() { return 1; }", None, 1),
        ("csharp", "/// D\nint Main() { return 1; }", "/// D", 1),
        ("ruby", "# D\n# e\ndef f\n  1\nend", "# D\n# e", 2),
        ("ruby", "# D\n\n# e\ndef f = 1", "# e", 3),
        ("ruby", "class X\n  # D\n  private def f\n    1\n  end\nend", "# D", 2),
        ("ruby", "class X # no\n  def f\n    # no\n    1\n  end\nend", None, 1),
        ("ruby", "# D\n#\n# @return e\ndef f = 1", "# D\n#\n# @return e", 3),
        ("ruby", "=begin\nD\n=end\nprivate def self.f; 1 end", "=begin\nD\n=end", 3),
        ("ruby", "#!/usr/bin/ruby\n# frozen_string_literal: true\ndef f; 1 end", None, 2),
        ("ruby", "# D\n# rubocop:disable A\ndef f; 1 end", "# D", 2),
        ("ruby", "x = 1 # no\ndef f; 1 end", None, 1),
        ("php", "<?php\n/** D */\n#[A]\n#[B(1)]\nfunction f() {}", "/** D */", 4),
        ("php", "<?php\n// no\nfunction f() {}", None, 2),
        ("php", "<?php\n/** D */\n$f = fn($x) => $x;", "/** D */", 2),
        ("php", "<p>it's</p>\n<?php /** D */\nfunction f() { ?>\n<p>it's {</p>\n<?php }", "/** D */", 2),
    ],
)
def test_documentation_stands_right_above(
    language: str, source: str, docstring: str | None, start: int
) -> None:
    function = only(source, language)
    assert (function.docstring, function.start) == (docstring, start)
    assert "D" not in function.code.replace("class X", "")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("struct X {\nexplicit operator bool() const { }\n};", "operator bool"),
        ("struct Ü {\noperator  const char *() const { }\n};", "operator const char *"),
        ("struct X {\ntemplate <class T> operator std::vector<T>&() { }\n};", "operator std::vector<T>&"),
        ("ns::Ü::operator int() const { }", "ns::Ü::operator int"),
        ("bool operator==(X x) { }", "operator=="),
        ("int operator()(int x) { }", "operator()"),
    ],
)
def test_an_operator_is_named_by_what_it_converts_to(source: str, name: str) -> None:
    assert [one.name for one in functions(source.split("\n"), "cpp")] == [name]


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_condition_that_ifdef_splits_is_no_function(language: str) -> None:
    """Documentation would be offered in the body of another function."""
    head = "void f(int a) {\n  if (a) {\n    foo();\n#ifdef X\n  }"
    source = f"{head}\n  else if (b) {{\n    bar();\n#endif\n  }}\n}}\n/* D */\nvoid g(void)\n{{\n}}"
    assert [one.name for one in functions(source.split("\n"), language)] == ["f", "g"]
    assert not functions(["  else if (b) {", "    bar();", "  }"], language)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        *(("ruby", source) for source in ("def f = 1", "class A; def f = 1 end")),
        *(("javascript", source) for source in ("f=a=>a", "class A{f=a=>a}", "x={f(){}}")),
        *(("go", "func f(){}"), ("python", "def f(): 1"), ("php", "<?php function f(){}")),
        *(("csharp", "class A{int f()=>1;}"), ("rust", "fn f(){}"), ("c", "int f(){}")),
        *(("java", "class A{int f(){}}"), ("typescript", "class A{f(){}}")),
    ],
)
def test_the_smallest_functions_are_found(language: str, source: str) -> None:
    """Small pieces of a tree are not looked into."""
    assert only(source, language).name == "f"


def test_prose_is_comments_that_have_their_lines_for_themselves() -> None:
    source = "/*\n * a\n */\nint x; // b\n// c\n/* d */ int y; /* e\n f */\n\t/* g */\n"
    assert prose_lines(source.split("\n"), "c") == {0, 1, 2, 4, 7}
    rust = "//! a\n/// b\nfn f() {}\n/** c */\nfn g() {} // d"
    assert prose_lines(rust.split("\n"), "rust") == {0, 1, 3}


@pytest.mark.parametrize("language", SAMPLES)
def test_no_line_of_good_source_is_broken(language: str) -> None:
    """Neither where it stands nor while everything below it is not written yet."""
    lines = lines_of(language)
    for row, line in enumerate(lines):
        if line.strip():
            for below in (True, False):
                assert judged(lines, row, line, language, below=below)["broken"] == 0.0, (row, line, below)


@pytest.mark.parametrize("language", SAMPLES)
def test_most_lines_without_one_of_their_brackets_are_broken(language: str) -> None:
    lines = lines_of(language)
    prose = prose_lines(lines, language)
    missed, places = [], 0
    for row, line in enumerate(lines):
        macro = line.lstrip().startswith("#") or lines[row - 1].endswith("\\")
        if row in prose or macro or len(line.strip()) < 2:
            continue
        for at, letter in enumerate(line):
            quoted = line[:at].count('"') % 2 or "'" in line[at - 1 : at] or "`" in line[:at]
            if letter in BRACKETS and not quoted:
                places += 1
                if not judged(lines, row, line[:at] + line[at + 1 :], language)["broken"]:
                    missed.append(line[:at] + "«" + letter + "»" + line[at + 1 :])
    assert len(missed) <= 0.28 * places, missed


# A language and what stands above the end of a document; a line that fits there, and one that does not.
ENDS = """
javascript: function f(a) {⏎  if (a) { ¦     return g(a, ¦     return g(a b);
javascript: const f = () => { ¦   const x = `a ¦   const x = a]);
javascript: f(function () { ¦   /* because ¦   var = 3;
typescript: class A {⏎  m(a: B) { ¦     const x: Map<string, { ¦     const x: = 1;
java: class A {⏎    void m() { ¦         if (x && y) { ¦         int = x y;
java: class A {⏎    int x; ¦     public void m() throws E { ¦     public public ) m() {
go: func f() {⏎\tif a { ¦ \t} else if b := g(); b { ¦ \tx := := 2;
rust: impl A {⏎    fn f(&self) { ¦         let x = match self { ¦         let = ) 1;
c: int f(void)⏎{ ¦     for (int i = 0; i < n; i++) { ¦     int x = (1 2);
csharp: class A⏎{⏎    void M()⏎    { ¦         if (x is { } y && y > 1) ¦         int = x y;
csharp: namespace A;⏎class B { ¦     public int Size { get; } ¦     public int ) M() {
ruby: class A⏎  def f(x)⏎    if x ¦       x.each do |y| ¦       x = = 2
ruby: class A⏎  def f(x)⏎    return 1 if x ¦     @a ||= begin ¦     g(x))
ruby: def f(x)⏎  x.map { |y| ¦     y ? [1, ¦     y ]
php: <?php⏎function f($a) { ¦     if ($a > 1) { ¦     $x = = 3;
php: class A {⏎  public function f() { ¦     return array_map(fn($x) => [ ¦     return 1 2;
cpp: namespace a {⏎class B { ¦     template <typename T> void f(T t) { ¦     int int f(] {
"""


@pytest.mark.parametrize("row", ENDS.strip().split("\n"))
def test_an_open_brace_above_is_not_the_lines_fault(row: str) -> None:
    language, _, rest = row.partition(": ")
    above, good, bad = rest.split(" ¦ ")
    lines = [*above.split("⏎"), ""]
    assert judged(lines, len(lines) - 1, good, language)["broken"] == 0.0
    assert judged(lines, len(lines) - 1, bad, language)["broken"] == 1.0


# A language and a document with a place for a line; below it lines that fit (+) and that do not (-).
# ¦: between two; ⏎: a line ends; →: a tab.
LINES = r'''
# What a line opens is not written yet.
c: int f(int x)⏎{⏎    int a = 1;⏎    «»⏎    return a;⏎}
+ for (i = 0; i < n; i++) { ¦ if (x) { ¦ while (1) { ¦ do { ¦ switch (x) { ¦ g( ¦ g(a, ¦ int b[] = {
- for (i = 0 { ¦ int b = {; ¦ g(a
cpp: void f() {⏎  int a = 1;⏎  «»⏎  return;⏎}
+ for (auto& b : x) { ¦ if (x) { ¦ try { ¦ do { ¦ g([&](int x) { ¦ g( ¦ g(a, ¦ std::vector<int> v = {
- for auto& b : x) { ¦ int = { ¦ g(a
csharp: class A {⏎    void M() {⏎        int a = 1;⏎        «»⏎        return;⏎    }⏎}
+ foreach (var b in x) { ¦ if (x) { ¦ try { ¦ do { ¦ G( ¦ G(a, ¦ x.Select(y => { ¦ var b = new B {
- foreach (var in = { ¦ if = { ¦ G(a
go: package a⏎⏎func f() int {⏎→a := 1⏎→«»⏎→return a⏎}
+ for i := range x { ¦ if a > 1 { ¦ switch a { ¦ go func() { ¦ g( ¦ g(a, ¦ b := []int{ ¦ b := map[string]int{
- for i := = x { ¦ if a > { ¦ g(a
java: class A {⏎    void m() {⏎        int a = 1;⏎        «»⏎        return;⏎    }⏎}
+ for (int b : x) { ¦ if (x) { ¦ try { ¦ do { ¦ switch (x) { ¦ g( ¦ g(a, ¦ x.forEach(y -> { ¦ int[] b = {
- for (int b : x { ¦ int = { ¦ g(a
javascript: function f(x) {⏎  let a = 1;⏎  «»⏎  return a;⏎}
+ for (const b of x) { ¦ if (x) { ¦ try { ¦ do { ¦ g( ¦ g(a, ¦ g({ ¦ x.map((y) => { ¦ const g = () => {
- for (const of = { ¦ const = { ¦ g(a
php: <?php⏎function f($x) {⏎    $a = 1;⏎    «»⏎    return $a;⏎}
+ foreach ($x as $y) { ¦ if ($x) { ¦ try { ¦ do { ¦ g( ¦ g($a, ¦ $b = [ ¦ array_map(function ($y) {
- foreach ($x as { ¦ $b = = [ ¦ g($a
ruby: def f(x)⏎  a = 1⏎  «»⏎  a⏎end
+ if x ¦ unless x ¦ while x ¦ begin ¦ x.each do |y| ¦ x.map { |y| ¦ g( ¦ g(a, ¦ b = [ ¦ b = {
- if x) ¦ b = = [ ¦ g(a
rust: fn f(x: i32) -> i32 {⏎    let a = 1;⏎    «»⏎    a⏎}
+ for i in x { ¦ if a > 1 { ¦ loop { ¦ match a { ¦ let b = match a { ¦ g( ¦ g(a, ¦ x.map(|y| { ¦ let b = vec![
- for in x { ¦ let = match { ¦ g(a
typescript: class A {⏎  m(x: B): void {⏎    const a = 1;⏎    «»⏎    return;⏎  }⏎}
+ for (const b of x) { ¦ if (x) { ¦ try { ¦ g( ¦ g(a, ¦ g({ ¦ x.map((y: C) => { ¦ const b: B = {
- for (const of = { ¦ const b: = { ¦ g(a
# A line goes on below.
c: int a[] = {⏎    1,⏎    «»⏎    2,⏎};
+ { ¦ f( ¦ {1, ¦ [A] = {
- int z = { ¦ if (x) { ¦ }
c: #include <a.h>⏎«»⏎int f(void);
+ typedef struct { ¦ typedef enum { ¦ int g(void) ¦ int main(int a, char **b) ¦ struct a ¦ /* all
- typedef = { ¦ int g(void ¦ int a = 1 ¦ int x ¦ char *p
c: int f(int x)⏎{⏎    int a = 1;⏎    «»⏎    return a;⏎}
+ return ( ¦ if ( ¦ if (a && ¦ while ( ¦ for ( ¦ a = ¦ return a && ¦ if (a) ¦ switch (a) ¦ b ? (
- g(a) ¦ return a ¦ int = ( ¦ a b c ( ¦ if x) {
cpp: void f() {⏎  g(⏎      a,⏎      «»⏎      b);⏎}
+ h( ¦ A{ ¦ [&](int x) { ¦ {
- int a = ( ¦ a = = ( ¦ ]
csharp: class A {⏎    int x;⏎    «»⏎    int y;⏎⏎    void F() {}⏎}
+ public void G() ¦ public A(int x) ¦ public class B ¦ [Test] ¦ [Test( ¦ /* all
- x = = { ¦ public ) void ¦ private readonly List<int> xs
go: package a⏎⏎var x = map[string]A{⏎→"a": {1},⏎→«»⏎→"b": {2},⏎}
+ "c": { ¦ "c": f( ¦ "c": func() { ¦ "c": A{
- x := { ¦ return { ¦ if x { ¦ } ¦ "c" {
java: class A {⏎    int x;⏎    «»⏎    int y;⏎⏎    void f() {}⏎}
+ /** ¦ public void g() ¦ A(int x) ¦ public void g() throws B ¦ public class B extends C ¦ @Test(
- x = = { ¦ if (x) { ¦ int z ¦ public void void g() {
java: class A {⏎    void m() {⏎        int a = 1;⏎        «»⏎        return;⏎    }⏎}
+ return ( ¦ if (a && ¦ try ( ¦ for ( ¦ while ( ¦ int b = ¦ return a ? ( ¦ if (a)
- g(a) ¦ int b = 1 ¦ int = ( ¦ x && && ( ¦ public void g() {
javascript: const x = {⏎  a: 1,⏎  «»⏎  b: 2,⏎};
+ c: { ¦ c: [ ¦ c: f( ¦ ...f( ¦ c: () => { ¦ c: function () { ¦ async c() { ¦ [c]: (x) => ( ¦ c: f({
- return { ¦ const c = { ¦ c = = { ¦ c: 1 ¦ c: [} ¦ } ¦ c d {
javascript: f(⏎  a,⏎  «»⏎  b⏎);
+ [ ¦ { ¦ g( ¦ ( ¦ () => { ¦ (x) => { ¦ async () => {
- const c = { ¦ return ( ¦ c: { ¦ a b ( ¦ if (x) {
javascript: function f(x) {⏎  let a = 1;⏎  «»⏎  return a;⏎}
+ return ( ¦ return x && ( ¦ const a = ( ¦ if ( ¦ if (a && ¦ a = b ? ( ¦ const a = x ? ¦ delete a[
- return return ( ¦ const = ( ¦ a b ( ¦ if x) { ¦ a && && ( ¦ a ? ? ( ¦ 'a': {
javascript: function f(x) {⏎  return (⏎    <div>⏎      «»⏎      <b>c</b>⏎    </div>⏎  );⏎}
+ <div> ¦ <p a="b"> ¦ <Foo ¦ <Foo a={1}> ¦ <> ¦ {x.map((y) => ( ¦ {x && ( ¦ {x ? ( ¦ <a b={() => {
- </div> ¦ </b> ¦ <a <b ¦ } ¦ {x &&)
typescript: import a from 'a';⏎«»⏎import b from 'b';
+ import { ¦ import type { ¦ type A = ¦ export type A = ¦ export const f = ( ¦ @Injectable() ¦ /**
- import = { ¦ interface { {
rust: fn f() {⏎    let a = A {⏎        x: 1,⏎        «»⏎        y: 2,⏎    };⏎}
+ z: B { ¦ z: vec![ ¦ z: f( ¦ z: Some( ¦ z: |x| {
- let z = { ¦ return ( ¦ z = { ¦ z: : { ¦ }
rust: fn f(x: i32) -> i32 {⏎    let a = 1;⏎    «»⏎    a⏎}
+ let b = ¦ if a && ¦ if a ¦ let b = (
- let b = 1 ¦ g(a) ¦ let = ( ¦ a b { ¦ z: B {
python: names = {⏎    'a': 1,⏎    «»⏎    'b': 2,⏎}
+ 'c': { ¦ 'c': [ ¦ 'c': total( ¦ **total( ¦ 'c': {'d': [ ¦ 'c': lambda x: ( ¦ total('a'): {
- 'c' { ¦ names = { ¦ def begin( ¦ if start: ¦ 'c': = ( ¦ return [ ¦ 'c': 1 ¦ 'c': (1 ¦ }
python: names = [⏎    1,⏎    «»⏎    2,⏎]
+ { ¦ [ ¦ total( ¦ total(1, ¦ *( ¦ {'a': 1, ¦ total(1, {
- 'c': { ¦ names = [ ¦ return ( ¦ 2 3 ( ¦ class Shop: ¦ total(]) ¦ ]
python: total(⏎    1,⏎    «»⏎    start=2,⏎)
+ [ ¦ total( ¦ ( ¦ lambda x: total( ¦ *[
- names=1 start=[ ¦ def begin( ¦ names: ¦ return (
python: def begin(⏎    start,⏎    «»⏎    end=1,⏎):⏎    pass
+ items=( ¦ items=[ ¦ *,
- items ¦ return ( ¦ items: = [
# A string or a comment goes on below.
python: def f(x):⏎    a = 1⏎    «»⏎    return a⏎⏎⏎def g():⏎    """One."""⏎    return {1: 2}
+ """Compute a. ¦ """ ¦ b = """ ¦ b = f("""SELECT ¦ b = f(a, ʼʼʼ ¦ return f"""{a} ¦ b = [r"""
- b = = """ ¦ b c """ ¦ def """ ¦ if x """ ¦ b = "a ¦ b = ('a ¦ )""" ¦ b = """c""" + "d
python: def f(x):⏎    """One.⏎⏎    «»⏎    More.⏎    """⏎    return x
+ Two. ¦ f(a
- """ ¦ """More ¦ two. """
cpp: int f() {⏎  int a = 1;⏎  «»⏎  return a;⏎}
+ auto q = R"( ¦ g(R"(SELECT ¦ return /* the
- int = R"( ¦ auto q = "a ¦ g("SELECT
csharp: class A {⏎    string F() {⏎        int a = 1;⏎        «»⏎        return b;⏎    }⏎}
+ var q = """ ¦ return @" ¦ G(@"SELECT ""a"" ¦ G(a, """ ¦ var q = $@"a {b}
- var = = @" ¦ G("SELECT ¦ var q = @"SELECT"
go: package a⏎⏎func f() string {⏎→a := 1⏎→«»⏎→return "b"⏎}
+ q := ` ¦ return `SELECT ¦ g(a, ` ¦ q := []string{`
- q := := ` ¦ a b ` ¦ q := "a ¦ g(`a`, "b
java: class A {⏎    String f() {⏎        int a = 1;⏎        «»⏎        return b;⏎    }⏎}
+ String q = """ ¦ return """ ¦ g(""" ¦ g(a, """
- a b c """ ¦ import """ ¦ String q = "a ¦ g("a
javascript: function f(x) {⏎  let a = 1;⏎  «»⏎  return `${a}`;⏎}
+ const q = ` ¦ return `SELECT ¦ g(a, ` ¦ const b = { c: ` ¦ x = gql` ¦ return html`<b>${a}
- const = ` ¦ return return ` ¦ a b ` ¦ ) ` ¦ b = 'a ¦ b = `c` + 'd
rust: fn f() {⏎    let a = 1;⏎    «»⏎    g(a);⏎}
+ let q = r#" ¦ h(r#"SELECT ¦ h("a \ ¦ let q = "a \
- let = r#" ¦ let q = "a ¦ h("a
# A clause of Ruby continues something.
ruby: def f(x)⏎  if x⏎    a⏎  end⏎  «»⏎  return x⏎end
+ rescue E ¦ ensure ¦ b
- else ¦ elsif y
ruby: def f⏎  a⏎rescue E⏎  b⏎«»⏎  c⏎end
+ else ¦ rescue ¦ ensure
- when 1
ruby: def f⏎  a⏎ensure⏎  b⏎«»⏎  c⏎end
+   d
- else ¦ rescue ¦ ensure
ruby: begin⏎  a⏎«»⏎  c⏎end
+ rescue ¦ ensure
- else
ruby: if a⏎  b⏎«»⏎  c⏎end
+ else ¦ elsif d
- ensure
ruby: case a⏎when 1⏎  b⏎«»⏎  c⏎end
+ else ¦ when 2
- ensure
'''


def places() -> dict[str, list[list[str]]]:
    """Of each part: language, document, lines that fit, lines that do not."""
    found: dict[str, list[list[str]]] = {}
    for row in LINES.strip("\n").split("\n"):
        plain = row.replace("⏎", "\n").replace("→", "\t").replace("ʼ", "'")
        if row.startswith("# "):
            part = found.setdefault(row[2:], [])
        elif row[0] in "+-":
            part[-1].append(plain[2:])
        else:
            part.append([*plain.split(": ", 1)])
    return found


@pytest.mark.parametrize(
    ("language", "source", "good", "bad"), [place for part in places().values() for place in part]
)
def test_a_line_is_not_broken_because_it_is_not_finished_above_or_below(
    language: str, source: str, good: str, bad: str
) -> None:
    lines, row, indentation = place_in(source + "\n")
    wrong = {
        expected: [
            text
            for text in texts.split(" ¦ ")
            if judged(lines, row, indentation + text, language)["broken"] != expected
        ]
        for expected, texts in ((0.0, good), (1.0, bad))
    }
    assert wrong == {0.0: [], 1.0: []}


@pytest.mark.parametrize(
    ("language", "source", "good", "bad"),
    [place for place in places()["What a line opens is not written yet."] if place[0] != "ruby"],
)
def test_a_line_in_a_block_whose_end_is_not_written_yet(
    language: str, source: str, good: str, bad: str
) -> None:
    """Its first line opens the block in a finished document."""
    lines, row, indentation = place_in(source + "\n")
    opening = good.split(" ¦ ")[0]
    deeper = indentation + ("\t" if language == "go" else "    ")
    inside = [*lines[:row], indentation + opening, "", *lines[row + 1 :]]
    one = lines[row - 1].strip()
    for text in (one, *good.split(" ¦ ")[:2], "}"):
        assert judged(inside, row + 1, deeper + text, language)["broken"] == 0.0, text
    for text in (*bad.split(" ¦ ")[:2], "}}", ")"):
        assert judged(inside, row + 1, deeper + text, language)["broken"] == 1.0, text


def test_a_bracket_closed_that_nobody_opened_is_broken_at_the_end() -> None:
    heads = {
        **dict.fromkeys(("c", "cpp"), "int f() {"),
        **dict.fromkeys(("java", "csharp"), "class A {"),
        "go": "func f() {",
        "rust": "fn f() {",
        "ruby": "f {",
    }
    for language in BRACES:
        lines = [heads.get(language, "function f() {"), "", ""]
        assert judged(lines, 1, "}", language)["broken"] == 0.0
        assert judged(lines, 1, "}}", language)["broken"] == 1.0, language
        assert judged(lines, 1, ")", language)["broken"] == 1.0, language


OPENERS_ABOVE_THEIR_CLOSERS = [
    ("java", "class A {\n  void m(int a) {\n    int b = 1;\n    «»\n    }\n    g(b);\n  }\n}\n"),
    ("csharp", "class A {\n  void M(int a) {\n    int b = 1;\n    «»\n    }\n    G(b);\n  }\n}\n"),
    *(
        (language, "function f(a) {\n  let b = 1;\n  «»\n  }\n  g(b);\n}\n")
        for language in ("javascript", "javascriptreact", "typescript", "typescriptreact")
    ),
    ("go", "package a\n\nfunc f(a int) int {\n\tb := 1\n\t«»\n\t}\n\treturn b\n}\n"),
    ("rust", "fn f(a: i32) -> i32 {\n    let b = 1;\n    «»\n    }\n    b\n}\n"),
    ("php", "<?php\nfunction f($a) {\n  $b = 1;\n  «»\n  }\n  return $b;\n}\n"),
    ("c", "int f(int a) {\n  int b = 1;\n  «»\n  }\n  return b;\n}\n"),
    ("cpp", "int f(int a) {\n  int b = 1;\n  «»\n  }\n  return b;\n}\n"),
]


@pytest.mark.parametrize(("language", "source"), OPENERS_ABOVE_THEIR_CLOSERS)
def test_an_error_of_a_line_that_opens_what_is_closed_below_is_its_own(language: str, source: str) -> None:
    """Without the line its closer is the one error, and with it the line's is."""
    lines, row, indentation = place_in(source)
    good, bad = "while (a == 1) {", ["while (a ==) {", "if (a &&) {", "while (a b) {", "while (== a) {"]
    if language in ("go", "rust"):
        good, *bad = (one.replace("(", "").replace(")", "") for one in (good, *bad))
        good, *bad = (one.replace("while", "for") if language == "go" else one for one in (good, *bad))
    if language in ("c", "cpp"):
        good, bad = "list_for_each(a, b) {", []  # a macro
    assert judged(lines, row, indentation + good, language)["broken"] == 0.0
    assert [one for one in bad if not judged(lines, row, indentation + one, language)["broken"]] == []


@pytest.mark.parametrize(
    ("above", "good", "bad"),
    [
        (
            "match a:\n    case 1:\n        b()",
            "    case 2:",
            "        case 2: ¦         else: ¦     else: ¦ else:",
        ),
        (
            "if a:\n    b()",
            "else: ¦ elif c: ¦ while c:",
            "    else: ¦     elif c: ¦ except: ¦ case 1: ¦ finally:",
        ),
        ("for a in c:\n    b()", "else: ¦     if a:", "    else: ¦ elif c:"),
        ("if a:\n    b()\nelse:\n    c()", "if a: ¦ try:", "else: ¦ elif c: ¦     else:"),
        (
            "try:\n    b()",
            "except E: ¦ finally: ¦     if a: ¦     try:",
            "    except E: ¦     finally: ¦     :",
        ),
        (
            "b()",
            "class A: ¦ match a: ¦ with a: ¦ x = {1: ¦ x[1: ¦ def f(a:",
            "else: ¦ except E: ¦ case 1: ¦ lambda:",
        ),
        ("b(", "    lambda: ¦     else:", ""),  # what is open above says nothing
    ],
)
@pytest.mark.parametrize("end", [0, 1, 2])
def test_at_the_end_a_body_shows_whether_a_block_can_stand_there(
    above: str, good: str, bad: str, end: int
) -> None:
    lines = above.split("\n")
    for expected, texts in ((0.0, good), (1.0, bad)):
        for text in filter(None, texts.split(" ¦ ")):
            document = [*lines, "", *[""] * end]
            assert judged(document, len(lines), text, "python")["broken"] == expected, text


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("typescript", "function f(a) {\n  b();\n  «»\n  return a;\n}\n"),
        (
            "typescript",
            "function f(a) {\n  if (a) {\n    b();\n  } else {\n    c();\n  }\n  «»\n  return a;\n}\n",
        ),
        ("cpp", "int f(int a) {\n  b();\n  «»\n  return a;\n}\n"),
    ],
)
def test_else_is_no_name(language: str, source: str) -> None:
    lines, row, indentation = place_in(source)
    for text in ("else", "else {"):
        for below in (True, False):
            assert judged(lines, row, indentation + text, language, below=below)["broken"] == 1.0
    branch = [*lines[:row], indentation + "if (a) {", indentation + "}", "", *lines[row + 1 :]]
    assert judged(branch, row + 2, indentation + "else {", language)["broken"] == 0.0


_FINISHED = "if (a) {\n  b();\n} else {\n  c();\n}\n«»\nreturn a;"
_AROUND = {
    **dict.fromkeys(("c", "cpp", "csharp", "java"), "int f(int a) {\n%s\n}"),
    **dict.fromkeys(("javascript", "typescript", "typescriptreact"), "function f(a) {\n%s\n}"),
    "go": "package a\n\nfunc f(a bool) int {\n%s\n}",
    "php": "<?php\nfunction f($a) {\n%s\n}",
    "rust": "fn f(a: bool) -> i32 {\n%s\n}",
}


@pytest.mark.parametrize("language", _AROUND)
def test_else_behind_a_finished_choice_breaks(language: str) -> None:
    """It would take the statement below as its body."""
    finished = _FINISHED
    if language in ("go", "rust"):
        finished = finished.replace("(a)", "a")
    if language == "php":
        finished = finished.replace("a)", "$a)").replace(" a;", " $a;")
    source = _AROUND[language] % finished
    if language in ("csharp", "java"):
        source = f"class A {{\n{source}\n}}"
    lines, row, indentation = place_in(source)
    for text in ("else", "else {"):
        assert judged(lines, row, indentation + text, language)["broken"] == 1.0, text
    assert judged(lines, row, indentation + "b();", language)["broken"] == 0.0


@pytest.mark.parametrize("line", ["int b = a +;", "if (a ==) { }", "G(a, );", "return a == ;"])
def test_a_name_that_is_missing_in_c_sharp_breaks_a_line(line: str) -> None:
    """The grammar hides it in a node of its own."""
    source = "class A {\n    int M(int a) {\n        «»\n        return a;\n    }\n}\n)\n"
    lines, row, indentation = place_in(source)
    assert judged(lines, row, indentation + line, "csharp")["broken"] == 1.0


def test_lines_for_the_preprocessor_are_not_judged() -> None:
    lines = ["int f(void) {", "", "    return 1;", "}"]
    for line in ("#else", "#define A(x) do { x", "#if 0"):
        assert judged(lines, 1, line, "c")["broken"] == 0.0


@pytest.mark.parametrize(
    ("language", "line", "names"),
    [
        ("javascript", "const { fresh, old: { newer } } = count;", 1),  # the key `old`
        ("javascript", "import { fresh as newer } from 'x';", 0),
        ("javascript", "fresh.push(console.log(newer));", 4),
        ("javascript", "class Fresh { newer() {} }", 0),
        ("typescript", "interface Fresh { newer: string; }", 0),
        ("typescript", "let fresh: Newer<number>;", 1),
        ("java", "int fresh = 1, newer[] = {};", 0),
        ("java", "for (Fresh newer : items) {}", 1),
        ("go", "fresh, newer := Sell(str)", 0),
        ("go", "var fresh Newer = nil", 1),
        ("rust", "let Some((fresh, ref newer)) = new() else { return };", 0),
        ("rust", "let x: Fresh<usize> = newer.iter().map(|v| v);", 3),
        ("c", "int *fresh[3] = {0}, newer;", 0),
        ("c", "fresh = newer + sum(NULL);", 2),
        ("cpp", "auto [fresh, newer] = sum(shop);", 0),
        ("cpp", "std::vector<Fresh> newer;", 1),
        ("csharp", "foreach (var (fresh, newer) in items) {}", 0),
        ("csharp", "if (items is Dictionary<string, Fresh> newer) {}", 1),
        ("csharp", "Fresh.Call(newer, out var third);", 3),
        ("csharp", "using Fresh.Newer;", 0),
        ("ruby", "fresh, (@newer, *third) = items", 0),
        ("ruby", "ripe.newer(items)", 2),
        ("ruby", "class Fresh < Newer", 1),
        ("php", "[$fresh, [$newer]] = $rest;", 0),
        ("php", "$fresh = Newer::make($third, count($rest));", 3),
        ("php", "use Fresh\\Newer;", 0),
    ],
)
def test_names_that_are_new(language: str, line: str, names: int) -> None:
    lines = [*lines_of(language), ""]
    assert judged(lines, len(lines) - 1, line, language)["new-names"] == pytest.approx(math.log1p(names))


@pytest.mark.parametrize("language", BRACES)
@pytest.mark.parametrize(
    "source",
    [
        "x = " + "[" * 3_000 + "]" * 3_000,
        "{" * 3_000 + "\n" + "}" * 3_000,
        "/** a */\n" * 3_000,
        "// a\n" * 100 + "fn f() {}",
        "const a = () => 1, " * 500,
        "void f() { " * 500,
        "function f() { " * 500,
        "*" * 3_000 + "f() {}",
        "a < " * 500,
        "\x00\xff\ud800" * 50,
    ],
    ids=range(10),
)
def test_hostile_source_neither_crashes_nor_hangs(language: str, source: str) -> None:
    lines = source.split("\n")
    start = time.process_time()
    for function in functions(lines, language)[:50]:
        assert 0 <= function.start < function.signature_end <= function.end <= len(lines)
    assert prose_lines(lines, language) <= set(range(len(lines)))
    text_features(Cursor.at(("x", *lines[:2000], "y"), 1, 0, language), "f(")
    text_features(Cursor.at((*lines[:2000], ""), min(len(lines), 2000), 0, language), "f(")
    assert time.process_time() - start < 20


@pytest.mark.parametrize("language", BRACES)
def test_a_huge_file_is_not_parsed(language: str) -> None:
    lines = [*lines_of("c"), *["//" + "a" * 9_997] * (MOST_BYTES // 10_000 + 1)]
    assert functions(lines, language) == []
    assert prose_lines(lines, language) == set()


@pytest.mark.parametrize("language", SAMPLES)
def test_functions_around_an_error_are_still_found(language: str) -> None:
    source, expected = SAMPLES[language]
    broken = source.rstrip("\n") + "\n\n)) x = = ((\n"
    assert {function.name for function in functions(broken.split("\n"), language)} >= set(expected)


OVERLOADS = """export function other(a: string): string;
/** Old words. */
export function add(a: string): string;
// In between.
export function add(a: number): number;
export function add(a: any) {
  return a + a;
}
class Box {
  add(a: string): void;
  add(a: number): void;
  private add(a: any) {
    return a;
  }
  twice(a: any) {
    return a;
  }
}
"""


@pytest.mark.parametrize("language", ["typescript", "typescriptreact"])
def test_overloads_belong_to_the_function_that_they_share(language: str) -> None:
    """Editors show callers what is said of an overload, never what is said of the definition below it."""
    lines = OVERLOADS.split("\n")
    add, method, twice = functions(lines, language)
    assert (add.start, add.signature_end, add.end) == (2, 6, 8)
    assert add.docstring == "/** Old words. */"
    assert add.code == "\n".join(lines[2:8])
    assert not may_insert(add, language)
    assert (method.start, method.signature_end, method.docstring) == (9, 12, None)
    made = insertion(lines, method, language, "Do it.")
    assert made is not None
    assert (made.line, made.lines) == (9, ("  /** Do it. */",))
    assert twice.start == 14


def test_what_each_overload_says_is_not_in_the_code() -> None:
    """It would tell the model what it is to say."""
    said = "/** Old words. */\n"
    source = (
        f"{said}function f(a: string): void;\n{said}function f(a: number): void;\nfunction f(a: any) {{}}\n"
    )
    function = only(source, "typescript")
    assert function.docstring == "/** Old words. */"
    assert function.code == source.replace(said, "").rstrip("\n")
    below = source.replace(said, "").replace("function f(a: any)", f"{said}function f(a: any)")
    function = only(below, "typescript")
    # Quick info of TypeScript 5.9.3 shows nothing of it: of several overloads the first one counts.
    assert function.docstring is None
    assert "Old words" not in function.code
    assert may_insert(function, "typescript")
