"""Comments that a model writes and nobody wants: in letters that the document does not have, or without any.
Pure.

A comment that begins behind code is cut off; of a line that is one, nothing is offered.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lsp_calib.characters import has_script, words_by_script
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, Cut
from lsp_calib.completion.reasons import Removal


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
_MARK = re.compile(r"\s*(?:#|//|/\*|\*(?!/))?")
# Digits of one number that repeat or count, and numbers of a line that do.
_REPEATED_DIGIT = re.compile(r"(\d{1,3}?)\1+")
_LEAST_DIGITS, _LEAST_NUMBERS = 5, 5
_COUNTING = "01234567890123456789"


def without_unwanted(
    found: Cleaned, cursor: Cursor, prose_at: Callable[[int], Prose | None], elsewhere: Texts = tuple
) -> Cleaned:
    """What is left of a text that is offered at `cursor`.

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
    mark = _MARK.match(line) if is_comment else None
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
    steps = {int(after[:_MOST]) - int(before[:_MOST]) for before, after in itertools.pairwise(numbers)}
    return len(numbers) >= _LEAST_NUMBERS and len(steps) == 1


# Digits of a number that are read.
_MOST = 20


def _is_known(script: str, cursor: Cursor, elsewhere: Texts) -> bool:
    """Whether the document, or a text beside it, has a letter of a script."""
    return any(has_script(text, script) for text in itertools.chain(cursor.lines, elsewhere()))


def _before(found: Cleaned, at: int, why: Removal) -> Cleaned:
    """The text before a comment that begins in it, or why nothing is left."""
    text = found.text[: max(at, 0)].rstrip()
    return Cleaned(text, None, (*found.cuts, Cut.COMMENT)) if text else Cleaned("", why)
