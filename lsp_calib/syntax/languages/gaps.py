"""Constructs that a language has and its grammar's wheel does not know. Pure.

Each is read as one that the wheel knows and that stands in the same places, so that an error in what is
around it is still found. The text keeps its length: columns stay what they are. `tests/unit/test_gaps.py`
holds each row to the wheel: one that the wheel has mended has to go.
"""

from __future__ import annotations

import re

import attrs


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@attrs.frozen
class Gap:
    """A construct that a wheel does not know.

    since: the version of the language that brought it. mark: text that each line with it has. pattern: finds
    it in a line; its groups are what the grammar does not see. instead: what stands in the place of the first
    group, no longer than that. example: source with it, in order but for the gap.
    """

    since: str
    mark: str
    pattern: re.Pattern[str] = attrs.field(converter=_compiled)
    example: str
    instead: str = ""

    def read(self, line: str) -> str:
        """A line as the grammar is to see it; it has as many bytes of UTF-8."""
        return self.pattern.sub(self._without, line) if self.mark in line else line

    def _without(self, found: re.Match[str]) -> str:
        text, end = "", found.start()
        for at in range(1, self.pattern.groups + 1):
            start, last = found.span(at)
            if start < end:
                continue  # a group that took no part
            hidden = len(found[at].encode("utf-8", "replace"))
            shown = self.instead if at == 1 else ""
            text += found.string[end:start] + shown + " " * (hidden - len(shown))
            end = last
        return text + found.string[end : found.end()]


@attrs.frozen
class Gaps:
    """The gaps of a wheel. wheel: its name and the version that was looked through."""

    wheel: str = ""
    rows: tuple[Gap, ...] = ()

    def read(self, line: str) -> str:
        """A line as the grammar is to see it, see `Gap.read`."""
        for row in self.rows:
            line = row.read(line)
        return line


NO_GAPS = Gaps()

_ACCESSOR = (
    r"(?:^|[{;])\s*(?:(?:public|private|protected|static|override|abstract|declare)\s+)*"
    r"(accessor)\s+[\w#\[\"']"
)
_FROM = r"\bfrom\s*(?:'[^']*'|\"[^\"]*\")\s*"

JAVASCRIPT = Gaps(
    "tree-sitter-javascript 0.25.0",
    (
        Gap("decorators proposal", "accessor", _ACCESSOR, "class A {\n  accessor x = 1;\n  f() {}\n}\n"),
        Gap(
            "ES2025",
            "export",
            rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})",
            "import a from './a';\nexport { default } from './b.json' with { type: 'json' };\na();\n",
        ),
        Gap(
            "before ES2025",
            "assert",
            rf"\b(?:import|export)\b.*{_FROM}(assert\s*\{{[^}}]*\}})",
            "import a from './a.json' assert { type: 'json' };\na();\n",
        ),
        Gap("ES proposal", "defer", r"\bimport\s+(defer)\s+\*", "import defer * as a from './a';\na.f();\n"),
    ),
)

TYPESCRIPT = Gaps(
    "tree-sitter-typescript 0.23.2",
    (
        Gap(
            "5.0",
            "type",
            r"\bexport\s+(type)\s+\*",
            "export type * from './a';\nexport type * as b from './b';\n",
        ),
        Gap(
            "2.9",
            "import(",
            r"(?<!\w)(import\(\s*(?:'[^']*'|\"[^\"]*\")\s*\)\s*\.)(?=\s*[\w.]+<)",
            "type A = import('./a').N.T<string>;\ntype B = Array<import('./a').T<A>>;\nlet a: A;\n",
        ),
        Gap(
            "4.7",
            "out",
            r"(?:^|[<,])\s*((?:in\s+)?out)\s+(?=\w+\s*(?:[,>=]|extends\b|$))",
            "interface P<out T> {\n  a: T;\n}\nclass R<in out T, out U = string> {}\n",
        ),
        Gap(
            "4.7",
            "in ",
            r"[<,]\s*(in)\s+(?=\w+\s*(?:[,>=]|extends\b))",
            "interface P<in T> {\n  a(b: T): void;\n}\ntype Q<in T> = (a: T) => void;\n",
        ),
        Gap("4.9", "accessor", _ACCESSOR, "class A {\n  static accessor x: number = 1;\n  f() {}\n}\n"),
        Gap(
            "5.3",
            "export",
            rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})",
            "export { a } from './a.json' with { type: 'json' };\nlet b = 1;\n",
        ),
        Gap(
            "4.9",
            "accessor",
            r"(?:^|[{;])\s*(accessor)\s*[?!]?:",
            "class A {\n  accessor: number;\n  f() {}\n}\n",
            "_",
        ),
        Gap(
            "4.3",
            "static",
            r"\b(static)\s+(?:readonly\s+)?(?=\[\w+\s*:)",
            "class A {\n  static [a: string]: number;\n  f() {}\n}\n",
        ),
        Gap(
            "2.0",
            "global",
            r"^\s*(global)\s*\{",
            "declare module 'a' {\n  global {\n    var b: string;\n  }\n}\n",
        ),
        Gap(
            "1.6",
            "abstract",
            r"(?:^|[{;])\s*(abstract)\s*\??:",
            "interface A {\n  abstract?: boolean;\n}\n",
            "_",
        ),
        Gap(
            "3.4",
            "keyof",
            r"\bkeyof\s+(readonly)\b",
            "type A = {\n  [K in keyof readonly any[]]?: boolean;\n};\n",
        ),
        Gap("5.9", "defer", r"\bimport\s+(defer)\s+\*", "import defer * as a from './a';\na.f();\n"),
        Gap(
            "5.2",
            "using",
            r"\bfor\s*(?:await\s*)?\(\s*((?:await\s+)?using)\s+\w+\s+of\b",
            "for (using a of b) {\n  a.f();\n}\n",
            "const",
        ),
    ),
)

