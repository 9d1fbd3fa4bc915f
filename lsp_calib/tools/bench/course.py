"""`lsp-calib bench`: what is measured, in which order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence

import attrs

from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.wire import Stats
from lsp_calib.server.settings import Trusted
from lsp_calib.tools.bench import idle
from lsp_calib.tools.bench.cancel import Cancelled, cancel_and_wait
from lsp_calib.tools.bench.peer import Peer, PeerAnswer
from lsp_calib.tools.bench.probe import Probe, connect, settled, until_idle
from lsp_calib.tools.bench.raw import Raw, can_replay, raw_process
from lsp_calib.tools.bench.server import Scratch, scratch_folder, serving
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.typing_on import TypedOn, type_on
from lsp_calib.tools.bench.typist import Reading, Typist, asked_model, type_edit, type_in_rhythm
from lsp_calib.tools.client import Editor

LONG_FILE = (500, 50_000)
_LONG_STEPS = 12
_CHUNKS = 4
_TYPED_ON = 3
# Keystrokes that make two edits.
_LEAST_FOR_TWO = 32

Progress = Callable[[str], None]


@attrs.frozen
class Options:
    """What to measure. steps: keystrokes to replay. cancels: requests to cancel. idle: seconds to watch.

    raw: replay in a bare loop as well. peer: address of a llama-server. two: two servers at once.
    typing_on: in new documents, without waiting. long_file: a document of 50,000 lines against one of 500.
    """

    trusted: Trusted = attrs.field(factory=Trusted)
    steps: int = 240
    cancels: int = 12
    raw: bool = True
    peer: str | None = None
    two: bool = False
    typing_on: bool = True
    long_file: bool = True
    idle: float = 10.0
    seed: int = 0


@attrs.frozen
class PeerReading:
    """One keystroke, asked of both. predicted: tokens that the server had generated for it before."""

    wall_ms: float
    evaluated: int
    generated: int
    predicted: int
    prompt_tokens: int
    peer: PeerAnswer


@attrs.frozen
class PeerPass:
    description: dict[str, object]
    readings: tuple[PeerReading, ...]


@attrs.frozen
class LongFile:
    """The same keystrokes in a short and in a long document.

    pairs: milliseconds in the short and in the long one. asked: whether the model was asked in both.
    """

    lines: tuple[int, int]
    pairs: tuple[tuple[float, float], ...]
    asked: tuple[bool, ...]


@attrs.frozen
class Two:
    """Two servers, each alone and both at once, at the recorded rhythm; the same keystrokes.

    pairs: for each server, milliseconds alone and together. asked: whether the model was asked both times.
    """

    pairs: tuple[tuple[tuple[float, float], ...], ...]
    asked: tuple[tuple[bool, ...], ...]


@attrs.frozen
class Idle:
    """Processor seconds used in `seconds` after the last keystroke; None where the system does not tell."""

    seconds: float
    server: float | None
    model: float | None


@attrs.frozen
class Measured:
    """Everything that was read. missing: what was not measured, and why."""

    card: ModelCard
    stats: Stats
    engine: str
    start_ms: float
    readings: tuple[Reading, ...]
    idle: Idle | None
    cancelled: Cancelled | None
    typed_on: TypedOn | None
    long_file: LongFile | None
    two: Two | None
    peer: PeerPass | None
    missing: dict[str, str]


async def measure(options: Options, progress: Progress) -> Measured:
    """Run the bench. Raises ModelError without a model, LspCalibError where a part of it fails."""
    peer = Peer(options.peer) if options.peer else None
    description = await peer.describe() if peer else {}
    edits = select(load_trace(), options.steps)
    missing: dict[str, str] = {}
    with scratch_folder(options.trusted) as scratch:
        async with contextlib.AsyncExitStack() as stack:
            progress(f"Loading {scratch.chosen.title}.")
            editor, start_ms = await stack.enter_async_context(serving(scratch))
            probe = await stack.enter_async_context(connect(scratch))
            raw = await _raw(stack, scratch, (await probe.stats()).threads, options, missing)
            readings = await _type(editor, scratch, edits, probe, raw, options, progress)
            stats = await probe.stats()
            cancelled = None
            if options.cancels:
                progress("Cancelling requests.")
                cancelled = await cancel_and_wait(editor, scratch, probe, options.cancels, options.seed)
            typed_on = None
            if options.typing_on:
                progress("Typing on in new documents, without waiting.")
                typed_on = await type_on(editor, scratch, probe, _TYPED_ON, options.seed)
            long_file = await _long_file(editor, scratch, edits, progress) if options.long_file else None
            watched = await _idle(editor, probe, options.idle, progress) if options.idle else None
        two = await _two(scratch, options.steps, progress) if options.two else None
    passed = None
    if peer is not None:
        if raw is None:
            missing["peer"] = "llama-cpp-python is not installed: the prompts cannot be tokenised"
        else:
            passed = PeerPass(description, await _against(peer, readings, edits, options, progress))
        peer.close()
    return Measured(
        scratch.chosen,
        stats,
        probe.engine,
        start_ms,
        readings,
        watched,
        cancelled,
        typed_on,
        long_file,
        two,
        passed,
        missing,
    )


async def _raw(
    stack: contextlib.AsyncExitStack,
    scratch: Scratch,
    threads: int,
    options: Options,
    missing: dict[str, str],
) -> Raw | None:
    if not can_replay():
        missing["raw"] = "llama-cpp-python, in which the bare loop is written, is not installed"
        return None
    return await stack.enter_async_context(
        raw_process(
            scratch.model,
            context=scratch.card.context,
            threads=threads,
            vocabulary_only=not options.raw,
        )
    )


async def _type(
    editor: Editor,
    scratch: Scratch,
    edits: Sequence[Edit],
    probe: Probe,
    raw: Raw | None,
    options: Options,
    progress: Progress,
) -> tuple[Reading, ...]:
    readings: list[Reading] = []
    for edit in edits:
        progress(f"Typing {len(edit.steps)} keystrokes of {edit.name}.")
        async for reading in type_edit(editor, scratch, edit, probe=probe, raw=raw, replay=options.raw):
            readings.append(reading)
    return tuple(readings)


async def _long_file(editor: Editor, scratch: Scratch, edits: Sequence[Edit], progress: Progress) -> LongFile:
    """The same keystrokes in both documents, by turns; what comes first is not counted, the cache is cold."""
    progress(f"Typing in a file of {LONG_FILE[1]:,} lines.")
    answers: dict[int, list[tuple[float, bool]]] = {lines: [] for lines in LONG_FILE}
    fitting = [edit for edit in edits if len(edit.before) <= LONG_FILE[0]]
    for turn in range(_CHUNKS):
        edit = fitting[turn % len(fitting)].excerpt(_LONG_STEPS)
        for lines in LONG_FILE if turn % 2 else reversed(LONG_FILE):
            typist = Typist(editor, scratch, edit.padded(lines))
            given = [await typist.answer(step) for step in typist.edit.steps]
            answers[lines] += [(ms, asked_model(suggestion)) for ms, suggestion in given[1:]]
            typist.close()
    both = list(zip(*answers.values(), strict=True))
    return LongFile(
        LONG_FILE,
        tuple((short[0], long[0]) for short, long in both),
        tuple(short[1] and long[1] for short, long in both),
    )


async def _idle(editor: Editor, probe: Probe, seconds: float, progress: Progress) -> Idle:
    progress(f"Watching an idle server for {seconds:.0f} s.")
    await until_idle(probe)
    server, model = editor.pid or 0, probe.pid or 0
    await asyncio.sleep(1)  # what the last answer left to do
    before = idle.cpu_seconds(server), idle.cpu_seconds(model)
    began = time.monotonic()
    await asyncio.sleep(seconds)
    watched = time.monotonic() - began
    used = [
        None if old is None or (new := idle.cpu_seconds(pid)) is None else new - old
        for old, pid in zip(before, (server, model), strict=True)
    ]
    return Idle(watched, used[0], used[1])


async def _two(scratch: Scratch, steps: int, progress: Progress) -> Two:
    """Two servers of one user, each with a document of its own."""
    edits = [edit.excerpt(max(steps, _LEAST_FOR_TWO) // 2) for edit in load_trace()[:2]]
    async with serving(scratch) as (first, _), serving(scratch) as (second, _):
        pairs = list(zip((first, second), edits, strict=True))
        progress("Typing at one server, then at another one.")
        for editor, edit in pairs:
            # So that the model has seen as much of the documents in what follows, alone and together.
            await type_in_rhythm(editor, scratch, edit, pace=0.0)
        alone = [await type_in_rhythm(editor, scratch, edit) for editor, edit in pairs]
        progress("Typing at two servers at once.")
        together = await asyncio.gather(*(type_in_rhythm(editor, scratch, edit) for editor, edit in pairs))
    both = [list(zip(one, two, strict=True))[1:] for one, two in zip(alone, together, strict=True)]
    return Two(
        tuple(tuple((one[0], two[0]) for one, two in server) for server in both),
        tuple(tuple(one[1] and two[1] for one, two in server) for server in both),
    )


async def _against(
    peer: Peer, known: Sequence[Reading], edits: Sequence[Edit], options: Options, progress: Progress
) -> tuple[PeerReading, ...]:
    """The keystrokes again, in a fresh server, those that ask its model of the peer as well.

    Greedy answers repeat: what the first pass found says how many tokens the peer has to generate, and who
    is asked first can be left to chance.
    """
    chance = random.Random(options.seed)
    by_step = {(reading.edit, reading.at): reading for reading in known}
    results: list[PeerReading] = []
    with scratch_folder(options.trusted) as scratch:
        async with serving(scratch) as (editor, _), connect(scratch) as probe:
            for edit in edits:
                progress(f"Asking the peer, too: {edit.name}.")
                async for found in _edit_against(peer, editor, scratch, probe, edit, by_step, chance):
                    results.append(found)
    return tuple(results)


async def _edit_against(
    peer: Peer,
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    edit: Edit,
    known: dict[tuple[str, int], Reading],
    chance: random.Random,
) -> AsyncIterator[PeerReading]:
    typist = Typist(editor, scratch, edit)
    before = await until_idle(probe)
    for at, step in enumerate(edit.steps):
        expected = known[edit.name, at]
        predicted = expected.generated if expected.asked_model else None
        first = chance.random() < 0.5
        answer = await peer.finish_line(expected.prompt, predicted) if predicted and first else None
        wall, _ = await typist.answer(step)
        after = await settled(probe)
        if predicted and not first:
            answer = await peer.finish_line(expected.prompt, predicted)
        if answer is not None and predicted:
            yield PeerReading(
                wall_ms=wall,
                evaluated=after.prompt_tokens - before.prompt_tokens,
                generated=after.generated_tokens - before.generated_tokens,
                predicted=predicted,
                prompt_tokens=len(expected.prompt),
                peer=answer,
            )
        before = after
    typist.close()
