"""`make soak`: several editors at work for an hour on one model, and what that costs over time.

Each editor has a server of its own; all share one model process and one state folder. They type with a
request at each key, cancel some, accept, undo, hover, save, close and open again. Every ten seconds memory,
handles and the feedback store are read. After a warm-up of five minutes (half of a shorter run) memory and
handles of servers and model process may grow by at most 5 %, or by six handles: threads start and files open
when they are first needed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import psutil

from lsp_calib import home, lockfile
from lsp_calib.inference.models.cards import locate
from lsp_calib.tools.client import Document, Editor

ROOT = Path(__file__).resolve().parents[2]
SERVER = [sys.executable, "-m", "lsp_calib", "serve"]
PATIENCE = 240.0
MOST_GROWTH = 0.05
MOST_MORE = {"memory": 0.0, "handles": 6.0}
# Real code: long files and short ones, so that windows and neighbours differ.
SOURCES = ROOT / "lsp_calib" / "completion"
_BETWEEN_READINGS = 10.0
# Until then caches fill and modules load: a server takes 3 to 5 % more, in steps of the allocator's arenas.
_WARM_UP = 300.0


@attrs.define
class Readings:
    """seconds: of requests, by kind. memory, handles: of each process by name, and the store's bytes, over
    time since the start."""

    seconds: dict[str, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    memory: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    handles: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    store: list[tuple[float, float]] = attrs.field(factory=list)


class Typist:
    """One editor and its user. The same seed does the same in the same order."""

    def __init__(self, editor: Editor, folder: Path, readings: Readings, seed: int) -> None:
        self._editor, self._folder, self._readings = editor, folder, readings
        self._chance = random.Random(seed)
        self._open: list[Document] = []
        self._until = 0.0

    async def work(self, until: float) -> None:
        self._until = until
        for path in self._files():  # what a first summary loads, and the first of a document, is no growth
            document = Document(self._editor, path, "python")
            await self._hover(document)
            document.close()
        while time.monotonic() < until:
            document = self._document()
            await self._chance.choices((self._type, self._hover, self._save), (12, 2, 1))[0](document)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.py"))

    def _document(self) -> Document:
        """An open one; now and then another is opened and an old one closed."""
        if not self._open or self._chance.random() < 0.1:
            path = self._chance.choice(self._files())
            if all(one.path != path for one in self._open):
                self._open.append(Document(self._editor, path, "python"))
            if len(self._open) > 3:
                self._open.pop(0).close()
        return self._chance.choice(self._open)

    async def _type(self, document: Document) -> None:
        """Type some keys of a line again; then the suggestion is taken, or all is undone."""
        lines = [at for at, line in enumerate(document.lines) if len(line.strip()) > 8]
        line = self._chance.choice(lines)
        before = document.lines[line]
        start = len(before) - len(before.lstrip())
        end = self._chance.randrange(start + 1, len(before))
        document.replace(line, start, len(before), "")
        item = None
        for column in range(start, end):
            if time.monotonic() > self._until:
                return
            document.replace(line, column, column, before[column])
            if self._chance.random() < 0.3:
                cancel = document.complete_later(line, column + 1)
                await asyncio.sleep(self._chance.uniform(0, 0.05))
                cancel()
            else:
                began = time.monotonic()
                item = await document.complete(line, column + 1, PATIENCE)
                self._readings.seconds["key"].append(time.monotonic() - began)
            await asyncio.sleep(self._chance.uniform(0.02, 0.2))
        if item is not None and self._chance.random() < 0.5:
            document.replace(line, end, end, str(item.insert_text))
            await asyncio.sleep(self._chance.uniform(0.2, 1.0))
        document.replace(line, 0, len(document.lines[line]), before)

    async def _hover(self, document: Document) -> None:
        heads = [at for at, line in enumerate(document.lines) if line.lstrip().startswith("def ")]
        if heads:
            line, began = self._chance.choice(heads), time.monotonic()
            await document.hover(line, document.lines[line].index("def ") + 4, PATIENCE)
            self._readings.seconds["hover"].append(time.monotonic() - began)

    async def _save(self, document: Document) -> None:
        document.save()
        await document.diagnostics()


async def watch(readings: Readings, servers: Sequence[Editor], state: Path, until: float) -> None:
    began = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(_BETWEEN_READINGS)
        now = time.monotonic() - began
        for name, process in processes(servers, state):
            try:
                readings.memory[name].append((now, private_memory(process) / 1e6))
                readings.handles[name].append((now, process.num_fds() + process.num_threads()))
            except psutil.NoSuchProcess:
                continue
        stored = sum(file.stat().st_size for file in state.glob("feedback.db*"))
        readings.store.append((now, stored / 1e6))


def private_memory(process: psutil.Process) -> int:
    """Bytes of the process's own: pages of libraries and files that are read later are no growth.

    Servers hide these from all but root; then all that is resident counts.
    """
    try:
        return int(process.memory_full_info().uss)
    except psutil.AccessDenied:
        return int(process.memory_info().rss)


def processes(servers: Sequence[Editor], state: Path) -> Iterator[tuple[str, psutil.Process]]:
    named = {f"server {at + 1}": editor.pid for at, editor in enumerate(servers)}
    for lock in (state / "run").glob("*.lock"):
        named["model process"] = lockfile.holder(lock)
    for name, pid in named.items():
        if pid is not None and psutil.pid_exists(pid):
            yield name, psutil.Process(pid)


def growth(series: Sequence[tuple[float, float]], seconds: float) -> tuple[float, float, float]:
    """The medians of the sixths after the warm-up and at the end, and the growth as a share."""
    sixth, warm = seconds / 6, min(_WARM_UP, seconds / 2)
    first = [value for at, value in series if warm <= at < warm + sixth]
    last = [value for at, value in series if at >= seconds - sixth]
    before, after = statistics.median(first), statistics.median(last)
    return before, after, after / before - 1


async def soak(minutes: float, clients: int, scratch: Path) -> Readings:
    state, folder = home.private_folder(scratch / "home"), scratch / "work"
    folder.mkdir()
    for source in sorted(SOURCES.glob("[a-z]*.py")):
        shutil.copy(source, folder / source.name)
    env = {**os.environ, "LSP_CALIB_MODEL": str(locate("smollm2-135m")[1]), "LSP_CALIB_HOME": str(state)}
    readings = Readings()
    editors = [Editor() for _ in range(clients)]
    try:
        for editor in editors:
            await editor.start(SERVER, env=env, cwd=folder)
            await editor.open_session(folder, {})
        until = time.monotonic() + 60 * minutes
        typists = [Typist(editor, folder, readings, seed) for seed, editor in enumerate(editors)]
        working = [typist.work(until) for typist in typists]
        await asyncio.gather(watch(readings, editors, state, until), *working)
        codes = [await editor.quit() for editor in editors]
        if any(codes):
            raise SystemExit(f"The servers ended with the codes {codes}.")
    finally:
        for editor in editors:
            await editor.close()
    return readings


def report(readings: Readings, seconds: float) -> bool:
    """Print the figures; returns whether nothing has grown by more than `MOST_GROWTH`."""
    holds = True
    for kind, values in sorted(readings.seconds.items()):
        p50, p95 = 1e3 * np.percentile(values, [50, 95])
        print(f"{kind:24} {len(values):6} requests, p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    for what, unit, all_series in (("memory", "MB", readings.memory), ("handles", "", readings.handles)):
        for name, series in sorted(all_series.items()):
            before, after, share = growth(series, seconds)
            flat = share <= MOST_GROWTH or after - before <= MOST_MORE[what]
            holds = holds and flat
            mark = "ok" if flat else "GROWS"
            print(f"{name + ', ' + what:24} {before:6.1f} to {after:6.1f} {unit:2} ({share:+.1%})  {mark}")
    print(f"{'feedback store':24} {readings.store[0][1]:6.1f} to {readings.store[-1][1]:6.1f} MB")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        readings = asyncio.run(soak(given.minutes, given.clients, Path(name)))
    return 0 if report(readings, 60 * given.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
