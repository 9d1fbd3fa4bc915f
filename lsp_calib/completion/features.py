"""What a document makes of a model's answer: the text to offer, whether it is prose, and the features of its
probabilities and of the line that it would make.

What is remembered of a document makes them cost time for one line, as long as the cursor stays in it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lsp_calib.characters import has_script, indentation_of, normalised_line, words_by_script
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, Cut, offered
from lsp_calib.completion.reasons import Removal
from lsp_calib.confidence.features import Prefix, prefixes, probability_features
from lsp_calib.languages import line_comment
from lsp_calib.syntax import names_below
from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.languages.python import PythonDocument
from lsp_calib.syntax.line_fit import fit_of
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.syntax.names_below import NamesBelow, names_outside
from lsp_calib.syntax.rules import LanguageRules
from lsp_calib.syntax.signs import KINDS, Sign, Signs
from lsp_calib.syntax.source_tree import Overrun, SourceTree, prose_at, region_of
from lsp_calib.values import Evidence, Generation


def doubtful_span(generation: Generation, text: str) -> tuple[int, int] | None:
    """Start and end, in code points of `text`, of the word that holds the least likely token.

    text: as it is offered, the beginning of the generation's. A word is a run of letters, digits and
    underscores, or else of other visible characters. Tokens that add nothing visible to `text` do not count;
    None if no other is left.
    """
    least: tuple[float, int] | None = None
    end = 0
    for token, logprob in zip(generation.tokens, generation.logprobs, strict=True):
        start, end = end, end + len(token.text)
        visible = [at for at in range(start, min(end, len(text))) if not text[at].isspace()]
        if visible and (least is None or logprob < least[0]):
            # Of `.name`, the name: its mark is seldom what a model hesitates about.
            word = _OF_A_WORD.search(text, start, end)
            least = logprob, word.start() if word else visible[0]
    if least is None:
        return None
    return next(run.span() for run in _RUN.finditer(text) if run.start() <= least[1] < run.end())


_OF_A_WORD = re.compile(r"\w")
_RUN = re.compile(r"\w+|[^\w\s]+")


_WORD = re.compile(r"[^\W\d]\w*")


class DocumentIndex:
    """A document without the cursor's line: its tree, and which lines and words stand in it.

    While a user types in one line, nothing of it changes.

    repeats: how often a line (as `normalised_line` gives it) stands in it. words: of all its lines.
    below: the next line that is not blank, None at the end.
    tree: of the lines from `first` on, the cursor's empty; None if the language has no grammar, or if these
        lines take too long.
    python: the document as the running Python parses it, None in other languages.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._lines, self._row, self._language = cursor.lines, cursor.line, cursor.language
        above, following = self._lines[: self._row], self._lines[self._row + 1 :]
        self.repeats = Counter(map(normalised_line, itertools.chain(above, following)))
        self.words = frozenset(_WORD.findall("\n".join((*above, *following))))
        self.below = next((line for line in following if line.strip()), None)
        is_python = self._language == "python"
        self.python = PythonDocument(self._lines, self._row) if is_python else None
        self._signs = Signs(self._lines, self._row) if is_python else None
        self.tree: SourceTree | None = None
        self.first = self._last = 0
        if (rules := RULES.get(self._language)) is not None:
            self.first, self._last = region_of(rules, self._lines, self._row)
            part = *self._lines[self.first : self._row], "", *self._lines[self._row + 1 : self._last]
            with contextlib.suppress(Overrun):
                self.tree = SourceTree(rules, part)

    @functools.cached_property
    def _names(self) -> NamesBelow | None:
        if self.tree is None or self._language not in names_below.LANGUAGES:
            return None
        outside = *self._lines[: self.first], *self._lines[self._last :]
        with contextlib.suppress(Overrun):
            names = NamesBelow(self.tree, self._row - self.first, names_outside(self.tree.rules, outside))
            names.read()
            return names
        return None

    def read_signs(self) -> None:
        """Read what `signs` needs, so that it takes little time."""
        if self._signs is not None:
            self._signs.read()
        else:
            _ = self._names

    def signs(self, cursor: Cursor, text: str) -> tuple[Sign, ...]:
        """The signs against a text at its cursor, the one to be said first of all; none in languages in which
        none are looked for."""
        if self._signs is not None:
            return self._signs.of(cursor.before + text + cursor.after)
        found: Mapping[str, str] = {}
        if self._names is not None:
            with contextlib.suppress(Overrun):
                found = self._names.of(cursor.before, text, cursor.after)
        return tuple(Sign(kind, found[kind]) for kind in KINDS if kind in found)

    def is_of(self, cursor: Cursor) -> bool:
        """Whether it is the index of a cursor: the same line in a document whose other lines are the same."""
        old, new, row = self._lines, cursor.lines, self._row
        if (cursor.line, cursor.language) != (row, self._language):
            return False
        return new is old or (new[:row] == old[:row] and new[row + 1 :] == old[row + 1 :])

    def beginning_with(self, text: str) -> int:
        """How many of the lines begin with a text, white space before it aside."""
        return sum(count for line, count in self.repeats.items() if line.startswith(text))


