"""What may be written below a line that opens something, imagined as short as can be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

from lsp_calib.syntax.languages import LanguageRules
from lsp_calib.syntax.languages.braces import BRACKETS

# Deeper than the line that opens a block.
_DEEPER = "    "
_OPERATORS = frozenset(
    {"=", "+=", "-=", ":=", "=>", "->", "?", "??", "||", "&&", "and", "or", "not", "in", "is"}
    | {"+", "-", "*", "/", "%", "&", "^", "==", "!=", "===", "!==", "<", "<=", ">="}
)
_GOING_ON = _OPERATORS | {",", "|"}
# In a body a call without its semicolon could be taken for the head of a function.
_BODIES = frozenset({"block", "compound_statement", "statement_block"})
_WITH_BLOCK = frozenset(
    {"if", "else", "for", "foreach", "while", "do", "switch", "try", "catch", "finally", "match", "loop"}
)
_TYPE = re.compile(r"\b(?:class|enum|struct|union)\b")
# Without any of these it is a declaration that lacks its semicolon, for which grammars take braces as well.
_HEAD = re.compile(r"[()]|\b(?:class|enum|impl|interface|mod|namespace|record|struct|trait|union)\b")
_QUOTES = ("'", '"')
_FIRST_WORD = re.compile(r"\W*(\w*)")
# The last tag of a line that ends with it, or with some of its attributes.
_TAG = re.compile(r"(?:^|[\s(>])<([\w.:-]*)(?:\s[^<]*?)?(?<!/)(>?)\s*$")


@attrs.frozen
class Opening:
    """A line, and what it may open.

    last: the type of its last leaf of code. held_by: those of the nodes that hold this. before: what closes
    what is open above the line, the innermost first; missing: what closes this and what the line opens.
    """

    line: str
    last: str
    held_by: frozenset[str]
    missing: tuple[str, ...]
    before: tuple[str, ...]

    @property
    def opened(self) -> tuple[str, ...]:
        """The closers for what this line opens; nothing if it closes something from above."""
        closes_nothing = _ends_with(self.missing, self.before)
        return self.missing[: len(self.missing) - len(self.before)] if closes_nothing else ()

    @property
    def word(self) -> str:
        """Its first one, such as `if`."""
        found = _FIRST_WORD.match(self.line)
        return found[1] if found else ""

    @property
    def outer(self) -> tuple[str, ...]:
        return self.missing[len(self.opened) :]

    def closed(self, end: str = "") -> str:
        """The closers of what the line opens, then `end`, then those of what is open above."""
        return " ".join(filter(None, (*self.opened, end, *self.outer)))

    def chosen(self) -> str:
        """What closes an expression behind a question mark, and the other one."""
        first, *others = self.opened or ("",)
        return " ".join(filter(None, (first, ": _", *others, "" if others else ";", *self.outer)))


def continuations(opening: Opening, rules: LanguageRules) -> Iterator[str]:
    """What may be written below a line, the likeliest first; nothing if it does not go on there.

    Each with the indentation of the line; some have two lines.
    """
    last = opening.last
    if not opening.missing and last in rules.block_openings:
        body = _DEEPER + (rules.body.get(opening.word) or rules.body[""])
        yield "\n".join(filter(None, (body, rules.finishes.get(opening.word))))
        return
    for definition in _marked(opening.line, rules):
        yield "\n".join(filter(None, (" ".join(opening.missing), definition)))
    if rules.tags:
        yield from _tags(opening)
    if rules.braces_below and not opening.missing:
        yield from _braces(opening)
    # Where indentation says where blocks are, a line goes on within brackets alone.
    if not opening.missing and (rules.block_openings or last not in _GOING_ON):
        return
    if not _goes_on(opening, rules.brackets or BRACKETS):
        return
    ends = list(_closings(opening, rules))
    for inside in _fillings(opening, rules):
        for end in ends:
            yield f"{inside} {end}".strip()


def _goes_on(opening: Opening, brackets: Mapping[str, str]) -> bool:
    """Whether a line that leaves brackets open ends where they go on below: after one, after a comma or an
    operator, after the parameters of a block, or after what a word opens. One that opens none does anywhere
    in what is open above."""
    last = opening.last
    if not opening.opened:
        return _ends_with(opening.before, opening.missing)
    return last in brackets or last in _GOING_ON or opening.opened[0].isalpha()


def _fillings(opening: Opening, rules: LanguageRules) -> Iterator[str]:
    """What may be written below a line before what it opens is closed."""
    last = opening.last
    if last not in _OPERATORS:
        yield ""
    if last in _OPERATORS or last in ("(", "[", "|"):
        yield "_"
    if last == "(" and opening.word in rules.heads:
        yield rules.heads[opening.word]


def _closings(opening: Opening, rules: LanguageRules) -> Iterator[str]:
    """What may close what a line opens, and go on with what it begins."""
    yield opening.closed()
    ends = [rules.finishes.get(opening.word, ""), "," if opening.opened else ""]
    if rules.block_openings:
        ends.append(": pass")
        yield "_ " + opening.closed()  # an import of nothing is none
    else:
        # A statement ends where a brace or nothing is closed after it.
        missing = opening.missing
        following = zip(missing, (*missing[1:], "}"), strict=False)
        yield " ".join(f"{one} ;" if then == "}" else one for one, then in following) or ";"
        ends.append("{}")
        if "?" in opening.line:
            yield opening.chosen()
    for end in filter(None, ends):
        yield opening.closed(end)


def _braces(opening: Opening) -> Iterator[str]:
    """What a line may begin whose braces stand below it: a definition, or a statement with a block."""
    head = bool(_HEAD.search(opening.line))
    if opening.word in _WITH_BLOCK or (head and not opening.held_by & _BODIES):
        yield "{}"
    if _TYPE.search(opening.line):
        yield "{} ;"


def _tags(opening: Opening) -> Iterator[str]:
    """What may end a tag that a line begins."""
    found = _TAG.search(opening.line)
    if found is None:
        return
    name, whole = found.groups()
    yield " ".join((f"</{name}>" if whole else "/>", *opening.missing))
    if opening.opened:
        yield opening.closed("/>")


def ends_of_spans(line: str, rules: LanguageRules) -> Iterator[str]:
    """What ends the long string or comment that a line may begin and not end."""
    for start, end in rules.spans:
        # A plain quote has more often been forgotten than left open for the line below.
        if start not in line or (start in _QUOTES and not line.endswith("\\")):
            continue
        behind = line[line.index(start) + len(start) :]
        ended = behind.count(end) % 2 if start == end or end in _QUOTES else end in behind
        if not ended:
            yield end


def after_span(end: str, opening: Opening, rules: LanguageRules) -> Iterator[str]:
    """What may be written below a line that begins a long string or a comment, which `end` ends."""
    for closing in (*_closings(opening, rules), ","):
        yield end + closing


def _marked(line: str, rules: LanguageRules) -> Iterator[str]:
    """What may be defined below a line that begins with a mark, such as that of a decorator."""
    for mark, definitions in rules.marks.items():
        if line.lstrip().startswith(mark):
            yield from definitions


def _ends_with(texts: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return not end or texts[-len(end) :] == end
