"""How often lines of a low probability are used: as they are, and after an edit.

There is one small file for each model and version of the prompt, beside the calibrators. Its counts are of
recorded lines in all languages together, each judged by a curve that has not seen its project.
"""

from __future__ import annotations

from lsp_calib.calibration.calibrators.calibrator import FileDocument
from lsp_calib.calibration.document import Count, Document, Text, as_floats
from lsp_calib.errors import DataError
from lsp_calib.values import ModelIdentity

FOLDER = "usage"
"""The folder with the files: beside that of the shipped calibrators."""

LEAST_LINES = 50
"""Lines below which no share is told: in tenths it would be chance."""

# What a limit may differ by and still be the same: of a preset, or computed from costs.
_SAME = 1e-9


class UsedLines(Document, frozen=True):
    """Lines with a probability below a limit, and not below that of the entry before.

    n: of them were shown. unchanged: so many stand in the source as they are. survived: so many as they are
    or after an edit of at most half of it.
    """

    below: float
    n: Count
    unchanged: Count
    survived: Count

    def __post_init__(self) -> None:
        as_floats(self, bounded=("below",))
        if not self.unchanged <= self.survived <= self.n:
            raise DataError("unchanged must be among survived, and these among n.")


class Usage(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """What became of a model's lines, by their probability, from the lowest on.

    Raises DataError for limits that do not rise.
    """

    model: ModelIdentity
    prompt_version: Text
    lines: tuple[UsedLines, ...]

    def __post_init__(self) -> None:
        limits = [one.below for one in self.lines]
        if limits != sorted(set(limits)):
            raise DataError("below must rise from one to the next of lines.")

    def shares(self, below: float) -> tuple[float, float] | None:
        """Of the lines with a probability below a limit the shares that are used as they are, and as they are
        or after an edit; None if there are too few. Of a limit between two, those up to the lower one count.
        """
        found = [one for one in self.lines if one.below <= below + _SAME]
        n = sum(one.n for one in found)
        if n < LEAST_LINES:
            return None
        return sum(one.unchanged for one in found) / n, sum(one.survived for one in found) / n
