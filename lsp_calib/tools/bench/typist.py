"""Types edits into a server: one change, one request, one reading. And cancels requests there."""

from __future__ import annotations

import asyncio
import enum
import itertools
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.tools.bench.processes import Peer, Raw, Repeated
from lsp_calib.tools.bench.server import Scratch, Served, settled, until_idle
from lsp_calib.tools.bench.trace import Edit, Kind, Step
from lsp_calib.tools.client import Document, Editor, suggestion_of
from lsp_calib.values import Prompt

# Seconds; enough on a busy machine.
ANSWER = 120.0
_names = itertools.count()

# Of a document of which nothing is cached: by turns, nearly each of them a token. Digits are too, but count
# as data, where nothing is asked by itself.
_LETTERS, _SIGNS = "bcdfghjkmnpqrstvwxz", "!#%&*+-/:;<=>?^|~"
_LINES, _WIDTH = 200, 60

Say = Callable[[str], None]


class Place(enum.StrEnum):
    """The kind of a keystroke in a reading."""

    COLD = "cold"  # the first in a document
    JUMP = "jump"  # the first after the cursor was moved to another place
    NEWLINE = "newLine"
    KEYSTROKE = "keystroke"


@attrs.frozen
class Reading:
    """The cost of one change.

    wall_ms: from sending the change's bytes to receiving the answer's bytes. source: "model", "memory", or
    "none" if nothing was offered. evaluated, generated, decode_ms: as counted by the model process, 0 if it
    was not asked. raw, peer: the same tokens in a bare loop and at a llama-server, None if they were not
    asked.
    """

    place: Place
    wall_ms: float
    source: str
    suggestion: dict[str, Any] | None
    evaluated: int
    generated: int
    decode_ms: float
    raw: Repeated | None = None
    peer: Repeated | None = None

    @property
    def asked_model(self) -> bool:
        """Whether the model had work to do."""
        return self.evaluated > 0


class Typist:
    """Types an edit into a document that one server has open, and asks after each step."""

    def __init__(self, editor: Editor, scratch: Scratch, edit: Edit) -> None:
        self._editor = editor
        # A new file each time: the server remembers its answers for the previous one.
        path = scratch.project / f"typed_{next(_names)}.py"
        path.write_text("\n".join(edit.before), "utf-8")
        self.document = Document(editor, path, "python")
        self._layout = scratch.layout

    async def answer(self, step: Step) -> tuple[float, dict[str, Any] | None]:
        """Make a step and ask at the cursor; returns (milliseconds until the answer, suggestion)."""
        self.document.edit(step.start, step.end, step.inserted)
        began = self._editor.sent_at
        item = await self.document.complete(*step.cursor, ANSWER)
        return 1e3 * (self._editor.received_at - began), suggestion_of(item)

    def prompt(self, step: Step) -> Prompt:
        """The prompt that the server sends to its model after the step just made."""
        cursor = Cursor(self.document.lines, *step.cursor, "python")
        return build_prompt(cursor.without_closers_behind(), self._layout)

    def close(self) -> None:
        self.document.close()


async def type_edit(
    server: Served, edit: Edit, raw: Raw | None = None, peer: Peer | None = None, *, replay: bool = True
) -> AsyncGenerator[Reading, None]:
    """Yield a reading for each step.

    raw: to tokenise, and with `replay` to repeat the model's work. peer: is asked for it as well.
    """
    typist = Typist(server.editor, server.scratch, edit)
    before = await until_idle(server.probe)
    for at, step in enumerate(edit.steps):
        wall, suggestion = await typist.answer(step)
        after = await settled(server.probe)
        reading = Reading(
            place=_place(at, step),
            wall_ms=wall,
            source=suggestion["source"] if suggestion else "none",
            suggestion=suggestion,
            evaluated=after.prompt_tokens - before.prompt_tokens,
            generated=after.generated_tokens - before.generated_tokens,
            decode_ms=after.decode_ms - before.decode_ms,
        )
        if raw and (replay or peer) and reading.asked_model and reading.generated:
            prompt = typist.prompt(step)
            tokens = await raw.tokens_of(prompt)
            if replay:
                reading = attrs.evolve(
                    reading, raw=await _replayed(raw, prompt, tokens, reading, after.threads)
                )
            if peer:
                reading = attrs.evolve(reading, peer=await peer.finish_line(tokens, reading.generated))
        yield reading
        before = after
    typist.close()


def _place(at: int, step: Step) -> Place:
    if at == 0:
        return Place.COLD
    if step.jump:
        return Place.JUMP
    return Place.NEWLINE if step.kind is Kind.NEWLINE else Place.KEYSTROKE


async def _replayed(
    raw: Raw, prompt: Prompt, tokens: Sequence[int], reading: Reading, threads: int
) -> Repeated:
    """Repeat the work in the bare loop: evaluate as many tokens and generate the same answer."""
    text = prompt.forced + (reading.suggestion["text"] if reading.suggestion else "") + "\n"
    keep = max(len(tokens) - reading.evaluated, 0)
    return await raw.replay(tokens, keep, await raw.tokens_of_text(text), reading.generated, threads)


@attrs.define
class Cancelled:
    """idle_ms: from `$/cancelRequest` until the model process was idle, one reading each.

    too_late: requests that finished before they could be cancelled. alone: milliseconds and prompt tokens of
    such a request that is not cancelled.
    """

    idle_ms: list[float] = attrs.field(factory=list)
    too_late: int = 0
    alone: tuple[float, int] | None = None


async def cancel_and_wait(server: Served, count: int, notes: Cancelled) -> None:
    """Cancel `count` requests, each after a random share of its expected time."""
    chance, probe = random.Random(0), server.probe
    alone, _ = notes.alone = await _alone(server, chance)
    for _ in range(count):
        document, line = open_dense(server.editor, server.scratch, chance)
        await until_idle(probe)
        cancel = document.complete_later(line, 0)
        await asyncio.sleep(chance.uniform(0.02, 0.7) * alone / 1e3)
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


async def _alone(server: Served, chance: random.Random) -> tuple[float, int]:
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
