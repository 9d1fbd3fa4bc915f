"""Calls, by the text of a line alone, and which functions of the same file they can mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from lsp_calib.languages import family_of
from lsp_calib.syntax.languages.rules import Function
from lsp_calib.text_lines import indentation_of

_CALL = re.compile(r"(?<![\w$])([^\W\d][\w$]*)\s*\(")
# What may stand before the dot of a call to a method of the same object; `super()` is of another class.
_OWN = re.compile(r"(?:^|[^\w$.])(?:self|cls|\$?this|Self|static)\s*(?:\.|->|::)\s*$")
_OTHER = re.compile(r"(?:\.|->|::)\s*$")
# A line that holds methods, and the words with which a function is declared that is none.
_CLASS = re.compile(
    r"\s*(?:(?:abstract|default|export|final|pub(?:\([^)]*\))?|readonly|unsafe)\s+)*"
    r"(?:class|enum|impl|interface|trait)\b"
)
# Lines that hold nothing: empty ones, comments, attributes, the end of a heading over several lines.
_BESIDE = re.compile(r"\s*(?:$|[{)\]#]|//|/?\*|where\b)")
_MODIFIERS = (
    r"\s*(?:(?:abstract|accessor|async|get|override|private|protected|public|readonly|set|static)\s+|\*\s*)*"
)
_GO_METHOD = re.compile(r"\s*func\s*\(")


@attrs.frozen
class Call:
    """A call in a line. span: of the name, (start, end), in code points. bare: nothing stands before it that
    it is called on."""

    name: str
    span: tuple[int, int]
    bare: bool


def call_at(text: str, column: int) -> Call | None:
    """The call whose name is at a column of a line; None if none is.

    A method counts only if it is called on its own object: `items.append(` is not the `append` of this file.
    """
    for call in _CALL.finditer(text):
        start, end = call.span(1)
        if start <= column <= end:
            before = text[:start]
            bare = not _OTHER.search(before)
            return Call(call[1], (start, end), bare) if bare or _OWN.search(before) else None
    return None


def may_mean(call: Call, function: Function, lines: Sequence[str], language: str) -> bool:
    """Whether a call can be one of a function of the same file, by its name and by what it is called on.

    In most languages a method has to be called on something: a bare `open(path)` is not `Store.open`.
    """
    if call.name != function.name:
        return False
    return not call.bare or not _needs_object(function, lines, language)


def _needs_object(function: Function, lines: Sequence[str], language: str) -> bool:
    first = lines[function.start]
    match family_of(language):
        case "go":
            return bool(_GO_METHOD.match(first))
        case "javascript" | "typescript":
            heading = re.match(rf"{_MODIFIERS}{re.escape(function.name)}\s*([(<:=])", first)
            if heading is not None and heading[1] == "=":
                return bool(_CLASS.match(_holder(function, lines)))
            return heading is not None
        case "python" | "rust" | "php":
            return bool(_CLASS.match(_holder(function, lines)))
    return False  # in Java, C++, C# and Ruby a method may call another one by its name alone


def _holder(function: Function, lines: Sequence[str]) -> str:
    """The line that the function stands below, by indentation; "" if it stands at the outermost level."""
    deep = len(indentation_of(lines[function.start]))
    if not deep:
        return ""
    for at in range(function.start - 1, -1, -1):
        line = lines[at]
        if not _BESIDE.match(line) and len(indentation_of(line)) < deep:
            return line
    return ""
