"""What the model has evaluated: in a stream of its cache, or kept as a state outside of it. Pure.

A place is what a prompt shows of a document. The cache holds one for who types; of the others there are
states, copies of their part of the cache. To come back to one is to copy it back, some hundred times as fast
as to evaluate it, and bit for bit the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.inference.generation.prefix import common_prefix

FEW = 16
"""To evaluate so many tokens costs little more than to copy a state and back: not worth one."""

# A place where the cursor only rested counts as if it had been left so many places earlier.
_LOOKED_AT = 8


@attrs.define(eq=False, kw_only=True)
class Held:
    """Tokens and what the model made of them.

    together: how many of the tokens, from the first on, were evaluated together with others: those of a
        prompt. The rest were evaluated one by one, as the tokens of an answer are.
    typed: whether an interactive request asked for them. Else they were evaluated ahead.
    """

    tokens: list[int] = attrs.Factory(list)
    together: int = 0
    typed: bool = False

    def reusable(self, tokens: Sequence[int], together: int, most: int) -> int:
        """How many of the first `most` of `tokens` are held as they would be evaluated now.

        together: how many of `tokens` are evaluated together, which are those of a prompt. The kernels for
        one token and for several differ in the last bits, those for two or more agree (llama.cpp without
        flash attention): so a token counts only where it was evaluated in the same way, and none is left
        alone.
        """
        if together == 1:
            together = 0  # the prompt's only token is evaluated as those of the answer are
        same = min(common_prefix(self.tokens, tokens), most)
        if self.together != together:
            same = min(same, self.together, together)
        return max(same - 1, 0) if same == together - 1 else same

    def loses(self, kept: int) -> bool:
        """Whether it is worth keeping where the first `kept` of its tokens stay."""
        return self.together - kept > FEW

    def shares(self, other: Held) -> int:
        """How many tokens of its prompt another one holds."""
        return min(common_prefix(self.tokens, other.tokens), self.together, other.together)


@attrs.define(eq=False, kw_only=True)
class State(Held):
    """Tokens whose part of the cache was copied. data: the copy, bytes. used: when it was kept or last came
    of use, a count; 0 before."""

    data: NDArray[np.uint8]
    used: int = 0


@attrs.define(eq=False, kw_only=True)
class Stream(Held):
    """One of the cache's streams. id: of the sequence in it."""

    id: int


class Cache(Protocol):
    """The cache that the streams are in."""

    def size(self, stream: Stream) -> int:
        """Bytes of a copy of what a stream holds."""
        ...

    def copy(self, stream: Stream) -> NDArray[np.uint8] | None:
        """A copy of what a stream holds; None if the library refuses."""
        ...

    def paste(self, stream: Stream, data: NDArray[np.uint8]) -> bool:
        """Put a copy in the place of what a stream holds. False if the library refuses: it is empty then."""
        ...


class States:
    """The states that are kept, in `most` bytes together.

    Each token of a state takes as much memory and as much time to evaluate again as any other. So a state is
    worth what it holds beyond the others, and until it is wanted again. Of one that holds all but `FEW`
    tokens of another's prompt that other is not kept. Where there is no room, one goes of whose prompt a
    state used later holds half; without such the one used longest ago.
    """

    def __init__(self, cache: Cache, most: int) -> None:
        self._cache = cache
        self._most = most
        self._states: list[State] = []
        self._uses = itertools.count(1)

    @property
    def bytes(self) -> int:
        return sum(state.data.size for state in self._states)

    def come_to(
        self, stream: Stream, tokens: Sequence[int], together: int, most: int, *, typed: bool
    ) -> None:
        """Keep what a stream holds if it would be lost for a prompt, and copy back what was kept of that.

        tokens, together, most: see `Held.reusable`. typed: an interactive request asks for them.
        """
        kept = stream.reusable(tokens, together, most)
        useful, state = max(
            ((one.reusable(tokens, together, most), one) for one in self._states),
            key=lambda pair: pair[0],
            default=(0, None),
        )
        if useful <= kept + FEW:
            state = None
        if state is not None:
            if state.loses(useful):
                state.used = next(self._uses)  # it stays for the rest
            else:
                self._forget(state)
        if stream.loses(0 if state else kept):
            self._keep(stream)
            stream.typed = False  # it is another place from now on
        if state is not None:
            if self._cache.paste(stream, state.data):
                stream.tokens, stream.together = list(state.tokens), state.together
                stream.typed = state.typed
            else:
                self._forget(state)
                stream.tokens, stream.together = [], 0
        stream.typed = stream.typed or typed

    def may_keep(self, stream: Stream) -> bool:
        """Whether what a stream holds is small enough to be kept."""
        return self._cache.size(stream) <= self._most

    def _keep(self, stream: Stream) -> None:
        """Keep what a stream holds, unless a state holds nearly all of it or it is too large."""
        nearest = max(self._states, key=stream.shares, default=None)
        if nearest is not None and not stream.loses(stream.shares(nearest)):
            nearest.used, nearest.typed = next(self._uses), nearest.typed or stream.typed
            return
        if not self.may_keep(stream):
            return
        for state in self._states:
            if not state.loses(state.shares(stream)):
                stream.typed = stream.typed or state.typed  # it is the same place, further on
                self._forget(state)
        while self.bytes + self._cache.size(stream) > self._most:
            self._forget(self._least(stream))
        if (data := self._cache.copy(stream)) is not None:
            self._states.append(
                State(
                    tokens=list(stream.tokens),
                    together=stream.together,
                    typed=stream.typed,
                    data=data,
                    used=next(self._uses),
                )
            )

    def _forget(self, state: State) -> None:
        self._states = [one for one in self._states if one is not state]

    def _least(self, stream: Stream) -> State:
        """The state that is least worth its bytes, now that what a stream holds is to be kept."""
        by_use = sorted(self._states, key=lambda one: one.used - (0 if one.typed else _LOOKED_AT))
        later: list[Held] = [*by_use, stream]
        for at, state in enumerate(by_use, start=1):
            if any(2 * state.shares(one) >= state.together for one in later[at:]):
                return state
        return by_use[0]
