"""How long somebody waits who did not wait before: who opens a file, types on, and then looks up."""

from __future__ import annotations

import asyncio
import random

import attrs

from lsp_calib.tools.bench.cancel import open_digits
from lsp_calib.tools.bench.probe import Probe, until_idle
from lsp_calib.tools.bench.server import Scratch
from lsp_calib.tools.client import Editor

_ANSWER = 120.0
_KEYS = 20
# Seconds from one key to the next: median, and spread of the logarithm.
_PAUSE, _SPREAD = 0.15, 0.3


@attrs.frozen
class TypedOn:
    """In documents that nothing was known of, of which the model is shown about 1,500 tokens.

    keys: typed one after the other, each with a request that cancels the one before it, as editors do.
    typed_ms: from the first of them to the last. then_ms: from the last one to its answer. at_once_ms: to the
    answer after a first key, without any typing before.
    """

    keys: int
    typed_ms: tuple[float, ...]
    then_ms: tuple[float, ...]
    at_once_ms: tuple[float, ...]


async def type_on(editor: Editor, scratch: Scratch, probe: Probe, count: int, seed: int = 0) -> TypedOn:
    """Read `count` times how long the answer takes after 20 keys, and after a single one, by turns."""
    chance = random.Random(f"typing on {seed}")
    found: list[tuple[float, float]] = []
    at_once: list[float] = []
    for turn in range(count):
        for keys in (_KEYS, 1) if turn % 2 else (1, _KEYS):
            typed, then = await _burst(editor, scratch, probe, chance, keys)
            if keys == 1:
                at_once.append(then)
            else:
                found.append((typed, then))
    return TypedOn(_KEYS, tuple(one for one, _ in found), tuple(two for _, two in found), tuple(at_once))


async def _burst(
    editor: Editor, scratch: Scratch, probe: Probe, chance: random.Random, keys: int
) -> tuple[float, float]:
    """Milliseconds of typing, and from then to the answer."""
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
    return 1e3 * (last - began), then