JAVA = Gaps(
    "tree-sitter-java 0.23.5",
    (
        Gap(
            "25",
            "(",
            r"(?:^|[;{}])\s*(super|this)\s*\(",
            "class A extends B {\n  A(int a) {\n    check(a);\n    super(a);\n  }\n}\n",
            "size",
        ),
        Gap(
            "25",
            "module",
            r"^\s*import\s+(module)\s+[\w.]+\s*;",
            "import module java.base;\n\nclass A {}\n",
        ),
    ),
)

CSHARP = Gaps(
    "tree-sitter-c-sharp 0.23.5",
    (
        Gap(
            "14",
            "?.",
            r"(\?)(?=\.[\w.?]+(?:\[[^\]]*\])?\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))",
            "class A\n{\n    void F()\n    {\n        a?.B = 1;\n        a?.B.C += 2;\n    }\n}\n",
        ),
        Gap(
            "14",
            "?[",
            r"(\?)(?=\[[^\]]*\](?:\.\w+)*\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))",
            "class A\n{\n    void F()\n    {\n        a?[0] = 1;\n    }\n}\n",
        ),
        Gap(
            "14",
            "extension",
            r"^\s*(extension\s*(?:<[^>]*>)?\s*\([^()]*\))\s*(?:\{|where\b|$)",
            "static class A\n{\n    extension(string s)\n    {\n        public bool B => true;\n    }\n}\n",
            "class _",
        ),
        Gap(
            "13",
            "allows",
            r"[:,]\s*(allows\s+ref\s+struct)\b",
            "class A<T> where T : allows ref struct\n{\n}\n",
            "struct",
        ),
        Gap(
            "14",
            "operator",
            r"\boperator\s*(?:checked\s+)?(?:[-+*/%&|^]|<<|>>>?)(=)\s*\(",
            "class A\n{\n    public void operator +=(int x) { }\n}\n",
        ),
        Gap(
            "14",
            "=>",
            r"[(,]\s*(ref\s+readonly|scoped|ref|out|in)\s+(?=\w+\s*[,)][^=]*=>)",
            "class A\n{\n    void F()\n    {\n        H((ref a, out b) => b = a);\n    }\n}\n",
        ),
        Gap("14", "#:", r"^(#:)", "#:package A@1.0\nvar a = 1;\n", "//"),
    ),
)

GO = Gaps(
    "tree-sitter-go 0.25.0",
    (
        Gap(
            "1.26",
            "new(",
            # What follows is no type.
            r"(?<![\w.])(new)\((?=\s*(?!struct\b|interface\b|func\b|map\b|chan\b)"
            r"(?:[-+!^&\"'`\d]|[\w.]+\s*(?:[-+*/%&|^({<>!]|==|\[\d)))",
            'package a\n\nfunc f() {\n\tp := new(g(1))\n\tq := new(a + 1)\n\tr := new("a")\n\th(p, q)\n}\n',
            "min",
        ),
    ),
)

_BRACKETED = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]"

PYTHON = Gaps(
    "tree-sitter-python 0.25.0",
    (
        Gap(
            "3.13",
            "=",
            rf"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*(?=\[[^\]]*=)({_BRACKETED})",
            "class A[T = int]:\n    pass\n\n\ntype B[T = int, **P = [int]] = list[T]\nc = 1\n",
        ),
    ),
)

