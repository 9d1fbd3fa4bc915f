"""Compares the same keystrokes in a long and a short file, and at one server alone and two at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import attrs

from lsp_calib.tools.bench.server import Scratch, Served, connect, serving, settled
from lsp_calib.tools.bench.trace import Edit, load_trace
from lsp_calib.tools.bench.typist import Answered, Typist, asked_model, type_in_rhythm

LONG_FILE = (500, 50_000)
LONG_STEPS = 12
LONG_CHUNKS = 4
# Keystrokes that make two edits.
_LEAST_FOR_TWO = 32

Pairs = list[tuple[Answered, Answered]]
"""Answers to the same keystrokes in two conditions."""


@attrs.define
class LongFile:
    """The same keystrokes in a short and in a long document.

    given: the answers by (turn, keystroke), and then by the length of the document.
    """

    given: dict[tuple[int, int], dict[int, Answered]] = attrs.field(factory=dict)

    def add(self, turn: int, at: int, lines: int, answered: Answered) -> None:
        self.given.setdefault((turn, at), {})[lines] = answered

    def pairs(self) -> Pairs:
        """(short, long) of the keystrokes that were typed in both documents."""
        short, long = LONG_FILE
        return [(one[short], one[long]) for one in self.given.values() if short in one and long in one]


@attrs.define
class Two:
    """The same keystrokes, in the recorded rhythm, at two servers: each alone, then both at once."""

    alone: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))
    together: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))

    def pairs(self) -> list[Pairs]:
        """At each server, (alone, together) of the keystrokes typed both times, the first ones left out."""
        both = zip(self.alone, self.together, strict=True)
        return [list(zip(one, two, strict=False))[1:] for one, two in both]


def where_asked(pairs: Pairs) -> list[tuple[float, float]]:
    """The milliseconds of the pairs for which the model was asked both times."""
    return [(one, two) for (one, asked), (two, asked_too) in pairs if asked and asked_too]


async def long_file(
    server: Served, edits: Sequence[Edit], notes: LongFile, step: Callable[[int, int], None]
) -> None:
    """Type the same keystrokes in both documents, by turns. The first of each is left out: its cache is cold.

    step: called with (keystrokes done, keystrokes in all).
    """
    fitting = [edit for edit in edits if len(edit.before) <= LONG_FILE[0]]
    done = 0
    for turn in range(LONG_CHUNKS):
        edit = fitting[turn % len(fitting)].excerpt(LONG_STEPS)
        for lines in LONG_FILE if turn % 2 else reversed(LONG_FILE):
            typist = Typist(server.editor, server.scratch, edit.padded(lines))
            for at, key in enumerate(typist.edit.steps):
                ms, suggestion = await typist.answer(key)
                # Wait for evaluation ahead: it must not delay the next key, which may be in either document.
                await settled(server.probe)
                if at:
                    notes.add(turn, at, lines, (ms, asked_model(suggestion)))
                done += 1
                step(done, 2 * LONG_CHUNKS * len(typist.edit.steps))
            typist.close()


def edits_for_two(steps: int) -> tuple[Edit, ...]:
    """The edits to type, one at each of the two servers."""
    return tuple(edit.excerpt(max(steps, _LEAST_FOR_TWO) // 2) for edit in load_trace()[:2])


async def two_servers(
    scratch: Scratch, steps: int, notes: Two, say: Callable[[str], None], step: Callable[[int, int], None]
) -> None:
    """Type at two servers of one user, each with its own document.

    step: called with (keystrokes done, keystrokes in all).
    """
    edits = edits_for_two(steps)
    done = 0
    async with serving(scratch) as (first, _), serving(scratch) as (second, _), connect(scratch) as probe:
        editors = (first, second)

        async def type_at(server: int, into: list[Answered], pace: float = 1.0) -> None:
            nonlocal done
            async for ms, suggestion in type_in_rhythm(editors[server], scratch, edits[server], pace):
                into.append((ms, asked_model(suggestion)))
                done += 1
                step(done, 3 * sum(len(edit.steps) for edit in edits))

        say("Typing at one server, then at another one.")
        for server in (0, 1):
            # Warm up, so that the cache holds equally much of the documents, alone and together.
            await type_at(server, [], pace=0.0)
        for server in (0, 1):
            # Wait for one server's evaluation ahead, so that it does not delay the other one's first keys.
            await settled(probe)
            await type_at(server, notes.alone[server])
        await settled(probe)
        say("Typing at two servers at once.")
        await asyncio.gather(*(type_at(server, notes.together[server]) for server in (0, 1)))
