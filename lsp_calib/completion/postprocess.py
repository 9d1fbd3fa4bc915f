"""From a model's answer to the text to offer, and the brackets and quotes by which that is decided."""

from __future__ import annotations

import enum
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType

import attrs

from lsp_calib.characters import has_hidden, indentation_of
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.reasons import Removal
from lsp_calib.languages import family_of
from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.syntax.rules import BRACKETS, LanguageRules
from lsp_calib.syntax.source_tree import (
    Balance,
    Overrun,
    SourceTree,
    balance,
    errors,
    is_comment,
    leaves_of,
    missing_below,
    region_of,
)

# In characters. A shorter line may well stand there twice, such as `else:`, unless it closes something.
_SHORTEST_REPEAT = 8
# Such lines hardly ever stand twice: of 420,000 in installed files 138 equal the next one, of 30,000 ends of
# tags 162.
_CLOSES = re.compile(
    r"(?:[)\]}]|;;|</[\w.:-]*>|\*/|-->|\"{3}|'{3}|`{3}|"
    r"(?:fi|done|esac|=?end ?(?:case|def|do|ef|for|func|if|sub|try)?)\b)[()\]}\s;,]*",
    re.IGNORECASE,
)
# In characters: what the end of a text shares with the rest of the line by chance is shorter.
_SHORTEST_OVERLAP = 2
_SHORTEST_REST = 3
# And at the end of the line.
_NO_SPACE_BEFORE = frozenset(("", *" \t)]},;:."))
_WORD, _MARK = re.compile(r"\w"), re.compile(r"[^\w\s]")
# In C# a bracket may begin an attribute or, below an assignment, numbers.
_NUMBERS = re.compile(r"\s*\[[\s\d]")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_LONG_STRING = re.compile(r"\"{3}|'{3}")
_METHOD = re.compile(r"\s+(?:async\s+def|class|def)\b")
# In Haskell `case x of` is none.
_CASE = re.compile(r"\s*(?:case\b.*(?::|=>|->)|when\b|default\s*(?::|->))")
_CASES = MappingProxyType({"rust": re.compile(r"\s*\S.*=>"), "shellscript": re.compile(r"\s*[^\s()]+\)")})
_LABEL_ENDS = (re.compile(r"(?:\s(?:=>|->|then)|=>)(?=\s|$)"), re.compile(r"(?<![:\s]):(?!:)|\)"))
_BRACKETS_CLOSE = re.compile(r"\s*[)\]}]+[,;]*\s*")
# Lines that begin with one of these words, or end so, open or go on with what a word closes.
_OPENS = re.compile(
    r"\s*(?:begin|case|class|def|do|for|foreach|function|if|module|select|sub|switch|try|unless|until|while|with"
    r"|catch|default|elif|else|elsif|elseif|ensure|finally|in|rescue|when)\b"
    r"|.*(?:\b(?:do|then|begin|function)\b[^\w]*(?:\|[^|]*\|)?|[{(\[])$",
    re.IGNORECASE,
)
_CLOSING_WORD = re.compile(r"\s*=?\w")
_END_OF_TEXT = re.compile(r"\s*(\w+)[;,)]*")
# Lines above in which the beginning of a text is looked for that ends with a word of its own.
_FARTHEST_TEXT = 500
_TEMPLATE = re.compile(r"\s*template\b")
# What often stands twice: `**bold**`, `a && b`. A quote is one of them in comments, where it marks code.
_DOUBLED = frozenset("*_~`#-=&|")
# In characters. A longer line is data, and of more lines none is parsed for an end.
_LONGEST = 1000
_MOST_READ = 500_000


class Cut(enum.StrEnum):
    """Why the end of an answer is not offered."""

    SUFFIX = "suffix"  # the rest of the line, written again
    PART_OF_SUFFIX = "partOfSuffix"  # its beginning, or all of it and more, or what ends it
    SURPLUS_CLOSERS = "surplusClosers"
    COMMENT = "comment"  # an unwanted one behind code, see `features`