# A model that writes the next line of the file again has been led by the text below.
_FOLLOWING = 3
# In characters: what begins with less has little in common.
_SHORTEST_BEGINNING = 3

# In characters. A longer line is data, and has no features of syntax; nor has a command in a notebook.
_LONGEST = 1000

# Without one of these nothing that is prose begins in a line.
_MARKS = re.compile(r"[#\"'*]|//|--")
# The first line of a documentation string.
_DOCUMENTATION = re.compile(r'\s*[rR]?("""|\'\'\')(?!.*\1)')
_LONG_STRING = re.compile(r"\"{3}|'{3}")
# In lines: so far above the mark of a comment is looked for that is not closed yet.
_LONGEST_COMMENT = 200
_OPENS_DOCUMENTATION = re.compile(r'\s*[rR]?("""|\'\'\')')

# A larger document is data or generated: only the place of the cursor is known of it.
MOST_CHARACTERS = 2_000_000

# An index takes a few times the memory of its document.
_MOST_DOCUMENTS = 8


def place_of(cursor: Cursor) -> str:
    """The kind of place of a cursor, one of `confidence.features.PLACES`."""
    if not cursor.before:
        return "line-start"
    if not cursor.before.strip():
        return "after-indentation"
    return "mid-word" if _OF_A_WORD.match(cursor.before[-1]) else "mid-line"


def text_features(cursor: Cursor, text: str) -> dict[str, float]:
    """The features of the text that a completion would make, by name.

    text: as it is offered at `cursor`. Those that need a grammar are missing where the language has none, and
    all but the place's where the document is too large.
    """
    return _text_features(_index_of(cursor), cursor, text)


class Judged(NamedTuple):
    """What is made of an answer. answer: what is offered of it. places: in that, see `prefixes`. doubt: the
    span of `doubtful_span`.

    Of prose nothing else is kept, but for evidence of a line of code that opens a documentation string: that
    decides whether the line is hidden.
    """

    answer: Cleaned
    is_prose: bool = False
    evidence: Evidence = Evidence()
    places: Sequence[Prefix] = ()
    doubt: tuple[int, int] | None = None