NEWER_PYTHON = (
    Gap("3.12", "type", rf"^\s*(type)\s+\w+\s*({_BRACKETED})?\s*=(?!=)", "type A[T] = list[T]\n", "0;"),
    Gap(
        "3.12",
        "[",
        rf"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*({_BRACKETED})",
        "def f[T](x: T) -> T:\n    pass\n",
    ),
    Gap(
        "3.12", "[", r"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*\[[^\]]*$", "def f[\n    T\n](x: T): ...\n"
    ),
    Gap(
        "3.12",
        "{",
        r"(?<!\w)(?:[fF][rR]?|[rR][fF])(?:\"[^{]*\{.*?[\"\\#].*\}|'[^{]*\{.*?['\\#].*\})",
        'x = f"{a["b"]}"\n',
    ),
    Gap(
        "3.14",
        "except",
        r"^\s*except\b\*?\s*([\w.]+(?:\s*,\s*[\w.]+)+)\s*:",
        "try:\n    pass\nexcept A, B:\n    pass\n",
        "_",
    ),
    Gap("3.14", "", r"(?<!\w)[rR]?([tT])[rR]?(?=['\"])", "x = t'a{b}'\n", "f"),
)
"""What Python has since a version. Python before it finds an error there. A row whose pattern has no group
is not read otherwise: an error on such a line is no sign."""

_CASES = Gap(
    "GNU, C2y",
    "...",
    r"\bcase\s+[^:;.]+(\.\.\.[^:;.]+):",
    "void f(int x) {\n  switch (x) {\n    case 1 ... 3:\n      break;\n  }\n}\n",
)

_LABEL = Gap(
    "C23, C++23",
    ":",
    r"^\s*(?!default\b|public\b|private\b|protected\b|signals\b|slots\b)[a-z_]\w*\s*(:)\s*$",
    "void f(int x) {\n  if (x)\n    goto out;\n  g(x);\nout:\n}\n",
    ";",
)

C = Gaps(
    "tree-sitter-c 0.24.2",
    (
        Gap("C23", "auto", r"\b(auto)\s+(?=\w+\s*=)", "void f(void) {\n  auto x = 1;\n  g(x);\n}\n", "int"),
        Gap(
            "C23",
            "enum",
            r"\benum\b[\w\s]*(:\s*[\w\s]+)(?=[{;])",
            "enum E : unsigned char {\n  A,\n};\n",
        ),
        Gap(
            "C23", "_BitInt", r"\b(_BitInt\s*\([^()]*\))", "int a;\nunsigned _BitInt(128) x;\nint b;\n", "int"
        ),
        Gap("C11", "_Atomic", r"\b(_Atomic\s*\()[\w\s*]+(\))", "int a;\n_Atomic(int) y;\nint b;\n"),
        Gap("C99", "_Complex", r"\b(_Complex)\b", "int a;\n_Complex double c;\nint b;\n"),
        Gap("C23", "[[", r"(\[\[[^\[\]]*\]\])", "struct [[gnu::packed]] S {\n  int x;\n};\n"),
        Gap("GNU", "goto", r"\b(goto\s*\*)", "void f(void) {\n  goto *a[x];\n  g(x);\n}\n"),
        Gap(
            "GNU",
            "__attribute__",
            r"^\s*(__attribute__\s*\(\(.*?\)\)\s*)(?=struct\b|union\b|enum\b)",
            "__attribute__((packed)) struct S {\n  int x;\n};\n",
        ),
        Gap(
            "GNU",
            "__builtin_offsetof",
            r"\b(__builtin_offsetof)\b",
            "int x = __builtin_offsetof(struct S, x);\nint y;\n",
            "offsetof",
        ),
        _CASES,
        _LABEL,
    ),
)

