"""A second answer takes the other way at the point of doubt, the least likely token of the first one.

Where both ways lead to the same rest, the doubt was about that token alone; where they part, about the line.
"""

from __future__ import annotations

import math

import attrs

from lsp_calib.completion.alternatives import branch_request
from lsp_calib.inference.engine import Observe, Request
from lsp_calib.values import Generation


@attrs.frozen
class Agreement:
    """How far a second answer agrees with the first.

    at: index of the first answer's token at which they differ. similarity: of the text from there on in both,
        in [0, 1], see `edit_similarity`; white space at the end aside. logprob: natural logarithm of the
        second answer's probability from that token on, given what is typed. tokens: the number of tokens that
        were generated for it.
    """

    at: int
    similarity: float
    logprob: float
    tokens: int


def point_of_doubt(generation: Generation) -> int | None:
    """Index of the least likely token among those that add text; None if none does."""
    logprobs = generation.logprobs
    of_text = [at for at, token in enumerate(generation.tokens) if token.text]
    return min(of_text, key=lambda at: logprobs[at], default=None)


def second_request(request: Request, first: Generation) -> Request | None:
    """The request for the second answer; None if there is no other way to take.

    request: that of `first`, greedy and with `Observe.MARGIN`. Its prompt is in the cache, and so is the
    answer up to the point of doubt: only what follows is decoded.
    """
    at = point_of_doubt(first)
    if at is None:
        return None
    seen = first.tokens[at].seen
    if seen is None or seen.second is None:
        return None
    return branch_request(attrs.evolve(request, observe=Observe.NOTHING), first, at)


def agreement(first: Generation, second: Generation) -> Agreement:
    """second: the answer to the `second_request` that was made of `first`."""
    at = point_of_doubt(first)
    assert at is not None, "there was a second request"
    seen = first.tokens[at].seen
    assert seen is not None, "there was a second request"
    assert seen.margin is not None, "there was a second request"
    same = len("".join(token.text for token in first.tokens[:at]))
    return Agreement(
        at=at,
        similarity=edit_similarity(first.text[same:].rstrip(), second.text[same:].rstrip()),
        logprob=first.logprobs[at] - seen.margin + math.fsum(second.logprobs),
        tokens=second.timing.generated_tokens,
    )


def edit_similarity(one: str, other: str) -> float:
    """1 minus the Levenshtein distance over the length of the longer text; 1 for two empty texts.

    Returns a float in [0, 1]. Source: Levenshtein 1966.

    >>> edit_similarity("timeout=5)", "timeout=10)")
    0.8181818181818181
    """
    if not one and not other:
        return 1.0
    row = list(range(len(other) + 1))
    for deleted, char in enumerate(one, 1):
        diagonal, row[0] = row[0], deleted
        for at, against in enumerate(other, 1):
            replaced = diagonal + (char != against)
            diagonal = row[at]
            row[at] = min(replaced, row[at] + 1, row[at - 1] + 1)
    return 1.0 - row[-1] / max(len(one), len(other))