class DocumentFeatures:
    """Computes the evidence of completions in one document, with what it remembers of it.

    Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: DocumentIndex | None = None
        self._newest: Cursor | None = None
        self._prose: tuple[Cursor, bool] | None = None

    def read(self, cursor: Cursor) -> None:
        """Read the cursor's document, so that `evidence` takes little time. It takes about 4 microseconds a
        line, of Python 30, once for each line that the cursor comes to.

        Nothing is read that a later call is waiting to read in a newer state, nor after `close`.
        """
        self._newest = cursor
        with self._lock:
            if self._newest is cursor:
                index = self._read(cursor)
                if index is not None and self._newest is cursor:
                    index.read_signs()
                if self._prose is None or self._prose[0] is not cursor:
                    self._prose = cursor, _prose(index, cursor, cursor.before, cursor.after) is not None

    def close(self) -> None:
        """Let calls of `read` that are still waiting do nothing."""
        self._newest = None

    def is_prose(self, cursor: Cursor) -> bool:
        """Whether a cursor stands in a comment or a documentation string."""
        known = self._prose
        if known is not None and known[0] is cursor:
            return known[1]
        with self._lock:
            self._prose = cursor, _prose(self._read(cursor), cursor, cursor.before, cursor.after) is not None
            return self._prose[1]

    def begins_documentation(self, cursor: Cursor, text: str) -> bool:
        """Whether a completion at the beginning of a line opens a documentation string.

        text: as it is offered at `cursor`.
        """
        line = cursor.before + text
        opening = _OPENS_DOCUMENTATION.match(line)
        if cursor.language != "python" or cursor.before.strip() or opening is None:
            return False
        end = opening.end()
        with self._lock:
            return _prose(self._read(cursor), cursor, line[:end], line[end:] + cursor.after) is not None

    def evidence(self, cursor: Cursor, text: str, generation: Generation) -> Evidence:
        """The evidence of a completion. text: as it is offered at `cursor`."""
        features = probability_features(generation.logprobs, generation.entropies, generation.stop)
        with self._lock:
            index = self._read(cursor)
            features |= _text_features(index, cursor, text)
            signs = index.signs(cursor, text) if index is not None and features.get("signs") else ()
        span = doubtful_span(generation, text)
        doubtful = text[slice(*span)] if span else ""
        sign = signs[0].words if signs else ""
        return Evidence(generation.logprobs, features, place_of(cursor), doubtful, sign)

    def offered(self, cursor: Cursor, text: str, elsewhere: Texts = tuple) -> Cleaned:
        """What is offered of an answer at `cursor`, without an unwanted comment; see `postprocess`."""
        with self._lock:

            def source(cursor: Cursor) -> tuple[SourceTree, int] | None:
                index = self._read(cursor)
                return (index.tree, cursor.line - index.first) if index and index.tree else None

            found = offered(text, cursor, source)
            line = cursor.before + found.text + cursor.after

            def prose(column: int) -> Prose | None:
                return _prose(self._read(cursor), cursor, line[:column], line[column:])

            kept = _without_unwanted(found, cursor, prose, elsewhere)
            if not kept.text or kept.text == found.text:
                return kept
            # What closed something behind the cursor in a comment closes it in code now.
            again = offered(kept.text, cursor, source)
            return Cleaned(again.text, again.removal, (*kept.cuts, *again.cuts) if again.text else ())

    def is_broken(self, cursor: Cursor, text: str) -> bool:
        """Whether a text at `cursor` leaves code that cannot be parsed, see `syntax.line_fit`."""
        with self._lock:
            return _text_features(self._read(cursor), cursor, text).get("broken") == 1.0

    def judged(self, cursor: Cursor, generation: Generation, elsewhere: Texts) -> Judged:
        """What is made of an answer at `cursor`."""
        answer = self.offered(cursor, generation.text, elsewhere)
        # Doubtful numbers are not kept: nothing should be learned from them.
        if answer.removal is not None or generation.doubt:
            return Judged(answer)
        if self.is_prose(cursor):
            return Judged(answer, True)
        text = answer.text
        evidence = self.evidence(cursor, text, generation)
        if self.begins_documentation(cursor, text):
            return Judged(answer, True, evidence)
        with self._lock:
            index = self._read(cursor)
        places = prefixes(generation, text, cursor.before, () if index is None else index.words)
        return Judged(answer, False, evidence, places, doubtful_span(generation, text))

    def _read(self, cursor: Cursor) -> DocumentIndex | None:
        """The index of the cursor's document, under the lock."""
        self._index = _index_of(cursor, self._index)
        return self._index


class FeatureExtractor:
    """Remembers the documents used last, at most so many. For one thread."""

    def __init__(self, most: int = _MOST_DOCUMENTS) -> None:
        self._documents: dict[str, DocumentFeatures] = {}
        self._most = most

    def of(self, document: str) -> DocumentFeatures:
        """What is remembered of a document; "" names one that is not remembered.

        A thread that works on it after `forget` fills what nobody keeps.
        """
        if not document:
            return DocumentFeatures()
        found = self._documents.pop(document, None)
        found = self._documents[document] = found or DocumentFeatures()
        if len(self._documents) > self._most:
            del self._documents[next(iter(self._documents))]
        return found

    def forget(self, document: str) -> None:
        """Drop what is remembered of a document."""
        forgotten = self._documents.pop(document, None)
        if forgotten is not None:
            forgotten.close()


def _index_of(cursor: Cursor, known: DocumentIndex | None = None) -> DocumentIndex | None:
    """The index of the cursor's document, `known` if that is it; None if it is too large."""
    if known is not None and known.is_of(cursor):
        return known
    return None if sum(map(len, cursor.lines)) > MOST_CHARACTERS else DocumentIndex(cursor)


