"""Talks to a child process: one JSON object per line on its standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import Process
from typing import Any

import attrs

from lsp_calib.errors import EngineError


@attrs.frozen
class JsonLines:
    """A child process that answers each line with a line.

    name: its name in error messages, at the beginning of a sentence. patience: seconds to wait for an answer.
    advice: text for the user if it fails.
    """

    process: Process
    name: str
    patience: float
    advice: str = ""

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to `message`. Raises EngineError if the process ends or does not answer in time."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        return await self.read()

    async def read(self) -> dict[str, Any]:
        """The next line. Raises EngineError if the process ends or does not write one in time."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), self.patience)
        except TimeoutError as error:
            raise self._failure(f"did not answer within {self.patience:g} s.") from error
        if not line:
            raise self._failure("ended before it answered.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self, what: str) -> EngineError:
        return EngineError(f"{self.name} {what} {self.advice}".rstrip())


def answer(message: dict[str, Any]) -> None:
    """Write a line to the parent; called in the child."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
