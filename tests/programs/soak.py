"""`make soak`: several editors at work for an hour on one model, and what that costs over time.

Each editor has a server and a folder of its own; all share one model process and one state folder. They
type with a request at each key, cancel some, accept, mend, undo, hover, save, close and open again. Meanwhile
other programs write into the documents: another commit is checked out, an agent changes several lines in the
editor or on the disk, a formatter runs.

Every ten seconds memory, handles and the feedback store are read. After a warm-up of five minutes (half of a
shorter run) handles of servers and model process may grow by 5 % or by six: threads start and files open when
they are first needed. Memory may grow by 5 %. In a run of less than twenty minutes caches still fill, so its
memory is judged by the growth for each answered key, from 1.5 MB on. What became of the suggestions is
counted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import psutil
from soak_typist import Typist

from lsp_calib import home, lockfile
from lsp_calib.inference.models.cards import locate
from lsp_calib.tools.client import Editor

# (seconds since the start, value)
Series = Sequence[tuple[float, float]]

ROOT = Path(__file__).resolve().parents[2]
SERVER = [sys.executable, "-m", "lsp_calib", "serve"]
MOST_GROWTH = 0.05
MOST_MORE_HANDLES = 6.0
# Where the run is too short for a share: kB of memory for each answered key, or so many MB in all. A slow
# machine answers few keys, and a page more would be much for each.
MOST_A_KEY, MOST_MORE_MB = 15.0, 1.5
# Real code: long files and short ones, so that windows and neighbours differ.
SOURCES = ROOT / "lsp_calib" / "completion"
_BETWEEN_READINGS = 10.0
# Until then caches fill and modules load: a server takes 3 to 5 % more, in steps of the allocator's arenas.
_WARM_UP = 300.0
# From here on the sixths that are compared are long enough, and lie far enough apart, for a share.
_LONG = 1200.0
# A short run's second half is cut into so many parts. Steps fall into one or two of them, a leak into all.
_PARTS = 5


@attrs.define
class Readings:
    """seconds: of requests, by kind. memory (MB), handles, keys (answered so far, for the model process those
    of all servers): of each process by name, and the store's MB, over time since the start. met: how often
    documents were changed by what. outcomes: how many suggestions were shown, by what became of them and
    whether they were inserted."""

    seconds: dict[str, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    memory: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    handles: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    keys: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    store: list[tuple[float, float]] = attrs.field(factory=list)
    met: Counter[str] = attrs.field(factory=Counter)
    outcomes: Counter[tuple[str, bool]] = attrs.field(factory=Counter)


async def watch(readings: Readings, typists: Sequence[Typist], state: Path, until: float) -> None:
    began = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(_BETWEEN_READINGS)
        now = time.monotonic() - began
        answered = {f"server {at + 1}": typist.answered for at, typist in enumerate(typists)}
        for name, process in processes([typist.editor for typist in typists], state):
            try:
                readings.memory[name].append((now, private_memory(process) / 1e6))
                readings.handles[name].append((now, process.num_fds() + process.num_threads()))
                readings.keys[name].append((now, answered.get(name, sum(answered.values()))))
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


def growth(series: Series, seconds: float) -> tuple[float, float, float]:
    """The medians of the sixths after the warm-up and at the end, and the growth as a share."""
    sixth, warm = seconds / 6, min(_WARM_UP, seconds / 2)
    first = [value for at, value in series if warm <= at < warm + sixth]
    last = [value for at, value in series if at >= seconds - sixth]
    before, after = statistics.median(first), statistics.median(last)
    return before, after, after / before - 1


def growth_a_key(memory: Series, keys: Series, seconds: float) -> float:
    """kB for each answered key: the median over the parts of the second half, nan if no part has a key."""
    ends = np.linspace(seconds / 2, seconds, _PARTS + 1)
    at, megabytes = np.transpose(memory)
    taken = np.diff(np.interp(ends, at, megabytes))
    answered = np.diff(np.interp(ends, *np.transpose(keys)))
    with_keys = answered > 0
    return float(np.median(1e3 * taken[with_keys] / answered[with_keys])) if with_keys.any() else math.nan


async def soak(minutes: float, clients: int, scratch: Path) -> Readings:
    state = home.private_folder(scratch / "home")
    # What the model process keeps of places is full before the warm-up ends, on slow machines too.
    (state / "config.toml").write_text("cacheMb = 64\n", "utf-8")
    folders = [scratch / f"work-{at + 1}" for at in range(clients)]
    for folder in folders:
        folder.mkdir()
        for source in sorted(SOURCES.glob("[a-z]*.py")):
            shutil.copy(source, folder / source.name)
    env = {**os.environ, "LSP_CALIB_MODEL": str(locate("smollm2-135m")[1]), "LSP_CALIB_HOME": str(state)}
    readings = Readings()
    editors = [Editor() for _ in range(clients)]
    try:
        for editor, folder in zip(editors, folders, strict=True):
            await editor.start(SERVER, env=env, cwd=folder)
            await editor.open_session(folder, {})
        until = time.monotonic() + 60 * minutes
        typists = [
            Typist(editor, folder, readings.seconds, seed)
            for seed, (editor, folder) in enumerate(zip(editors, folders, strict=True))
        ]
        working = [typist.work(until) for typist in typists]
        await asyncio.gather(watch(readings, typists, state, until), *working)
        codes = [await editor.quit() for editor in editors]
        if any(codes):
            raise SystemExit(f"The servers ended with the codes {codes}.")
        readings.met = sum((typist.met for typist in typists), Counter())
        readings.outcomes = outcomes(state / "feedback.db")
    finally:
        for editor in editors:
            await editor.close()
    return readings


def outcomes(store: Path) -> Counter[tuple[str, bool]]:
    """How many suggestions were shown, by what became of them and whether they were inserted."""
    with contextlib.closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(
            "SELECT COALESCE(l.how || IIF(l.correct IS NULL, ', ?', ''), 'none'), "
            "s.id IN (SELECT suggestion_id FROM events WHERE kind = 'inserted') "
            "FROM suggestions s LEFT JOIN labels l ON l.suggestion_id = s.id"
        )
        return Counter((how, bool(inserted)) for how, inserted in rows)


def report_outcomes(found: Counter[tuple[str, bool]]) -> None:
    """Print what became of suggestions: of all, and of those that were inserted. `?`: no label, as `none`."""
    shown, inserted = found.total(), sum(count for (_, taken), count in found.items() if taken)
    rows = Counter[str]()
    for (how, _), count in found.items():
        rows[how] += count

    def row(name: str, of_all: int, of_inserted: int) -> None:
        shares = [f"{n:6} {n / max(of, 1):7.1%}" for n, of in ((of_all, shown), (of_inserted, inserted))]
        print(f"{name:24} " + "   ".join(shares))

    print(f"\n{'what became of them':24} {'shown':>14}   {'inserted':>14}")
    for how, count in rows.most_common():
        row(how, count, found[how, True])
    unknown = [how for how in rows if how == "none" or how.endswith("?")]
    row("without a label", sum(rows[how] for how in unknown), sum(found[how, True] for how in unknown))
    row("all", shown, inserted)


def report(readings: Readings, seconds: float) -> list[str]:
    """Print the figures; returns a sentence for each thing that has grown too much."""
    failed = []
    for kind, values in sorted(readings.seconds.items()):
        p50, p95 = 1e3 * np.percentile(values, [50, 95])
        print(f"{kind:24} {len(values):6} requests, p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    for what, unit, all_series in (("memory", "MB", readings.memory), ("handles", "", readings.handles)):
        for name, series in sorted(all_series.items()):
            before, after, share = growth(series, seconds)
            grown, most = f"{share:+.1%}", f"{MOST_GROWTH:.0%}"
            if what == "handles":
                flat = share <= MOST_GROWTH or after - before <= MOST_MORE_HANDLES
            elif seconds >= _LONG:
                flat = share <= MOST_GROWTH
            else:
                a_key = growth_a_key(series, readings.keys[name], seconds)
                grown, most = (
                    f"{share:+.1%}, {a_key:+.1f} kB a key",
                    f"{MOST_A_KEY:.0f} kB a key or {MOST_MORE_MB} MB",
                )
                flat = a_key <= MOST_A_KEY or after - before <= MOST_MORE_MB
            line = f"{name + ', ' + what:24} {before:6.1f} to {after:6.1f} {unit:2} ({grown})"
            print(f"{line}  {'ok' if flat else 'GROWS'}")
            if not flat:
                failed.append(
                    f"The {what} of {name} grew by {grown} after the warm-up; at most {most} is allowed."
                )
    print(f"{'feedback store':24} {readings.store[0][1]:6.1f} to {readings.store[-1][1]:6.1f} MB")
    for what, count in sorted(readings.met.items()):
        print(f"{what:24} {count:6} times")
    report_outcomes(readings.outcomes)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        readings = asyncio.run(soak(given.minutes, given.clients, Path(name)))
    failed = report(readings, 60 * given.minutes)
    if failed:
        print("\n" + "\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
