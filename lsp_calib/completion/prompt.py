"""The prompt for a line completion.

The version is part of a calibrator's identity: it must change whenever the text that the model sees changes.
"""

from __future__ import annotations

import enum
from typing import Self

import attrs

from lsp_calib.completion.context import Cursor, text_above, text_ahead, text_below
from lsp_calib.completion.healing import split_at_boundary, split_line_ends
from lsp_calib.completion.related import Snippet
from lsp_calib.inference.models.cards import CompletionFormat, ModelCard
from lsp_calib.values import Prompt, Segment

PREFIX_VERSION = "line-prefix-1"
FIM_VERSION = "line-fim-1"
LARGE_PREFIX_VERSION = "line-prefix-large-1"
LARGE_FIM_VERSION = "line-fim-large-1"

# How much more of the document a large window shows than the card's, and characters of other places.
_LARGE = 2
_RELATED = 1600
# In characters: a token of source has more on average, nearly always.
_LEAST_OF_TOKEN = 2

# This share of the window goes to the text below the cursor, if the model takes it.
_BELOW = 0.3
# The current line takes at most this share of the window; of a longer line only the end is shown.
_LINE = 0.5
# The window's next position is evaluated ahead once only this share of the window, five to ten lines, has
# still to be typed.
_AHEAD = 0.1


class WindowSize(enum.StrEnum):
    """How much the model sees: the card's window of the document; or twice as much of it, and pieces of other
    places that resemble the text before the cursor."""

    SMALL = "small"
    LARGE = "large"


SIZES = {
    PREFIX_VERSION: WindowSize.SMALL,
    FIM_VERSION: WindowSize.SMALL,
    LARGE_PREFIX_VERSION: WindowSize.LARGE,
    LARGE_FIM_VERSION: WindowSize.LARGE,
}
"""The window of each version of the prompt."""


@attrs.frozen
class Layout:
    """How a document becomes a prompt.

    format: the model's. window: characters of the document to show. related: characters of pieces of other
    places, names included. joined: whether characters that tokenisers join are cut off, and reproduced,
    together: a line's end with the indentation after it, underscores with a bracket.
    version: names all of these.
    """

    format: CompletionFormat
    window: int
    version: str
    related: int = 0
    joined: bool = False

    @classmethod
    def of(cls, card: ModelCard, size: WindowSize = WindowSize.SMALL) -> Self:
        """The layout for a model. A large window that the model's context cannot hold is small."""
        format_ = card.completion
        fim = format_.layout == "fim"
        if size is WindowSize.LARGE:
            window = _LARGE * card.window
            related = _RELATED if format_.file else 0
            if (window + related) / _LEAST_OF_TOKEN < card.context:
                version = LARGE_FIM_VERSION if fim else LARGE_PREFIX_VERSION
                return cls(format_, window, version, related, joined=True)
        return cls(format_, card.window, FIM_VERSION if fim else PREFIX_VERSION)

    @classmethod
    def named(cls, version: str, card: ModelCard) -> Self | None:
        """The layout of this version for a model, None if it has none."""
        layouts = (cls.of(card, size) for size in WindowSize)
        return next((layout for layout in layouts if layout.version == version), None)

    def shown(self, cursor: Cursor) -> tuple[int, int]:
        """The first line that the prompt shows of the document, and the line after the last one."""
        stays, _ = self._current(cursor)
        above, below = self._shares(stays)
        lines_above = text_above(cursor, above).count("\n")
        lines_below = text_below(cursor, below).count("\n") if below else 0
        return cursor.line - lines_above, cursor.line + 1 + lines_below

    def _current(self, cursor: Cursor) -> tuple[str, str]:
        """The current line up to the cursor: what stays in the prompt, and what must be reproduced."""
        stays, forced = split_at_boundary(cursor.before, joined=self.joined)
        return stays[-int(self.window * _LINE) :], forced

    def _shares(self, stays: str) -> tuple[int, int]:
        """Characters for the text above and below the cursor's line."""
        below = int(self.window * _BELOW) if self.format.layout == "fim" else 0
        return self.window - below - len(stays), below


@attrs.frozen
class Surroundings:
    """The place of a document, and pieces of other places.

    project, name: of the project, and of the document below it; empty if unknown.
    """

    project: str = ""
    name: str = ""
    snippets: tuple[Snippet, ...] = ()


ALONE = Surroundings()
"""Nothing but the document is known."""


def build_prompt(cursor: Cursor, layout: Layout, surroundings: Surroundings = ALONE) -> Prompt:
    """The prompt for the line at `cursor`.

    Fill-in-the-middle models get the lines above, the text below, and after the middle token the current
    line up to the cursor: a typed character then follows everything that is cached, the text below included.
    Pieces of other places come first, if the layout has room for them.
    """
    format_ = layout.format
    stays, forced = layout._current(cursor)
    above, below = layout._shares(stays)
    before = _elsewhere(format_, surroundings) if layout.related else ()
    if format_.layout == "fim":
        segments = (
            *before,
            (Segment.CONTROL, format_.fim_prefix),
            (Segment.TEXT, text_above(cursor, above)),
            (Segment.CONTROL, format_.fim_suffix),
            (Segment.TEXT, text_below(cursor, below)),
            (Segment.CONTROL, format_.fim_middle),
            (Segment.TEXT, stays),
        )
    else:
        text = text_above(cursor, above) + stays
        if layout.joined and not stays:
            text, ends = split_line_ends(text)
            forced = ends + forced
        segments = (*before, (Segment.TEXT, text))
    return Prompt(segments, forced, layout.version)


def _elsewhere(format_: CompletionFormat, surroundings: Surroundings) -> tuple[tuple[Segment, str], ...]:
    """What comes before the document, as the technical report of Qwen2.5-Coder has it (arXiv 2409.12186):
    the project's name, then each file's name and text."""
    pieces = [(format_.project, surroundings.project)] if format_.project and surroundings.project else []
    pieces += [(format_.file, f"{piece.name}\n{piece.text}") for piece in surroundings.snippets]
    pieces += [(format_.file, surroundings.name)] if surroundings.name else []
    segments: list[tuple[Segment, str]] = []
    for control, text in pieces:
        segments += [(Segment.CONTROL, control), (Segment.TEXT, text + "\n")]
    return tuple(segments)


def build_ahead(cursor: Cursor, layout: Layout) -> Prompt | None:
    """The beginning of prompts after the window's next move, if that is near; None if it is not.

    A moved window is evaluated as a whole. That takes seconds if it begins only with the keystroke that moves
    it.
    """
    stays, _ = layout._current(cursor)
    above, _ = layout._shares(stays)
    text = text_ahead(cursor, above, int(layout.window * _AHEAD))
    if not text:
        return None
    segments: tuple[tuple[Segment, str], ...] = ((Segment.TEXT, text),)
    if layout.format.layout == "fim":
        segments = ((Segment.CONTROL, layout.format.fim_prefix), *segments)
    return Prompt(segments, forced="", version=layout.version)
