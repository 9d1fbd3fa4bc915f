"""The reports of the model process: its load and its finished work."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.inference.process.wire import Stats
from lsp_calib.server.follow_ups import AHEAD_PAUSE
from lsp_calib.tools.bench.server import Scratch, state_folder

# Seconds; enough on a busy machine.
_PATIENCE = 120.0
_POLL = 0.004


class Probe:
    """A second connection to the model process, in addition to the server's.

    engine: description of the engine, for people.
    """

    def __init__(self, process: ModelProcess, loaded: LoadedModel) -> None:
        self._process = process
        self.engine = loaded.engine

    @property
    def pid(self) -> int | None:
        """The id of the model process."""
        return self._process.pid

    async def stats(self) -> Stats:
        """The current stats. Raises EngineError if the model process has ended."""
        return await self._process.stats()


@contextlib.asynccontextmanager
async def connect(scratch: Scratch) -> AsyncIterator[Probe]:
    """A client of the model process that the server in `scratch` uses. Raises EngineError without one."""
    trusted = scratch.trusted
    with state_folder(scratch.home):
        process = ModelProcess(
            str(scratch.model),
            threads=trusted.threads,
            gpu_layers=trusted.gpu_layers,
            mlock=trusted.mlock,
            linger=0.0,
        )
        try:
            loaded = await process.ready()
        except BaseException:
            await process.close()
            raise
    try:
        yield Probe(process, loaded)
    finally:
        await process.close()


async def settled(probe: Probe) -> Stats:
    """As `until_idle`, after a wait in which the server can begin its evaluation in pauses."""
    await asyncio.sleep(2 * AHEAD_PAUSE)
    return await until_idle(probe)


async def until_idle(probe: Probe) -> Stats:
    """Wait until there is no work; returns the stats. Raises EngineError after two minutes."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        stats = await probe.stats()
        if stats.idle_since is not None and not stats.running and not stats.waiting:
            return stats
        await asyncio.sleep(_POLL)
    raise EngineError(f"The model process has been busy for {_PATIENCE:.0f} s. Is another program using it?")
