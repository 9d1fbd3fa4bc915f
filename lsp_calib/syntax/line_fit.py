"""How a line fits into its document: whether it leaves it in order, and which names it uses.

What may be written below a line that opens something is imagined, as short as can be.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.syntax.languages.python import PythonDocument, may_go_on
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.syntax.rules import BRACKETS, LanguageRules
from lsp_calib.syntax.source_tree import (
    ABOVE,
    BELOW,
    Leaf,
    Overrun,
    SourceTree,
    closers,
    errors,
    form_at,
    leaves_of,
    missing_below,
    region_of,
)

if TYPE_CHECKING:
    from tree_sitter import Tree


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
# Errors of a document that are looked at for their form.
_MOST_ERRORS = 200
_FIRST_WORD = re.compile(r"\W*(\w*)")
# What goes on with a statement whose block has ended.
_CLAUSES = frozenset({"case", "elif", "else", "except", "finally"})
_PLAIN_NAMES = frozenset({"identifier", "type_identifier"})
# The last tag of a line that ends with it, or with some of its attributes.
_TAG = re.compile(r"(?:^|[\s(>])<([\w.:-]*)(?:\s[^<]*?)?(?<!/)(>?)\s*$")


@attrs.frozen
class LineFit:
    """broken: whether the line leaves code that cannot be parsed, or is indented wrongly.

    names: those that it uses and does not bind.
    """

    broken: bool
    names: frozenset[str]


def fit_of(
    source: SourceTree,
    row: int,
    before: str,
    text: str,
    after: str,
    below: str | None,
    python: PythonDocument | None = None,
) -> LineFit:
    """How `before` + `text` + `after` fits in as line `row` of a document whose line `row` is empty.

    text: the new part, whose names are returned. below: the next line that is not blank, None at the end.
    python: the document, if it is of Python.
    Raises Overrun if it takes too long to find out.
    """
    source.ask()
    line = before + text + after
    tree = source.tree_with(row, line)
    leaves = list(leaves_of(tree, row, source.rules))
    rules = source.rules
    first = len(_encoded(before))
    last = first + len(_encoded(text))
    named = [leaf for leaf in leaves if leaf.kind in rules.names]
    bound = {leaf.text for leaf in named if rules.binds(leaf.path)}
    used = {leaf.text for leaf in named if leaf.end > first and leaf.start < last}
    broken = _is_broken(source, tree, row, line, leaves, below)
    if python is not None:
        broken = _is_broken_python(source, row, line, below, python, broken)
    return LineFit(broken, frozenset(used - bound - rules.known))


def is_broken_by(lines: Sequence[str], row: int, line: str, language: str) -> bool:
    """Whether a line in the place of another, `row`, leaves code that cannot be parsed; False where that is
    not known: there is no grammar, or it takes too long."""
    from lsp_calib.syntax.languages import RULES

    if (rules := RULES.get(language)) is None or isinstance(lines[row], CommandLine):
        return False
    first, last = region_of(rules, lines, row)
    following = next((one for one in lines[row + 1 :] if one.strip()), None)
    try:
        source = SourceTree(rules, (*lines[first:row], "", *lines[row + 1 : last]))
        return fit_of(source, row - first, "", line, "", following).broken
    except Overrun:
        return False


def _is_broken_python(
    source: SourceTree, row: int, line: str, below: str | None, document: PythonDocument, by_grammar: bool
) -> bool:
    """The same by the running Python, which knows more of it than the grammar, but no later versions."""
    goes_on = may_go_on(source, row, line)
    decides = goes_on is False or (goes_on is True and below is None)
    broken = not goes_on if decides else by_grammar
    # The lines may begin within a long string; otherwise both are right if they agree.
    if by_grammar and goes_on is False and not source.has_odd_quotes():
        return True
    return broken and document.tree_with(line) is None


def _is_broken(
    source: SourceTree, tree: Tree, row: int, line: str, leaves: list[Leaf], below: str | None
) -> bool:
    rules = source.rules
    if any(leaf.kind in rules.opaque for leaf in leaves):
        return False
    first = next(iter(_code(leaves, rules)), None)
    # Where no block can go on, the grammars of TypeScript and C++ take the word for a name.
    if first is not None and first.kind in _PLAIN_NAMES and first.text == "else":
        return True
    if rules.misplaced is not None and _is_misplaced(tree, row, len(_encoded(indentation_of(line))), rules):
        return True
    if below is None and _continues_nothing(source, tree, row, line, leaves):
        return True
    if not _fails(source, source.tree, tree, row, line, leaves, below):
        return False
    if below is not None and _opens(source, tree, row, line, leaves):
        return False
    return not _is_usual(source, tree, row, line)


def _is_usual(source: SourceTree, tree: Tree, row: int, line: str) -> bool:
    """Whether the grammar sees errors of the same form in other lines of the document, too: then it does not
    know something of the language, such as a newer version of it or a macro."""
    rules, base = source.rules, source.tree
    if not base.root_node.has_error:
        return False
    open_ = closers(tree, rules.brackets)
    # Between the branches of a preprocessor brackets seldom match.
    if open_ != closers(base, rules.brackets) or (open_ is None and not rules.macros):
        return False
    before = list(itertools.islice(errors(base, 0, sys.maxsize, rules), _MOST_ERRORS))
    old = {start for start, _ in before}
    new = [one for one, _ in errors(tree, row - ABOVE, row + BELOW, rules) if one not in old]
    if not new:
        return False
    lines = source.lines()
    known = {form_at(lines[at], column, rules.known) for at, column in old if at != row and at < len(lines)}
    lines[row] = source.read(line).decode("utf-8", "replace")
    return all(form_at(lines[at], column, rules.known) in known for at, column in new if at < len(lines))


def _is_misplaced(tree: Tree, row: int, column: int, rules: LanguageRules) -> bool:
    """Whether a clause that begins there, or the one behind it, stands where it continues nothing."""
    word = tree.root_node.descendant_for_point_range((row, column), (row, column))
    clause = None if word is None else word.parent
    assert rules.misplaced is not None
    for one in (clause, None if clause is None else clause.next_named_sibling):
        if one is None or one.parent is None or one.start_point.row < row:
            continue
        before = one.prev_named_sibling
        while before is not None and before.type in rules.comments:
            before = before.prev_named_sibling
        if rules.misplaced(one.parent.type, one.type, "" if before is None else before.type):
            return True
    return False


def _fails(
    source: SourceTree, base: Tree, tree: Tree, row: int, line: str, leaves: list[Leaf], below: str | None
) -> bool:
    """Whether a tree with the line, `tree`, is in worse order than the one without it, `base`."""
    if tree.root_node.has_error:
        if below is None:
            return _is_broken_at_end(source, tree, row, line)
        if not base.root_node.has_error:
            return True
        # An error from above that the document has without the line is not the line's.
        around, rules = (row - ABOVE, row + BELOW), source.rules
        if source.rules.brackets and closers(tree, source.rules.brackets) == "":
            # All brackets match. What is left are words that the grammar does not know, such as macros.
            found = list(errors(tree, *around, rules))
            if len(found) > _count(errors(base, *around, rules)):
                return True
            # Where the line opens what is closed below, it takes that error away, and its own is as many.
            own = not source.rules.macros and any(start[0] == row for start, _ in found)
            return own and closers(base, source.rules.brackets) != ""
        known = {start for start, _ in errors(base, *around, rules) if start[0] < row - ABOVE}
        if any(start not in known for start, _ in errors(tree, *around, rules)):
            return True
    return below is not None and _misleads(source.rules, row, line, leaves, below)


def _opens(source: SourceTree, tree: Tree, row: int, line: str, leaves: list[Leaf]) -> bool:
    """Whether a line is in order once what it opens, or what is open above it, is written below it.

    Until then a new line that begins a block, a call, a list, a tag, a long string or a comment, or a
    decorator, looks broken in a file that is in order. What is written below is imagined, and as short as
    can be.
    """
    rules = source.rules
    code = _code(leaves, rules)
    brackets = rules.brackets or BRACKETS
    before = missing_below(source.tree, row, brackets) or ()
    imagined: Iterable[str] = list(_ends_of_spans(source, row, line, before))
    if not imagined and code:
        missing = missing_below(tree, row, brackets)
        if missing is None:
            return False
        last = code[-1]
        held_by = frozenset(kind for kind, _ in last.path[:-1])
        imagined = _continuations(Opening(line, last.kind, held_by, missing, before), rules)
        if last.kind == "," and missing:
            line = _without(line, last)
    base = source.tree_with(row, "", [" ".join(before)]) if before else source.tree
    indentation = indentation_of(line)
    for text in filter(None, imagined):
        below = [indentation + one for one in text.split("\n")]
        then = source.tree_with(row, line, below)
        if not _fails(source, base, then, row, line, list(leaves_of(then, row, rules)), below[0]):
            return True
    return False


def _continues_nothing(source: SourceTree, tree: Tree, row: int, line: str, leaves: list[Leaf]) -> bool:
    """Whether the last line opens a block where none can be, or one that could be if it were less indented.

    With nothing below, its body alone shows that `else:` or `case 1:` continues nothing.
    """
    rules, code = source.rules, _code(leaves, source.rules)
    if not code or code[-1].kind not in rules.block_openings or missing_below(tree, row, BRACKETS) != ():
        return False
    if _opens(source, tree, row, line, leaves):
        return False
    if not source.tree.root_node.has_error:
        return True
    indentation, bare = indentation_of(line), line.lstrip()
    if bare.partition(":")[0].partition(" ")[0] not in _CLAUSES:
        return False
    shallower = (indentation[:size] for size in range(len(indentation)))
    then = (source.tree_with(row, one + bare, [one + _DEEPER + "pass"]) for one in shallower)
    return any(not one.root_node.has_error for one in then)


def _ends_of_spans(source: SourceTree, row: int, line: str, before: tuple[str, ...]) -> Iterator[str]:
    """What may end the long string or comment that a line begins, and what it leaves open around this."""
    rules = source.rules
    if any(leaf.start == 0 and leaf.end == sys.maxsize for leaf in leaves_of(source.tree, row, rules)):
        return  # within one from above the mark is its end
    for end in _end_marks(line, rules):
        ended = source.tree_with(row, line, [end])
        missing = missing_below(ended, row + 1, rules.brackets or BRACKETS)
        if missing is not None:
            yield from _after_span(end, Opening(line, end, frozenset(), missing, before), rules)


def _without(line: str, leaf: Leaf) -> str:
    encoded = _encoded(line)
    return (encoded[: leaf.start] + b" " + encoded[leaf.end :]).decode("utf-8", "replace")


def _is_broken_at_end(source: SourceTree, tree: Tree, row: int, line: str) -> bool:
    """Whether the last line has an error that nothing written below it can repair: one before its end."""
    if line.rstrip().endswith("\\"):
        return False  # it waits for more
    # What the lines above leave open is closed below later, if only that is missing.
    if not source.closable(row) if source.rules.brackets else source.tree.root_node.has_error:
        return False
    lines = [line, *(line + end for start, end in source.rules.spans if start in line)]
    trees = [tree, *(source.tree_with(row, each) for each in lines[1:])]
    closed = [_closed(source, one, row, each) for one, each in zip(trees, lines, strict=True)]
    end = (row, len(source.read(line).rstrip()))
    return all(
        one is None
        or any(start[0] == row and last < end for start, last in errors(one, row, row, source.rules))
        for one in closed
    )


def _closed(source: SourceTree, tree: Tree, row: int, line: str) -> Tree | None:
    """The tree of a last line with what it leaves open closed; None if it closes what is not open."""
    closing = closers(tree, source.rules.brackets)
    return source.tree_with(row, line, [closing]) if closing else None if closing is None else tree


def _count(found: Iterable[object]) -> int:
    return sum(1 for _ in found)


def _misleads(rules: LanguageRules, row: int, line: str, leaves: list[Leaf], below: str) -> bool:
    """Whether the indentation of the line below contradicts the end of this one."""
    code = _code(leaves, rules)
    if not rules.block_openings or not leaves or line.rstrip().endswith("\\"):
        return False
    deeper = len(indentation_of(below)) > len(indentation_of(line))
    if not code:
        # A comment stands where something should open the block below.
        return leaves[-1].alone and deeper
    last = code[-1]
    if last.statement[1] > row:
        return False  # it goes on below
    if last.alone and last.kind in rules.block_openings:
        return not deeper
    return last.statement[0] == row and deeper


def _code(leaves: list[Leaf], rules: LanguageRules) -> list[Leaf]:
    return [leaf for leaf in leaves if leaf.kind not in rules.comments and leaf.start < leaf.end]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


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


def _continuations(opening: Opening, rules: LanguageRules) -> Iterator[str]:
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


def _end_marks(line: str, rules: LanguageRules) -> Iterator[str]:
    """What ends the long string or comment that a line may begin and not end."""
    for start, end in rules.spans:
        # A plain quote has more often been forgotten than left open for the line below.
        if start not in line or (start in _QUOTES and not line.endswith("\\")):
            continue
        behind = line[line.index(start) + len(start) :]
        ended = behind.count(end) % 2 if start == end or end in _QUOTES else end in behind
        if not ended:
            yield end


def _after_span(end: str, opening: Opening, rules: LanguageRules) -> Iterator[str]:
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
