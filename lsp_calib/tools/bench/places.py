"""Places in a file at which somebody goes on writing: lines of which only the indentation is there."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import attrs

# Lines that begin with code, not with prose of a string or with a closing bracket.
_CODE = re.compile(r"\s+(?:return |(?:self\.)?\w+(?:: \w+)? = |[\w.]+\()[\w\"'(\[{]")
# Lines between two places and above the first: at each place most of the model's window is new to it. Below
# the last there is text for it as well.
_APART, _BELOW = 25, 10


@attrs.frozen
class Gap:
    """A line without its text. text: what belongs there, without the indentation, which ends at `column`."""

    line: int
    column: int
    text: str


def with_gaps(lines: Sequence[str], most: int, chance: random.Random) -> tuple[list[str], list[Gap]]:
    """The lines of a file with at most so many gaps, and these in the order in which they are visited."""
    candidates = [at for at, line in enumerate(lines[: len(lines) - _BELOW]) if _CODE.match(line)]
    found: list[Gap] = []
    after = _APART
    for at in candidates:
        if at >= after:
            text = lines[at].lstrip()
            found.append(Gap(at, len(lines[at]) - len(text), text))
            after = at + _APART
    chance.shuffle(found)
    found = found[:most]
    left = list(lines)
    for gap in found:
        left[gap.line] = left[gap.line][: gap.column]
    return left, found
