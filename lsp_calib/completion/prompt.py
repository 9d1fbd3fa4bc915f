"""The prompt for a line completion.

The version is part of a calibrator's identity: it must change whenever the text that the model sees changes.
"""

from __future__ import annotations

from lsp_calib.completion.context import Cursor, text_above, text_ahead, text_below
from lsp_calib.completion.healing import split_at_boundary
from lsp_calib.inference.models.cards import CompletionFormat
from lsp_calib.values import Prompt, Segment

PREFIX_VERSION = "line-prefix-1"
FIM_VERSION = "line-fim-1"

# This share of the window goes to the text below the cursor, if the model takes it.
_BELOW = 0.3
# The current line takes at most this share of the window; of a longer line only the end is shown.
_LINE = 0.5
# The window's next position is evaluated ahead once only this share of the window, five to ten lines, has
# still to be typed.
_AHEAD = 0.1


def version_of(format_: CompletionFormat) -> str:
    return FIM_VERSION if format_.layout == "fim" else PREFIX_VERSION


def build_prompt(cursor: Cursor, format_: CompletionFormat, window: int) -> Prompt:
    """The prompt for the line at `cursor`. window: characters of the document to show.

    Fill-in-the-middle models get the lines above, the text below, and after the middle token the current
    line up to the cursor: a typed character then follows everything that is cached, the text below included.
    """
    stays, forced = split_at_boundary(cursor.before)
    stays = stays[-int(window * _LINE) :]
    above, below = _shares(format_, window, stays)
    if format_.layout == "fim":
        return Prompt(
            segments=(
                (Segment.CONTROL, format_.fim_prefix),
                (Segment.TEXT, text_above(cursor, above)),
                (Segment.CONTROL, format_.fim_suffix),
                (Segment.TEXT, text_below(cursor, below)),
                (Segment.CONTROL, format_.fim_middle),
                (Segment.TEXT, stays),
            ),
            forced=forced,
            version=FIM_VERSION,
        )
    return Prompt(
        segments=((Segment.TEXT, text_above(cursor, above) + stays),),
        forced=forced,
        version=PREFIX_VERSION,
    )


def build_ahead(cursor: Cursor, format_: CompletionFormat, window: int) -> Prompt | None:
    """The beginning of prompts after the window's next move, if that is near; None if it is not.

    A moved window is evaluated as a whole. That takes seconds if it begins only with the keystroke that moves
    it.
    """
    stays, _ = split_at_boundary(cursor.before)
    above, _ = _shares(format_, window, stays[-int(window * _LINE) :])
    text = text_ahead(cursor, above, int(window * _AHEAD))
    if not text:
        return None
    if format_.layout == "fim":
        return Prompt(
            segments=((Segment.CONTROL, format_.fim_prefix), (Segment.TEXT, text)),
            forced="",
            version=FIM_VERSION,
        )
    return Prompt(segments=((Segment.TEXT, text),), forced="", version=PREFIX_VERSION)


def _shares(format_: CompletionFormat, window: int, stays: str) -> tuple[int, int]:
    """Characters for the text above and below the cursor's line."""
    below = int(window * _BELOW) if format_.layout == "fim" else 0
    return window - below - len(stays), below
