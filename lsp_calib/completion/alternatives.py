"""Other answers at the same place: another way at a token, then greedily to the end of the line.

Alternatives: the ways are tried by the probability of their beginning, that of the first answer up to a
token, times that of the second most likely token there. So the least certain tokens come first. Each way
costs the decoding of its rest alone. Where an engine cannot go on from given tokens, answers are drawn at
random.
Related: Wang & Zhou 2024, "Chain-of-thought reasoning without prompting" (arXiv 2402.10200), who branch at
the first token.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence

import attrs

from lsp_calib.characters import normalised_line
from lsp_calib.inference.engine import Observe, Request, Sampling
from lsp_calib.values import Generation, Observation, Stop, Token


def branch_request(request: Request, first: Generation, at: int) -> Request:
    """The request that takes the second most likely token at index `at`, which must have been observed."""
    seen = first.tokens[at].seen
    assert seen is not None, "the tokens were observed"
    assert seen.second is not None, "the tokens were observed"
    before = (token.id for token in first.tokens[:at])
    return attrs.evolve(request, given=(*first.healing, *before, seen.second))


MOST = 2
"""Alternatives beside the first answer."""

# So many ways, or draws, are tried for them: the first ones often lead to a text that is known already.
_TRIES = 5
# High enough for another answer to come up at all, low enough for one that can be used.
_TEMPERATURE = 0.8

Generate = Callable[[Request], Awaitable[Generation]]


def branches(first: Generation) -> list[int]:
    """Indices of the tokens of an answer at which another one could have come, the likeliest way first.

    first: an answer to a greedy request with `Observe.MARGIN`; without it there are none.
    """
    starts = []
    so_far = 0.0
    for at, (token, logprob) in enumerate(zip(first.tokens, first.logprobs, strict=True)):
        if token.seen is not None and token.seen.second is not None and token.seen.margin is not None:
            starts.append((so_far + logprob - token.seen.margin, at))
        so_far += logprob
    return [at for _, at in sorted(starts, key=lambda start: (-start[0], start[1]))]


def joined(first: Generation, at: int, second: Generation) -> Generation:
    """The answer to `branch_request(request, first, at)` with all its tokens, as if it had come by itself."""
    other = first.tokens[at]
    seen = other.seen
    assert seen is not None, "it is one of `branches`"
    assert seen.second is not None, "it is one of `branches`"
    assert seen.margin is not None, "it is one of `branches`"
    start = len("".join(token.text for token in first.tokens[:at]))
    end = len(second.text) - len("".join(token.text for token in second.tokens))
    taken = Token(
        seen.second,
        other.logprob - seen.margin,
        other.typed_logprob,
        second.text[start : max(end, start)],
        seen=Observation(entropy=seen.entropy),
    )
    return attrs.evolve(second, tokens=(*first.tokens[:at], taken, *second.tokens), healing=first.healing)


async def alternatives(
    generate: Generate,
    request: Request,
    first: Generation,
    offered: Callable[[str], Awaitable[str]],
    *,
    known: Iterable[str] = (),
    draws: bool = True,
    until: int | None = None,
) -> AsyncGenerator[tuple[Generation, str], None]:
    """At most `MOST` other answers, each with its text as it is offered; all texts differ.

    generate: asks the engine. request: that of `first`, greedy. offered: the text to offer of an answer's; ""
    if there is none. known: texts besides that of `first` which are not offered again. draws: whether answers
    are drawn at random where the tokens show no other way, or none that leads to another text. until: a place
    in the first answer's text; ways that part behind it are not tried.
    Raises what `generate` raises.
    """
    texts = {normalised_line(text) for text in ("", await offered(first.text), *known)}
    found = branched = 0
    for at, asked in _requests(request, first, draws=draws, until=until):
        if at is None and branched:
            return
        answer = await generate(asked)
        if at is not None:
            answer = joined(first, at, answer)
        for one in (answer, *answer.others):
            if one.stop is Stop.LENGTH or one.doubt:
                continue
            text = await offered(one.text)
            if normalised_line(text) in texts:
                continue
            texts.add(normalised_line(text))
            yield one, text
            found += 1
            branched += at is not None
            if found == MOST:
                return
        if answer.others:  # all that were to be drawn
            return


def _requests(
    request: Request, first: Generation, *, draws: bool, until: int | None
) -> Iterator[tuple[int | None, Request]]:
    """The requests to try: at each of the `branches`, then (None) at random."""
    base = attrs.evolve(request, observe=Observe.ENTROPY)
    starts = list(itertools.accumulate((len(token.text) for token in first.tokens), initial=0))
    ways = [at for at in branches(first) if until is None or starts[at] <= until]
    for at in ways[:_TRIES]:
        yield at, branch_request(base, first, at)
    for seed in range(_TRIES if draws else 0):
        yield None, attrs.evolve(base, sampling=Sampling(_TEMPERATURE, seed, _TRIES))


def shares(first_logprob: float, logprobs: Sequence[float]) -> tuple[float, ...]:
    """The share of each alternative in what the first answer leaves, by the model; all together at most 1.

    first_logprob, logprobs: natural logarithms of the raw probabilities of the first answer and of the n
        alternatives.
    Returns n numbers in [0, 1]: P(alternative) / (1 - P(first)) of the raw probabilities P, what the model
    thinks of it if the first one is wrong.

    >>> [round(share, 9) for share in shares(math.log(0.5), [math.log(0.25), math.log(0.125)])]
    [0.5, 0.25]
    """
    raw = [math.exp(min(logprob, 0.0)) for logprob in logprobs]
    # Different tokens can make the same text, and numbers are rounded: so the sum is looked at as well.
    left = max(-math.expm1(min(first_logprob, 0.0)), math.fsum(raw))
    return tuple(p / left if left > 0.0 else 0.0 for p in raw)