def _prose(index: DocumentIndex | None, cursor: Cursor, before: str, after: str) -> Prose | None:
    """The comment or documentation string that a place stands in; None if it stands in none.

    index: of the document of `cursor`. before, after: its line, as it is or would be, around the place.
    """
    if index is None or isinstance(cursor.lines[cursor.line], CommandLine):
        return None
    if len(before) + len(after) > _LONGEST:
        return None
    if index.tree is None:
        return _prose_by_mark(cursor, before)
    row, rules = cursor.line - index.first, index.tree.rules
    is_marked = _MARKS.search(before) is not None
    try:
        index.tree.ask()
        # Without a mark it can only stand in what goes over several lines. In the tree its line is empty, at
        # no cost.
        tree = index.tree.tree_with(row, before + after) if is_marked else index.tree.tree
        node = prose_at(tree.root_node, rules, row, before if is_marked else "")
        if node is None and tree.root_node.has_error:
            # What closes it is not written yet.
            if cursor.language == "python" and _DOCUMENTATION.match(before):
                return Prose(len(indentation_of(before)), is_comment=False)
            if end := _open_above(rules, cursor, before, index.first):
                tree = index.tree.tree_with(row, before + end)
                node = prose_at(tree.root_node, rules, row, before)
    except Overrun:
        return None
    if node is None:
        return None
    start = node.start_point
    column = len(before.encode("utf-8", "replace")[: start.column].decode("utf-8", "replace"))
    return Prose(column if start.row == row else 0, node.type in rules.comments)


def _open_above(rules: LanguageRules, cursor: Cursor, before: str, first: int) -> str:
    """What would close the comment or the documentation string that seems to be open behind `before`, ""
    if none does. first: the line from which on it is looked for."""
    if cursor.language == "python":
        inside = ""
        for line in (*cursor.lines[first : cursor.line], before):
            for mark in _LONG_STRING.findall(line):
                inside = mark if not inside else "" if mark == inside else inside
        return inside
    has_blocks = any(end == "*/" for _, end in rules.spans)
    return "*/" if has_blocks and _is_block_open(cursor, before, first) else ""


def _is_block_open(cursor: Cursor, before: str, first: int = 0) -> bool:
    """Whether a line from `first` on begins a comment that does not end in `before`."""
    for at in range(cursor.line, max(cursor.line - _LONGEST_COMMENT, first - 1), -1):
        line = before if at == cursor.line else cursor.lines[at]
        opened = line.rfind("/*")
        if line.rfind("*/") > opened:
            return False
        if opened >= 0:
            # Behind code it often stands in a string, such as a pattern of files.
            return not line[:opened].strip()
    return False


def _prose_by_mark(cursor: Cursor, before: str) -> Prose | None:
    """As `_prose` without a grammar: a comment is known where it is all that its line holds."""
    mark = line_comment(cursor.language)
    if mark.startswith("/") and _is_block_open(cursor, before):
        return Prose(max(before.rfind("/*"), 0), is_comment=True)
    start = len(indentation_of(before))
    # `/*` itself is open or over.
    begins = mark and mark != "/*" and before.startswith(mark, start)
    return Prose(start, is_comment=True) if begins else None


def _text_features(index: DocumentIndex | None, cursor: Cursor, text: str) -> dict[str, float]:
    features = {"in-word": float(place_of(cursor) == "mid-word")}
    if index is None:
        return features
    line = cursor.before + text + cursor.after
    whole = normalised_line(line)
    repeats = index.repeats[whole]
    following = cursor.lines[cursor.line + 1 : cursor.line + 1 + _FOLLOWING]
    features["line-repeats"] = math.log1p(repeats)
    features["line-follows"] = float(any(normalised_line(other) == whole for other in following))
    features["beginning-agrees"] = features["beginning-differs"] = 0.0
    beginning = cursor.before.strip()
    if len(beginning) >= _SHORTEST_BEGINNING and whole.startswith(beginning):
        alike = index.beginning_with(beginning)
        features["beginning-agrees"] = repeats / (alike + 1)
        features["beginning-differs"] = (alike - repeats) / (alike + 2)
    is_code = not isinstance(cursor.lines[cursor.line], CommandLine)
    if index.tree is not None and len(line) <= _LONGEST and is_code:
        row = cursor.line - index.first
        try:
            fit = fit_of(index.tree, row, cursor.before, text, cursor.after, index.below, index.python)
        except Overrun:
            index.tree = None
            return features
        features["broken"] = float(fit.broken)
        features["new-names"] = math.log1p(sum(name not in index.words for name in fit.names))
        features["signs"] = math.log1p(len(index.signs(cursor, text)))
    return features


