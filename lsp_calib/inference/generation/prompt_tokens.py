"""A prompt's tokens, shortened to fit the context. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.errors import EngineError
from lsp_calib.values import Segment

# A shortened prompt leaves this many positions unused beside the answer.
_SPARE = 8


def room_for_prompt(positions: int, max_tokens: int) -> int:
    """Tokens that a prompt may have; an answer reserves at most half of the context's `positions`."""
    return positions - min(max_tokens, positions // 2) - _SPARE


def shorten(pieces: Sequence[tuple[Segment, Sequence[int]]], room: int) -> list[int]:
    """The tokens of a prompt's segments, at most `room` of them: the oldest text is dropped first.

    Callers limit a prompt in characters; this handles prompts that are still too many tokens. Control
    segments are never cut. Raises EngineError where they alone are too many.
    """
    excess = sum(len(tokens) for _, tokens in pieces) - room
    shortened: list[int] = []
    for kind, tokens in pieces:
        cut = min(max(excess, 0), len(tokens)) if kind is Segment.TEXT else 0
        excess -= cut
        shortened += tokens[cut:]
    if excess > 0:
        raise EngineError("The prompt is too long for the model's context. Send less text.")
    return shortened
