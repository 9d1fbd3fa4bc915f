"""The edits of a session, and what is known of a place where one of them can be made again."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.edits.rules import Edit, Place, Rule, Text, edits_of_line, tokens_of

# Edits that are remembered, and rules of a change of which places are looked for.
_MOST_MADE = 200
MOST_RULES = 3
# Lines between two places that are searched for the end of a block.
_FARTHEST = 400

# Before a name that is defined, and in the line of a function's head, in some language.
_DEFINING = frozenset(
    (
        *("def", "class", "func", "function", "fn", "let", "const", "var", "val", "type", "interface"),
        *("enum", "struct", "import", "as", "for", "trait"),
    )
)
_HEADS = frozenset(("def", "func", "function", "fn", "public", "private", "protected", "static"))
_IMPORT = re.compile(r"\b(?:import|require|use|using|package)\b")
_COMMENTS = ("#", "//", "*", "/*", "--")


@attrs.frozen
class Made:
    """An edit that was made. line: from 0, in the document as it is now. was, became: its line before and
    after. together: the other edits of the same change."""

    rule: Rule
    document: Hashable
    line: int
    edit: Edit
    was: str
    became: str
    together: int


class History:
    """The last edits of a session, the newest last."""

    def __init__(self) -> None:
        self.made: deque[Made] = deque(maxlen=_MOST_MADE)

    def changed(self, document: Hashable, line: int, was: str, became: str) -> list[Rule]:
        """Note that a line became another. The rules of that, at most MOST_RULES.

        A line that becomes what it was takes back what was done to it.
        """
        for one in reversed(self.made):
            if (one.document, one.line, one.became, one.was) == (document, line, was, became):
                self.made = deque(
                    (kept for kept in self.made if (kept.line, kept.became) != (line, was)), _MOST_MADE
                )
                return []
        edits = edits_of_line(was, became)
        if len({edit.rule for edit in edits}) > MOST_RULES:
            return []
        for edit in edits:
            self.made.append(Made(edit.rule, document, line, edit, was, became, len(edits) - 1))
        return list(dict.fromkeys(edit.rule for edit in edits))

    def moved(self, document: Hashable, start: int, end: int, by: int) -> None:
        """Note that lines from `end` on moved; of those from `start` on before that, nothing is known."""
        kept = []
        for one in self.made:
            if one.document == document and one.line >= start:
                one = attrs.evolve(one, line=one.line + by if one.line >= end else -1)
            kept.append(one)
        self.made = deque(kept, _MOST_MADE)

    def of(self, rule: Rule) -> list[Made]:
        return [one for one in self.made if one.rule == rule]

    def forget(self, document: Hashable) -> None:
        """Forget where edits of a document were: it is closed."""
        self.made = deque((one for one in self.made if one.document != document), _MOST_MADE)


def passed_over(places: Sequence[Place], made: Sequence[Made], document: Hashable) -> frozenset[Place]:
    """The places between two that were changed one after the other."""
    lines = [one.line for one in made if one.document == document and one.line >= 0]
    spans = [(min(pair), max(pair)) for pair in pairwise(lines)]
    if not spans:
        return frozenset()
    return frozenset(place for place in places if any(a < place.line < b for a, b in spans))


FEATURES = (
    *("repeats", "alone", "passed", "elsewhere", "left", "right", "both", "alike", "alike-most", "others"),
    *("new", "distance", "above", "far", "same-line", "same-scope", "number", "insertion", "in-call"),
    *("length", "words", "defined", "defined-here", "defined-left", "rename", "orphan", "defines"),
    *("together", "resembles", "comment", "went-on", "alone-alike", "alone-both", "alone-new"),
    *("alone-short", "alone-orphan", "never-passed"),
)


def features_of(
    place: Place,
    rule: Rule,
    made: Sequence[Made],
    text: Text,
    document: Hashable,
    others: int,
    passed: int,
    *,
    is_defined_left: bool,
) -> dict[str, float]:
    """The facts about a place by name.

    made: all edits by the rule, the newest last; at least one. others: other places where it can be applied.
    passed: places that were passed over. is_defined_left: see `is_defined_near`, of all places.
    """
    last, is_alone = made[-1], float(len(made) == 1)
    here = [one for one in made if one.document == document and one.line >= 0]
    line = text.lines[place.line]
    alike = [_alike(line, one.was, rule.old) for one in made[-8:]]
    both = float(any((place.before, place.after) == (one.edit.before, one.edit.after) for one in made))
    above = bool(here) and place.line < here[-1].line
    new = float(text.count(tokens_of(rule.new)) <= len(here))
    same_scope = float(bool(here) and _same_scope(text.lines, here[-1].line, place.line))
    defined = float(any(_defines(one.was, one.edit) for one in made))
    rename = float(len(rule.old) == 1 and re.fullmatch(r"\w+", rule.new) is not None)
    left = float(is_defined_left)
    length = math.log1p(sum(map(len, rule.old)))
    comment = line.lstrip().startswith(_COMMENTS) - last.was.lstrip().startswith(_COMMENTS)
    # A name that is no longer defined where it stands: its definition was renamed, and nothing else there.
    is_renamed = any(
        one.together == 0 and _defines(one.was, one.edit) and not _IMPORT.search(one.was) for one in made
    )
    is_left = rename and is_renamed and same_scope and not left and comment == 0 and _is_name(place)
    orphan = float(is_left)
    return {
        "repeats": math.log(len(made)),
        "alone": is_alone,
        "passed": math.log1p(passed),
        "elsewhere": math.log1p(len(made) - len(here)),
        "left": float(place.before in {one.edit.before for one in made}),
        "right": float(place.after in {one.edit.after for one in made}),
        "both": both,
        "alike": alike[-1],
        "alike-most": max(alike),
        "others": math.log1p(others),
        "new": new,
        "distance": math.log1p(min((abs(one.line - place.line) for one in here), default=0)),
        "above": float(above),
        "far": float(not here),
        "same-line": float(bool(here) and here[-1].line == place.line),
        "same-scope": same_scope,
        "number": float(any(token[0].isdigit() for token in rule.old)),
        "insertion": float(not rule.old),
        "in-call": float(rule.in_call),
        "length": length,
        "words": float(len(rule.old)),
        "defined": defined,
        "defined-here": defined * same_scope,
        "defined-left": left,
        "rename": rename,
        "orphan": orphan,
        "defines": float(_defines(line, place)),
        "together": math.log1p(last.together),
        "resembles": _resemblance("".join(rule.old), "".join(tokens_of(rule.new))),
        "comment": float(abs(comment)),
        "went-on": float(len(here) > 1 and (here[-1].line > here[-2].line) != above),
        "alone-alike": is_alone * alike[-1],
        "alone-both": is_alone * both,
        "alone-new": is_alone * new,
        "alone-short": is_alone * length,
        "alone-orphan": is_alone * orphan,
        "never-passed": float(passed == 0) * math.log(len(made)),
    }


def is_defined_near(
    places: Iterable[Place], made: Sequence[Made], lines: Sequence[str], document: Hashable
) -> bool:
    """Whether one of some places defines a name in the scope of the last edit of the document."""
    last = next((one.line for one in reversed(made) if one.document == document and one.line >= 0), None)
    return last is not None and any(
        _defines(lines[one.line], one) and _same_scope(lines, last, one.line) for one in places
    )


def _is_name(place: Place) -> bool:
    """Whether it may be a name that was defined: no attribute, and not in quotes."""
    return place.before != "." and not {place.before, place.after} & set("\"'`")


def _defines(line: str, place: Edit | Place) -> bool:
    """Whether a name in a line is defined there, as far as tokens tell."""
    if place.before in _DEFINING or (place.after in ("=", ":") and place.before in ("", "(", ",")):
        return True
    return place.before in ("(", ",", "*", "&") and place.start > line.find("(") > 0 and _is_head(line)


def _is_head(line: str) -> bool:
    return not _HEADS.isdisjoint(tokens_of(line[: line.find("(")]))


def _words(line: str) -> frozenset[str]:
    return frozenset(tokens_of(line))


def _alike(line: str, was: str, old: Sequence[str]) -> float:
    """The share of tokens, but for those that were replaced, that two lines have in common."""
    one, other = _words(line).difference(old), _words(was).difference(old)
    return len(one & other) / len(one | other) if one | other else 1.0


@lru_cache(256)
def _resemblance(old: str, new: str) -> float:
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def _same_scope(lines: Sequence[str], made: int, place: int) -> bool:
    """Whether a place is in the block of a line, or in the one that the line opens."""
    if abs(place - made) > _FARTHEST:
        return False
    least = len(indentation_of(lines[made]))
    between = lines[made + 1 : place + 1] if place > made else lines[place:made]
    return all(
        len(indentation_of(line)) >= least or not line.strip() or line.lstrip()[0] in ")]}"
        for line in between
    )