CPP = Gaps(
    "tree-sitter-cpp 0.23.4",
    (
        Gap(
            "C++23",
            "this",
            r"\(\s*(this)\s+(?!and\b|or\b|xor\b|not_eq\b|bitand\b|bitor\b)(?=[A-Za-z_])",
            "struct S {\n  template <typename T> void f(this T&& self) {\n  }\n  int x;\n};\n",
        ),
        Gap(
            "C++23",
            "consteval",
            r"\bif\s+((?:!\s*|not\s+)?consteval)\b",
            "void f() {\n  if consteval {\n    g();\n  }\n}\n",
            "(1)",
        ),
        Gap(
            "C++23",
            "]",
            r"\[[^\[\]]*\]\s*((?:(?:static|mutable|constexpr|consteval|noexcept)\s*)+(?:->\s*[\w:<>*&\s]+?)?"
            r"|->\s*[\w:<>*&\s]+?)\s*(?=\{)",
            "void f() {\n  auto g = [x] mutable { return x; };\n  auto h = [] -> int { return 1; };\n}\n",
        ),
        Gap("C++20", "module", r"^\s*((?:export\s+)?module\s+[\w.:]+)\s*;", "export module a.b;\n\nint x;\n"),
        Gap("C++20", "import", r"^\s*(export)\s+import\b", "export import a;\n\nint x;\n"),
        Gap("C++20", "export", r"^\s*(export)\s+(?!import\b|module\b)(?=\w)", "export int f();\n\nint x;\n"),
        Gap(
            "C++98",
            "template",
            r"^\s*((?:extern\s+)?template)\s+(?:class|struct)\b",
            "template <class T> class S {};\ntemplate class S<int>;\nextern template class S<char>;\n",
        ),
        Gap(
            "C++26", "delete", r"=\s*delete(\(\s*\"[^\"]*\"\s*\))", 'struct S {\n  S() = delete("why");\n};\n'
        ),
        Gap(
            "C++20",
            ":",
            r"^\s*[\w:\s]+\s:\s*\w+\s*(=[^=;][^;]*);",
            "struct S {\n  int x : 3 = 1;\n  int y;\n};\n",
        ),
        Gap("C++98", "->*", r"(->)\*(?=\w)", "void f() {\n  int x = (a->*b)(1);\n}\n"),
        Gap(
            "C++23",
            "static",
            r"\]\s*\([^()]*\)\s*(static)\b",
            "auto f = [](int x) static { return x; };\nint y;\n",
        ),
        Gap(
            "C++11",
            "template",
            r"^\s*(extern)\s+template\s+(?!class\b|struct\b)(?=\w)",
            "template <class T> void f(T x);\nextern template void f<int>(int);\n",
        ),
        Gap(
            "C++98",
            "::*",
            r"\(\s*((?:\w+(?:<[^<>]*>)?::)+)\*",
            "typedef void (S::*M)(int);\nint x;\n",
        ),
        Gap("C++98", "throw", r"[?:]\s*(throw)\b", "int f() {\n  return a ? b : throw c;\n}\n"),
        Gap(
            "C++23",
            "[[",
            r"(\[\[[^\[\]]*\]\])",
            "void f() {\n  auto g = [&] [[nodiscard]] (int x) { return x; };\n}\n",
        ),
        _CASES,
        _LABEL,
    ),
)

PHP = Gaps(
    "tree-sitter-php 0.25.1",
    (
        Gap("8.5", "(void)", r"^\s*(\(void\))", "<?php\n\nfunction f() {\n    (void) g();\n}\n"),
        Gap(
            "8.5",
            "final",
            r"[(,]\s*(final)\s+(?=[\w?\\|]+\s+\$)",
            "<?php\n\nclass A {\n    public function __construct(final int $x) {}\n}\n",
        ),
    ),
)

RUST = Gaps(
    "tree-sitter-rust 0.24.2",
    (
        Gap(
            "1.82",
            "safe",
            r"(?:^|[{;])\s*(?:pub(?:\([^)]*\))?\s+)?(safe)\s+(?:fn|static)\b",
            'unsafe extern "C" {\n    pub safe fn f(x: i32) -> i32;\n    safe static X: i32;\n}\n',
        ),
        Gap(
            "1.59",
            "..",
            r"\w\s*\{[^{}]*?(,\s*\.\.)\s*\}\s*=(?!=)",
            "fn f() {\n    S { x, .. } = d;\n    g(x);\n}\n",
        ),
        Gap("1.51", "-", r"[<,]\s*(-)(?=\d+\s*[,>])", "fn f() {\n    g::<-1>();\n    h();\n}\n"),
    ),
)

RUBY = Gaps(
    "tree-sitter-ruby 0.23.1",
    (
        Gap("1.9", "->", r"->\s*\([^();]*(;[^()]*)\)", "f = ->(x; y) { x }\nf.(1)\n"),
        Gap(
            "3.1",
            "def ",
            r"\bdef\s+[\w.]+[?!]?\s*(?:\([^()]*\))?\s*=\s*(?!(?:begin|case|if|not|unless|while|yield)\b)"
            # Its arguments, unless they go on below.
            r"[a-z_]\w*[?!]?(\s+[\w:\"'@](?:[^#()\[\]{}]|\([^()]*\)|\[[^\[\]]*\])*(?<![,|\s]))$",
            'class A\n  def f(x) = puts x, 1\n\n  def g = raise "a"\nend\n',
        ),
    ),
)
