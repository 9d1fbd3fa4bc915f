"""How long the answer takes in a file just opened, after typing on without waiting for the model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import attrs

from lsp_calib.tools.bench.cancel import open_digits
from lsp_calib.tools.bench.probe import Probe, until_idle
from lsp_calib.tools.bench.server import Scratch
from lsp_calib.tools.client import Editor

_ANSWER = 120.0
BURSTS = 3
_KEYS = 20
# Seconds from one key to the next: median, and spread of the logarithm.
_PAUSE, _SPREAD = 0.15, 0.3


@attrs.frozen
class TypedOn:
    """In documents of which nothing was cached, of which the model is shown about 1,500 tokens.

    keys: typed one after the other, each with a request that cancels the one before it, as editors do.
    typed_ms: from the first of them to the last. then_ms: from the last one to its answer. at_once_ms: to the
    answer after a first key, without any typing before.
    """

    keys: int
    typed_ms: tuple[float, ...]
    then_ms: tuple[float, ...]
    at_once_ms: tuple[float, ...]


@attrs.frozen
class Burst:
    """keys typed one after the other. typed_ms: from the first to the last. then_ms: to the answer."""

    keys: int
    typed_ms: float
    then_ms: float


def typed_on(bursts: Sequence[Burst]) -> TypedOn | None:
    """None without any."""
    if not bursts:
        return None
    long = [one for one in bursts if one.keys > 1]
    return TypedOn(
        _KEYS,
        tuple(one.typed_ms for one in long),
        tuple(one.then_ms for one in long),
        tuple(one.then_ms for one in bursts if one.keys == 1),
    )


async def type_on(
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    seed: int,
    keep: Callable[[Burst], None],
) -> None:
    """Read some times how long the answer takes after 20 keys, and after a single one, by turns."""
    chance = random.Random(f"typing on {seed}")
    for turn in range(BURSTS):
        for keys in (_KEYS, 1) if turn % 2 else (1, _KEYS):
            keep(await _burst(editor, scratch, probe, chance, keys))


async def _burst(editor: Editor, scratch: Scratch, probe: Probe, chance: random.Random, keys: int) -> Burst:
    document, line = open_digits(editor, scratch, chance)
    await until_idle(probe)
    began = 0.0
    for column in range(keys):
        document.replace(line, column, column, chance.choice("0123456789"))
        began = began or editor.sent_at
        if column == keys - 1:
            break
        cancel = document.complete_later(line, column + 1)
        await asyncio.sleep(chance.lognormvariate(0, _SPREAD) * _PAUSE)
        cancel()
    last = editor.sent_at
    await document.complete(line, keys, _ANSWER)
    then = 1e3 * (editor.received_at - last)
    await until_idle(probe)
    document.close()
    return Burst(keys, 1e3 * (last - began), then)
