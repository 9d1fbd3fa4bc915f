"""From a model's answer to the text to offer."""

from __future__ import annotations

import enum
import re

import attrs

from lsp_calib.characters import has_hidden
from lsp_calib.completion.brackets import (
    is_balanced,
    is_own_closer,
    lines_above,
    up_to_the_closer_behind,
    without_end_behind,
    without_surplus_closers,
)
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import FIM_VERSION, PREFIX_VERSION
from lsp_calib.languages import family_of
from lsp_calib.syntax.languages import rules_of

# In characters. A shorter line may well stand there twice, such as `else:` or `},`.
_SHORTEST_REPEAT = 8
# In characters: what the end of a text shares with the rest of the line by chance is shorter.
_SHORTEST_OVERLAP = 2
_SHORTEST_REST = 3
# And at the end of the line.
_NO_SPACE_BEFORE = frozenset(("", *" \t)]},;:."))
_WORD, _MARK = re.compile(r"\w"), re.compile(r"[^\w\s]")
# In C# a bracket may begin an attribute or, below an assignment, numbers.
_NUMBERS = re.compile(r"\s*\[[\s\d]")
_TEMPLATE = re.compile(r"\s*template\b")
# Records of these prompts are older than the rules of `offered`: their verdicts are of the text of `cleaned`.
_JUDGED_AS_CLEANED = (PREFIX_VERSION, FIM_VERSION)


class Removal(enum.StrEnum):
    """Why nothing of a model's answer is offered."""

    EMPTY = "empty"  # the model ended the line at once
    WHITE_SPACE = "onlyWhiteSpace"
    REPEATS_SUFFIX = "repeatsSuffix"
    REPEATS_NEXT_LINE = "repeatsNextLine"
    SURPLUS_CLOSERS = "surplusClosers"
    HIDDEN_CHARACTERS = "hiddenCharacters"
    NEVER_ENDED = "neverEnded"  # within the tokens that a line can have


class Cut(enum.StrEnum):
    """Why the end of an answer is not offered."""

    SUFFIX = "suffix"  # the rest of the line, written again
    PART_OF_SUFFIX = "partOfSuffix"  # its beginning, or all of it and more, or what ends it
    SURPLUS_CLOSERS = "surplusClosers"


@attrs.frozen
class Cleaned:
    """The text to offer, and if that is empty, why nothing is left of the answer. cuts: of its end."""

    text: str
    removal: Removal | None = None
    cuts: tuple[Cut, ...] = ()


def offered(text: str, cursor: Cursor) -> Cleaned:
    """The completion to offer at `cursor`, or why there is nothing worth offering.

    After `cleaned`: a text that goes on into the beginning of the rest of the line, or over all of it, or
    that closes the bracket or quote that the rest closes, ends there; closing brackets at its end that close
    nothing are cut off; what makes the line the next one again is not offered.
    tests/programs/after_the_model.py counts what each rule changes and whether that was right.
    """
    found = _offered_at_first(text, cursor)
    if found.removal is None and cursor.before.strip() and _is_next_line(found.text, cursor):
        return Cleaned("", Removal.REPEATS_NEXT_LINE)
    return found


def _offered_at_first(text: str, cursor: Cursor) -> Cleaned:
    """As `offered`, but a line that is being typed may become the next one: of such texts are the verdicts
    of records."""
    found = cleaned(text, cursor)
    if found.removal is not None:
        return found
    text, cuts = found.text, found.cuts
    if Cut.SUFFIX not in cuts:
        ends = _without_rest(text, cursor)
        if not ends.strip():
            return Cleaned("", Removal.REPEATS_SUFFIX)
        if ends != text:
            text, cuts = ends, (*cuts, Cut.PART_OF_SUFFIX)
    above, around = lines_above(cursor.lines, cursor.line), (cursor.before, cursor.after)
    more_above = len(above) < cursor.line
    within = up_to_the_closer_behind(text, *around, above, cursor.language)
    within = without_end_behind(within, *around)
    if not within.strip():
        return Cleaned("", Removal.REPEATS_SUFFIX)
    if within != text:
        text, cuts = within, (*cuts, Cut.PART_OF_SUFFIX)
    closed = without_surplus_closers(text, *around, above, cursor.language, more_above=more_above)
    if not closed.strip():
        return Cleaned("", Removal.SURPLUS_CLOSERS)
    if closed != text:
        text, cuts = closed, (*cuts, Cut.SURPLUS_CLOSERS)
    if not cursor.before.strip() and _is_next_line(text, cursor):
        return Cleaned("", Removal.REPEATS_NEXT_LINE)
    return Cleaned(text, None, cuts)


def judged(text: str, cursor: Cursor, version: str) -> str:
    """The text that records of this prompt's version have their verdict of; empty if there is none."""
    return (cleaned if version in _JUDGED_AS_CLEANED else _offered_at_first)(text, cursor).text


def cleaned(text: str, cursor: Cursor) -> Cleaned:
    """The completion, or why there is none: the first part of `offered`.

    Trailing white space is removed; text that already stands after the cursor is not offered again.
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
    kept, text = (bare if cursor.after[:1] in _NO_SPACE_BEFORE else text), bare
    rest = cursor.after.rstrip()
    if not text.endswith(rest):
        rest = rest.lstrip()
    if not text.endswith(rest) or not rest or is_own_closer(text, cursor.before, rest, cursor.language):
        return Cleaned(kept)
    if _splits_word(text, rest, cursor):
        return Cleaned(kept)
    text = text[: -len(rest)]
    return Cleaned(text, cuts=(Cut.SUFFIX,)) if text.strip() else Cleaned("", Removal.REPEATS_SUFFIX)


def _without_rest(text: str, cursor: Cursor) -> str:
    """`text` up to where it begins to write the rest of the line again."""
    rest = cursor.after.strip()
    # A bare word may stand in a line twice: `self.name = |name`.
    if len(rest) >= _SHORTEST_REST and _WORD.search(rest) and _MARK.search(rest) and rest in text:
        return text[: text.index(rest)]
    for size in range(min(len(rest) - 1, len(text)), _SHORTEST_OVERLAP - 1, -1):
        shared = rest[:size]
        # A bracket that the answer itself opened stays closed.
        if not text.endswith(shared) or _splits_word(text, shared, cursor):
            continue
        if is_balanced(shared) or not is_balanced(text):
            return text[:-size].rstrip() if cursor.after[:1].isspace() else text[:-size]
    return text


def _splits_word(text: str, shared: str, cursor: Cursor) -> bool:
    """Whether the end of a text that equals the beginning of the rest is the end of a word, and stands apart
    from the rest: of `for | in names`, the `in` of `plugin`."""
    start = text.rstrip()[: -len(shared)]
    apart = cursor.after[:1].isspace() and _WORD.match(shared) is not None
    return apart and bool(start) and _WORD.match(start[-1]) is not None


def _is_next_line(text: str, cursor: Cursor) -> bool:
    """Whether a line would stand there twice, one below the other."""
    line = (cursor.before + text + cursor.after).rstrip()
    if len(line.strip()) < _SHORTEST_REPEAT or not _WORD.search(line):
        return False
    # The elements of a list may well be the same: who has begun to type one again seems to want that.
    if cursor.before.strip() and line.endswith(","):
        return False
    below, blank = next_line(cursor)
    # Two definitions in a row may well be marked alike: `@property`, a blank line, `@property`.
    return below == line and not (blank and _marks_what_is_below(line, cursor.language))


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
    rules = rules_of(language)
    marked = rules is not None and line.lstrip().startswith(tuple(rules.marks))
    return marked and not _NUMBERS.match(line)
