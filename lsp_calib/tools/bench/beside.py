"""Types the same keys on a quiet machine, beside busy processes, which want a core, and after those.

Each key asks the model for a few tokens, with all of its prompt except the current line in the cache, so that
the readings of a key differ only in the other processes.
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import attrs

from lsp_calib.tools.bench.processes import Session, busy
from lsp_calib.tools.bench.server import Served, until_idle
from lsp_calib.tools.bench.trace import Edit, Kind, Step
from lsp_calib.tools.bench.typist import Say, Typist

# Seconds of readings after the busy processes have ended.
AFTER = 10.0
# Number of keys to try in a line: its last ones, since the rest of the line is short there.
_TRIED = 16
_KEYS = 12
# A key is used if this many tokens were generated for it.
_FEW = range(2, 9)


_Busy = Callable[[int], AbstractContextManager[object]]
"""Makes so many busy processes."""


class How(enum.StrEnum):
    """The relation of the busy processes to the model process."""

    EQUAL = "equalShare"  # each in its own session
    NICE = "niceSameSession"  # at nice 19, in the model process's session

    @property
    def words(self) -> str:
        equal = "of an equal share (another session)"
        return equal if self is How.EQUAL else "at nice 19 in the model's session"


@attrs.frozen
class Asked:
    """One keystroke. key: its number, from 0. at: seconds from the start of its phase until it was typed."""

    key: int
    at: float
    ms: float
    evaluated: int
    generated: int

    def same_work(self, other: Asked) -> bool:
        return (self.key, self.evaluated, self.generated) == (other.key, other.evaluated, other.generated)


@attrs.define
class Run:
    """Readings beside busy processes, and after those have ended."""

    how: How
    readings: list[Asked] = attrs.field(factory=list)
    after: list[Asked] = attrs.field(factory=list)


@attrs.define
class Beside:
    """processes: number of busy processes. keys: number of keystrokes, which are repeated in turn."""

    processes: int = 0
    keys: int = 0
    quiet: list[Asked] = attrs.field(factory=list)
    runs: list[Run] = attrs.field(factory=list)


async def type_beside(
    server: Served,
    session: Session | None,
    edits: Sequence[Edit],
    requests: int,
    notes: Beside,
    missing: dict[str, str],
    say: Say,
) -> None:
    """Type `requests` keys on the quiet machine, and as many beside each kind of busy processes.

    session: that of the server's model process, if it could be started in one with others.
    """
    hand = _Hand(server)
    say("Choosing keystrokes.")
    await hand.choose(edits)
    notes.keys = len(hand.keys)
    if not hand.keys:
        missing["beside"] = "the model generated 2 to 8 tokens at none of the keystrokes tried"
        return
    say(f"Typing {requests} keystrokes on the quiet machine.")
    began = await hand.lead_in()
    for _ in range(requests):
        notes.quiet.append(await hand.next(began))
    kinds: dict[How, _Busy] = {How.EQUAL: busy}
    if session is not None and session.model == server.probe.pid:
        kinds[How.NICE] = session.busy
    else:
        missing[f"beside.{How.NICE}"] = "the model process could not be put into a session with others"
    for how, processes in kinds.items():
        say(f"Typing {requests} keystrokes beside others {how.words}.")
        run = Run(how)
        notes.runs.append(run)
        await hand.lead_in()
        with processes(notes.processes):
            began = time.monotonic()
            for _ in range(requests):
                run.readings.append(await hand.next(began))
        ended = time.monotonic()
        while time.monotonic() < ended + AFTER:
            run.after.append(await hand.next(ended))


class _Hand:
    """Types the same keys of a document again and again. keys: of its steps those that are used."""

    def __init__(self, server: Served) -> None:
        self.keys: list[int] = []
        self._server = server
        self._next = 0

    async def choose(self, edits: Sequence[Edit]) -> None:
        """Take the line of code with most keys that the model answers with few tokens."""
        best: tuple[list[int], Edit] | None = None
        for edit in filter(None, map(last_keys, edits)):
            self._open(edit)
            asked = [await self._ask(key) for key in range(len(edit.steps))]
            few = [one.key for one in asked if one.generated in _FEW][:_KEYS]
            self._typist.close()
            if best is None or len(few) > len(best[0]):
                best = few, edit
            if len(few) == _KEYS:
                break
        if best is not None:
            self.keys = best[0]
            self._open(best[1])

    async def lead_in(self) -> float:
        """Type the last of the keys, so that every phase starts with the same cache; returns the time."""
        await self._ask(self.keys[-1])
        self._next = 0
        return time.monotonic()

    async def next(self, began: float) -> Asked:
        """The next key's reading. began: by `time.monotonic`, when the phase began."""
        key = self.keys[self._next % len(self.keys)]
        self._next += 1
        asked = await self._ask(key)
        return attrs.evolve(asked, at=asked.at - began)

    def _open(self, edit: Edit) -> None:
        self._steps, self._lines = edit.steps, line_before_each(edit)
        self._typist = Typist(self._server.editor, self._server.scratch, edit)

    async def _ask(self, key: int) -> Asked:
        document, line = self._typist.document, self._steps[0].start[0]
        document.replace(line, 0, len(document.lines[line]), self._lines[key])
        # The server remembers its answers for as long as a document is open.
        document.reopen()
        before = await until_idle(self._server.probe)
        at = time.monotonic()
        ms, _ = await self._typist.answer(self._steps[key])
        after = await until_idle(self._server.probe)
        evaluated = after.prompt_tokens - before.prompt_tokens
        return Asked(key, at, ms, evaluated, after.generated_tokens - before.generated_tokens)


def last_keys(edit: Edit) -> Edit | None:
    """The last keys of the longest run of keys in one line of code; None if it has too few."""
    runs: list[list[Step]] = [[]]
    lines = list(edit.before)
    for step in edit.steps:
        step.apply(lines)
        if step.kind is not Kind.TYPE or step.jump or (runs[-1] and step.start != runs[-1][-1].cursor):
            runs.append([])
        if step.kind is Kind.TYPE and _is_code(lines[step.start[0]]):
            runs[-1].append(step)
    steps = max(runs, key=len)[-_TRIED:]
    if len(steps) < _TRIED:
        return None
    first = next(at for at, step in enumerate(edit.steps) if step is steps[0])
    return attrs.evolve(edit, before=tuple(edit.lines_after(first)), steps=tuple(steps))


def line_before_each(edit: Edit) -> list[str]:
    """The text of the edited line before each step; all steps are in that line."""
    line, lines = edit.steps[0].start[0], list(edit.before)
    found = []
    for step in edit.steps:
        found.append(lines[line])
        step.apply(lines)
    return found


def _is_code(line: str) -> bool:
    """Whether a line is code, not prose; completions of prose may be long."""
    return re.match(r"\s*[\w.]+( = |\()|\s*return \w", line) is not None
