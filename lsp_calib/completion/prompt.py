"""What a model is asked for a line completion.

The version is part of a calibrator's identity: whoever changes what a model sees changes the version.
"""

from __future__ import annotations

from lsp_calib.completion.context import Cursor, text_above, text_below
from lsp_calib.completion.healing import split_at_boundary
from lsp_calib.inference.models.cards import CompletionFormat
from lsp_calib.values import Prompt, Segment

PREFIX_VERSION = "line-prefix-1"
FIM_VERSION = "line-fim-1"

# Of the window, this share goes to the text below the cursor where a model takes it.
_BELOW = 0.3
# The current line counts, too; of an endless one only its end is shown.
_LINE = 0.5


def version_of(format_: CompletionFormat) -> str:
    return FIM_VERSION if format_.layout == "fim" else PREFIX_VERSION


def build_prompt(cursor: Cursor, format_: CompletionFormat, window: int) -> Prompt:
    """The prompt for the line at `cursor`. window: characters of the document to show.

    Fill-in-the-middle models get the lines above, the text below, and after the middle token the current
    line up to the cursor: a typed character then follows everything that is cached, the text below included.
    """
    stays, forced = split_at_boundary(cursor.before)
    stays = stays[-int(window * _LINE) :]
    if format_.layout == "fim":
        below = int(window * _BELOW)
        return Prompt(
            segments=(
                (Segment.CONTROL, format_.fim_prefix),
                (Segment.TEXT, text_above(cursor, window - below - len(stays))),
                (Segment.CONTROL, format_.fim_suffix),
                (Segment.TEXT, text_below(cursor, below)),
                (Segment.CONTROL, format_.fim_middle),
                (Segment.TEXT, stays),
            ),
            forced=forced,
            version=FIM_VERSION,
        )
    return Prompt(
        segments=((Segment.TEXT, text_above(cursor, window - len(stays)) + stays),),
        forced=forced,
        version=PREFIX_VERSION,
    )
