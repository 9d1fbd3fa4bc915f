"""A child process answers line by line; one that ends or is silent is an error that says so."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lsp_calib.errors import EngineError
from lsp_calib.tools.bench.processes import JsonLines

ECHO = """
import json, sys
from lsp_calib.tools.bench.processes import answer
for line in sys.stdin:
    answer(json.loads(line))
"""
ADVICE = "Start another one."


@asynccontextmanager
async def child(code: str, patience: float = 60.0) -> AsyncIterator[JsonLines]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield JsonLines(process, "The child", patience, ADVICE)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def test_an_answer_is_what_the_child_wrote() -> None:
    async with child(ECHO) as lines:
        assert await lines.ask({"text": "a\nb 🎉"}) == {"text": "a\nb 🎉"}
        assert await lines.ask({"n": [1, 2]}) == {"n": [1, 2]}


async def test_a_child_that_ends_is_an_error_with_advice() -> None:
    async with child("") as lines:
        with pytest.raises(EngineError, match=f"The child ended before it answered. {ADVICE}"):
            await lines.read()


async def test_a_silent_child_is_an_error_after_the_limit() -> None:
    async with child("import sys; sys.stdin.read()", patience=0.1) as lines:
        with pytest.raises(EngineError, match=f"The child did not answer within 0.1 s. {ADVICE}"):
            await lines.read()