@attrs.frozen
class Cleaned:
    """The text to offer, and if that is empty, why nothing is left of the answer. cuts: of its end."""

    text: str
    removal: Removal | None = None
    cuts: tuple[Cut, ...] = ()


def offered(text: str, cursor: Cursor, source_of: SourceOf | None = None) -> Cleaned:
    """The completion to offer at `cursor`, or why there is nothing worth offering.

    A text that writes the rest of the line again, or goes on into its beginning, may end before it; one that
    closes what it did not open may end before that. Of these ends the one is taken that leaves the document
    in the best order, as its grammar has it; without a grammar the line is judged, by its brackets and
    quotes. Nothing is offered that leaves the line in worse order than it is without a text, that ends a
    comment or string which ends below, or that makes the line the next one, or a case of its choice, again.
    source_of: gives the tree of a document without the cursor's line, and the row of that; None: it is made
        here.
    """
    found, again = cleaned(text, cursor), Cleaned("", Removal.REPEATS_NEXT_LINE)
    if found.removal is not None:
        return found
    if _is_next_line(found.text, cursor):
        return again
    try:
        found = _ended(found.text, cursor, _Judge(cursor, source_of or _source_of))
    except Overrun:
        found = _ended(found.text, cursor, _Judge(cursor, lambda _: None))
    if found.text and _is_next_line(found.text, cursor):
        return again
    return Cleaned("", Removal.REPEATS_CASE) if found.text and _is_case_again(found.text, cursor) else found


def cleaned(text: str, cursor: Cursor) -> Cleaned:
    """The completion without white space at its end, or why there is none.

    An answer with control characters, line separators or invisible characters is dropped completely: a
    terminal or an editor would act on them, and the text without them is not the one whose probability is
    known. Such characters in the user's own text do not matter.
    """
    if not text:
        return Cleaned("", Removal.EMPTY)
    if has_hidden(text, cursor.before, cursor.after) or "\ufffd" in text:
        return Cleaned("", Removal.HIDDEN_CHARACTERS)
    bare = text.rstrip()
    if not bare:
        return Cleaned("", Removal.WHITE_SPACE)
    # Before a word or the end of a string, white space is part of what is written: `await |fetch()`.
    return Cleaned(bare if cursor.after[:1] in _NO_SPACE_BEFORE else text)


def _ended(text: str, cursor: Cursor, judge: _Judge) -> Cleaned:
    """The text up to the best of its ends."""
    whole, text = text, judge.within_comment(text)
    if not text.strip():
        return Cleaned("", Removal.SURPLUS_CLOSERS)
    rest, cuts = cursor.after.strip(), [Cut.SURPLUS_CLOSERS] if text != whole else []
    while True:
        again, shorter = [*_before_rest(text, rest, cursor)], judge.shorter(text)
        if not (again or shorter):
            break
        # Of equal ones that which does not write the rest twice, then the whole text, then the shortest.
        again.sort(key=len)
        doubled = again if len(set(rest)) == 1 and rest[0] in _DOUBLED else []
        ends = [*(end for end in again if end not in doubled), text, *doubled, *shorter]
        end = min(ends, key=judge)
        if end == text:
            break
        is_rest = end in again and text[len(end) :].strip() == rest
        cut = Cut.SUFFIX if is_rest else Cut.PART_OF_SUFFIX if rest else Cut.SURPLUS_CLOSERS
        text, cuts = end, [*cuts, cut] if cut not in cuts else cuts
    if not text.strip():
        return Cleaned("", Removal.REPEATS_SUFFIX if rest else Removal.SURPLUS_CLOSERS)
    if rest and (cuts or shorter or not is_balanced(text, cursor.language)):
        why = judge.objection(text, cut=bool(cuts))
        if why is not None:
            return Cleaned("", why)
    return Cleaned(text, None, tuple(cuts))