class Prose(NamedTuple):
    """A comment or a documentation string around a place.

    start: where it begins in the place's line, in code points; 0 if that is above. is_comment: whether it is
    a comment.
    """

    start: int
    is_comment: bool


UNWANTED = frozenset((Removal.FOREIGN_SCRIPT, Removal.FILLER))
"""Why another answer may be offered in the place of one."""

Texts = Callable[[], Iterable[str]]
"""Gives texts beside the document whose letters the user reads: related code, other open documents."""

# What rulers and boxes are drawn with. Brackets are none: `# });` was code.
_RULER = re.compile(r"[-=_*#~.+/\\|^<>:!\u2010-\u2015\u2500-\u259f\u2022\u00b7]{3,}")
_ELLIPSIS = "..."
_NUMBERS = re.compile(r"\d+(?:[\s.,;:_|/-]+\d+)*[\s.,;:_|/-]*")
_DIGITS = re.compile(r"\d+")
# Before a comment with nothing else in it is looked for.
_FILLED_END = re.compile(rf"(?:{_RULER.pattern}|\d[\s.,;:_|/-]*)$")
_COMMENT_MARK = re.compile(r"\s*(?:#|//|/\*|\*(?!/))?")
# Digits of one number that repeat or count, and numbers of a line that do.
_REPEATED_DIGIT = re.compile(r"(\d{1,3}?)\1+")
# And digits of a number that are read.
_LEAST_DIGITS, _LEAST_NUMBERS, _MOST_DIGITS = 5, 5, 20
_COUNTING = "01234567890123456789"


def _without_unwanted(
    found: Cleaned, cursor: Cursor, prose_at: Callable[[int], Prose | None], elsewhere: Texts
) -> Cleaned:
    """What is left of a text that is offered at `cursor` without a comment that a model writes and nobody
    wants: in letters that the document does not have, or without any.

    A comment that begins behind code is cut off; of a line that is one, nothing is offered.

    prose_at: the comment or documentation around a column of the line that the text would make.
    """
    text, first = found.text, len(cursor.before)
    for script, _, end in words_by_script(text):
        prose = prose_at(first + end)
        if prose is not None and not _is_known(script, cursor, elsewhere):
            return _before(found, prose.start - first, Removal.FOREIGN_SCRIPT)
    line = cursor.before + text + cursor.after
    if text and _FILLED_END.search(line.rstrip().removesuffix("*/").rstrip()):
        prose = prose_at(first + len(text))
        if prose is not None and is_filler(line[prose.start :], is_comment=prose.is_comment):
            return _before(found, prose.start - first, Removal.FILLER)
    return found


def is_filler(line: str, *, is_comment: bool = True) -> bool:
    """Whether a line of a comment or a documentation string, with its mark, holds nothing but repeated digits
    or filling characters. In documentation strings, which underline headings, filling characters are text.

    >>> is_filler("# 0000000"), is_filler("// -------"), is_filler("# 1 2 3 4 5 6")
    (True, True, True)
    >>> is_filler("# 2026-11-29"), is_filler("# ..."), is_filler("# }"), is_filler("# --- Names ---")
    (False, False, False, False)
    """
    mark = _COMMENT_MARK.match(line) if is_comment else None
    text = line[mark.end() if mark else 0 :].strip().removesuffix("*/").strip()
    solid = "".join(text.split())
    if _RULER.fullmatch(solid):
        return is_comment and solid != _ELLIPSIS
    if not _NUMBERS.fullmatch(text):
        return False
    numbers = _DIGITS.findall(text)
    if len(numbers) == 1:
        (only,) = numbers
        return len(only) >= _LEAST_DIGITS and (
            _REPEATED_DIGIT.fullmatch(only) is not None or only[: len(_COUNTING)] in _COUNTING
        )
    read = (int(number[:_MOST_DIGITS]) for number in numbers)
    steps = {after - before for before, after in itertools.pairwise(read)}
    return len(numbers) >= _LEAST_NUMBERS and len(steps) == 1


def _is_known(script: str, cursor: Cursor, elsewhere: Texts) -> bool:
    """Whether the document, or a text beside it, has a letter of a script."""
    return any(has_script(text, script) for text in itertools.chain(cursor.lines, elsewhere()))


def _before(found: Cleaned, at: int, why: Removal) -> Cleaned:
    """The text before a comment that begins in it, or why nothing is left."""
    text = found.text[: max(at, 0)].rstrip()
    return Cleaned(text, None, (*found.cuts, Cut.COMMENT)) if text else Cleaned("", why)
