"""The part of a document that is parsed for one of its lines."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.syntax.languages import LanguageRules

# tree-sitter visits each outermost statement in every parse, changed or not: 10 ms in 50,000 lines. Behind
# an error it reads all of them again: 10 to 30 ms in 2,000 lines. So it gets the block that holds the line,
# one above and `_BELOW` below, and more lines each way, to where an outermost statement begins: a part that
# begins or ends within a statement has errors of its own. A string that the line leaves open is found at the
# next quote below.
# The sizes were chosen on 2,335 recorded suggestions, with and without the lines below the cursor: none has
# another `LineFit` than with all that `_bounds` gives. With fewer blocks one to three have, most of them
# where the line opens a string.
_BLOCK = 16
_BELOW = 12

# A statement of data may have any length. In a document of more than `_WHOLE` lines the part ends at most
# `_FARTHEST` lines from the block of `_LARGE_BLOCK` lines that holds the line and its neighbours.
_WHOLE = 4096
_LARGE_BLOCK = 512
_FARTHEST = 1024


def region_of(rules: LanguageRules, lines: Sequence[str], row: int) -> tuple[int, int]:
    """First and (not including) last line to parse for line `row`; it follows from the lines alone.

    It moves in blocks: seldom, that is, while a user goes from line to line.
    """
    block = row // _BLOCK
    lowest, highest = _bounds(rules, lines, row)
    first = max((block - 1) * _BLOCK, lowest)
    last = min((block + 1 + _BELOW) * _BLOCK, highest)
    return _widened(rules, lines, (first, last), (lowest, highest))


def _bounds(rules: LanguageRules, lines: Sequence[str], row: int) -> tuple[int, int]:
    """What the region of line `row` must not exceed."""
    if len(lines) <= _WHOLE:
        return 0, len(lines)
    block = row // _LARGE_BLOCK
    first = max(block - 1, 0) * _LARGE_BLOCK
    last = min((block + 2) * _LARGE_BLOCK, len(lines))
    farthest = max(first - _FARTHEST, 0), min(last + _FARTHEST, len(lines))
    return _widened(rules, lines, (first, last), farthest)


def _widened(
    rules: LanguageRules, lines: Sequence[str], region: tuple[int, int], farthest: tuple[int, int]
) -> tuple[int, int]:
    """The region with the lines up to where outermost statements begin, or to the farthest lines."""
    above = range(region[0], farthest[0], -1)
    below = range(region[1], farthest[1])
    return (
        next((at for at in above if rules.begins.match(lines[at])), farthest[0]),
        next((at for at in below if rules.begins.match(lines[at])), farthest[1]),
    )
