"""Which cached sequence a prompt is evaluated in, and how much of the prompt it holds already. Pure.

All clients of a model process share its 2 to 4 sequences (`demands.count_sequences`); the first is for
background work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

# Losing this many cached tokens costs less than a step of the evaluation: not worth another sequence.
_LITTLE = 64
# Between prompts of one document: cached tokens that may be lost for each token that is kept. A new line
# loses the text below, which near the top of a file is longer than all the text above.
_OWN = 3


@attrs.define
class CachedSequence:
    """One sequence of the KV cache: the tokens evaluated in it, when it was last used (a count), and
    the document of the request, "" if none was given.

    together: how many of the tokens, from the first on, were evaluated together with others. The rest were
    evaluated one by one, as the tokens of an answer are.
    """

    id: int
    tokens: list[int] = attrs.Factory(list)
    together: int = 0
    used: int = 0
    document: str = ""


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with."""
    most = min(len(first), len(second))
    # Compare whole slices: ten times as fast as one token after another.
    one, other = list(first[:most]), list(second[:most])
    if one == other:
        return most
    same, different = 0, most
    while different - same > 1:
        middle = (same + different) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            different = middle
    return same


def reusable(sequence: CachedSequence, tokens: Sequence[int], together: int, most: int) -> int:
    """How many of the first `most` of `tokens` the sequence holds as they would be evaluated now.

    together: how many of `tokens` are evaluated together, which are those of a prompt. The kernels for one
    token and for several differ in the last bits, those for two or more agree (llama.cpp without flash
    attention): so a token counts only where it was evaluated in the same way, and none is left alone.
    """
    if together == 1:
        together = 0  # the prompt's only token is evaluated as those of the answer are
    same = min(common_prefix(sequence.tokens, tokens), most)
    if sequence.together != together:
        same = min(same, sequence.together, together)
    return max(same - 1, 0) if same == together - 1 else same


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