def _before_rest(text: str, rest: str, cursor: Cursor) -> Iterator[str]:
    """Beginnings of a text behind which it writes the rest of the line again, at least its beginning."""
    # A bare word may stand in a line twice: `self.name = |name`.
    goes_on = len(rest) >= _SHORTEST_REST and _WORD.search(rest) and _MARK.search(rest)
    for at in range(len(text)) if rest else ():
        shared = text[at:]
        if rest.startswith(shared) or shared.rstrip() == rest:
            # A line of dashes begins as it ends.
            begins = (len(shared) >= _SHORTEST_OVERLAP and len(set(shared)) > 1) or shared == rest
            if not begins or _splits_word(text, shared, cursor):
                continue
        elif not (goes_on and shared.startswith(rest)):
            continue
        yield text[:at].rstrip() if cursor.after[:1].isspace() else text[:at]


SourceOf = Callable[[Cursor], tuple[SourceTree, int] | None]


def _source_of(cursor: Cursor) -> tuple[SourceTree, int] | None:
    """The tree of the part of a document that holds the cursor's line, and the row of that in it."""
    rules = RULES.get(cursor.language)
    if rules is None:
        return None
    return _tree_from(region_of(rules, cursor.lines, cursor.line)[0], cursor, rules)


def _tree_from(first: int, cursor: Cursor, rules: LanguageRules) -> tuple[SourceTree, int] | None:
    """The same of a part that begins with line `first`; None if it is too long to be parsed."""
    _, last = region_of(rules, cursor.lines, cursor.line)
    lines = [*cursor.lines[first : cursor.line], "", *cursor.lines[cursor.line + 1 : last]]
    if sum(map(len, lines)) > _MOST_READ:
        return None
    return SourceTree(rules, lines), cursor.line - first


def _python_from(
    first: int, cursor: Cursor, rules: LanguageRules, found: tuple[SourceTree, int]
) -> tuple[SourceTree, int] | None:
    """`found`, which begins with line `first`, or another part if no statement begins there.

    Elsewhere than in Python nothing tells where an inner one begins, and `/*` often stands in a string.
    """
    inside = ""
    for mark in _LONG_STRING.findall("\n".join(cursor.lines[:first])):
        inside = mark if not inside else "" if mark == inside else inside
    if inside:
        return _tree_from(0, cursor, rules)
    if rules.begins.match(cursor.lines[first]):
        return found
    # A method of a long class: nothing is open above it.
    methods = (at for at in range(cursor.line - 1, first, -1) if _METHOD.match(cursor.lines[at]))
    start = next(methods, None)
    return None if start is None else _tree_from(start, cursor, rules)


