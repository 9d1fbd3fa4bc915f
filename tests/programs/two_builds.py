"""Servers of several builds of this package on one machine, each with its own model process, for comparisons.

A build is a source folder that `PYTHONPATH` names, run by this Python. Nothing here uses the client of the
model process in `lsp_calib.inference.process.client`: another build's process may greet in another way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil
from held_memory import memory

from lsp_calib import home
from lsp_calib.inference.process import protocol
from lsp_calib.settings import Settings
from lsp_calib.tools.bench.server import options
from lsp_calib.tools.client import Editor

# Seconds; only so that a program that hangs ends.
_LOAD, _PATIENCE = 300.0, 120.0
_POLL = 0.004
# A build that evaluates where the cursor rests begins so many seconds after it has come to rest.
REST = 0.4
# A comparison makes more jumps in two minutes than people do, which the budget for evaluating ahead forbids.
_WITHOUT_BUDGET = """
import importlib.util
if importlib.util.find_spec("lsp_calib.server.ahead"):
    from lsp_calib.server import ahead
    assert ahead.BUDGET > 0
    ahead.BUDGET = 1e9
from lsp_calib.__main__ import main
main()
"""
_HELLO = {"op": "hello", "linger": 0.0, "threads": 0, "gpu_layers": None, "cache_mb": 250}


@attrs.frozen
class Build:
    """name: in the report. path: the folder that holds the package."""

    name: str
    path: Path

    @classmethod
    def named(cls, text: str) -> Build:
        """From NAME=PATH. Raises ValueError."""
        name, _, path = text.partition("=")
        folder = Path(path).resolve()
        if not (name and path and (folder / "lsp_calib" / "__main__.py").is_file()):
            raise ValueError(f"{text!r} is not NAME=PATH of a folder with the package")
        return cls(name, folder)

    def environment(self, state: Path) -> dict[str, str]:
        """For a process of this build with a state folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LSP_CALIB_")}
        return {**kept, "PYTHONPATH": str(self.path), "LSP_CALIB_HOME": str(state), "LSP_CALIB_LINGER": "0"}


class Watch:
    """A second client of a model process, which asks what it does."""

    def __init__(self, streams: protocol.Streams, pid: int) -> None:
        self._reader, self._writer = streams
        self._ids = itertools.count(1)
        self.pid = pid

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, state: Path) -> AsyncIterator[Watch]:
        """Of the one process of a state folder."""
        [lock] = (state / "run").glob("*.lock")
        socket = lock.with_suffix(".sock")
        place = protocol.Place(
            lock.stem, lock, socket if socket.exists() else None, lock.with_suffix(".port")
        )
        reader, writer = await protocol.connect(place)
        try:
            writer.write(protocol.encode(_HELLO))
            welcome = await protocol.receive(reader)
            yield cls((reader, writer), int(welcome["pid"]))
        finally:
            writer.close()

    async def stats(self) -> Mapping[str, Any]:
        """The fields of `protocol.Stats`, and those of another build."""
        wanted = next(self._ids)
        self._writer.write(protocol.encode({"op": "stats", "id": wanted}))
        while (message := await protocol.receive(self._reader)).get("id") != wanted:
            pass
        stats: Mapping[str, Any] = message["stats"]
        return stats

    async def until_idle(self) -> Mapping[str, Any]:
        """Wait until nothing runs or waits; returns the stats."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            stats = await self.stats()
            if stats["idle_since"] is not None and not stats["running"] and not stats["waiting"]:
                return stats
            await asyncio.sleep(_POLL)
        raise SystemExit(f"The model process has been busy for {_PATIENCE:.0f} s.")


@attrs.frozen
class Server:
    """A running server of a build. project: the folder of its documents, the same for all builds."""

    build: Build
    editor: Editor
    watch: Watch
    project: Path

    @property
    def looks(self) -> bool:
        """Whether it is told where the cursor rests."""
        return self.editor.takes_cursor

    async def quiet(self) -> None:
        """Wait until it has done what it does after a key."""
        if self.looks:
            await asyncio.sleep(REST + 0.1)
        await self.watch.until_idle()

    def processor_seconds(self) -> float:
        """Of the server and its model process, since their starts."""
        found = 0.0
        for pid in (self.editor.pid, self.watch.pid):
            times = psutil.Process(pid).cpu_times()
            found += times.user + times.system
        return found

    def memory(self) -> dict[str, float]:
        """Of the model process."""
        return memory(self.watch.pid)

    async def ahead(self) -> dict[str, Any] | None:
        """What the status says was evaluated ahead; None of a build without it."""
        found: dict[str, Any] | None = (await self.editor.command("lsp-calib.status")).get("ahead")
        return found


@contextlib.asynccontextmanager
async def started(
    build: Build, model: Path, project: Path, *, own: Mapping[str, Any], budget: bool = True
) -> AsyncIterator[Server]:
    """A server whose model is ready, in a state folder of its own. model: a file, whose converted weights are
    used too. own: settings besides. budget: whether there is a limit on what it evaluates ahead."""
    with tempfile.TemporaryDirectory(prefix="lc-", ignore_cleanup_errors=True) as name:
        state = Path(name)
        models = home.private_folder(state / "models")
        for file in (model, *model.parent.glob(f".{model.name}.*.eight-bit")):
            (models / file.name).symlink_to(file.resolve())
        if (known := model.parent / ".acceleration.json").is_file():
            shutil.copyfile(known, models / known.name)
        how = ("-m", "lsp_calib") if budget else ("-c", _WITHOUT_BUDGET)
        editor = Editor()
        await editor.start(
            (sys.executable, "-P", *how, "serve", "--trust-editor"),
            env={**build.environment(state), "LSP_CALIB_MODEL": str(models / model.name)},
            cwd=project,
        )
        try:
            trusted = {**options(Settings(), ahead=True), "hideBelow": 0, **own}
            await editor.open_session(project, {"trusted": trusted})
            await editor.until(lambda: editor.state in ("ready", "noModel", "error"), "loading", _LOAD)
            if editor.state != "ready":
                raise SystemExit(f"{build.name}: {editor.state_message} {' '.join(editor.messages)}")
            async with Watch.of(state) as watch:
                yield Server(build, editor, watch, project)
            await editor.quit()
        finally:
            await editor.close()
