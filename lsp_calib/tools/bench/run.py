"""`lsp-calib bench`: measures the chosen parts in order and prints. What it finds changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Collection
from typing import Any

import attrs

from lsp_calib.errors import EngineError, SettingsError, StoppedError
from lsp_calib.inference.models import converted
from lsp_calib.inference.models.speeds import known_speed
from lsp_calib.settings import Trusted, resolve_trusted
from lsp_calib.terminal import tell
from lsp_calib.tools.bench.comparisons import (
    AFTER,
    LONG_CHUNKS,
    LONG_FILE,
    LONG_STEPS,
    SCOUTED,
    How,
    Peer,
    against,
    edits_for_two,
    long_file,
    measure_beside,
    two_servers,
)
from lsp_calib.tools.bench.forecast import Cost, Forecast, Part, Stopped, Unit, Watch, until_stopped
from lsp_calib.tools.bench.processes import Raw, can_replay, raw_process, shared_session
from lsp_calib.tools.bench.report import Notes, is_empty, to_json
from lsp_calib.tools.bench.server import Scratch, Served, scratch_folder, served, watch_idle
from lsp_calib.tools.bench.summaries import FIRST, first_summaries, type_beside
from lsp_calib.tools.bench.table import print_report
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.typist import type_edit
from lsp_calib.tools.bench.uncached import BURSTS, Burst, cancel_and_wait, type_on

LIMIT = 600.0
"""Default time limit of a bench, in seconds."""

Progress = Callable[[str], None]

_SHORT: dict[str, Any] = {"steps": 36, "cancels": 3, "typing_on": False, "long_file": False, "idle": 2.0}
# By name: the part, the option that is 0 if --only leaves it out, and its value if --only names it (None: as
# without --only).
_SWITCHES: dict[str, tuple[Part, str, int | None]] = {
    "typing": (Part.TYPING, "typing", True),
    "cancel": (Part.CANCEL, "cancels", None),
    "typing-on": (Part.TYPING_ON, "typing_on", True),
    "long-file": (Part.LONG_FILE, "long_file", True),
    "idle": (Part.IDLE, "idle", None),
    "two": (Part.TWO, "two", True),
    "beside": (Part.BESIDE, "beside", 1),
    "summaries": (Part.SUMMARIES, "summaries", True),
}
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

    def edits(self) -> tuple[Edit, ...]:
        """What is typed."""
        edits = load_trace()
        return select([edit.closing() for edit in edits] if self.closing else edits, self.steps)

    def parts(self) -> tuple[Part, ...]:
        """The parts to measure, in order."""
        wanted = {part for part, option, _ in _SWITCHES.values() if getattr(self, option)}
        if self.peer and self.typing:  # it repeats the requests of typing
            wanted.add(Part.PEER)
        return tuple(part for part in Part if part in wanted)


def run(
    *,
    as_json: bool,
    model: str | None,
    threads: int,
    short: bool,
    only: Collection[str] = (),
    **given: Any,
) -> int:
    """Measure and print; returns the exit code.

    only: the `PARTS` to measure; empty for the usual ones. given: `Options` by name; None stands for the
    default, or for the value of the short form. Raises LspCalibError.
    """
    trusted, problems = resolve_trusted(Trusted(model=model, threads=threads), Trusted())
    for problem in problems:
        tell(f"lsp-calib: {problem}")
    options = Options(trusted=trusted, **chosen(short=short, only=only, given=given))
    if not options.parts():
        raise SettingsError("There is nothing to measure: the options leave every part out.")
    try:
        report = _measured(options, tell)
    except KeyboardInterrupt:
        raise StoppedError("Stopped at once; nothing was printed.") from None
    empty, stopped = is_empty(report), report["stopped"]
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    elif not empty:
        print_report(report)
    if stopped is None:
        return 0
    if empty:
        tell(f"lsp-calib: {_nothing(stopped, options)}")
    return Stopped(stopped).exit_code or (EngineError.exit_code if empty else 0)


def chosen(*, short: bool, only: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    """`Options` by name: those of the short form, replaced by those that `only` sets and by `given`."""
    options: dict[str, Any] = dict(_SHORT) if short else {}
    off: dict[str, Any] = {}
    for part, (_, option, value) in _SWITCHES.items() if only else ():
        if part not in only:
            off[option] = 0
        elif value is not None:
            options[option] = value
    return {**options, **{name: value for name, value in given.items() if value is not None}, **off}


def short_options(trusted: Trusted) -> Options:
    """The short form of the bench, without the bare loop, as `doctor` runs it."""
    return Options(trusted=trusted, raw=False, **{**_SHORT, "cancels": 0, "idle": 0.0})


def bench(options: Options, progress: Progress) -> dict[str, Any]:
    """The report of a bench.

    After the time limit it covers the readings so far. Raises LspCalibError if there are none,
    KeyboardInterrupt for Ctrl-C, SystemExit for a signal to terminate.
    """
    report = _measured(options, progress)
    stopped = report["stopped"]
    if stopped == Stopped.INTERRUPT:
        raise KeyboardInterrupt
    if stopped == Stopped.TERMINATE:
        raise SystemExit(Stopped.TERMINATE.exit_code)
    if stopped and is_empty(report):
        raise EngineError(_nothing(stopped, options))
    return report


def _measured(options: Options, progress: Progress) -> dict[str, Any]:
    # Errors are raised here, once; pygls would log them as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    return to_json(asyncio.run(measure(options, progress)))


def _nothing(stopped: str, options: Options) -> str:
    words = f"The bench was stopped {Stopped(stopped).words} before anything was measured."
    if stopped == Stopped.LIMIT:
        words += f" Allow it more than {options.limit:g} s (--limit)."
    return words


async def measure(options: Options, progress: Progress) -> Notes:
    """Run the bench to its end or until it is stopped.

    Raises ModelError without a model, LspCalibError if a part fails.
    """
    peer = Peer(options.peer) if options.peer else None
    try:
        description = await peer.describe() if peer is not None else {}
        with scratch_folder(options.trusted) as scratch:
            notes = Notes(scratch.chosen, peer=description)
            speed = known_speed(scratch.chosen)
            forecast = Forecast(costs(options, Unit.of(scratch.card, speed)))
            watch = Watch(forecast, progress, options.limit)
            watch.announce(measured=speed is not None)
            course = _Course(options, scratch, peer, notes, watch)
            stopped = await until_stopped(course.run(), options.limit)
            notes.end(stopped, forecast.unfinished(), watch.seconds)
            return notes
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
    first = {next((part for part in parts if part in _MAIN), None), Part.PEER, Part.BESIDE, Part.SUMMARIES}
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
            step = self._step(Part.TWO, "Two servers")
            await two_servers(self._scratch, self._options.steps, self._notes.two, self._watch.say, step)
        if self._peer is not None and Part.PEER in self._parts:
            await self._against(self._peer)
        if Part.BESIDE in self._parts:
            await self._beside()
        if Part.SUMMARIES in self._parts:
            await self._summaries()

    async def _main(self) -> None:
        """Run the parts that share one server and one model process."""
        options, notes, watch = self._options, self._notes, self._watch
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(served(self._scratch))
            notes.start_ms = server.start_ms
            await self._met(server)
            if Part.TYPING in self._parts:
                await self._typing(server, await self._raw(stack))
            if Part.CANCEL in self._parts:
                watch.say("Cancelling requests.")
                step = self._step(Part.CANCEL, "Cancelling requests")
                await cancel_and_wait(server, options.cancels, notes.cancelled, step)
            if Part.TYPING_ON in self._parts:
                await self._typing_on(server)
            if Part.LONG_FILE in self._parts:
                watch.say(f"Typing in a file of {LONG_FILE[1]:,} lines.")
                step = self._step(Part.LONG_FILE, "Typing in a long file")
                await long_file(server, self._edits, notes.long_file, step)
            if Part.IDLE in self._parts:
                watch.say(f"Watching an idle server for {options.idle:.0f} s.")
                notes.idle = await watch_idle(server, options.idle)
                watch.did(Part.IDLE, "", 1, 1)

    async def _met(self, server: Served) -> None:
        """Note the engine and the first stats of a server, unless those of another one are known."""
        if self._notes.stats is None:
            self._notes.engine = (await server.probe.ready()).engine
            self._notes.stats = await server.probe.stats()

    async def _raw(self, stack: contextlib.AsyncExitStack) -> Raw | None:
        """Start the bare loop, which also tokenises prompts."""
        notes = self._notes
        if not can_replay():
            notes.missing["raw"] = "llama-cpp-python, in which the bare loop is written, is not installed"
            return None
        assert notes.stats is not None
        return await stack.enter_async_context(
            raw_process(
                converted.used(self._scratch.model),
                context=self._scratch.card.context,
                threads=notes.stats.threads,
                vocabulary_only=not self._options.raw,
            )
        )

    async def _typing(self, server: Served, raw: Raw | None) -> None:
        total, notes = sum(len(edit.steps) for edit in self._edits), self._notes
        step = self._step(Part.TYPING, "Typing")
        for edit in self._edits:
            self._watch.say(f"Typing {len(edit.steps)} keystrokes of {edit.name}.")
            readings = type_edit(server, edit, raw, replay=self._options.raw)
            async with contextlib.aclosing(readings):
                async for reading in readings:
                    notes.readings.append(reading)
                    step(len(notes.readings), total)
            notes.stats = await server.probe.stats()

    async def _typing_on(self, server: Served) -> None:
        bursts, step = self._notes.bursts, self._step(Part.TYPING_ON, "Typing on in new documents")

        def keep(burst: Burst) -> None:
            bursts.append(burst)
            step(len(bursts), 2 * BURSTS)

        self._watch.say("Typing on in new documents, without waiting.")
        await type_on(server, keep)

    async def _against(self, peer: Peer) -> None:
        options, notes, watch = self._options, self._notes, self._watch
        if "raw" in notes.missing:
            notes.missing["peer"] = "llama-cpp-python is not installed: the prompts cannot be tokenised"
            watch.did(Part.PEER, "", 1, 1)
            return
        watch.say("Asking the peer, too.")
        step, keep = self._step(Part.PEER, "Asking the peer, too"), notes.against.append
        await against(peer, notes.readings, self._edits, options.trusted, keep, step)

    async def _beside(self) -> None:
        options, notes, watch, scratch = self._options, self._notes, self._watch, self._scratch
        total = (2 * SCOUTED) + (1 + len(How)) * options.requests
        notes.beside.processes = options.beside
        processes = "a process that wants" if options.beside == 1 else f"{options.beside} processes that want"
        watch.say(f"Typing beside {processes} a core.")

        def step(phase: str, typed: int) -> None:
            watch.did(Part.BESIDE, f"Beside: {phase}.", min(typed, total - 1), total)

        async with (
            shared_session(scratch.model, scratch.home) as shared,
            served(scratch, ahead=False) as server,
        ):
            await self._met(server)
            await measure_beside(
                server, shared, load_trace(), options.requests, notes.beside, notes.missing, step
            )
        watch.did(Part.BESIDE, "", 1, 1)

    async def _summaries(self) -> None:
        notes, watch = self._notes, self._watch
        async with served(self._scratch) as server:
            await self._met(server)
            watch.say(f"Summarising {FIRST} long functions.")
            await first_summaries(server, notes.summaries)
            watch.say("Typing, with and without summaries in the background.")
            step = self._step(Part.SUMMARIES, "Typing beside summaries")
            await type_beside(server, self._edits, notes.summaries, step)
        watch.did(Part.SUMMARIES, "", 1, 1)

    def _step(self, part: Part, words: str) -> Callable[[int, int], None]:
        def did(done: int, of: int) -> None:
            self._watch.did(part, f"{words}: {done} of {of}.", done, of)

        return did
