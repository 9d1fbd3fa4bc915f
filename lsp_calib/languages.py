"""Languages by the names that editors use: of a file, and which of them get completions. Pure."""

from __future__ import annotations

import functools
import re
from pathlib import PurePath

_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".sh", ".bash"), "shellscript"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".htm", ".html"), "html"),
    **dict.fromkeys((".ex", ".exs"), "elixir"),
    **dict.fromkeys((".pl", ".pm"), "perl"),
    ".jsx": "javascriptreact",
    ".tsx": "typescriptreact",
    ".rs": "rust",
    ".go": "go",
    ".java": "java",
    ".kt": "kotlin",
    ".scala": "scala",
    ".swift": "swift",
    ".cs": "csharp",
    ".rb": "ruby",
    ".php": "php",
    ".lua": "lua",
    ".hs": "haskell",
    ".r": "r",
    ".jl": "julia",
    ".zig": "zig",
    ".dart": "dart",
    ".sql": "sql",
    ".css": "css",
    ".scss": "scss",
    ".json": "json",
    ".toml": "toml",
}


def suffix_of(language: str) -> str:
    """How the name of a file of a language most often ends; "" if that is not known.

    >>> suffix_of("python"), suffix_of("klingon")
    ('.py', '')
    """
    return next((suffix for suffix, one in _BY_SUFFIX.items() if one == language), "")


_NAMES = {
    "c": "C",
    "cpp": "C++",
    "csharp": "C#",
    "go": "Go",
    "java": "Java",
    "javascript": "JavaScript",
    "javascriptreact": "JavaScript with JSX",
    "php": "PHP",
    "python": "Python",
    "ruby": "Ruby",
    "rust": "Rust",
    "typescript": "TypeScript",
    "typescriptreact": "TypeScript with JSX",
}


_FAMILY = {"javascriptreact": "javascript", "typescriptreact": "typescript"}


def family_of(language: str) -> str:
    """The language that it is a dialect of, or itself: functions of one are examples for the other, and what
    is known of one language's lines goes for its dialects.

    >>> family_of("typescriptreact"), family_of("go")
    ('typescript', 'go')
    """
    return _FAMILY.get(language, language)


def name_of(language: str) -> str:
    """The name of a language, by its identifier, as people write it.

    >>> name_of("cpp"), name_of("zig")
    ('C++', 'zig')
    """
    return _NAMES.get(language, language)


_LINE_COMMENTS = {
    **dict.fromkeys(
        (
            *("python", "ruby", "shellscript", "fish", "powershell", "perl", "perl6", "elixir", "r", "julia"),
            *("yaml", "dockercompose", "toml", "dockerfile", "makefile", "cmake", "nim", "nix", "crystal"),
            *("terraform", "hcl", "graphql", "gdscript", "coffeescript", "tcl", "awk", "starlark", "bazel"),
        ),
        "#",
    ),
    **dict.fromkeys(
        (
            *("c", "cpp", "csharp", "go", "java", "javascript", "php", "rust", "typescript", "kotlin"),
            *("scala", "swift", "dart", "zig", "groovy", "objective-c", "objective-cpp", "fsharp"),
            *("jsonc", "json5"),
            *("scss", "less", "proto", "proto3", "solidity", "glsl", "hlsl", "wgsl", "cuda", "cuda-cpp", "v"),
            *("verilog", "systemverilog", "d", "odin", "gleam", "haxe"),
        ),
        "//",
    ),
    **dict.fromkeys(("lua", "luau", "sql", "haskell", "elm", "purescript", "ada", "vhdl"), "--"),
    **dict.fromkeys(("clojure", "lisp", "commonlisp", "scheme", "racket", "emacs-lisp"), ";"),
    **dict.fromkeys(("erlang", "matlab", "octave", "prolog"), "%"),
    "css": "/*",
}


def line_comment(language: str) -> str:
    """What a comment begins with that a line begins with; "" if that is not known. language: an identifier.

    >>> line_comment("shellscript"), line_comment("typescriptreact"), line_comment("klingon")
    ('#', '//', '')
    """
    return _LINE_COMMENTS.get(family_of(language), "")