class _Judge:
    """The order that a line, and the document with it, is in with a text: the smaller, the better.

    Brackets without a partner count first: closers, then openers. Where something stands behind the cursor,
    those count that are opened on the line and not closed on it; and if the line is in order without a text,
    closers behind the cursor that would close what is open above. Then quotes count, and last what the
    grammar cannot read. Without a grammar nothing is known where nothing stands behind the cursor.
    """

    def __init__(self, cursor: Cursor, source_of: SourceOf) -> None:
        self._cursor = cursor
        self._source_of = source_of
        self._rested = bool(cursor.after.strip())
        self._types = cursor.after.lstrip()[:1] == ">" and in_types(cursor.before, cursor.language)
        self._bars = in_bars(cursor.after, cursor.language)
        self._looked_at: dict[str, tuple[Balance, int, int]] = {}

    def __call__(self, text: str) -> tuple[int, ...]:
        brackets, quotes, unread = self._look_at(text)
        if not self._rested:
            return brackets.unmatched, brackets.missing, unread
        return brackets.unmatched + brackets.left + self._in_order * brackets.behind, quotes, unread

    def objection(self, text: str, *, cut: bool) -> Removal | None:
        """Why a text must not stand before what is behind the cursor: it leaves a bracket open there, closes
        none, or was `cut` and leaves in disorder what is in order without it."""
        brackets, before = self._look_at(text)[0], self._look_at("")[0]
        if brackets.of_text:
            return Removal.LEAVES_OPEN
        worse = cut and self._in_order and self(text) > self("")
        return Removal.SURPLUS_CLOSERS if worse or brackets.unmatched > before.unmatched else None

    def shorter(self, text: str) -> list[str]:
        """The ends that are worth a look. A text behind which nothing stands has surplus closers only if it
        closes what stands above, or more is closed below."""
        cursor, language = self._cursor, self._cursor.language
        line = cursor.before + text
        if self._rested:
            wanted = self._source is not None or self._in_order
        elif wanted := closes_more(text, language) and not ends_in_string(line, language):
            wanted = closes_more(line, language) or is_closer(next_line(cursor)[0].lstrip()[:1])
        inside = list(self._within_string(text))
        if wanted:
            return [*ends_of(text, cursor.after, language, types=self._types), *inside]
        # Brackets behind a long string or comment that began above seem to stand in it.
        spans = self._source[0].rules.spans if self._source else ()
        at = max((text.rfind(end) + len(end) for _, end in spans if end in text), default=0)
        if not (at and closes_more(text[at:], language)):
            return inside
        return [*(text[:at] + end for end in ends_of(text[at:], cursor.after, language)), *inside]

    def within_comment(self, text: str) -> str:
        """The text up to where it would end a comment that goes on below."""
        end = self._before_mark("*/", text)
        if end is None or self._in_comment is not True:
            return text
        below = itertools.islice(self._cursor.lines, self._cursor.line + 1, None)
        # Above a mark that opens another comment, this one has no end yet.
        marks = (mark for line in (self._cursor.after, *below) for mark in _COMMENT_MARK.findall(line))
        return end if next(marks, "") == "*/" else text

    def _within_string(self, text: str) -> Iterator[str]:
        """The ends before what may end the long string from above that the cursor stands in."""
        rules = RULES.get(self._cursor.language)
        for _, mark in rules.spans if rules else ():
            end = self._before_mark(mark, text)
            if end is not None and self._in_comment is False:
                yield end

    def _before_mark(self, mark: str, text: str) -> str | None:
        """The text before a mark that it writes or completes; None without one."""
        first = len(self._cursor.before)
        at = (self._cursor.before + text).find(mark, max(first - len(mark) + 1, 0))
        return None if at < 0 else text[: max(at - first, 0)].rstrip()

    @functools.cached_property
    def _in_comment(self) -> bool | None:
        """Whether the line stands within a comment from above; None if in no long string either."""
        if self._source is None:
            return None
        source, row = self._source
        leaves = leaves_of(source.tree, row, source.rules)
        around = next((leaf for leaf in leaves if leaf.start == 0 and leaf.end == sys.maxsize), None)
        return None if around is None else any(kind in source.rules.comments for kind, _ in around.path)

    @functools.cached_property
    def _in_string(self) -> bool:
        """Whether the line, as it is without a text, begins within a string from above."""
        if self._source is None:
            return False
        source, row = self._source
        tree = source.tree_with(row, self._cursor.before + self._cursor.after)
        node = tree.root_node.descendant_for_point_range((row, 0), (row, 0))
        while node is not None and node.start_point.row == row:
            node = node.parent
        return node is not None and "string" in node.type

    @property
    def _in_order(self) -> bool:
        """Whether the line is, without a text."""
        brackets, quotes, _ = self._look_at("")
        return not (brackets.unmatched or brackets.left or brackets.behind or quotes)

    def _look_at(self, text: str) -> tuple[Balance, int, int]:
        """The brackets, quotes without a partner, and what cannot be read."""
        if text not in self._looked_at:
            self._looked_at[text] = self._found(text)
        return self._looked_at[text]

    def _found(self, text: str) -> tuple[Balance, int, int]:
        before, after, language = self._cursor.before, self._cursor.after, self._cursor.language
        line = before + text + after
        quotes = open_quotes(line, language, types=self._types, bars=self._bars) if self._rested else 0
        if self._source is None:
            return balance_of_line(before, text, after, language) if self._rested else Balance(), quotes, 0
        source, row = self._source
        tree, rules = source.tree_with(row, line), source.rules
        columns = len(before.encode("utf-8", "replace")), len((before + text).encode("utf-8", "replace"))
        found = balance(tree, row, columns, rules.brackets or BRACKETS)
        # Of a string from above, the line alone shows the end and not the beginning.
        if quotes and (self._in_string or is_comment(tree, row, line, rules)):
            quotes = 0
        # What the lines leave open comes later.
        if found.missing and (closing := missing_below(tree, row, rules.brackets or BRACKETS)):
            tree = source.tree_with(row, line, [" ".join(closing)])
        # What is missing at the end of a line may be found behind the comment below.
        unread = sum(1 for _ in errors(tree, 0, tree.root_node.end_point.row, rules))
        return found, quotes, unread

    @functools.cached_property
    def _source(self) -> tuple[SourceTree, int] | None:
        """None if there is no grammar, or something may be opened above what is parsed."""
        cursor = self._cursor
        line = cursor.lines[cursor.line]
        rules = RULES.get(cursor.language)
        if rules is None or len(line) > _LONGEST or isinstance(line, CommandLine):
            return None
        found = self._source_of(cursor)
        if found is None:
            return None
        first = cursor.line - found[1]
        if first and cursor.language == "python":
            found = _python_from(first, cursor, rules, found)
        elif first and not rules.begins.match(cursor.lines[first]):
            return None
        if found is None:
            return None
        found[0].ask()
        return found


