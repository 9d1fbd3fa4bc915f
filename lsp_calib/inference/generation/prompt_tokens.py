"""A prompt's tokens, shortened to fit the context. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lsp_calib.errors import EngineError
from lsp_calib.values import Prompt, Segment

# A shortened prompt leaves this many positions unused beside the answer.
_SPARE = 8
# A cut above `Prompt.most_tokens` moves by this share of them.
_STEPS = 8


def room_for_prompt(positions: int, max_tokens: int) -> int:
    """Tokens that a prompt may have; an answer reserves at most half of the context's `positions`."""
    return positions - min(max_tokens, positions // 2) - _SPARE


def shortened(prompt: Prompt, tokenize: Callable[[Segment, str], Sequence[int]], room: int) -> list[int]:
    """The tokens of a prompt's segments, at most `room` and at most its `most_tokens` of them.

    Callers limit a prompt in characters, of which a token of source has several; this handles texts that take
    more tokens, such as digits, Chinese or encoded bytes. The first text is cut first, at its beginning; the
    one below the cursor at its end. Control segments are never cut. Above `most_tokens` the cuts move in
    steps: while they stay, the next key finds its tokens in the cache.
    Raises EngineError where the control segments alone are too many.
    """
    pieces = [tokenize(kind, text) for kind, text in prompt.segments]
    length = sum(map(len, pieces))
    excess = length - room
    if prompt.most_tokens is not None and prompt.most_tokens < min(length, room):
        step = max(prompt.most_tokens // _STEPS, 1)
        excess = -(-(length - prompt.most_tokens) // step) * step
    kept: list[int] = []
    for at, ((kind, _), tokens) in enumerate(zip(prompt.segments, pieces, strict=True)):
        cut = min(max(excess, 0), len(tokens)) if kind is Segment.TEXT else 0
        excess -= cut
        kept += tokens[: len(tokens) - cut] if at == prompt.below else tokens[cut:]
    if len(kept) > room:
        raise EngineError("The prompt is too long for the model's context. Send less text.")
    return kept
