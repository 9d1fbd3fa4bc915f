"""What a change of a line did to a few of its tokens, and where in a document it can be done again.

Tokens are words and single other characters, in any language: whether code or prose, `size` is one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import accumulate, islice

import attrs

from lsp_calib.characters import indentation_of, shared_ends

_TOKEN = re.compile(r"\w+|[^\w\s]")
# What is inserted or removed belongs to the word that it touches: of `self.size` that was `size`, to `size`.
_BEFORE_A_WORD = re.compile(r"(?:[.:&*@!~$#-]|\w\s+)\Z")
_AFTER_A_WORD = re.compile(r"[.(\[<?!:{]")
_OPENERS, _CLOSERS = "([{", ")]}"

MOST_OLD, MOST_NEW = 4, 6
"""Tokens that an edit replaces, and puts in their place, at most."""

# A longer line is data.
_LONGEST = 500
# A line of which less stays was written anew.
_LEAST_IN_COMMON = 0.5
# In a document; of what stands in more places nothing is said.
MOST_PLACES = 200


@attrs.frozen
class Rule:
    """What was done to a few tokens, apart from where.

    old: the tokens that went; empty if none did. new: the text in their place. left, right: the tokens
    between which it was put, "" the line's beginning or end; None where any will do. in_call: before the
    closing bracket of a call of `left`.
    """

    old: tuple[str, ...]
    new: str
    left: str | None = None
    right: str | None = None
    in_call: bool = False


@attrs.frozen
class Edit:
    """A rule as it was applied within a line.

    before, after: the tokens beside it, "" where there is none. start, end: columns of what was replaced, in
    the line before.
    """

    rule: Rule
    before: str
    after: str
    start: int
    end: int


@attrs.frozen
class Place:
    """Where a rule can be applied. line: from 0. start, end: columns of what would be replaced, by `text`.
    before, after: the tokens beside that."""

    line: int
    start: int
    end: int
    text: str
    before: str
    after: str


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, white space left out."""
    return _TOKEN.findall(text)


class Text:
    """A document in which places are looked for. What was found is remembered."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._counts: dict[tuple[str, ...], int] = {}
        self._places: dict[Rule, list[Place]] = {}

    @cached_property
    def whole(self) -> str:
        return "\n".join(self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in `whole`."""
        line = bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]

    def find(self, tokens: tuple[str, ...]) -> Iterator[tuple[int, int, int]]:
        """Line and columns of each place where tokens stand one after the other in a line."""
        begins, ends, whole = _is_word(tokens[0]), _is_word(tokens[-1]), self.whole
        for at, end in _spans(tokens, whole):
            if not (begins and at and _is_word(whole[at - 1])) and not (
                ends and _is_word(whole[end : end + 1])
            ):
                line, column = self.position(at)
                yield line, column, column + end - at

    def count(self, tokens: Sequence[str]) -> int:
        """How often tokens stand in it one after the other, in one line each time."""
        known = tuple(tokens)
        if known not in self._counts:
            self._counts[known] = sum(1 for _ in self.find(known)) if known else 0
        return self._counts[known]

    def places(self, rule: Rule) -> list[Place]:
        """Where a rule can be applied, from above; none where these are more than MOST_PLACES.

        A place that has already what the rule would put there is none.
        """
        if rule not in self._places:
            found = list(islice(_places(rule, self), MOST_PLACES + 1))
            self._places[rule] = found if len(found) <= MOST_PLACES else []
        return self._places[rule]


