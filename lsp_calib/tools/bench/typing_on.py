"""Measures the time to an answer in a new file, after typing on without waiting for the model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import attrs

from lsp_calib.tools.bench.cancel import open_dense
from lsp_calib.tools.bench.probe import Probe, until_idle
from lsp_calib.tools.bench.server import Scratch
from lsp_calib.tools.client import Document, Editor

_ANSWER = 120.0
BURSTS = 3
_KEYS = 20
# Seconds between two keys: median, and standard deviation of the logarithm.
_PAUSE, _SPREAD = 0.15, 0.3


@attrs.frozen
class TypedOn:
    """Times in documents that are not cached, with prompts of 1,500 to 2,000 tokens.

    keys: number of keys typed in a row, each with a request that cancels the previous one, as in editors.
    typed_ms: from the first to the last key. then_ms: from the last key to its answer. at_once_ms: from a
    single key to its answer, without earlier typing. then_tokens, at_once_tokens: prompt tokens evaluated in
    these times.
    """

    keys: int
    typed_ms: tuple[float, ...]
    then_ms: tuple[float, ...]
    at_once_ms: tuple[float, ...]
    then_tokens: tuple[int, ...]
    at_once_tokens: tuple[int, ...]


@attrs.frozen
class Burst:
    """`keys` keys typed in a row. typed_ms: from first to last. then_ms: from the last to its answer.

    then_tokens: prompt tokens evaluated from the last key on.
    """

    keys: int
    typed_ms: float
    then_ms: float
    then_tokens: int


def typed_on(bursts: Sequence[Burst]) -> TypedOn | None:
    """The times of all bursts; None if there are no bursts."""
    if not bursts:
        return None
    long, single = ([one for one in bursts if (one.keys > 1) is several] for several in (True, False))
    return TypedOn(
        _KEYS,
        typed_ms=tuple(one.typed_ms for one in long),
        then_ms=tuple(one.then_ms for one in long),
        at_once_ms=tuple(one.then_ms for one in single),
        then_tokens=tuple(one.then_tokens for one in long),
        at_once_tokens=tuple(one.then_tokens for one in single),
    )


async def type_on(
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    seed: int,
    keep: Callable[[Burst], None],
) -> None:
    """Measure several times, by turns, how long the answer takes after 20 keys and after a single one."""
    chance = random.Random(f"typing on {seed}")
    for turn in range(BURSTS):
        for keys in (_KEYS, 1) if turn % 2 else (1, _KEYS):
            keep(await _burst(editor, scratch, probe, chance, keys))


async def _burst(editor: Editor, scratch: Scratch, probe: Probe, chance: random.Random, keys: int) -> Burst:
    document, line = open_dense(editor, scratch, chance)
    await until_idle(probe)
    began = 0.0
    for column in range(keys - 1):
        _type(document, line, column, chance)
        began = began or editor.sent_at
        cancel = document.complete_later(line, column + 1)
        await asyncio.sleep(chance.lognormvariate(0, _SPREAD) * _PAUSE)
        cancel()
    before = await probe.stats()
    _type(document, line, keys - 1, chance)
    last = editor.sent_at
    await document.complete(line, keys, _ANSWER)
    then = 1e3 * (editor.received_at - last)
    after = await until_idle(probe)
    document.close()
    return Burst(keys, 1e3 * (last - (began or last)), then, after.prompt_tokens - before.prompt_tokens)


def _type(document: Document, line: int, column: int, chance: random.Random) -> None:
    document.replace(line, column, column, chance.choice("0123456789"))
