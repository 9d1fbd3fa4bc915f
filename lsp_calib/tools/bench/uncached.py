"""Requests in documents of which nothing is cached: cancelled ones, and those of typing without a pause."""

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
from lsp_calib.tools.bench.server import Scratch, Served, until_idle
from lsp_calib.tools.bench.typist import ANSWER
from lsp_calib.tools.client import Document, Editor, suggestion_of

BURSTS = 3
KEYS = 20
"""Number of keys typed in a row."""

_WIDTH = 60
# By turns, nearly each of them a token. Digits are too, but count as data, where nothing is asked by itself.
_LETTERS, _SIGNS = "bcdfghjkmnpqrstvwxz", "!#%&*+-/:;<=>?^|~"
_LINES = 200
# Seconds between two keys: median, and standard deviation of the logarithm.
_PAUSE, _SPREAD = 0.15, 0.3
_names = itertools.count()


@attrs.define
class Cancelled:
    """idle_ms: from `$/cancelRequest` until the model process was idle, one reading each.

    superseded_ms: from sending the next request for the same document until the model began with it.
    too_late: requests that finished before they could be cancelled. alone: milliseconds and prompt tokens of
    such a request that is not cancelled.
    """

    idle_ms: list[float] = attrs.field(factory=list)
    superseded_ms: list[float] = attrs.field(factory=list)
    too_late: int = 0
    alone: tuple[float, int] | None = None


@attrs.frozen
class Burst:
    """`keys` keys typed in a row, each with a request that cancels the previous one, as in editors.

    typed_ms: from first to last. then_ms: from the last to its answer. then_tokens: prompt tokens evaluated
    from the last key on, of 1,500 to 2,000 in the prompt.
    """

    keys: int
    typed_ms: float
    then_ms: float
    then_tokens: int


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


def open_dense(editor: Editor, scratch: Scratch, chance: random.Random) -> tuple[Document, int]:
    """Open a new document of this kind; returns it and the line at which the prompt contains most of it."""
    lines, line = dense(scratch.card, chance)
    path = scratch.project / f"dense_{next(_names)}.json"
    path.write_text("\n".join(lines), "utf-8")
    return Document(editor, path, "json"), line


async def cancel_and_wait(
    server: Served, count: int, notes: Cancelled, step: Callable[[int, int], None]
) -> None:
    """Cancel `count` requests after a random share of their expected time, and supersede as many others.

    step: called with (requests done, requests in all).
    """
    chance, probe = random.Random(0), server.probe
    alone, _ = notes.alone = await _alone(server, chance)
    for turn in range(2 * count):
        document, line = open_dense(server.editor, server.scratch, chance)
        await until_idle(probe)
        cancel = document.complete_later(line, 0)
        await asyncio.sleep(chance.uniform(0.02, 0.7) * alone / 1e3)
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


async def type_on(server: Served, keep: Callable[[Burst], None]) -> None:
    """Measure several times, by turns, how long the answer takes after 20 keys and after a single one."""
    chance = random.Random("typing on 0")
    for turn in range(BURSTS):
        for keys in (KEYS, 1) if turn % 2 else (1, KEYS):
            keep(await _burst(server, chance, keys))


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


async def _supersede(document: Document) -> list[float]:
    """Milliseconds from a second request in the same document until the model began with it.

    Computed as its total time minus the time in the model; empty if that is not reported.
    """
    began = time.perf_counter()
    item = await document.complete(0, 0, ANSWER)
    whole = 1e3 * (time.perf_counter() - began)
    suggestion = suggestion_of(item)
    if suggestion is None:
        return []
    timing = suggestion["timing"]
    return [max(whole - float(timing["promptMs"]) - float(timing["generateMs"]), 0.0)]


async def _burst(server: Served, chance: random.Random, keys: int) -> Burst:
    editor = server.editor
    document, line = open_dense(editor, server.scratch, chance)
    await until_idle(server.probe)
    began = 0.0
    for column in range(keys - 1):
        document.replace(line, column, column, chance.choice("0123456789"))
        began = began or editor.sent_at
        cancel = document.complete_later(line, column + 1)
        await asyncio.sleep(chance.lognormvariate(0, _SPREAD) * _PAUSE)
        cancel()
    before = await server.probe.stats()
    document.replace(line, keys - 1, keys - 1, chance.choice("0123456789"))
    last = editor.sent_at
    await document.complete(line, keys, ANSWER)
    then = 1e3 * (editor.received_at - last)
    after = await until_idle(server.probe)
    document.close()
    return Burst(keys, 1e3 * (last - (began or last)), then, after.prompt_tokens - before.prompt_tokens)
