"""`lsp-calib bench`: types, cancels, measures and prints. What it finds changes nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.protocol import Stats
from lsp_calib.settings import Settings, resolve
from lsp_calib.terminal import tell
from lsp_calib.tools.bench.places import with_gaps
from lsp_calib.tools.bench.report import (
    Cancelled,
    Look,
    Notes,
    Place,
    Reading,
    is_empty,
    print_report,
    to_json,
)
from lsp_calib.tools.bench.server import (
    Scratch,
    Served,
    at_rest,
    evaluated_ahead,
    scratch_folder,
    served,
    settled,
    until_idle,
)
from lsp_calib.tools.bench.trace import Edit, Kind, Step, load_trace, select
from lsp_calib.tools.client import Document, Editor, suggestion_of

# Seconds; enough on a busy machine.
ANSWER = 120.0
_names = itertools.count()

# Of a document of which nothing is cached: by turns, nearly each of them a token. Digits are too, but count
# as data, where nothing is asked by itself.
_LETTERS, _SIGNS = "bcdfghjkmnpqrstvwxz", "!#%&*+-/:;<=>?^|~"
_LINES, _WIDTH = 200, 60

# Seconds that people look at a place before they type; and keys that are not the first of what belongs there.
_LOOK = 1.5
_OTHER_KEYS = "sr"

Say = Callable[[str], None]


@attrs.frozen
class Options:
    """steps: keystrokes to replay. cancels: requests to cancel. places: to jump to, to return to and to read
    at, so many of each. limit: in seconds; 0: none."""

    trusted: Settings = attrs.field(factory=Settings)
    steps: int = 240
    cancels: int = 12
    places: int = 8
    limit: float = 600.0


def run(
    *,
    as_json: bool,
    model: str | None,
    threads: int,
    short: bool,
    steps: int | None = None,
    limit: float | None = None,
) -> int:
    """Measure and print; returns the exit code. None stands for the default. Raises LspCalibError."""
    trusted, problems = resolve(Settings(model=model, threads=threads))
    for problem in problems:
        tell(f"lsp-calib: {problem}")
    options = Options(trusted, *((36, 3, 3) if short else (240, 12, 8)))
    options = attrs.evolve(options, steps=steps or options.steps)
    report = measured(options if limit is None else attrs.evolve(options, limit=limit), tell)
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    elif not is_empty(report):
        print_report(report)
    if is_empty(report):
        tell(f"lsp-calib: {_nothing(report)}")
    if report["stopped"] == "SIGINT":
        return 130
    return EngineError.exit_code if is_empty(report) else 0


def short_bench(trusted: Settings, say: Say) -> dict[str, Any]:
    """The report of the short form with typing alone, as `doctor` runs it.

    After the time limit it covers the readings so far. Raises LspCalibError if there are none,
    KeyboardInterrupt for Ctrl-C.
    """
    report = measured(Options(trusted, steps=36, cancels=0, places=0), say)
    if report["stopped"] == "SIGINT":
        raise KeyboardInterrupt
    if is_empty(report):
        raise EngineError(_nothing(report))
    return report


def _nothing(report: dict[str, Any]) -> str:
    why = "by Ctrl-C" if report["stopped"] == "SIGINT" else f"after {report['seconds']:.0f} s"
    words = f"The bench was stopped {why} before anything was measured."
    return words if report["stopped"] == "SIGINT" else f"{words} Allow it more time (--limit)."


def measured(options: Options, say: Say) -> dict[str, Any]:
    """Run the bench to its end or until it is stopped; returns its report.

    Raises ModelError without a model, LspCalibError if something fails.
    """
    # Errors are raised here, once; pygls would log them as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    return to_json(asyncio.run(_measure(options, say)))


async def _measure(options: Options, say: Say) -> Notes:
    began = time.monotonic()
    with scratch_folder(options.trusted) as scratch:
        notes = Notes(scratch.chosen)
        say(f"Loading {scratch.chosen.title}.")
        try:
            async with asyncio.timeout(options.limit or None) as limit:
                await _all(scratch, options, notes, say)
        except TimeoutError:
            if not limit.expired():
                raise
            notes.stopped = "limit"
        except asyncio.CancelledError:  # as asyncio has Ctrl-C
            notes.stopped = "SIGINT"
        notes.seconds = time.monotonic() - began
        return notes


async def _all(scratch: Scratch, options: Options, notes: Notes, say: Say) -> None:
    """Type, go to places, read, then cancel; each reading goes to the notes at once."""
    async with served(scratch) as server:
        notes.start_ms = server.start_ms
        notes.engine = (await server.probe.ready()).engine
        notes.stats = await server.probe.stats()
        for edit in select(load_trace(), options.steps):
            say(f"Typing {len(edit.steps)} keystrokes of {edit.name}.")
            async for reading in type_edit(server, edit):
                notes.readings.append(reading)
        if options.places:
            say("Jumping and returning to places, with a look before the first key.")
            async for reading in visit(server, options.places):
                notes.readings.append(reading)
            say("Reading.")
            async for look in read(server, options.places):
                notes.looks.append(look)
        notes.stats = await server.probe.stats()
        if options.cancels:
            say("Cancelling requests.")
            await cancel_and_wait(server, options.cancels, notes.cancelled)


class Typist:
    """Types an edit into a document that one server has open, and asks after each step."""

    def __init__(self, editor: Editor, scratch: Scratch, edit: Edit) -> None:
        self._editor = editor
        # A new file each time: the server remembers its answers for the previous one.
        path = scratch.project / f"typed_{next(_names)}.py"
        path.write_text("\n".join(edit.before), "utf-8")
        self.document = Document(editor, path, "python")

    async def answer(self, step: Step) -> tuple[float, dict[str, Any] | None]:
        """Make a step and ask at the cursor; returns (milliseconds until the answer, suggestion)."""
        if step.jump:
            self.document.look(*step.start)
        self.document.edit(step.start, step.end, step.text)
        began = self._editor.sent_at
        item = await self.document.complete(*step.cursor, ANSWER)
        return 1e3 * (self._editor.received_at - began), suggestion_of(item)


async def type_edit(server: Served, edit: Edit) -> AsyncGenerator[Reading, None]:
    """Yield a reading for each step."""
    typist = Typist(server.editor, server.scratch, edit)
    before = await until_idle(server.probe)
    for at, step in enumerate(edit.steps):
        wall, suggestion = await typist.answer(step)
        after = await settled(server.probe)
        yield reading_of(place_of(at, step), wall, suggestion, before, after)
        before = after
    typist.document.close()


def reading_of(
    place: Place, wall: float, suggestion: dict[str, Any] | None, before: Stats, after: Stats
) -> Reading:
    """A reading by the counters of the model process around it."""
    return Reading(
        place=place,
        wall_ms=wall,
        source=suggestion["source"] if suggestion else "none",
        suggestion=suggestion,
        evaluated=after.prompt_tokens - before.prompt_tokens,
        generated=after.generated_tokens - before.generated_tokens,
        decode_ms=after.decode_ms - before.decode_ms,
    )


async def visit(server: Served, count: int) -> AsyncGenerator[Reading, None]:
    """Go to so many new places of a file, then to each again: rest there, type a key, and take it back."""
    *_, longest = sorted(load_trace(), key=lambda edit: len(edit.before))
    lines, gaps = with_gaps(longest.replay(), count, random.Random(0))
    typist = Typist(server.editor, server.scratch, attrs.evolve(longest, before=tuple(lines)))
    for place in (Place.REST, Place.RETURN):
        for gap in gaps:
            at = gap.line, gap.column
            # The answer to the same key would be remembered.
            key = gap.text[0] if place is Place.REST else _OTHER_KEYS[gap.text[0] == _OTHER_KEYS[0]]
            before, ahead = await until_idle(server.probe), await evaluated_ahead(server.editor)
            typist.document.look(*at)
            await asyncio.sleep(_LOOK)
            rested = await server.probe.stats()
            wall, suggestion = await typist.answer(Step(Kind.TYPE, at, at, key, 0, False))
            reading = reading_of(place, wall, suggestion, rested, await until_idle(server.probe))
            new = rested.prompt_tokens - before.prompt_tokens
            used = (await evaluated_ahead(server.editor)).used - ahead.used
            yield attrs.evolve(reading, ahead=new, used=min(used, new))
            typist.document.replace(gap.line, gap.column, gap.column + 1, "")
            await at_rest(server.probe)
    typist.document.close()


async def read(server: Served, count: int) -> AsyncGenerator[Look, None]:
    """Rest at so many line ends of a file in which nothing is typed, each time until the model is idle."""
    edit = load_trace()[0]
    typist = Typist(server.editor, server.scratch, edit)
    written = [line for line, text in enumerate(edit.before) if text.strip()]
    before = await at_rest(server.probe)
    for line in written[:: -(-len(written) // count)]:
        typist.document.look(line, len(edit.before[line]))
        after = await at_rest(server.probe)
        seconds = (after.decode_ms - before.decode_ms) / 1e3 * after.threads
        yield Look(after.prompt_tokens - before.prompt_tokens, seconds)
        before = after
    typist.document.close()


def place_of(at: int, step: Step) -> Place:
    """The kind of a step. at: its number in its edit, from 0."""
    if at == 0:
        return Place.COLD
    if step.jump:
        return Place.JUMP
    return Place.NEWLINE if step.kind is Kind.NEWLINE else Place.KEYSTROKE


async def cancel_and_wait(server: Served, count: int, notes: Cancelled) -> None:
    """Cancel `count` requests, each after a random share of its expected time."""
    chance, probe = random.Random(0), server.probe
    expected, _ = notes.uncancelled = await _uncancelled(server, chance)
    for _ in range(count):
        document, line = open_dense(server.editor, server.scratch, chance)
        await until_idle(probe)
        cancel = document.complete_later(line, 0)
        await asyncio.sleep(chance.uniform(0.02, 0.7) * expected / 1e3)
        running = (await probe.stats()).idle_since is None
        now = time.monotonic()
        cancel()
        stats = await until_idle(probe)
        if running and stats.idle_since is not None and stats.idle_since >= now:
            notes.idle_ms.append(1e3 * (stats.idle_since - now))
        else:
            notes.too_late += 1
        document.close()
        await until_idle(probe)


async def _uncancelled(server: Served, chance: random.Random) -> tuple[float, int]:
    document, line = open_dense(server.editor, server.scratch, chance)
    before = await until_idle(server.probe)
    began = time.perf_counter()
    await document.complete(line, 0, ANSWER)
    ms = 1e3 * (time.perf_counter() - began)
    after = await until_idle(server.probe)
    document.close()
    tokens = after.prompt_tokens - before.prompt_tokens
    if not tokens:
        raise EngineError(
            "A long prompt was answered without being evaluated: the counters of the model process are wrong."
        )
    return ms, tokens


def open_dense(editor: Editor, scratch: Scratch, chance: random.Random) -> tuple[Document, int]:
    """Open a new document of which nothing is cached; returns it and the line at which the prompt contains
    most of it."""
    lines, line = dense(scratch.card, chance)
    path = scratch.project / f"dense_{next(_names)}.json"
    path.write_text("\n".join(lines), "utf-8")
    return Document(editor, path, "json"), line


def dense(card: ModelCard, chance: random.Random) -> tuple[list[str], int]:
    """Its lines, and that line.

    In most models each letter or sign is a token, so that a window of 1,600 characters has about 1,500.
    """
    lines = [
        "".join(chance.choice(_SIGNS if at % 2 else _LETTERS) for at in range(_WIDTH)) for _ in range(_LINES)
    ]

    def shown(line: int) -> int:
        prompt = build_prompt(Cursor(lines, line, 0, "json"), Layout.of(card))
        return sum(len(text) for _, text in prompt.segments)

    middle = len(lines) // 2
    return lines, max(range(middle, middle + 16), key=shown)
