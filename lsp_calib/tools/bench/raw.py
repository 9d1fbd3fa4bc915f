"""The bare llama.cpp loop in a process of its own: asked right after the server, while that is idle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import EngineError
from lsp_calib.tools.client import OWN_GROUP
from lsp_calib.values import Prompt

# Seconds; generous, for a machine that has other things to do.
_PATIENCE = 300.0
_LONGEST_LINE = 1 << 24


@attrs.frozen
class Replayed:
    """ms: from the first token to the last. kept: tokens of the prompt that were in the cache."""

    ms: float
    kept: int
    evaluated: int


class Raw:
    """A `raw_child` process. engine: what runs there, for people."""

    def __init__(self, process: asyncio.subprocess.Process, engine: str) -> None:
        self._process = process
        self.engine = engine

    async def tokens_of(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens as the server's engine has them, but for what it drops of one too long."""
        segments = [[kind.value, text] for kind, text in prompt.segments]
        return list((await _ask(self._process, {"segments": segments}))["tokens"])

    async def tokens_of_text(self, text: str) -> list[int]:
        return list((await _ask(self._process, {"text": text}))["tokens"])

    async def replay(self, prompt: Sequence[int], keep: int, then: Sequence[int], generated: int) -> Replayed:
        """Do the same work: `keep` tokens from the cache, `generated` ones that begin with `then`."""
        asked = {"replay": list(prompt), "keep": keep, "then": list(then), "generated": generated}
        return Replayed(**await _ask(self._process, asked))


def can_replay() -> bool:
    """Whether the binding that the loop is written with is installed."""
    return find_spec("llama_cpp") is not None


@contextlib.asynccontextmanager
async def raw_process(
    model: Path, *, context: int, threads: int, vocabulary_only: bool = False
) -> AsyncIterator[Raw]:
    """A process with the model loaded, or only its vocabulary. Raises EngineError if it does not start."""
    rest = ["vocabulary"] if vocabulary_only else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "lsp_calib.tools.bench.raw_child"),
        *(str(model), str(context), str(threads), *rest),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_LONGEST_LINE,
        **OWN_GROUP,
    )
    try:
        yield Raw(process, str((await _read(process))["engine"]))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _ask(process: asyncio.subprocess.Process, message: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    return await _read(process)


async def _read(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _PATIENCE)
    except TimeoutError as error:
        raise EngineError(
            f"The raw llama.cpp loop did not answer within {_PATIENCE:.0f} s. Try again with --no-raw."
        ) from error
    if not line:
        raise EngineError(
            "The raw llama.cpp loop ended: is there memory for a second copy of the model? "
            "Try again with --no-raw."
        )
    answer: dict[str, Any] = json.loads(line)
    return answer