def _splits_word(text: str, shared: str, cursor: Cursor) -> bool:
    """Whether the end of a text that equals the beginning of the rest is the end of a word, and stands apart
    from the rest: of `for | in names`, the `in` of `plugin`."""
    start = text.rstrip()[: -len(shared)]
    apart = cursor.after[:1].isspace() and _WORD.match(shared) is not None
    return apart and bool(start) and _WORD.match(start[-1]) is not None


def _is_next_line(text: str, cursor: Cursor) -> bool:
    """Whether a line would stand there twice, one below the other."""
    line = (cursor.before + text + cursor.after).rstrip()
    below, blank = next_line(cursor)
    bare = line.strip()
    if below.strip() == bare and (
        _LONG_STRING.fullmatch(bare) or _closes_nothing(line, cursor) or _ends_text(line, cursor)
    ):
        return True
    if below != line or _CLOSES.fullmatch(line.strip()):
        return below == line
    if len(line.strip()) < _SHORTEST_REPEAT or not _WORD.search(line):
        return False
    # The elements of a list may well be the same: who has begun to type one again seems to want that.
    if cursor.before.strip() and line.endswith(","):
        return False
    # Two definitions in a row may well be marked alike: `@property`, a blank line, `@property`.
    return not (blank and _marks_what_is_below(line, cursor.language))


def _closes_nothing(line: str, cursor: Cursor) -> bool:
    """Whether a closer has nothing above it that it can close, by the indentation: neither a block, whose
    lines are deeper, nor an opener. Brackets are left to the grammar where there is one."""
    is_word = _CLOSING_WORD.match(line) is not None
    if not _CLOSES.fullmatch(line.strip()) or not (is_word or cursor.language not in RULES):
        return False
    above = map(cursor.lines.__getitem__, range(cursor.line - 1, -1, -1))
    last = next((one for one in above if one.strip()), "")
    deep, own = len(indentation_of(last.expandtabs())), len(indentation_of(line.expandtabs()))
    return deep < own or (deep == own and _OPENS.match(last) is None)


