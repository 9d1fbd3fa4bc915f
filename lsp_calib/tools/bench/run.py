"""`lsp-calib bench`: measures the chosen parts in order and prints. What it finds changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import attrs

from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.inference.models import converted
from lsp_calib.settings import Trusted, resolve_trusted
from lsp_calib.terminal import tell
from lsp_calib.tools.bench import BESIDE, CANCEL, TYPING
from lsp_calib.tools.bench.beside import type_beside
from lsp_calib.tools.bench.processes import Peer, Raw, can_replay, raw_process, session_of_model
from lsp_calib.tools.bench.report import Notes, Stopped, is_empty, print_report, to_json
from lsp_calib.tools.bench.server import Served, scratch_folder, served
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.typist import Say, cancel_and_wait, type_edit

_SHORT: dict[str, Any] = {"steps": 36, "cancels": 3}


@attrs.frozen
class Options:
    """parts: those of `PARTS` to measure. steps: keystrokes to replay. cancels: requests to cancel.

    closing: type as in an editor that closes brackets. raw: also replay what the model does in a bare loop.
    peer: address of a llama-server that is asked as well. beside: number of busy processes; requests:
    keystrokes beside them, and as many without. limit: seconds until the bench is stopped, 0 for none.
    """

    trusted: Trusted = attrs.field(factory=Trusted)
    parts: Sequence[str] = (TYPING, CANCEL)
    steps: int = 240
    closing: bool = False
    cancels: int = 12
    raw: bool = True
    peer: str | None = None
    beside: int = 1
    requests: int = 60
    limit: float = 600.0

    def recorded(self) -> Sequence[Edit]:
        """The recorded edits, in an editor that closes brackets if that is asked for."""
        return [edit.closing() for edit in load_trace()] if self.closing else load_trace()


def run(
    *,
    as_json: bool,
    model: str | None,
    threads: int,
    short: bool,
    only: Sequence[str] = (),
    beside: int | None = None,
    **given: Any,
) -> int:
    """Measure and print; returns the exit code.

    only: the `PARTS` to measure; empty for the usual ones. given: `Options` by name; None stands for the
    default, or for the value of the short form. Raises LspCalibError.
    """
    trusted, problems = resolve_trusted(Trusted(model=model, threads=threads), Trusted())
    for problem in problems:
        tell(f"lsp-calib: {problem}")
    parts = only or (TYPING, CANCEL, *((BESIDE,) if beside else ()))
    chosen = (_SHORT if short else {}) | {name: one for name, one in given.items() if one is not None}
    options = Options(trusted=trusted, parts=parts, beside=beside or 1, **chosen)
    report = measured(options, tell)
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


def short_bench(trusted: Trusted, say: Say) -> dict[str, Any]:
    """The report of the short form with typing alone, without the bare loop, as `doctor` runs it.

    After the time limit it covers the readings so far. Raises LspCalibError if there are none,
    KeyboardInterrupt for Ctrl-C, SystemExit for a signal to terminate.
    """
    options = Options(trusted=trusted, parts=(TYPING,), raw=False, **_SHORT)
    report = measured(options, say)
    stopped = report["stopped"]
    if stopped == Stopped.INTERRUPT:
        raise KeyboardInterrupt
    if stopped == Stopped.TERMINATE:
        raise SystemExit(Stopped.TERMINATE.exit_code)
    if stopped and is_empty(report):
        raise EngineError(_nothing(stopped, options))
    return report


def _nothing(stopped: str, options: Options) -> str:
    words = f"The bench was stopped {Stopped(stopped).words} before anything was measured."
    if stopped == Stopped.LIMIT:
        words += f" Allow it more than {options.limit:g} s (--limit)."
    return words


def measured(options: Options, say: Say) -> dict[str, Any]:
    """Run the bench to its end or until it is stopped; returns its report.

    Raises ModelError without a model, LspCalibError if a part fails.
    """
    # Errors are raised here, once; pygls would log them as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    return to_json(asyncio.run(_measure(options, say)))


async def _measure(options: Options, say: Say) -> Notes:
    began = time.monotonic()
    peer = Peer(options.peer) if options.peer and TYPING in options.parts else None
    description = await peer.describe() if peer else {}
    with scratch_folder(options.trusted) as scratch:
        notes = Notes(scratch.chosen, [*options.parts], peer=description)
        notes.beside.processes = options.beside
        say(f"Loading {scratch.chosen.title}.")

        @contextlib.asynccontextmanager
        async def serving(*, ahead: bool) -> AsyncIterator[Served]:
            async with served(scratch, ahead=ahead) as server:
                notes.start_ms = notes.start_ms or server.start_ms
                notes.engine = (await server.probe.ready()).engine
                notes.stats = await server.probe.stats()
                yield server

        async def work() -> None:
            if {TYPING, CANCEL} & {*options.parts}:
                async with serving(ahead=True) as server:
                    await _parts(options, server, peer, notes, say)
            if BESIDE in options.parts:
                # Nothing is evaluated ahead: it would run into the next key's time.
                with session_of_model(scratch.model, scratch.home) as session:
                    async with serving(ahead=False) as server:
                        edits = options.recorded()
                        await type_beside(
                            server, session, edits, options.requests, notes.beside, notes.missing, say
                        )
                notes.left.remove(BESIDE)

        notes.stopped = await until_stopped(work(), options.limit)
        notes.seconds = time.monotonic() - began
        return notes


async def _parts(options: Options, server: Served, peer: Peer | None, notes: Notes, say: Say) -> None:
    """Measure the parts one after the other; each reading goes to the notes at once."""
    if TYPING in options.parts:
        async with _raw(options, server, notes) as raw:
            for edit in select(options.recorded(), options.steps):
                say(f"Typing {len(edit.steps)} keystrokes of {edit.name}.")
                async for reading in type_edit(server, edit, raw, peer, replay=options.raw):
                    notes.readings.append(reading)
        notes.stats = await server.probe.stats()
        notes.left.remove(TYPING)
    if CANCEL in options.parts:
        say("Cancelling requests.")
        await cancel_and_wait(server, options.cancels, notes.cancelled)
        notes.left.remove(CANCEL)


@contextlib.asynccontextmanager
async def _raw(options: Options, server: Served, notes: Notes) -> AsyncIterator[Raw | None]:
    """The bare loop, which also tokenises prompts for the peer; None where neither is asked."""
    wanted = [name for name, one in (("raw", options.raw), ("peer", options.peer)) if one]
    if not wanted or not can_replay():
        why = "llama-cpp-python is not installed, which the bare loop needs, and the peer for its prompts"
        notes.missing |= dict.fromkeys(wanted, why)
        yield None
        return
    assert notes.stats is not None
    scratch = server.scratch
    async with raw_process(
        converted.used(scratch.model),
        context=scratch.card.context,
        threads=notes.stats.threads,
        vocabulary_only=not options.raw,
    ) as raw:
        yield raw


async def until_stopped(work: Coroutine[Any, Any, None], limit: float) -> Stopped | None:
    """Run `work`; cancel it at the limit (seconds, 0 for none) or on a signal. Returns the reason.

    All that `work` has started is ended before this returns; a second signal ends the program at once, with
    KeyboardInterrupt. Raises the errors of `work` until it is stopped.
    """
    loop, task, why = asyncio.get_running_loop(), asyncio.ensure_future(work), list[Stopped]()

    def stop(reason: Stopped) -> None:
        why.append(reason)
        task.cancel()

    def by_signal(number: int, _frame: object) -> None:
        if why:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(stop, Stopped(signal.Signals(number).name))

    if limit:
        loop.call_later(limit, stop, Stopped.LIMIT)
    with _handling(by_signal):
        try:
            await task
        except (asyncio.CancelledError, LspCalibError, OSError):
            # An error while things are put away does not hide what was read.
            if not why:
                raise
    return why[0] if why else None


@contextlib.contextmanager
def _handling(call: Callable[[int, object], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call this; one that is ignored (nohup) stays so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heeded = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, call)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
