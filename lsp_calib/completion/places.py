"""Places in finished lines, drawn in the proportions in which people ask for completions there."""

from __future__ import annotations

import random
import re

# The share of each kind of place. Most requests come after Enter, with the indentation already there, and
# while a word is being typed.
STRATA = {"line-start": 0.10, "after-indentation": 0.40, "mid-line": 0.25, "mid-word": 0.25}

_LONGEST_LINE = 160
_MID_LINE = re.compile(r"(?<=[\s(\[{.,=])(?=\S)")
_MID_WORD = re.compile(r"(?<=\w)(?=\w)")


def is_asked_for(line: str) -> bool:
    """Whether a line is worth a completion: not nearly empty, and not so long that it holds data."""
    return len(line) <= _LONGEST_LINE and len(line.strip()) > 3


def column_in(line: str, stratum: str, rng: random.Random) -> int | None:
    """A column of this kind in a line, from 0; None if it has none."""
    indentation = len(line) - len(line.lstrip())
    if stratum == "line-start":
        return 0
    if stratum == "after-indentation":
        return indentation or None
    pattern = _MID_LINE if stratum == "mid-line" else _MID_WORD
    places = [match.start() for match in pattern.finditer(line) if match.start() > indentation]
    return rng.choice(places) if places else None


def drawn_place(line: str, rng: random.Random) -> tuple[str, int]:
    """A kind of place that the line has, in the proportions in which people ask, and the column."""
    columns = {stratum: column_in(line, stratum, rng) for stratum in STRATA}
    known = {stratum: column for stratum, column in columns.items() if column is not None}
    (stratum,) = rng.choices(list(known), weights=[STRATA[one] for one in known])
    return stratum, known[stratum]
