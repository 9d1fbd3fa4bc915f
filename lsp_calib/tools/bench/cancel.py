"""Measures how soon the model is idle again after a request is cancelled or superseded."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.tools.bench.probe import Probe, until_idle
from lsp_calib.tools.bench.server import Scratch
from lsp_calib.tools.client import Document, Editor
from lsp_calib.tools.demo.writing import suggestion_of

_ANSWER = 120.0
_WIDTH = 60
# By turns, nearly each of them a token. Digits are too, but count as data, where nothing is asked by itself.
_LETTERS, _SIGNS = "bcdfghjkmnpqrstvwxz", "!#%&*+-/:;<=>?^|~"
_LINES = 200
_names = itertools.count()


@attrs.frozen
class Cancelled:
    """idle_ms: from `$/cancelRequest` until the model process was idle, one reading each.

    superseded_ms: from sending the next request for the same document until the model began with it.
    too_late: requests that finished before they could be cancelled. prompt_tokens: of the cancelled prompts.
    alone_ms: duration of such a request if it is not cancelled.
    """

    idle_ms: tuple[float, ...]
    superseded_ms: tuple[float, ...]
    too_late: int
    prompt_tokens: int
    alone_ms: float


@attrs.define
class CancelNotes:
    """As `Cancelled`, during the measurement. alone: milliseconds and tokens of an uncancelled request."""

    idle_ms: list[float] = attrs.field(factory=list)
    superseded_ms: list[float] = attrs.field(factory=list)
    too_late: int = 0
    alone: tuple[float, int] | None = None

    def values(self) -> Cancelled | None:
        """The readings; None until a request was cancelled."""
        if self.alone is None or not (self.idle_ms or self.superseded_ms or self.too_late):
            return None
        ms, tokens = self.alone
        return Cancelled(tuple(self.idle_ms), tuple(self.superseded_ms), self.too_late, tokens, ms)


def dense(card: ModelCard, chance: random.Random) -> tuple[list[str], int]:
    """A document that is not cached, and the line at which the prompt contains most of it.

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


async def cancel_and_wait(
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    count: int,
    seed: int,
    notes: CancelNotes,
    step: Callable[[int, int], None],
) -> None:
    """Cancel `count` requests after a random share of their expected time, and supersede as many others.

    step: called with (requests done, requests in all).
    """
    chance = random.Random(seed)
    notes.alone = await _alone(editor, scratch, probe, chance)
    for turn in range(2 * count):
        document, line = open_dense(editor, scratch, chance)
        await until_idle(probe)
        cancel = document.complete_later(line, 0)
        await asyncio.sleep(chance.uniform(0.02, 0.7) * notes.alone[0] / 1e3)
        if (await probe.stats()).idle_since is not None:
            notes.too_late += 1
        elif turn % 2:
            notes.superseded_ms += await _supersede(document)
        else:
            now = time.monotonic()
            cancel()
            stats = await until_idle(probe)
            if stats.idle_since is not None and stats.idle_since >= now:
                notes.idle_ms.append(1e3 * (stats.idle_since - now))
            else:
                notes.too_late += 1
        document.close()
        await until_idle(probe)
        step(turn + 1, 2 * count)


async def _alone(editor: Editor, scratch: Scratch, probe: Probe, chance: random.Random) -> tuple[float, int]:
    document, line = open_dense(editor, scratch, chance)
    before = await until_idle(probe)
    began = time.perf_counter()
    await document.complete(line, 0, _ANSWER)
    ms = 1e3 * (time.perf_counter() - began)
    after = await until_idle(probe)
    document.close()
    tokens = after.prompt_tokens - before.prompt_tokens
    if not tokens:
        raise EngineError(
            "A long prompt was answered without being evaluated: the counters of the model process are wrong."
        )
    return ms, tokens


async def _supersede(document: Document) -> list[float]:
    """Milliseconds from a second request in the same document until the model began with it.

    Computed as its total time minus the time in the model; empty if that is not reported.
    """
    began = time.perf_counter()
    item = await document.complete(0, 0, _ANSWER)
    whole = 1e3 * (time.perf_counter() - began)
    suggestion = suggestion_of(item)
    if suggestion is None:
        return []
    timing = suggestion["timing"]
    return [max(whole - float(timing["promptMs"]) - float(timing["generateMs"]), 0.0)]


def open_dense(editor: Editor, scratch: Scratch, chance: random.Random) -> tuple[Document, int]:
    """Open a new document of this kind; returns it and the line at which the prompt contains most of it."""
    lines, line = dense(scratch.card, chance)
    path = scratch.project / f"dense_{next(_names)}.json"
    path.write_text("\n".join(lines), "utf-8")
    return Document(editor, path, "json"), line