# What editors send instead of the protocol's identifiers: the name of a mode in Emacs, a file type in Vim and
# Neovim, a language's own name in Helix and Zed.
_ALIASES = {
    **dict.fromkeys(("py", "python-base", "python3"), "python"),
    **dict.fromkeys(("js", "js2", "js3", "js-base"), "javascript"),
    **dict.fromkeys(("jsx", "js-jsx", "javascript.jsx", "rjsx"), "javascriptreact"),
    **dict.fromkeys(("ts", "typescript-ts-base"), "typescript"),
    **dict.fromkeys(("tsx", "typescript.tsx"), "typescriptreact"),
    **dict.fromkeys(("cs", "c#", "c-sharp"), "csharp"),
    **dict.fromkeys(("sh", "bash", "shell-script"), "shellscript"),
    "c++": "cpp",
    "rustic": "rust",
    "enh-ruby": "ruby",
    "cperl": "perl",
}


def identifier_of(name: str) -> str:
    """The identifier of the Language Server Protocol for a language as an editor names it; other names stay.

    >>> identifier_of("c++"), identifier_of("C#"), identifier_of("python"), identifier_of("Elm")
    ('cpp', 'csharp', 'python', 'Elm')
    >>> identifier_of("Shell Script"), identifier_of("Git Commit")
    ('shellscript', 'git-commit')
    """
    lower = name.lower().replace(" ", "-")  # such as "Shell Script", "Git Commit"
    if lower in _ALIASES:
        return _ALIASES[lower]
    return lower if lower in _NAMES or lower in PLAIN else name


_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#._-]{0,39}")


def bounded(language: str) -> str:
    """A language identifier as it is kept; "other" for what looks like none.

    An editor may send any text as a language, at any length.

    >>> bounded("objective-c++"), bounded("x" * 41), bounded("a b")
    ('objective-c++', 'other', 'other')
    """
    return language if _IDENTIFIER.fullmatch(language) else "other"


# Prose and data without a syntax: a completion of code is seldom wanted there.
PLAIN = frozenset(
    (
        *("plaintext", "text", "log", "markdown", "mdx", "quarto", "restructuredtext", "rst", "asciidoc"),
        *("org", "scminput", "diff", "patch", "search-result"),
        *("latex", "tex", "bibtex", "typst", "norg", "vimwiki", "help", "mail", "csv", "tsv"),
        *("plaintex", "context", "rmd", "rmarkdown", "pandoc", "gfm", "djot", "rtf"),
        *("hgcommit", "jjdescription", "jj-commit", "svn", "svn-commit", "gitsendemail", "commit-message"),
        *("git-commit", "gitcommit", "git-rebase", "gitrebase"),
        *("prompt", "instructions", "chatagent", "skill"),  # of VS Code, for language models
    )
)
ANY = "*"


def is_choice(text: str) -> bool:
    """Whether a text can be an entry of the setting `languages`."""
    return text == ANY or _IDENTIFIER.fullmatch(text) is not None


@functools.lru_cache(maxsize=64)  # asked at every keystroke
def is_chosen(language: str, chosen: tuple[str, ...]) -> bool:
    """Whether a language gets completions. language: an identifier. chosen: the setting `languages`.

    >>> is_chosen("python", ("*",)), is_chosen("markdown", ("*",)), is_chosen("markdown", ("*", "markdown"))
    (True, False, True)
    >>> is_chosen("cpp", ("c++",))
    True
    """
    return language in map(identifier_of, chosen) or (ANY in chosen and language not in PLAIN)


def language_of(path: PurePath) -> str:
    """The language identifier of the Language Server Protocol, by the file's name.

    >>> language_of(PurePath("a.PY")), language_of(PurePath("a"))
    ('python', 'plaintext')
    """
    return _BY_SUFFIX.get(path.suffix.lower(), "plaintext")