def edits_of_line(old: str, new: str) -> list[Edit]:
    """The edits that make a line of another; none where too little of it stays, or one is too long."""
    if old == new or max(len(old), len(new)) > _LONGEST:
        return []
    was, now = list(_TOKEN.finditer(old)), list(_TOKEN.finditer(new))
    old_tokens, new_tokens = [one.group() for one in was], [one.group() for one in now]
    start, common = shared_ends(old_tokens, new_tokens)
    middle = old_tokens[start : len(was) - common], new_tokens[start : len(now) - common]
    matcher = SequenceMatcher(None, *middle, autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    kept = len(was) - sum(code[2] - code[1] for code in codes)
    # A line of few tokens has little to keep.
    is_short = len(codes) == 1 and len(was) <= MOST_OLD and kept
    if 2 * kept < _LEAST_IN_COMMON * (len(was) + len(now)) and not is_short:
        return []
    found = []
    for _, a, b, c, d in codes:
        edit = _edit(old, new, was, now, (a + start, b + start, c + start, d + start))
        if edit is not None:
            found.append(edit)
    return found


def _edit(
    old: str,
    new: str,
    was: Sequence[re.Match[str]],
    now: Sequence[re.Match[str]],
    span: tuple[int, int, int, int],
) -> Edit | None:
    a, b, c, d = span
    if b - a > MOST_OLD or d - c > MOST_NEW:
        return None
    call = _in_call(was, a) if a == b and now[c].group() == "," else None
    if a == b or c == d:
        # What comes or goes, with the white space up to the next token, says where it belongs.
        line, tokens, first, last = (new, now, c, d) if a == b else (old, was, a, b)
        moved = line[tokens[first].start() : tokens[last].start() if last < len(tokens) else len(line)]
        touches = first > 0 and tokens[first - 1].end() == tokens[first].start()
        if b < len(was) and _is_word(was[b].group()) and _BEFORE_A_WORD.search(moved):
            b, d = b + 1, d + 1
        elif touches and _is_word(was[a - 1].group()) and _AFTER_A_WORD.match(moved):
            a, c = a - 1, c - 1
    before = was[a - 1].group() if a else ""
    after = was[b].group() if b < len(was) else ""
    went = tuple(one.group() for one in was[a:b])
    if a < b and c < d:
        if not any(map(_is_word, went)):
            return None
        rule = Rule(went, new[now[c].start() : now[d - 1].end()])
        return Edit(rule, before, after, was[a].start(), was[b - 1].end())
    # From the token before to the one after it, with the white space of the new line.
    start = was[a - 1].end() if a else len(indentation_of(old))
    end = was[b].start() if b < len(was) else len(old.rstrip())
    new_start = now[c - 1].end() if c else len(indentation_of(new))
    text = new[new_start : now[d].start() if d < len(now) else len(new.rstrip())]
    if call is not None and after == ")":
        return Edit(Rule((), text, call, ")", True), before, after, start, end)
    if not (_is_word(before) or _is_word(after)):
        return None
    return Edit(Rule(went, text, before, after), before, after, start, end)


def _is_word(token: str) -> bool:
    return bool(token) and (token[0].isalnum() or token[0] == "_")


def _in_call(tokens: Sequence[re.Match[str]], at: int) -> str | None:
    """The name whose call holds a token of a line; None if that is in no call, or the name stands above."""
    depth = 0
    for number in range(at - 1, 0, -1):
        token = tokens[number].group()
        if token in _CLOSERS:
            depth += 1
        elif token in _OPENERS:
            if depth == 0:
                name = tokens[number - 1].group()
                return name if token == "(" and _is_word(name) else None
            depth -= 1
    return None


def _spans(tokens: tuple[str, ...], text: str) -> Iterator[tuple[int, int]]:
    """Where characters of tokens stand one after the other in a line, perhaps as parts of words."""
    if any(token not in text for token in tokens):
        return
    if len(tokens) > 1:
        yield from (match.span() for match in _pattern(tokens).finditer(text))
        return
    # A regular expression takes longer to be made than such a search.
    (token,) = tokens
    at = text.find(token)
    while at >= 0:
        yield at, at + len(token)
        at = text.find(token, at + len(token))


@lru_cache(256)
def _pattern(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """What finds tokens one after the other in a line."""
    words = [re.escape(token) for token in tokens]
    # Without a look behind, the first token is searched as a literal, many times faster.
    last = r"(?!\w)" if _is_word(tokens[-1]) else ""
    return re.compile(r"[^\S\n]*".join(words) + last)


def _places(rule: Rule, text: Text) -> Iterator[Place]:
    if rule.in_call:
        yield from _in_calls(rule, text)
    elif rule.left is None:
        new = tokens_of(rule.new)
        within = [
            at
            for at in range(len(new) - len(rule.old) + 1)
            if tuple(new[at : at + len(rule.old)]) == rule.old
        ]
        lines, put = text.lines, rule.new
        for line, start, end in text.find(rule.old):
            whole = lines[line]
            if len(whole) <= _LONGEST and not (within and _has(whole, start, within, new)):
                yield Place(line, start, end, put, _last(whole, start), _first(whole, end))
    else:
        yield from _between(rule, text)


def _between(rule: Rule, text: Text) -> Iterator[Place]:
    left, right = rule.left or "", rule.right or ""
    tokens = tuple(filter(None, (left, *rule.old, right)))
    new = _squeezed(rule.new)
    for line, start, end in text.find(tokens):
        whole = text.lines[line]
        if (
            len(whole) > _LONGEST
            or (not left and whole[:start].strip())
            or (not right and whole[end:].strip())
        ):
            continue
        first, last = start + len(left), end - len(right)
        # Where the white space is another, so is the line.
        if not rule.old or _squeezed(whole[first:last]) != new:
            yield Place(line, first, last, rule.new, left, right)


def _in_calls(rule: Rule, text: Text) -> Iterator[Place]:
    name, new = rule.left or "", tokens_of(rule.new)
    for line, _, start in text.find((name, "(")):
        whole = text.lines[line]
        if len(whole) > _LONGEST:
            continue
        end = _closing(whole, start)
        arguments = tokens_of(whole[start:end]) if end is not None else []
        if end is not None and arguments and arguments[-len(new) :] != new:
            yield Place(line, end, end, rule.new, arguments[-1], ")")


def _closing(line: str, start: int) -> int | None:
    """The column of the bracket that closes what is open at a column."""
    depth = 0
    for column in range(start, len(line)):
        if line[column] in _OPENERS:
            depth += 1
        elif line[column] in _CLOSERS:
            if depth == 0:
                return column if line[column] == ")" else None
            depth -= 1
    return None


def _has(line: str, start: int, within: Sequence[int], new: Sequence[str]) -> bool:
    """Whether tokens of a line that begin at a column are part of the new ones already. within: where the old
    tokens stand in the new ones."""
    after = tokens_of(line[start:])
    for at in within:
        above = tokens_of(line[:start])[-at:] if at else []
        if above == list(new[:at]) and after[: len(new) - at] == list(new[at:]):
            return True
    return False


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _last(line: str, end: int) -> str:
    """The last token of a line before a column."""
    while end and line[end - 1].isspace():
        end -= 1
    # By hand: a regular expression would begin at each token.
    start = end
    while start and (line[start - 1] == "_" or line[start - 1].isalnum()):
        start -= 1
    return line[start if start < end else max(end - 1, 0) : end]


def _first(line: str, start: int) -> str:
    """The first token of a line from a column on."""
    following = line[start : start + 1]
    if following and not (following.isspace() or _is_word(following)):
        return following
    found = _TOKEN.search(line, start)
    return found[0] if found else ""


def applied(line: str, edits: Iterable[Edit | Place]) -> str:
    """A line with edits applied that do not overlap."""
    for one in sorted(edits, key=lambda one: -one.start):
        text = one.text if isinstance(one, Place) else one.rule.new
        line = line[: one.start] + text + line[one.end :]
    return line