def _ends_text(line: str, cursor: Cursor) -> bool:
    """Whether a line ends a text that ends with a word of its own: `cat <<EOF`."""
    found = _END_OF_TEXT.fullmatch(line)
    if found is None:
        return False
    begins = re.compile(rf"<<[<~-]?\s*['\"]?{found[1]}\b")
    first = max(cursor.line - _FARTHEST_TEXT, 0)
    return any("<<" in one and begins.search(one) for one in cursor.lines[first : cursor.line])


def _is_case_again(text: str, cursor: Cursor) -> bool:
    """Whether a line is a case of a choice that has one with the same label already."""
    line = (cursor.before + text + cursor.after).rstrip()
    label = _label(line, cursor.language)
    if not label:
        return False
    above = map(cursor.lines.__getitem__, range(cursor.line - 1, -1, -1))
    below = map(cursor.lines.__getitem__, range(cursor.line + 1, len(cursor.lines)))
    size = len(indentation_of(line))
    return any(label in _labels(lines, size, cursor.language) for lines in (above, below))


def _labels(lines: Iterable[str], indentation: int, language: str) -> Iterator[str]:
    """The labels of cases with this indentation, in characters, up to another line that is indented no more
    and does not close brackets alone."""
    for line in lines:
        if line.strip() and len(indentation_of(line)) <= indentation:
            label = _label(line.rstrip(), language)
            if len(indentation_of(line)) < indentation or not (label or _BRACKETS_CLOSE.fullmatch(line)):
                return
            yield label


def _label(line: str, language: str) -> str:
    """What a line that is a case of a choice begins with, up to its body; "" for another line."""
    if len(line) > _LONGEST or not _CASES.get(family_of(language), _CASE).match(line):
        return ""
    ends = (found.start() for each in _LABEL_ENDS for found in each.finditer(line))
    labels = (line[:end].rstrip() for end in ends)
    # Within brackets or a string such a mark is a part of the label.
    return next((one for one in labels if _unmatched(one, language) == ([], [])), line)


def next_line(cursor: Cursor) -> tuple[str, bool]:
    """The next line with something in it, without white space at its end: a suggestion is not to make the
    cursor's line the same. And whether blank lines stand above it. "" for none."""
    # By index: to iterate over the lines may begin with the first.
    for at in range(cursor.line + 1, len(cursor.lines)):
        if line := cursor.lines[at].rstrip():
            return line, at > cursor.line + 1
    return "", False


def _marks_what_is_below(line: str, language: str) -> bool:
    """Whether a line belongs to what is defined below it, such as a decorator."""
    if _TEMPLATE.match(line):
        return family_of(language) == "cpp"
    rules = RULES.get(language)
    marked = rules is not None and line.lstrip().startswith(tuple(rules.marks))
    return marked and not _NUMBERS.match(line)


# Brackets and quotes of a line, outside strings: where an answer may end.

