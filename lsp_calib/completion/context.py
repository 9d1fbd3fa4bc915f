"""The cursor: the document around it that the model sees, its place, and where it will be next. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.errors import DataError
from lsp_calib.syntax.magics import CommandLine

# The window begins at a multiple of this many lines and so moves in blocks: while it does not move, every
# earlier token of the prompt is unchanged, and the model's cache stays valid.
_BLOCK = 16
# Editors write brackets and quotes behind the cursor as they are opened; a statement's end may stand behind.
_CLOSERS_BEHIND = re.compile(r"""[)\]}"'`][)\]}"'`\s]*[;,]?""")
# A string of several lines may end there, far below what is written before it.
_LONG_STRING = ('"""', "'''", "```")


def _known(compute: Callable[[Any], Any]) -> Any:
    """A field that follows from the others: it is read dozens of times at each key."""
    return attrs.field(init=False, eq=False, repr=False, default=attrs.Factory(compute, takes_self=True))


@attrs.frozen
class Cursor:
    """A place in a document.

    lines: without line ends. line: from 0. column: in code points, from 0.
    language: an LSP language identifier. first: the line with which the editor's document begins, which is
    all of `lines` unless it is a cell of a notebook. own_line: the line in the editor's document, from 0.
    before, after: the line up to the cursor, and from it on.
    """

    lines: Sequence[str]
    line: int
    column: int
    language: str = "plaintext"
    first: int = 0
    own_line: int = _known(lambda cursor: cursor.line - cursor.first)
    before: str = _known(lambda cursor: cursor.lines[cursor.line][: cursor.column])
    after: str = _known(lambda cursor: cursor.lines[cursor.line][cursor.column :])

    @classmethod
    def at(
        cls, lines: Sequence[str], line: int, column: int, language: str = "plaintext", first: int = 0
    ) -> Cursor:
        """A cursor within the document. Raises DataError if there is no such line.

        A column beyond the line's end means its end, as in LSP.
        """
        if not 0 <= line < len(lines):
            raise DataError(f"There is no line {line + 1}: the document has {len(lines)}.")
        return cls(lines, line, min(max(column, 0), len(lines[line])), language, first)

    def without_closers_behind(self) -> Cursor:
        """The cursor at the end of its line, without what stands there if that `only_closes`.

        Editors write closers as the opener is typed: they say nothing of how the line goes on.
        """
        if not only_closes(self.after):
            return self
        return self.in_line(self.before, self.column)

    def without_before(self, length: int) -> Cursor:
        """The cursor where so many characters before it are not there."""
        column = self.column - length
        return self.in_line(self.before[:column] + self.after, column)

    def in_line(self, text: str, column: int) -> Cursor:
        """The cursor at a column of another text of its line. A command stays one."""
        line = self.lines[self.line]
        if isinstance(line, CommandLine):
            text = CommandLine.reading(text, line.code)
        lines = (*self.lines[: self.line], text, *self.lines[self.line + 1 :])
        return attrs.evolve(self, lines=lines, column=column)


def text_above(cursor: Cursor, most: int) -> str:
    """At most about `most` characters of whole lines above the cursor's, each with its newline."""
    most = max(most, 1)
    start = _window_start(cursor, most)
    text = "".join(line + "\n" for line in cursor.lines[start : cursor.line])
    return text[-most:]


def text_below(cursor: Cursor, most: int) -> str:
    """The rest of the cursor's line, then at most about `most` characters of the lines below."""
    pieces = [cursor.after[:most]]
    used = len(pieces[0])
    # No slice: it would copy the rest of a long document.
    for at in range(cursor.line + 1, len(cursor.lines)):
        line = cursor.lines[at]
        used += len(line) + 1
        if used > most:
            break
        pieces.append(line)
    return "\n".join(pieces)


def only_closes(rest: str) -> bool:
    """Whether the rest of a line is closing brackets and quotes, also with one `;` or `,` behind them.

    >>> only_closes(")"), only_closes(" }) ;"), only_closes(") {"), only_closes("")
    (True, True, False, False)
    """
    rest = rest.strip()
    return _CLOSERS_BEHIND.fullmatch(rest) is not None and not any(mark in rest for mark in _LONG_STRING)


