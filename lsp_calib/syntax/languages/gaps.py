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
    group, no longer than that.
    """

    since: str
    mark: str
    pattern: re.Pattern[str] = attrs.field(converter=_compiled)
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
        Gap("decorators proposal", "accessor", _ACCESSOR),
        Gap("ES2025", "export", rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})"),
        Gap("before ES2025", "assert", rf"\b(?:import|export)\b.*{_FROM}(assert\s*\{{[^}}]*\}})"),
        Gap("ES proposal", "defer", r"\bimport\s+(defer)\s+\*"),
    ),
)

TYPESCRIPT = Gaps(
    "tree-sitter-typescript 0.23.2",
    (
        Gap("5.0", "type", r"\bexport\s+(type)\s+\*"),
        Gap("2.9", "import(", r"(?<!\w)(import\(\s*(?:'[^']*'|\"[^\"]*\")\s*\)\s*\.)(?=\s*[\w.]+<)"),
        Gap("4.7", "out", r"(?:^|[<,])\s*((?:in\s+)?out)\s+(?=\w+\s*(?:[,>=]|extends\b|$))"),
        Gap("4.7", "in ", r"[<,]\s*(in)\s+(?=\w+\s*(?:[,>=]|extends\b))"),
        Gap("4.9", "accessor", _ACCESSOR),
        Gap("5.3", "export", rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})"),
        Gap("4.9", "accessor", r"(?:^|[{;])\s*(accessor)\s*[?!]?:", "_"),
        Gap("4.3", "static", r"\b(static)\s+(?:readonly\s+)?(?=\[\w+\s*:)"),
        Gap("2.0", "global", r"^\s*(global)\s*\{"),
        Gap("1.6", "abstract", r"(?:^|[{;])\s*(abstract)\s*\??:", "_"),
        Gap("3.4", "keyof", r"\bkeyof\s+(readonly)\b"),
        Gap("5.9", "defer", r"\bimport\s+(defer)\s+\*"),
        Gap("5.2", "using", r"\bfor\s*(?:await\s*)?\(\s*((?:await\s+)?using)\s+\w+\s+of\b", "const"),
    ),
)

JAVA = Gaps(
    "tree-sitter-java 0.23.5",
    (
        Gap("25", "(", r"(?:^|[;{}])\s*(super|this)\s*\(", "size"),
        Gap("25", "module", r"^\s*import\s+(module)\s+[\w.]+\s*;"),
    ),
)

CSHARP = Gaps(
    "tree-sitter-c-sharp 0.23.5",
    (
        Gap("14", "?.", r"(\?)(?=\.[\w.?]+(?:\[[^\]]*\])?\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))"),
        Gap("14", "?[", r"(\?)(?=\[[^\]]*\](?:\.\w+)*\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))"),
        Gap("14", "extension", r"^\s*(extension\s*(?:<[^>]*>)?\s*\([^()]*\))\s*(?:\{|where\b|$)", "class _"),
        Gap("13", "allows", r"[:,]\s*(allows\s+ref\s+struct)\b", "struct"),
        Gap("14", "operator", r"\boperator\s*(?:checked\s+)?(?:[-+*/%&|^]|<<|>>>?)(=)\s*\("),
        Gap("14", "=>", r"[(,]\s*(ref\s+readonly|scoped|ref|out|in)\s+(?=\w+\s*[,)][^=]*=>)"),
        Gap("14", "#:", r"^(#:)", "//"),
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
            "min",
        ),
    ),
)

_BRACKETED = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]"

PYTHON = Gaps(
    "tree-sitter-python 0.25.0",
    (Gap("3.13", "=", rf"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*(?=\[[^\]]*=)({_BRACKETED})"),),
)

NEWER_PYTHON = (
    Gap("3.12", "type", rf"^\s*(type)\s+\w+\s*({_BRACKETED})?\s*=(?!=)", "0;"),
    Gap("3.12", "[", rf"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*({_BRACKETED})"),
    Gap("3.12", "[", r"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*\[[^\]]*$"),
    Gap("3.12", "{", r"(?<!\w)(?:[fF][rR]?|[rR][fF])(?:\"[^{]*\{.*?[\"\\#].*\}|'[^{]*\{.*?['\\#].*\})"),
    Gap("3.14", "except", r"^\s*except\b\*?\s*([\w.]+(?:\s*,\s*[\w.]+)+)\s*:", "_"),
    Gap("3.14", "", r"(?<!\w)[rR]?([tT])[rR]?(?=['\"])", "f"),
)
"""What Python has since a version. Python before it finds an error there. A row whose pattern has no group
is not read otherwise: an error on such a line is no sign."""

_CASES = Gap("GNU, C2y", "...", r"\bcase\s+[^:;.]+(\.\.\.[^:;.]+):")

_LABEL = Gap(
    "C23, C++23",
    ":",
    r"^\s*(?!default\b|public\b|private\b|protected\b|signals\b|slots\b)[a-z_]\w*\s*(:)\s*$",
    ";",
)

C = Gaps(
    "tree-sitter-c 0.24.2",
    (
        Gap("C23", "auto", r"\b(auto)\s+(?=\w+\s*=)", "int"),
        Gap("C23", "enum", r"\benum\b[\w\s]*(:\s*[\w\s]+)(?=[{;])"),
        Gap("C23", "_BitInt", r"\b(_BitInt\s*\([^()]*\))", "int"),
        Gap("C11", "_Atomic", r"\b(_Atomic\s*\()[\w\s*]+(\))"),
        Gap("C99", "_Complex", r"\b(_Complex)\b"),
        Gap("C23", "[[", r"(\[\[[^\[\]]*\]\])"),
        Gap("GNU", "goto", r"\b(goto\s*\*)"),
        Gap("GNU", "__attribute__", r"^\s*(__attribute__\s*\(\(.*?\)\)\s*)(?=struct\b|union\b|enum\b)"),
        Gap("GNU", "__builtin_offsetof", r"\b(__builtin_offsetof)\b", "offsetof"),
        _CASES,
        _LABEL,
    ),
)

CPP = Gaps(
    "tree-sitter-cpp 0.23.4",
    (
        Gap("C++23", "this", r"\(\s*(this)\s+(?!and\b|or\b|xor\b|not_eq\b|bitand\b|bitor\b)(?=[A-Za-z_])"),
        Gap("C++23", "consteval", r"\bif\s+((?:!\s*|not\s+)?consteval)\b", "(1)"),
        Gap(
            "C++23",
            "]",
            r"\[[^\[\]]*\]\s*((?:(?:static|mutable|constexpr|consteval|noexcept)\s*)+(?:->\s*[\w:<>*&\s]+?)?"
            r"|->\s*[\w:<>*&\s]+?)\s*(?=\{)",
        ),
        Gap("C++20", "module", r"^\s*((?:export\s+)?module\s+[\w.:]+)\s*;"),
        Gap("C++20", "import", r"^\s*(export)\s+import\b"),
        Gap("C++20", "export", r"^\s*(export)\s+(?!import\b|module\b)(?=\w)"),
        Gap("C++98", "template", r"^\s*((?:extern\s+)?template)\s+(?:class|struct)\b"),
        Gap("C++26", "delete", r"=\s*delete(\(\s*\"[^\"]*\"\s*\))"),
        Gap("C++20", ":", r"^\s*[\w:\s]+\s:\s*\w+\s*(=[^=;][^;]*);"),
        Gap("C++98", "->*", r"(->)\*(?=\w)"),
        Gap("C++23", "static", r"\]\s*\([^()]*\)\s*(static)\b"),
        Gap("C++11", "template", r"^\s*(extern)\s+template\s+(?!class\b|struct\b)(?=\w)"),
        Gap("C++98", "::*", r"\(\s*((?:\w+(?:<[^<>]*>)?::)+)\*"),
        Gap("C++98", "throw", r"[?:]\s*(throw)\b"),
        Gap("C++23", "[[", r"(\[\[[^\[\]]*\]\])"),
        _CASES,
        _LABEL,
    ),
)

PHP = Gaps(
    "tree-sitter-php 0.25.1",
    (
        Gap("8.5", "(void)", r"^\s*(\(void\))"),
        Gap("8.5", "final", r"[(,]\s*(final)\s+(?=[\w?\\|]+\s+\$)"),
    ),
)

RUST = Gaps(
    "tree-sitter-rust 0.24.2",
    (
        Gap("1.82", "safe", r"(?:^|[{;])\s*(?:pub(?:\([^)]*\))?\s+)?(safe)\s+(?:fn|static)\b"),
        Gap("1.59", "..", r"\w\s*\{[^{}]*?(,\s*\.\.)\s*\}\s*=(?!=)"),
        Gap("1.51", "-", r"[<,]\s*(-)(?=\d+\s*[,>])"),
    ),
)

RUBY = Gaps(
    "tree-sitter-ruby 0.23.1",
    (
        Gap("1.9", "->", r"->\s*\([^();]*(;[^()]*)\)"),
        Gap(
            "3.1",
            "def ",
            r"\bdef\s+[\w.]+[?!]?\s*(?:\([^()]*\))?\s*=\s*(?!(?:begin|case|if|not|unless|while|yield)\b)"
            # Its arguments, unless they go on below.
            r"[a-z_]\w*[?!]?(\s+[\w:\"'@](?:[^#()\[\]{}]|\([^()]*\)|\[[^\[\]]*\])*(?<![,|\s]))$",
        ),
    ),
)
