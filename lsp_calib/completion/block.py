"""Blocks: the lines below a suggested line, up to the end of its scope, each with its own tier.

Each line is completed as a line, in the document as it would be with those above it. So its confidence is the
probability that it is right if they are, and the product up to a line that all lines up to it are right.
"""

from __future__ import annotations

import asyncio
import enum
import math
import re
from collections.abc import Awaitable, Callable, Sequence

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion, Decide
from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.values import LineConfidence, Suggestion, Sure, Tier

MOST_LINES = 12
"""Lines of a block, the first included."""

WITHIN = 10.0
"""Seconds for all lines below the first: who waits longer turns to something else (Nielsen 1993). The block
ends above a line that is late."""

MEASURE = "product-of-lines-1"

_PRODUCT = "the product of the lines' confidences, as blocks have no labels of their own"
# A probability that is not known is of the tier review.
_WORSE = (Tier.ACCEPT, Tier.REVIEW, Tier.REJECT)
# The end of a line that opens a block or a bracket, a comment behind it included.
_OPENED = re.compile(r"([:{(\[])(?:\s+(?://|#\s).*)?\s*$")
_CLOSING = (")", "]", "}")
# With these a statement goes on that a line with the same indentation began.
_CONTINUING = frozenset({"else", "elif", "except", "finally", "catch"})
_AFTER_WORD = re.compile(r"\W")
# So begin the parts of a block between braces; gofmt and many styles indent them no further than its first
# line. Without a colon `public` begins a declaration, which stands beside the block.
_PART = re.compile(r"(case|default)\b|(public|private|protected)(\s+\w+)?\s*:(?!:)")


class Scope(enum.Enum):
    """Where a line stands to the scope of a block."""

    INSIDE = "inside"
    LAST = "last"
    OUTSIDE = "outside"


def scope_of(first: str, line: str) -> Scope:
    """Where `line`, below a block that begins with `first`, stands. By the text alone: in any language.

    A blank line is outside, and one that is indented less than the first. If the first line opens a block or
    a bracket, so is the first line with its indentation, unless that goes on with it, is a label of its parts
    (`case`, `public:`) or closes it.

    >>> scope_of("if x {", "}")
    <Scope.LAST: 'last'>
    """
    if not line.strip() or _indentation(line) < _indentation(first):
        return Scope.OUTSIDE
    if _indentation(line) > _indentation(first) or not _opens(first):
        return Scope.INSIDE
    text = line.strip()
    if text.startswith(_CLOSING):
        return Scope.INSIDE if _opens(text) else Scope.LAST
    word = _AFTER_WORD.split(text, maxsplit=1)[0]
    return Scope.INSIDE if word in _CONTINUING or _is_part(first, text) else Scope.OUTSIDE


def may_begin(cursor: Cursor) -> bool:
    """Whether a suggestion at `cursor` is a whole line, below which others can stand."""
    return not (cursor.before.strip() or cursor.after.strip())


async def lines_of(
    complete: Callable[[Cursor], Awaitable[object]],
    first: Completion,
) -> tuple[tuple[Completion, ...], LspCalibError | None]:
    """The lines of the block that begins with `first`, it alone if there is nothing below it; and why the
    model could not be asked for the next one, None if it could.

    complete: the completion at a cursor, or something else where there is none.
    The block ends with its scope, however unlikely it is by then, above a line without a completion or one
    that repeats the one above it, and after `MOST_LINES` lines or `WITHIN` seconds. Below the first no line
    that opens a block is its last.
    """
    found: list[Completion] = [first]
    failure: LspCalibError | None = None
    try:
        async with asyncio.timeout(WITHIN):
            await _go_on(found, complete)
    except TimeoutError:  # asked for again, it goes on with what is evaluated
        failure = EngineError("The next line took too long.")
    except LspCalibError as error:
        failure = error
    while len(found) > 1 and _opens(found[-1].expected_line):
        found.pop()
    return tuple(found), failure