def _window_start(cursor: Cursor, most: int) -> int:
    first = cursor.line
    used = 0
    while first > 0:
        used += len(cursor.lines[first - 1]) + 1
        if used > most:
            break
        first -= 1
    if first == 0:
        return 0
    block = -(-first // _BLOCK) * _BLOCK
    # Very long lines: fewer than a block fit, and a window that moves is better than an empty one.
    return block if block < cursor.line else first


# No line of source that anybody types has so many characters.
_LONGEST_LINE = 1000
# In a line from this length on, the characters around the cursor are looked at, so many on either side.
_LONG_LINE = 200
_AROUND = 200
# Of these, fewer are spaces in minified and generated code, and fewer belong to words in rows of numbers.
_FEWEST_SPACES = 0.05
_FEWEST_WORDS = 0.1
# A literal from this length on, within one line.
_LONG_LITERAL = 200
# So many rows of a table stand right above and below the cursor's line. Small matrices are typed by people.
_ROWS = 8
# A row of a table has at least this share of its characters in numbers, and at most this one in words.
_NUMBERS = 0.25
_ROW_WORDS = 0.1
_SHORTEST_ROW = 5
# Encoded bytes: so many characters without a break, of which at least this share are digits. The entropy, in
# bits a character, tells them from long names: it is up to 4.3 there, and 4.9 on average in base64.
_ENCODED = 40
_ENCODED_DIGITS = 0.05
_BASE64_ENTROPY = 4.6
_HEX_ENTROPY = 3.0

_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)|' r"'(?:[^'\\]|\\.)*(?:'|$)|" r"`(?:[^`\\]|\\.)*(?:`|$)")
_WORD = re.compile(r"[^\W\d_]{4,}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|\\[uUxN]\{?[0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_COMMENT = re.compile(r"(?:#|//|/\*|\*|--)")
_LAST_COMMENT = re.compile(r"\s(?:#|//|/\*).*")
# Base64 in either alphabet; a path has signs of both.
_UNBROKEN = re.compile(rf"[A-Za-z0-9+/=]{{{_ENCODED},}}|[A-Za-z0-9_=-]{{{_ENCODED},}}")
_HEX = re.compile(r"[0-9a-fA-F]+")


def in_data(cursor: Cursor) -> bool:
    """Whether `cursor` is inside data: encoded bytes, minified code, a generated table, a long literal.

    Nobody types there, an answer is hardly ever right, and its prompt has several times as many tokens as one
    of code. So nothing is asked by itself there; a request by hand gets an answer. Takes microseconds,
    whatever the document.
    """
    line = cursor.lines[cursor.line]
    if len(line) >= _LONGEST_LINE:
        return True
    if len(line) >= _LONG_LINE and (_is_dense(line, cursor.column) or _in_literal(line, cursor.column)):
        return True
    return _in_encoded(line, cursor.column) or _in_table(cursor)


def _is_dense(line: str, column: int) -> bool:
    around = line[max(column - _AROUND, 0) : column + _AROUND].strip()
    words = sum(map(len, _WORD.findall(around)))
    return sum(map(str.isspace, around)) < _FEWEST_SPACES * len(around) or words < _FEWEST_WORDS * len(around)


def _in_literal(line: str, column: int) -> bool:
    """Whether the cursor is inside a long literal. One over several lines is text, as a documentation is; in
    a comment quotes are apostrophes."""
    return not _COMMENT.match(line.lstrip()) and any(
        match.start() < column < match.end() or (match.start() < column == len(line) == match.end())
        for match in _LITERAL.finditer(line)
        if match.end() - match.start() >= _LONG_LITERAL
    )


def _in_encoded(line: str, column: int) -> bool:
    if len(line) < _ENCODED:
        return False
    runs = (match for match in _UNBROKEN.finditer(line) if match.start() <= column <= match.end())
    return any(_is_encoded(match.group()) for match in runs)


def _is_encoded(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    if digits < _ENCODED_DIGITS * len(run):
        return False
    return _entropy(run) >= (_HEX_ENTROPY if _HEX.fullmatch(run) else _BASE64_ENTROPY)


def _entropy(text: str) -> float:
    """In bits a character."""
    counts = Counter(text).values()
    return math.log2(len(text)) - sum(n * math.log2(n) for n in counts) / len(text)


def _in_table(cursor: Cursor) -> bool:
    lines, at = cursor.lines, cursor.line
    rows = _rows(lines[above] for above in range(at - 1, max(at - 1 - _ROWS, -1), -1))
    if rows < _ROWS:
        rows += _rows(lines[below] for below in range(at + 1, min(at + 1 + _ROWS, len(lines))))
    return rows >= _ROWS and not _WORD.search(_NUMBER.sub("", lines[at]))


def _rows(lines: Iterable[str]) -> int:
    """How many lines are rows of a table, up to the first that is not."""
    return sum(1 for _ in itertools.takewhile(_is_row, lines))


def _is_row(line: str) -> bool:
    bare = _LAST_COMMENT.sub("", line[:_LONGEST_LINE]).strip()
    if len(bare) < _SHORTEST_ROW:
        return False
    if any(map(_is_encoded, _UNBROKEN.findall(bare))):
        return True
    solid = len("".join(bare.split()))
    numbers = sum(map(len, _NUMBER.findall(bare)))
    words = sum(map(len, _WORD.findall(_NUMBER.sub("", bare))))
    return numbers >= _NUMBERS * solid and words <= _ROW_WORDS * solid


# After one of these, as the line's last character, common editors indent the next line further.
_OPENS = (":", "{", "(", "[")
# After one of these, as the line's first word, editors for Python indent the next line less.
_LEAVES = ("return", "raise", "pass", "break", "continue")
# So many lines above tell how wide a level of indentation is.
_LOOKED_AT = 200
_LEVEL = 4
_WIDEST = 8


def next_place(lines: Sequence[str], line: int, language: str) -> Cursor:
    """The document and the cursor after Enter at the end of a line, with the indentation that an editor is
    most likely to put there.

    lines: without their ends. line: from 0. Raises IndexError if there is no such line.
    """
    text = lines[line]
    indentation = indentation_of(text)
    end = text.rstrip()
    words = end.split(maxsplit=1)
    # A colon opens a block in Python; elsewhere it follows a label, a key or a type.
    if end.endswith(_OPENS) and (language == "python" or not end.endswith(":")):
        indentation += _level(lines, line)
    elif language == "python" and words and words[0].rstrip(";") in _LEAVES:
        indentation = indentation.removesuffix(_level(lines, line))
    below = [*lines[: line + 1], indentation, *lines[line + 1 :]]
    return Cursor(below, line + 1, len(indentation), language)


def _level(lines: Sequence[str], line: int) -> str:
    """One level of indentation, as it is in the lines above."""
    inner = ""
    for at in range(line, max(line - _LOOKED_AT, -1), -1):
        text = lines[at]
        if not text.strip():
            continue
        outer = indentation_of(text)
        deeper = inner.removeprefix(outer)
        if (
            inner != outer
            and inner.startswith(outer)
            and (set(deeper) == {"\t"} or 2 <= len(deeper) <= _WIDEST)
        ):
            return "\t" if "\t" in deeper else deeper
        inner = outer
    return "\t" if inner.startswith("\t") else " " * _LEVEL
