"""`lsp-calib bench`: the parts to measure and their order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import attrs

from lsp_calib.inference.models import converted
from lsp_calib.inference.models.speeds import known_speed
from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.against import against
from lsp_calib.tools.bench.cancel import cancel_and_wait
from lsp_calib.tools.bench.comparisons import (
    LONG_CHUNKS,
    LONG_FILE,
    LONG_STEPS,
    edits_for_two,
    long_file,
    two_servers,
)
from lsp_calib.tools.bench.forecast import Cost, Forecast, Part, Unit, Watch
from lsp_calib.tools.bench.idle import watch_idle
from lsp_calib.tools.bench.measured import Measured, Notes
from lsp_calib.tools.bench.peer import Peer
from lsp_calib.tools.bench.probe import Probe, connect
from lsp_calib.tools.bench.raw import Raw, can_replay, raw_process
from lsp_calib.tools.bench.server import Scratch, scratch_folder, serving
from lsp_calib.tools.bench.stopping import until_stopped
from lsp_calib.tools.bench.summaries import FIRST, first_summaries, type_beside
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.typing_on import BURSTS, Burst, type_on
from lsp_calib.tools.bench.typist import type_edit
from lsp_calib.tools.bench.under_load import AFTER, SCOUTED, How, measure_beside
from lsp_calib.tools.client import Editor

LIMIT = 600.0
"""Default time limit of a bench, in seconds."""

Progress = Callable[[str], None]

# The parts that share one server, in order.
_MAIN = (Part.TYPING, Part.CANCEL, Part.TYPING_ON, Part.LONG_FILE, Part.IDLE)
# Expected duration of a request beside a busy process, relative to a quiet machine.
_SLOWER = {How.EQUAL: 2.5, How.NICE: 1.5}


@attrs.frozen
class Options:
    """The parts to measure. steps: keystrokes to replay. cancels: requests to cancel. idle: seconds to watch.

    closing: type as in an editor that closes brackets.
    typing: type in documents of some hundred lines and wait for each answer. raw: also replay that in a bare
    loop. peer: address of a llama-server. two: use two servers at once. typing_on: type in new documents
    without waiting. long_file: compare a document of 50,000 lines with one of 500. beside: number of busy
    processes; requests: keystrokes beside them, and as many without. summaries: measure summaries, hovers,
    and `steps` keystrokes while summaries are made, as many without. limit: seconds until the bench is
    stopped, 0 for none.
    """

    trusted: Trusted = attrs.field(factory=Trusted)
    steps: int = 240
    closing: bool = False
    typing: bool = True
    cancels: int = 12
    raw: bool = True
    peer: str | None = None
    two: bool = False
    typing_on: bool = True
    long_file: bool = True
    idle: float = 10.0
    beside: int = 0
    requests: int = 60
    summaries: bool = False
    limit: float = LIMIT
    seed: int = 0

    def edits(self) -> tuple[Edit, ...]:
        """What is typed."""
        edits = load_trace()
        return select([edit.closing() for edit in edits] if self.closing else edits, self.steps)

    def parts(self) -> tuple[Part, ...]:
        """The parts to measure, in order."""
        wanted: Mapping[Part, object] = {
            Part.TYPING: self.typing,
            Part.CANCEL: self.cancels,
            Part.TYPING_ON: self.typing_on,
            Part.LONG_FILE: self.long_file,
            Part.IDLE: self.idle,
            Part.TWO: self.two,
            # The peer repeats the requests of typing.
            Part.PEER: self.peer and self.typing,
            Part.BESIDE: self.beside,
            Part.SUMMARIES: self.summaries,
        }
        return tuple(part for part, is_wanted in wanted.items() if is_wanted)


async def measure(options: Options, progress: Progress) -> Measured:
    """Run the bench to its end or until it is stopped.

    Raises ModelError without a model, LspCalibError if a part fails.
    """
    peer = Peer(options.peer) if options.peer else None
    notes = Notes()
    try:
        if peer is not None:
            notes.description = await peer.describe()
        with scratch_folder(options.trusted) as scratch:
            speed = known_speed(scratch.chosen)
            forecast = Forecast(costs(options, Unit.of(scratch.card, speed)))
            watch = Watch(forecast, progress, options.limit)
            watch.announce(measured=speed is not None)
            course = _Course(options, scratch, peer, notes, watch)
            stopped = await until_stopped(course.run(), options.limit)
            return notes.measured(scratch.chosen, stopped, forecast.unfinished(), watch.seconds)
    finally:
        if peer is not None:
            peer.close()


def costs(options: Options, unit: Unit) -> dict[Part, Cost]:
    """The expected cost of each part; the first part of a server includes its start."""
    chosen = options.edits()
    edits = len(chosen)
    raw = options.raw and can_replay()
    bursts = BURSTS * (2 * unit.digits + 4 * unit.key)
    cancels = (2 * options.cancels) * (0.6 * unit.digits + unit.key) + unit.digits
    pace = sum(step.pause_ms for edit in edits_for_two(options.steps) for step in edit.steps) / 1e3
    beside = unit.typing(3 * SCOUTED, 2).work + unit.key * options.requests * (1 + sum(_SLOWER.values()))
    keys = [key for edit in chosen for key in edit.steps]
    summaries = Cost(
        unit.typing(3 * len(keys), edits).work + FIRST * (unit.window + 3 * unit.key),
        2 * sum(key.pause_ms for key in keys) / 1e3,
    )
    found = {
        Part.TYPING: unit.typing(options.steps, edits, twice=raw),
        Part.CANCEL: Cost(cancels),
        Part.TYPING_ON: Cost(bursts, 3.0 * BURSTS),
        Part.LONG_FILE: unit.typing(2 * LONG_CHUNKS * LONG_STEPS, 2 * LONG_CHUNKS),
        Part.IDLE: Cost(0.0, options.idle + 1.0),
        Part.TWO: Cost(unit.typing(3 * max(options.steps, 32), 6).work + 2 * unit.start, 1.5 * pace),
        Part.PEER: unit.typing(options.steps, edits, twice=True),
        Part.BESIDE: Cost(beside, len(How) * AFTER),
        Part.SUMMARIES: summaries,
    }
    parts = options.parts()
    first = {
        next(iter(part for part in parts if part in _MAIN), None),
        Part.PEER,
        Part.BESIDE,
        Part.SUMMARIES,
    }
    return {
        part: attrs.evolve(found[part], work=found[part].work + (unit.start if part in first else 0.0))
        for part in parts
    }


class _Course:
    """Runs the parts one after the other; each reading goes to the notes at once."""

    def __init__(
        self, options: Options, scratch: Scratch, peer: Peer | None, notes: Notes, watch: Watch
    ) -> None:
        self._options, self._scratch, self._peer = options, scratch, peer
        self._notes, self._watch = notes, watch
        self._parts = options.parts()
        self._edits = options.edits()

    async def run(self) -> None:
        self._watch.say(f"Loading {self._scratch.chosen.title}.")
        if any(part in self._parts for part in _MAIN):
            await self._main()
        if Part.TWO in self._parts:
            await self._two()
        if self._peer is not None and Part.PEER in self._parts:
            await self._against(self._peer)
        if Part.BESIDE in self._parts:
            await self._beside()
        if Part.SUMMARIES in self._parts:
            await self._summaries()

    async def _main(self) -> None:
        """Run the parts that share one server and one model process."""
        options, notes, scratch, watch = self._options, self._notes, self._scratch, self._watch
        async with contextlib.AsyncExitStack() as stack:
            editor, notes.start_ms = await stack.enter_async_context(serving(scratch))
            probe = await stack.enter_async_context(connect(scratch))
            notes.engine, notes.stats = probe.engine, await probe.stats()
            if Part.TYPING in self._parts:
                await self._typing(editor, probe, await self._raw(stack, notes.stats.threads))
            if Part.CANCEL in self._parts:
                watch.say("Cancelling requests.")
                step = self._step(Part.CANCEL, "Cancelling requests")
                await cancel_and_wait(
                    editor, scratch, probe, options.cancels, options.seed, notes.cancelled, step
                )
            if Part.TYPING_ON in self._parts:
                await self._typing_on(editor, probe)
            if Part.LONG_FILE in self._parts:
                watch.say(f"Typing in a file of {LONG_FILE[1]:,} lines.")
                step = self._step(Part.LONG_FILE, "Typing in a long file")
                await long_file(editor, scratch, probe, self._edits, notes.long_file, step)
            if Part.IDLE in self._parts:
                watch.say(f"Watching an idle server for {options.idle:.0f} s.")
                notes.idle = await watch_idle(editor, probe, options.idle)
                watch.did(Part.IDLE, "", 1, 1)

    async def _raw(self, stack: contextlib.AsyncExitStack, threads: int) -> Raw | None:
        """Start the bare loop, which also tokenises prompts."""
        if not can_replay():
            self._notes.missing["raw"] = (
                "llama-cpp-python, in which the bare loop is written, is not installed"
            )
            return None
        return await stack.enter_async_context(
            raw_process(
                converted.used(self._scratch.model),
                context=self._scratch.card.context,
                threads=threads,
                vocabulary_only=not self._options.raw,
            )
        )

    async def _typing(self, editor: Editor, probe: Probe, raw: Raw | None) -> None:
        total = _keys(self._edits)
        for edit in self._edits:
            self._watch.say(f"Typing {len(edit.steps)} keystrokes of {edit.name}.")
            step = self._step(Part.TYPING, "Typing")
            readings = type_edit(editor, self._scratch, edit, probe=probe, raw=raw, replay=self._options.raw)
            async with contextlib.aclosing(readings):
                async for reading in readings:
                    self._notes.readings.append(reading)
                    step(len(self._notes.readings), total)
            self._notes.stats = await probe.stats()

    async def _typing_on(self, editor: Editor, probe: Probe) -> None:
        bursts, step = self._notes.bursts, self._step(Part.TYPING_ON, "Typing on in new documents")

        def keep(burst: Burst) -> None:
            bursts.append(burst)
            step(len(bursts), 2 * BURSTS)

        self._watch.say("Typing on in new documents, without waiting.")
        await type_on(editor, self._scratch, probe, self._options.seed, keep)

    async def _two(self) -> None:
        step = self._step(Part.TWO, "Two servers")
        await two_servers(self._scratch, self._options.steps, self._notes.two, self._watch.say, step)

    async def _against(self, peer: Peer) -> None:
        notes, watch = self._notes, self._watch
        if "raw" in notes.missing:
            notes.missing["peer"] = "llama-cpp-python is not installed: the prompts cannot be tokenised"
            watch.did(Part.PEER, "", 1, 1)
            return
        watch.say("Asking the peer, too.")
        step = self._step(Part.PEER, "Asking the peer, too")
        await against(
            peer,
            notes.readings,
            self._edits,
            self._options.trusted,
            self._options.seed,
            notes.against.append,
            step,
        )

    async def _beside(self) -> None:
        options, watch = self._options, self._watch
        total = (2 * SCOUTED) + (1 + len(How)) * options.requests
        watch.say(
            f"Typing beside {_processes(options.beside)} that want{'s' * (options.beside == 1)} a core."
        )
        await measure_beside(
            self._scratch,
            load_trace(),
            options.beside,
            options.requests,
            self._notes.beside,
            self._notes.missing,
            lambda phase, typed: watch.did(Part.BESIDE, f"Beside: {phase}.", min(typed, total - 1), total),
        )
        watch.did(Part.BESIDE, "", 1, 1)

    async def _summaries(self) -> None:
        scratch, notes, watch = self._scratch, self._notes, self._watch
        async with serving(scratch) as (editor, _), connect(scratch) as probe:
            if notes.stats is None:
                notes.engine, notes.stats = probe.engine, await probe.stats()
            watch.say(f"Summarising {FIRST} long functions.")
            await first_summaries(editor, scratch, probe, notes.summaries, lambda *_: None)
            watch.say("Typing, with and without summaries in the background.")
            step = self._step(Part.SUMMARIES, "Typing beside summaries")
            await type_beside(editor, scratch, probe, self._edits, notes.summaries, step)
        watch.did(Part.SUMMARIES, "", 1, 1)

    def _step(self, part: Part, words: str) -> Callable[[int, int], None]:
        def did(done: int, of: int) -> None:
            self._watch.did(part, f"{words}: {done} of {of}.", done, of)

        return did


def _keys(edits: Sequence[Edit]) -> int:
    return sum(len(edit.steps) for edit in edits)


def _processes(count: int) -> str:
    return "a process" if count == 1 else f"{count} processes"
