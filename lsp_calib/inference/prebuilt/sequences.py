"""Which of the server's cached sequences a prompt is evaluated in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from lsp_calib.inference.generation.prefix import common_prefix

# Losing this many cached tokens costs less than a step of the evaluation: not worth another sequence.
_LITTLE = 64
# Between prompts of one document: cached tokens that may be lost for each token that is kept. A new line
# loses the text below, which near the top of a file is longer than all the text above.
_OWN = 3


@attrs.define
class CachedSequence:
    """One sequence of the KV cache: the tokens evaluated in it, when it was last used (a count), and
    the document of the request, "" if none was given."""

    id: int
    tokens: list[int] = attrs.Factory(list)
    used: int = 0
    document: str = ""


def sequence_for(
    sequences: Iterable[CachedSequence], prompt: Sequence[int], document: str = ""
) -> CachedSequence:
    """The sequence in which `prompt` is evaluated with least work, now and later.

    It is the one with the longest common prefix, unless using it would drop more cached tokens than it keeps
    (for the same `document`: three times as many). Such a sequence belongs to another document or another
    place, and may be wanted again; the least recently used sequence is taken instead.
    """
    by_use = sorted(sequences, key=lambda sequence: sequence.used)
    kept = {sequence.id: common_prefix(sequence.tokens, prompt) for sequence in by_use}

    def is_alike(one: CachedSequence) -> bool:
        share = _OWN if document and one.document == document else 1
        return bool(one.tokens) and len(one.tokens) - kept[one.id] <= max(share * kept[one.id], _LITTLE)

    alike = [sequence for sequence in by_use if is_alike(sequence)]
    # `max` takes the first of several: among equal prefixes the least recently used one is given up.
    best = max(alike, key=lambda sequence: kept[sequence.id], default=by_use[0])
    # Where the best has next to nothing in common with the prompt, an unused sequence serves as well.
    return best if kept[best.id] > kept[by_use[0].id] else by_use[0]