_OPENING = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: closing for closing, opening in _OPENING.items()}
_QUOTES = "\"'`"
# What is escaped outside of a string is taken with its backslash: else a line of escaped quotes, as of JSON
# in a string, would be read to its end from each of them.
_STRING = re.compile(r"(\\.)|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
# In a template literal, which may have expressions in it, and in a raw string of Go brackets are text too.
# In Rust an apostrophe also begins a lifetime.
_STRINGS = MappingProxyType(
    {
        "rust": re.compile(r"(\\.)|'(?:\\.[^']*|[^'\\])'|\"(?:\\.|[^\"\\])*\""),
        "go": re.compile(rf"{_STRING.pattern}|`[^`]*`"),
        **dict.fromkeys(("javascript", "typescript"), re.compile(rf"{_STRING.pattern}|`(?:\\.|[^`\\])*`")),
    }
)
# In characters. What is open in a longer line, which is data, is not worth reading it for.
_LONGEST_READ = 100_000
# A list of types that is still open, and the brackets of such lists, but for arrows.
_OPEN_TYPES = re.compile(r"(?:\w|::|\btemplate )<[\w\s,.:?&*'\[\]<>]*$")
_GENERICS = frozenset(("cpp", "csharp", "java", "rust", "typescript"))
_ANGLE = re.compile(r"(?<![-=])>|<")
# In these languages bars stand around parameters, and editors write the second one.
_BARS = frozenset(("ruby", "rust"))
# What a statement or an element ends with.
_ENDS = " \t,;"


def ends_of(text: str, after: str, language: str, *, types: bool = False) -> Iterator[str]:
    """Beginnings of a text up to what closes something before it, the shortest first.

    after: the line behind the text. types: whether the text is `in_types`.
    Up to a bracket that closes nothing in the text; to the quote, the `>` or the bar of parameters with which
    the line goes on; to the end of a statement before what stands there. None of them joins two words.

    >>> list(ends_of("x), y);", "", "c")), list(ends_of("g();", ");", "c"))
    (['x', 'x), y'], ['g()'])
    """
    cuts = [text[:at].rstrip() for at in _unmatched_in(text, language)]
    found = {*cuts, *(cut.rstrip(_ENDS) for cut in cuts)}
    behind = after.lstrip()[:1]
    if types:
        found |= {text[: one.start()].rstrip() for one in _ANGLE.finditer(text) if one[0] == ">"}
    elif in_bars(after, language):
        found |= {text[: one.start()] for one in re.finditer(r"\|", text)}
    elif behind and behind in _QUOTES and after[0] == behind:
        quote = behind * 3 if after.startswith(behind * 3) else behind
        # A doubled quote stands for one, or is an empty string.
        marks = re.finditer(rf"\\.|{quote}(?!{behind})", text)
        found |= {text[: one.start()] for one in marks if one[0] == quote}
    elif behind:
        found.add(text.rstrip(_ENDS))
        if text.endswith(after.rstrip()[-1]):  # where a block begins as well
            found.add(text[:-1].rstrip())
    for end in sorted(found, key=len):
        if end != text and not (end[-1:].isalnum() and after[:1].isalnum()):
            yield end


def balance_of_line(before: str, text: str, after: str, language: str) -> Balance:
    """The brackets of a line, outside strings, without a partner on it.

    >>> balance_of_line("f(", "x)", ")", "c").unmatched, balance_of_line("f(", "g(", ")", "c").left
    (1, 1)
    """
    if len(before) + len(text) + len(after) > _LONGEST_READ:
        return Balance()
    unmatched, left = _brackets(before + text + after, language)
    _, left_before = _brackets(before + after, language)
    return Balance(unmatched, left=left, of_text=max(left - left_before, 0))


def is_balanced(text: str, language: str) -> bool:
    """Whether each bracket of a text, outside strings, has its partner in it."""
    return _brackets(text, language) == (0, 0)


def open_quotes(line: str, language: str, *, types: bool, bars: bool = False) -> int:
    """How many quotes of a line have no partner on it. types: with the `<` and `>` that have none, bars: with
    the bar that has none.

    >>> open_quotes('f("x', "c", types=False), open_quotes("Set<A>>", "java", types=True)
    (1, 1)
    """
    if len(line) > _LONGEST_READ:
        return 0
    surplus = open_ = 0
    for found in _ANGLE.finditer(line) if types else ():
        surplus += found[0] == ">" and not open_
        open_ = max(open_ + (1 if found[0] == "<" else -1), 0)
    odd = bars and _without_strings(line, family_of(language)).count("|") % 2
    return sum(char in _QUOTES for char in _unmatched(line, language)[1]) + surplus + open_ + odd


def in_bars(after: str, language: str) -> bool:
    """Whether what follows on a line stands between the bars of parameters."""
    return after[:1] == "|" != after[1:2] and family_of(language) in _BARS


def in_types(before: str, language: str) -> bool:
    """Whether what follows on a line may stand between the `<` and `>` of types."""
    generic = family_of(language) in _GENERICS and not ends_in_string(before, language)
    return generic and _OPEN_TYPES.search(before) is not None


def ends_in_string(line: str, language: str) -> bool:
    """Whether a string of one line seems to be open at its end, or it is too long to tell."""
    return len(line) > _LONGEST_READ or not {"'", '"'}.isdisjoint(_unmatched(line, language)[1])


def closes_more(line: str, language: str) -> bool:
    """Whether a line closes a bracket that it has not opened."""
    return len(line) <= _LONGEST_READ and bool(_unmatched(line, language)[0])


def is_closer(char: str) -> bool:
    """Whether a character is a closing bracket."""
    return char in _OPENING


def closed_by_editors(typed: str) -> str:
    """The closers of what a typed text leaves open, as editors add them behind the cursor.

    >>> closed_by_editors("f(x[") + closed_by_editors('print("') + closed_by_editors("f(x)")
    '])")'
    """
    return "".join(reversed(_unmatched(typed, "")[1]))


def closes_as(text: str, before: str, closers: str, language: str) -> bool:
    """Whether a line with a text closes what it would close with these closers, and leaves no more open than
    a block that begins at its end.

    before: the line before both.

    >>> closes_as("x), y)", "f(g(", "))", "c"), closes_as("() => {", "f(", ")", "c")
    (True, False)
    >>> closes_as("x) {", "if (", ")", "c")
    True
    """
    if len(before) + len(text) > _LONGEST_READ:
        return False
    text = text.rstrip().removesuffix("{")
    closed, left_open = _unmatched(before + closers, language)
    closed_by_text, left_open_by_text = _unmatched(before + text, language)
    fewer = left_open_by_text == left_open[: len(left_open_by_text)]
    return fewer and closed_by_text[: len(closed)] == closed


def part_before(text: str, closers: str, language: str) -> int | None:
    """The place in a text at which it writes the first of these closers itself; None if it does not.

    >>> part_before('a", b)', '")', "c"), part_before("g(x), y)", ")", "c")
    (1, 7)
    """
    closer = closers.lstrip()[:1]
    if closer in _QUOTES:
        marks = re.finditer(rf"\\.|{closer}", text)
        return next((mark.start() for mark in marks if mark[0] == closer), None)
    at = next(_unmatched_in(text, language), None)
    return at if at is not None and text[at] == closer else None


def _unmatched(line: str, language: str) -> tuple[list[str], list[str]]:
    """The closers of a line whose openers stand above it, and those that it lacks, the outermost first."""
    closed, open_ = list[str](), list[str]()
    family = family_of(language)
    quotes = _QUOTES.replace("'", "") if family == "rust" else _QUOTES
    for char in _without_strings(line, family):
        if char in _CLOSING:
            open_.append(_CLOSING[char])
        elif open_ and char == open_[-1]:
            open_.pop()
        elif char in _OPENING:
            closed.append(char)
        elif char in quotes:
            open_.append(char)
    return closed, open_


def _brackets(line: str, language: str) -> tuple[int, int]:
    """How many closers and openers of a line have no partner on it."""
    closed, open_ = _unmatched(line, language)
    return len(closed), sum(char not in _QUOTES for char in open_)


def _unmatched_in(text: str, language: str) -> Iterator[int]:
    """The places of the closers that have no opener before them in the text."""
    open_: list[str] = []
    strings = _STRINGS.get(family_of(language), _STRING)
    for at, char in enumerate(strings.sub(lambda found: found[1] or " " * len(found[0]), text)):
        if char in _CLOSING:
            open_.append(char)
        elif char in _OPENING:
            if open_ and open_[-1] == _OPENING[char]:
                open_.pop()
            else:
                yield at


def _without_strings(line: str, family: str) -> str:
    return _STRINGS.get(family, _STRING).sub(lambda found: found[1] or "", line)
