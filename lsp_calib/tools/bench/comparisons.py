"""Compares the same keystrokes in a long and a short file, and at one server alone and two at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from lsp_calib.tools.bench.probe import Probe, connect, settled
from lsp_calib.tools.bench.server import Scratch, serving
from lsp_calib.tools.bench.trace import Edit, load_trace
from lsp_calib.tools.bench.typist import Answered, Typist, asked_model, type_in_rhythm
from lsp_calib.tools.client import Editor

LONG_FILE = (500, 50_000)
LONG_STEPS = 12
LONG_CHUNKS = 4
# Keystrokes that make two edits.
_LEAST_FOR_TWO = 32

Progress = Callable[[str], None]


@attrs.frozen
class LongFile:
    """The same keystrokes in a short and in a long document.

    pairs: (milliseconds in the short, in the long document). asked: whether the model was asked in both.
    """

    lines: tuple[int, int]
    pairs: tuple[tuple[float, float], ...]
    asked: tuple[bool, ...]


@attrs.define
class LongFileNotes:
    """given: the answers by (turn, keystroke), and then by the length of the document."""

    given: dict[tuple[int, int], dict[int, Answered]] = attrs.field(factory=dict)

    def add(self, turn: int, at: int, lines: int, answered: Answered) -> None:
        self.given.setdefault((turn, at), {})[lines] = answered

    def values(self) -> LongFile | None:
        """The keystrokes that were typed in both documents; None if there are none."""
        short, long = LONG_FILE
        both = [(one[short], one[long]) for one in self.given.values() if short in one and long in one]
        if not both:
            return None
        return LongFile(
            LONG_FILE,
            tuple((one[0], two[0]) for one, two in both),
            tuple(one[1] and two[1] for one, two in both),
        )


@attrs.frozen
class Two:
    """The same keystrokes, in the recorded rhythm, at two servers: each alone, then both at once.

    pairs: for each server, (milliseconds alone, together). asked: whether the model was asked both times.
    """

    pairs: tuple[tuple[tuple[float, float], ...], ...]
    asked: tuple[tuple[bool, ...], ...]


@attrs.define
class TwoNotes:
    """Answers of each server, alone and together."""

    alone: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))
    together: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))

    def values(self) -> Two | None:
        """The keystrokes typed both times, without the first of a document; None if there are none."""
        both = [
            list(zip(one, two, strict=False))[1:] for one, two in zip(self.alone, self.together, strict=True)
        ]
        if not any(both):
            return None
        return Two(
            tuple(tuple((one[0], two[0]) for one, two in server) for server in both),
            tuple(tuple(one[1] and two[1] for one, two in server) for server in both),
        )


async def long_file(
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    edits: Sequence[Edit],
    notes: LongFileNotes,
    step: Callable[[int, int], None],
) -> None:
    """Type the same keystrokes in both documents, by turns. The first of each is left out: its cache is cold.

    step: called with (keystrokes done, keystrokes in all).
    """
    fitting = [edit for edit in edits if len(edit.before) <= LONG_FILE[0]]
    done = 0
    for turn in range(LONG_CHUNKS):
        edit = fitting[turn % len(fitting)].excerpt(LONG_STEPS)
        for lines in LONG_FILE if turn % 2 else reversed(LONG_FILE):
            typist = Typist(editor, scratch, edit.padded(lines))
            for at, key in enumerate(typist.edit.steps):
                ms, suggestion = await typist.answer(key)
                # Wait for evaluation ahead: it must not delay the next key, which may be in either document.
                await settled(probe)
                if at:
                    notes.add(turn, at, lines, (ms, asked_model(suggestion)))
                done += 1
                step(done, 2 * LONG_CHUNKS * len(typist.edit.steps))
            typist.close()


def edits_for_two(steps: int) -> tuple[Edit, ...]:
    """The edits to type, one at each of the two servers."""
    return tuple(edit.excerpt(max(steps, _LEAST_FOR_TWO) // 2) for edit in load_trace()[:2])


async def two_servers(
    scratch: Scratch, steps: int, notes: TwoNotes, progress: Progress, step: Callable[[int, int], None]
) -> None:
    """Type at two servers of one user, each with its own document.

    step: called with (keystrokes done, keystrokes in all).
    """
    edits = edits_for_two(steps)
    done = 0

    def count(into: list[Answered], answered: Answered) -> None:
        nonlocal done
        done += 1
        into.append(answered)
        step(done, 3 * sum(len(edit.steps) for edit in edits))

    async with (
        serving(scratch) as (first, _),
        serving(scratch) as (second, _),
        connect(scratch) as probe,
    ):
        pairs = list(zip((first, second), edits, strict=True))
        progress("Typing at one server, then at another one.")
        for editor, edit in pairs:
            # Warm up, so that the cache holds equally much of the documents, alone and together.
            await type_in_rhythm(editor, scratch, edit, partial(count, []), pace=0.0)
        for (editor, edit), into in zip(pairs, notes.alone, strict=True):
            # Wait for one server's evaluation ahead, so that it does not delay the other one's first keys.
            await settled(probe)
            await type_in_rhythm(editor, scratch, edit, partial(count, into))
        await settled(probe)
        progress("Typing at two servers at once.")
        await asyncio.gather(
            *(
                type_in_rhythm(editor, scratch, edit, partial(count, into))
                for (editor, edit), into in zip(pairs, notes.together, strict=True)
            )
        )