def block_of(first: Completion, lines: Sequence[Completion], decide: Decide) -> Suggestion:
    """The suggestion of a block; that of `first` if it is no more than a line.

    first: its first line, of which some may be typed. lines: those of `lines_of`.
    It has the id of the first line's: what becomes of that line is what is known of the block. No line has a
    better tier than the one above it. Sure are the accepted lines; without one, the sure part of the first.
    """
    line, below = first.suggestion, lines[1:]
    if not below or first.kept:  # a block would put the kept text behind its last line
        return line
    shown = [first, *below]
    products = _product(shown)
    tiers: list[Tier] = []
    for p in products:
        tiers.append(max(*tiers[-1:], decide(p)[0], Tier.ACCEPT, key=_WORSE.index))
    accepted, n = tiers.count(Tier.ACCEPT), len(tiers)
    like_first = tiers.count(tiers[0])
    how_far = f"{tiers[0].value} through line {like_first} of {n}"
    if like_first == n:
        how_far = f"{tiers[0].value} all {n} lines"
    elif Tier.REJECT in tiers:
        how_far += f", reject from line {tiers.index(Tier.REJECT) + 1}"
    least = _least_certain(shown)
    doubt = shown[least].suggestion.doubt
    if doubt is not None:
        start = sum(len(one.suggestion.text) + 1 for one in shown[:least])
        doubt = doubt[0] + start, doubt[1] + start
    cause = shown[least].suggestion.confidence.cause
    cause = f"line {least + 1}: {cause}" if cause else ""
    why = f"all of them: {decide(products[-1])[1]}; {_PRODUCT}"
    if products[-1] is None:
        why = line.confidence.reason
    texts = [one.suggestion.text for one in shown]
    sure, confidence = line.sure, products[accepted - 1] if accepted else None
    if confidence is not None:
        sure = Sure(len("\n".join(texts[:accepted])), confidence)
    return attrs.evolve(
        line,
        kind="block",
        text="\n".join(texts),
        confidence=attrs.evolve(
            line.confidence,
            calibrated=products[-1],
            measure=MEASURE,
            tier=tiers[-1],
            reason="; ".join(filter(None, (how_far, cause, why))),
            cause=cause,
            certified=False,
            usage="",  # of lines
        ),
        tokens=sum(one.suggestion.tokens for one in shown),
        doubt=doubt,
        sure=sure,
        lines=tuple(LineConfidence(p, tier) for p, tier in zip(products, tiers, strict=True)),
    )


async def _go_on(found: list[Completion], complete: Callable[[Cursor], Awaitable[object]]) -> None:
    """Add lines to a block of which the first is there, up to its end. See `lines_of`."""
    first = found[0].expected_line
    while len(found) < MOST_LINES:
        line = await complete(_place_below(found))
        if not isinstance(line, Completion):
            return
        text = line.suggestion.text
        # A small model that has begun to repeat a line seldom stops.
        if text.rstrip() == found[-1].expected_line.rstrip():
            return
        scope = scope_of(first, text)
        if scope is Scope.OUTSIDE:
            return
        found.append(line)
        if scope is Scope.LAST:
            return


def _place_below(lines: Sequence[Completion]) -> Cursor:
    """The cursor on an empty line below a block, in the document as it would be with that."""
    cursor = lines[0].cursor
    block = [line.expected_line for line in lines]
    document = (*cursor.lines[: cursor.line], *block, "", *cursor.lines[cursor.line + 1 :])
    return Cursor.at(document, cursor.line + len(block), 0, cursor.language)


def _product(lines: Sequence[Completion]) -> list[float | None]:
    """For each line the probability that all lines up to it are right; None from the first without one on."""
    products: list[float | None] = []
    p: float | None = 1.0
    for line in lines:
        own = line.suggestion.confidence.calibrated
        p = None if p is None or own is None else p * own
        products.append(p)
    return products


def _least_certain(lines: Sequence[Completion]) -> int:
    def confidence(at: int) -> float:
        calibrated = lines[at].suggestion.confidence.calibrated
        return math.inf if calibrated is None else calibrated

    return min(range(len(lines)), key=confidence)


def _is_part(first: str, text: str) -> bool:
    """Whether a line with the indentation of `first` is a label in the block that it opens. Two labels stand
    beside each other."""
    opened = _OPENED.search(first)
    braces = opened is not None and opened[1] == "{"
    return braces and bool(_PART.match(text)) and not _PART.match(first.strip())


def _opens(line: str) -> bool:
    return _OPENED.search(line) is not None


def _indentation(line: str) -> int:
    return len(indentation_of(line.expandtabs()))
