"""The same keystrokes twice: in a long and in a short file, at one server alone and at two at once."""

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

    pairs: milliseconds in the short and in the long one. asked: whether the model was asked in both.
    """

    lines: tuple[int, int]
    pairs: tuple[tuple[float, float], ...]
    asked: tuple[bool, ...]


@attrs.define
class LongFileNotes:
    """given: by turn and keystroke, what the answers in the documents of each length were."""

    given: dict[tuple[int, int], dict[int, Answered]] = attrs.field(factory=dict)

    def add(self, turn: int, at: int, lines: int, answered: Answered) -> None:
        self.given.setdefault((turn, at), {})[lines] = answered

    def values(self) -> LongFile | None:
        """The keystrokes that were made in both; None without any."""
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
    """Two servers, each alone and both at once, at the recorded rhythm; the same keystrokes.

    pairs: for each server, milliseconds alone and together. asked: whether the model was asked both times.
    """

    pairs: tuple[tuple[tuple[float, float], ...], ...]
    asked: tuple[tuple[bool, ...], ...]


@attrs.define
class TwoNotes:
    """Answers of each server, alone and together."""

    alone: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))
    together: tuple[list[Answered], list[Answered]] = attrs.field(factory=lambda: ([], []))

    def values(self) -> Two | None:
        """The keystrokes that were made both times; None without any. A document's first is not counted."""
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
    """The same keystrokes in both documents, by turns; what comes first is not counted, the cache is cold.

    step: told how many keystrokes are done, of how many.
    """
    fitting = [edit for edit in edits if len(edit.before) <= LONG_FILE[0]]
    done = 0
    for turn in range(LONG_CHUNKS):
        edit = fitting[turn % len(fitting)].excerpt(LONG_STEPS)
        for lines in LONG_FILE if turn % 2 else reversed(LONG_FILE):
            typist = Typist(editor, scratch, edit.padded(lines))
            for at, key in enumerate(typist.edit.steps):
                ms, suggestion = await typist.answer(key)
                # What is evaluated ahead for one key must not delay the next one: it could be either's.
                await settled(probe)
                if at:
                    notes.add(turn, at, lines, (ms, asked_model(suggestion)))
                done += 1
                step(done, 2 * LONG_CHUNKS * len(typist.edit.steps))
            typist.close()


def edits_for_two(steps: int) -> tuple[Edit, ...]:
    """What is typed at each of two servers."""
    return tuple(edit.excerpt(max(steps, _LEAST_FOR_TWO) // 2) for edit in load_trace()[:2])


async def two_servers(
    scratch: Scratch, steps: int, notes: TwoNotes, progress: Progress, step: Callable[[int, int], None]
) -> None:
    """Two servers of one user, each with a document of its own.

    step: told how many keystrokes are done, of how many.
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
            # So that the model has seen as much of the documents in what follows, alone and together.
            await type_in_rhythm(editor, scratch, edit, partial(count, []), pace=0.0)
        for (editor, edit), into in zip(pairs, notes.alone, strict=True):
            # What one server has had evaluated ahead is not to delay the other one's first keys.
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
