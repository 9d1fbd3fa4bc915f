"""The bare llama.cpp loop in a separate process: asked right after the server, while that is idle."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import attrs

from lsp_calib.tools.bench.json_lines import JsonLines
from lsp_calib.tools.client import OWN_GROUP
from lsp_calib.values import Prompt

# Seconds; enough on a busy machine.
_PATIENCE = 300.0
_LONGEST_LINE = 1 << 24


@attrs.frozen
class Replayed:
    """ms: from the first token to the last. kept: tokens of the prompt found in the cache."""

    ms: float
    kept: int
    evaluated: int


class Raw:
    """A `raw_child` process. engine: description of its engine, for people."""

    def __init__(self, process: JsonLines, engine: str) -> None:
        self._process = process
        self.engine = engine

    async def tokens_of(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens, as in the server's engine except that a long prompt is not shortened."""
        segments = [[kind.value, text] for kind, text in prompt.segments]
        return list((await self._process.ask({"segments": segments}))["tokens"])

    async def tokens_of_text(self, text: str) -> list[int]:
        return list((await self._process.ask({"text": text}))["tokens"])

    async def replay(
        self, prompt: Sequence[int], keep: int, then: Sequence[int], generated: int, threads: int
    ) -> Replayed:
        """Do the same work: reuse `keep` cached tokens, generate `generated` ones that begin with `then`.

        threads: as many as the server's model used for it.
        """
        asked = {
            "replay": list(prompt),
            "keep": keep,
            "then": list(then),
            "generated": generated,
            "threads": threads,
        }
        return Replayed(**await self._process.ask(asked))


def can_replay() -> bool:
    """Whether the binding that the loop needs is installed."""
    return find_spec("llama_cpp") is not None


@contextlib.asynccontextmanager
async def raw_process(
    model: Path, *, context: int, threads: int, vocabulary_only: bool = False
) -> AsyncIterator[Raw]:
    """Start a process with the model, or only its vocabulary. Raises EngineError if it does not start."""
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
    lines = JsonLines(
        process,
        "The raw llama.cpp loop",
        _PATIENCE,
        "It loads a second copy of the model, which may not fit into memory. Leave it out with --no-raw.",
    )
    try:
        yield Raw(lines, str((await lines.read())["engine"]))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
