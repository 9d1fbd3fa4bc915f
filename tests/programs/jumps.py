"""What a jump to another place costs, with two builds of this package in turns on one machine.

    python tests/programs/jumps.py --build old=FOLDER --build new=FOLDER --model NAME --out FILE.json

The first build is the one that the others are compared with: a ratio below 1 means less than there. Both
servers have the same files open, go to the same places, and type the same keys; which of them is first
alternates. The places are lines of project files (`--projects`, of which none is written to) of which only
the indentation is left, and the key is their first character. Parts (`--part`, all by default):

- jumps: to a new place, a rest of 0, 1.5, 2.5 or 4 s there, the key. A build that is not told where the
  cursor rests does nothing meanwhile: it rests half a second at most. `saved`: of the time from .4 s of rest
  on, or of the prompt's where that is shorter, the share by which the prompt was ready earlier than in the
  first build. At some jumps without rest a bare llama.cpp loop evaluates as many tokens (`--raw`).
- first: a file is opened, the cursor is at a place, 4 s, the key.
- returns: eight places are typed at, then one of them again and again, by chance, with another key. `gone`:
  those returns at which the first build had to evaluate the place again.
- typing: recorded typing with its pauses, 1.5 s at least where the cursor went elsewhere, and the processor
  time of it.
- reading: the cursor goes on every few seconds and nothing is typed, for some minutes; both builds at once.
  The processor time is that of an hour at this rate.
- cancel: from a request's cancelling, or from a key where a prompt is being evaluated ahead, until the model
  process is idle, in the middle of a prompt.
- memory: of a process with the model alone, in the steps of `held_memory.py`, with eight places.

Processor times are of the server and its model process. In `typing` and `reading` the limit on what is
evaluated ahead is in force; elsewhere it is lifted, since nobody jumps as often. Times are milliseconds:
`key` from the key until the suggestion, `ready` the model process's own until the prompt was evaluated.
Ratios are [median, bounds of its 95 % interval], the interval over runs of consecutive pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from paired_answers import LONG, Answer, Pair, compared, is_pair, pairs_of, speeds, table
from two_builds import REST, Build, Server, started

from lsp_calib.inference.models import converted
from lsp_calib.inference.models.cards import ModelCard, locate
from lsp_calib.tools.bench.places import Gap, with_gaps
from lsp_calib.tools.bench.report import median_ratio, percentile
from lsp_calib.tools.bench.run import place_of
from lsp_calib.tools.bench.trace import Edit, load_trace
from lsp_calib.tools.client import Document, suggestion_of

RESTS = ("0:40", "1.5:40", "2.5:40", "4:40")
PARTS = ("jumps", "returns", "first", "cancel", "typing", "reading", "memory")
# Of these nobody does so many in so little time.
_WITHOUT_BUDGET = PARTS[:4]
ANSWER = 120.0
# Seconds of rest of a build that is not told of it.
_UNTOLD = 0.5
_OPEN = 4.0
_PLACES, _TOKENS = 8, 600
# Characters of a file; and how many gaps it must have.
_SMALLEST, _LARGEST, _GAPS = 8_000, 60_000, 8
# Seconds between two moves of somebody who reads: the median, and the spread of the logarithm.
_MOVE, _SPREAD = 6.0, 0.6
# Seconds that people look at a place before they type, of a recorded pause the least at a jump; and the
# longest pause that is waited for.
_LOOK, _LONGEST_PAUSE = 1.5, 4.0
# Keys in a row: in fewer there is no jump, or too many.
_RUN = 150
_RAW = 15
_KEYS = "srifcantdplmebuwgho"


@attrs.define
class Files:
    """Project files with gaps, each given out once. project: the folder into which they are written."""

    project: Path
    _left: Iterator[tuple[str, list[str], list[Gap]]]
    _count: int = 0

    @classmethod
    def of(cls, folder: Path, project: Path, seed: int) -> Files:
        return cls(project, gapped(folder, random.Random(seed)))

    def take(self) -> tuple[Path, list[Gap]]:
        """The next file, and its gaps in the order of the visits."""
        found = next(self._left, None)
        if found is None:
            raise SystemExit(
                "There are too few files for so many jumps. Name another folder with --projects."
            )
        name, lines, gaps = found
        self._count += 1
        path = self.project / f"{self._count:03}_{name}"
        path.write_text("\n".join(lines), "utf-8")
        return path, gaps


def gapped(folder: Path, chance: random.Random) -> Iterator[tuple[str, list[str], list[Gap]]]:
    """Files by turns of the folder's projects: name, lines, gaps."""
    projects = [sorted(one.rglob("*.py")) for one in sorted(folder.iterdir()) if one.is_dir()]
    for files in projects:
        chance.shuffle(files)
    chance.shuffle(projects)
    while any(projects):
        for files in projects:
            while files:
                path = files.pop()
                if not _SMALLEST <= path.stat().st_size <= _LARGEST or path.name.startswith("__"):
                    continue
                with contextlib.suppress(UnicodeDecodeError):
                    lines, gaps = with_gaps(path.read_text("utf-8").split("\n"), _GAPS, chance)
                    if len(gaps) == _GAPS:
                        yield path.name, lines, gaps
                        break


def rest_and_count(text: str) -> tuple[float, int]:
    """From SECONDS:COUNT. Raises ValueError."""
    rest, _, count = text.partition(":")
    return float(rest), int(count)


def in_order(servers: Sequence[Server], turn: int) -> Sequence[Server]:
    return servers if turn % 2 == 0 else servers[::-1]


async def ask(server: Server, document: Document, gap: Gap, rest: float, key: str = "") -> Answer:
    """Go to a gap, rest there, and type a key, by default the first of the gap's text."""
    document.look(gap.line, gap.column)
    await asyncio.sleep(rest if server.looks else min(rest, _UNTOLD))
    document.replace(gap.line, gap.column, gap.column, key or gap.text[0])
    began = server.editor.sent_at
    item = await document.complete(gap.line, gap.column + 1, ANSWER)
    return Answer.of(1e3 * (server.editor.received_at - began), suggestion_of(item))


@attrs.define
class Comparison:
    """What every part needs. servers: the first is the one to compare with. say: tells people how it goes."""

    servers: Sequence[Server]
    files: Files
    given: argparse.Namespace
    model: Path
    card: ModelCard
    until: float = math.inf

    @property
    def names(self) -> list[str]:
        return [server.build.name for server in self.servers]

    async def ahead(self) -> dict[str, Any]:
        """What has been evaluated ahead so far."""
        return {server.build.name: await server.ahead() for server in self.servers}

    async def jumps(self) -> dict[str, Any]:
        wanted = dict(self.given.rest or map(rest_and_count, RESTS))
        found: dict[float, list[dict[str, Answer]]] = {rest: [] for rest in wanted}
        chance, documents, gaps = random.Random(1), list[Document](), list[Gap]()
        raw: list[tuple[dict[str, Answer], int, float]] = []
        turn = 0
        async with self._loop() as loop:
            while open_rests := [rest for rest in wanted if not self._enough(found[rest], wanted[rest])]:
                if not gaps:
                    for document in documents:
                        document.close()
                    path, gaps = self.files.take()
                    documents = [Document(server.editor, path, "python") for server in self.servers]
                # In proportion, so that a slow quarter of an hour of the machine is in all of them.
                share = {rest: len(found[rest]) / wanted[rest] for rest in open_rests}
                rest = chance.choice([rest for rest in open_rests if share[rest] == min(share.values())])
                answers = await self._turn(turn, documents, gaps.pop(), rest)
                found[rest].append(answers)
                least = min(one.evaluated for one in answers.values())
                if loop is not None and not rest and len(raw) < _RAW and least >= LONG:
                    raw.append((answers, least, await loop.prompt_ms(documents[0].text, least)))
                turn += 1
        for document in documents:
            document.close()
        rests = {
            f"{rest:g}": {n: compared(pairs, rest) for n, pairs in pairs_of(some, self.names).items()}
            for rest, some in found.items()
        }
        over_raw = {
            name: median_ratio(
                [(raw_ms * speeds([one[name]])[0] / 1e3, tokens) for one, tokens, raw_ms in raw]
            )
            for name in self.names
        }
        return {"rests": rests, "overRaw": over_raw, "ahead": await self.ahead()}

    async def first(self) -> dict[str, Any]:
        found: list[dict[str, Answer]] = []
        while not self._enough(found, self.given.first):
            path, gaps = self.files.take()
            answers: dict[str, Answer] = {}
            for server in in_order(self.servers, len(found)):
                document = Document(server.editor, path, "python")
                answers[server.build.name] = await ask(server, document, gaps[0], _OPEN)
                await server.quiet()
                document.close()
            found.append(answers)
        pairs = {name: compared(some, _OPEN) for name, some in pairs_of(found, self.names).items()}
        return {"pairs": pairs, "ahead": await self.ahead()}

    async def returns(self) -> dict[str, Any]:
        path, gaps = self.files.take()
        documents = [Document(server.editor, path, "python") for server in self.servers]
        chance, found = random.Random(2), list[dict[str, Answer]]()
        memory = {server.build.name: [server.memory()] for server in self.servers}
        visits = dict.fromkeys(gaps, 0)
        for turn, gap in enumerate(gaps):
            await self._turn(turn, documents, gap, 0.0, back=True)
            if not turn:
                for server in self.servers:
                    memory[server.build.name].append(server.memory())
        for server in self.servers:
            memory[server.build.name].append(server.memory())
        here = gaps[-1]
        while not self._enough(found, self.given.returns):
            here = chance.choice([gap for gap in gaps if gap is not here])
            visits[here] += 1
            # Another key than before: the answer to the same one is remembered.
            key = [key for key in _KEYS if key != here.text[0]][visits[here] % (len(_KEYS) - 1)]
            found.append(await self._turn(len(found), documents, here, 0.0, key=key, back=True))
        for document in documents:
            document.close()
        all_ = pairs_of(found, self.names)
        pairs = {name: compared(some) for name, some in all_.items()}
        gone = {
            name: compared([one for one in some if one[0].evaluated >= LONG]) for name, some in all_.items()
        }
        return {"pairs": pairs, "gone": gone, "memoryMb": memory, "ahead": await self.ahead()}

    async def cancel(self) -> dict[str, Any]:
        idle: dict[str, dict[str, list[float]]] = {
            server.build.name: {"request": [], "ahead": []} for server in self.servers
        }
        chance, documents, gaps = random.Random(3), list[Document](), list[Gap]()
        for turn in range(self.given.cancels):
            for kind in ("request", "ahead"):
                if not gaps:
                    for document in documents:
                        document.close()
                    path, gaps = self.files.take()
                    documents = [Document(server.editor, path, "python") for server in self.servers]
                gap, share = gaps.pop(), chance.uniform(0.05, 0.7)
                for server in in_order(self.servers, turn):
                    document = documents[self.servers.index(server)]
                    if kind == "ahead" and not server.looks:
                        continue
                    ms = await interrupted(server, document, gap, share * self.given.prompt, kind == "ahead")
                    if ms is not None:
                        idle[server.build.name][kind].append(ms)
                    await server.quiet()
        return {
            name: {
                kind: {"n": len(ms), "p50": percentile(ms, 50), "p95": percentile(ms, 95), "ms": ms}
                for kind, ms in kinds.items()
            }
            for name, kinds in idle.items()
        }

    async def typing(self) -> dict[str, Any]:
        found: dict[str, list[tuple[str, Answer]]] = {server.build.name: [] for server in self.servers}
        seconds = dict.fromkeys(found, 0.0)
        for turn, edit in enumerate(usual_excerpts(self.given.keys)):
            for server in in_order(self.servers, turn):
                name = server.build.name
                before = server.processor_seconds()
                async for answer in typed(server, edit, turn):
                    found[name].append(answer)
                await server.quiet()
                seconds[name] += server.processor_seconds() - before
        first, *others = self.names
        pairs: dict[str, Any] = {}
        for other in others:
            kinds: dict[str, list[Pair]] = defaultdict(list)
            for (kind, old), (_, new) in zip(found[first], found[other], strict=True):
                kinds[kind].append((old, new))
            pairs[other] = {kind: compared(some) for kind, some in kinds.items()}
        return {
            "pairs": pairs,
            "processor": {other: round(seconds[other] / seconds[first], 3) for other in others},
            "processorSeconds": seconds,
            "ahead": await self.ahead(),
        }

    async def reading(self) -> dict[str, Any]:
        """Each build reads two files, of which it has edited one."""
        written, unwritten = self.files.take(), self.files.take()
        readers = [self._read(server, written, unwritten) for server in self.servers]
        return dict(zip((s.build.name for s in self.servers), await asyncio.gather(*readers), strict=True))

    async def _read(
        self, server: Server, written: tuple[Path, list[Gap]], unwritten: tuple[Path, list[Gap]]
    ) -> dict[str, Any]:
        documents = [Document(server.editor, path, "python") for path, _ in (written, unwritten)]
        await ask(server, documents[0], written[1][0], 0.0)
        await server.quiet()
        chance = random.Random(4)
        before, ahead, began = server.processor_seconds(), await server.ahead(), time.monotonic()
        moves = 0
        while time.monotonic() - began < 60 * self.given.minutes:
            document = chance.choice(documents)
            line = chance.randrange(len(document.lines))
            length = len(document.lines[line])
            document.look(line, chance.choice((length, chance.randint(0, length))))
            moves += 1
            await asyncio.sleep(min(_MOVE * chance.lognormvariate(0, _SPREAD), 5 * _MOVE))
        await server.quiet()
        took, seconds = time.monotonic() - began, server.processor_seconds() - before
        for document in documents:
            document.close()
        return {
            "moves": moves,
            "minutes": round(took / 60, 2),
            "processorSeconds": round(seconds, 2),
            "hourSeconds": round(3600 * seconds / took, 1),
            "shareOfACore": round(seconds / took, 4),
            "ahead": [ahead, await server.ahead()],
        }

    async def _turn(
        self,
        turn: int,
        documents: Sequence[Document],
        gap: Gap,
        rest: float,
        key: str = "",
        *,
        back: bool = False,
    ) -> dict[str, Answer]:
        """Every build at one gap. back: the key is taken back afterwards."""
        answers: dict[str, Answer] = {}
        for server in in_order(self.servers, turn):
            document = documents[self.servers.index(server)]
            answers[server.build.name] = await ask(server, document, gap, rest, key)
            if back:
                document.replace(gap.line, gap.column, gap.column + 1, "")
            await server.quiet()
        return answers

    def _enough(self, found: Sequence[dict[str, Answer]], wanted: int) -> bool:
        """Whether there are so many pairs; where the model often has nothing to say, half as many more do.
        Or the part's time is over."""
        if time.monotonic() > self.until:
            return True
        return sum(map(is_pair, found)) >= wanted or len(found) >= wanted + wanted // 2

    @contextlib.asynccontextmanager
    async def _loop(self) -> AsyncIterator[RawLoop | None]:
        if not self.given.raw:
            yield None
            return
        async with RawLoop.started(converted.used(self.model), self.card.context, self.given.raw) as loop:
            yield loop


async def interrupted(
    server: Server, document: Document, gap: Gap, seconds: float, ahead: bool
) -> float | None:
    """Milliseconds until the model process is idle after it was interrupted in a prompt, so many seconds
    after it could begin; None if it was idle already."""
    await server.watch.until_idle()
    cancel = None
    if ahead:
        document.look(gap.line, gap.column)
        await asyncio.sleep(REST)
    else:
        document.replace(gap.line, gap.column, gap.column, gap.text[0])
        cancel = document.complete_later(gap.line, gap.column + 1)
    await asyncio.sleep(seconds)
    if (await server.watch.stats())["idle_since"] is not None:
        return None
    now = time.monotonic()
    if cancel is None:
        document.replace(gap.line, gap.column, gap.column, gap.text[0])
    else:
        cancel()
    stats = await server.watch.until_idle()
    since: float = stats["idle_since"]
    return 1e3 * (since - now) if since >= now else None


def usual_excerpts(keys: int) -> list[Edit]:
    """So many recorded keys in parts of `_RUN`: those in which jumps are about as rare as in all."""
    edits = load_trace()
    parts = [edit.excerpt(_RUN) for edit in edits if len(edit.steps) >= _RUN]

    def jumps(some: Sequence[Edit]) -> float:
        steps = [step for edit in some for step in edit.steps]
        return sum(step.jump for step in steps) / len(steps)

    parts.sort(key=lambda part: abs(jumps([part]) - jumps(edits)))
    return parts[: max(keys // _RUN, 1)]


async def typed(server: Server, edit: Edit, turn: int) -> AsyncIterator[tuple[str, Answer]]:
    """Type an edit as recorded; the kind of each key, and its answer."""
    path = server.project / f"typed_{turn}_{edit.name.replace('/', '_')}"
    path.write_text("\n".join(edit.before), "utf-8")
    document = Document(server.editor, path, "python")
    for at, step in enumerate(edit.steps):
        if step.jump or not at:
            document.look(*step.start)
        pause = min(step.pause_ms / 1e3, _LONGEST_PAUSE)
        await asyncio.sleep(max(pause, _LOOK) if step.jump or not at else pause)
        document.edit(step.start, step.end, step.text)
        began = server.editor.sent_at
        item = await document.complete(*step.cursor, ANSWER)
        yield (
            place_of(at, step).value,
            Answer.of(1e3 * (server.editor.received_at - began), suggestion_of(item)),
        )
    document.close()


class RawLoop:
    """llama.cpp in a bare loop (`tests/benchmarks/raw_child.py`), with its defaults."""

    def __init__(self, process: asyncio.subprocess.Process, threads: int) -> None:
        self._process, self._threads = process, threads

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, model: Path, context: int, threads: int) -> AsyncIterator[RawLoop]:
        child = Path(__file__).parents[1] / "benchmarks" / "raw_child.py"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(child), str(model), str(context), str(threads)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        loop = cls(process, threads)
        try:
            await loop._read()
            yield loop
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def prompt_ms(self, text: str, count: int) -> float:
        """Milliseconds to evaluate the first so many tokens of a text."""
        tokens = (await self._ask("tokens", text=text))[:count]
        work = {"prompt": tokens, "keep": 0, "then": [], "generated": 1, "threads": self._threads}
        return float((await self._ask("replay", **work))["ms"])

    async def _ask(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        return await self._read()

    async def _read(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise SystemExit(
                "The bare loop ended. It loads another copy of the model: is there memory for it?"
            )
        return json.loads(line)


def held(builds: Sequence[Build], models: Sequence[str], files: Files) -> dict[str, Any]:
    """The memory of each model in a process of each build."""
    texts: list[str] = []
    while len(texts) < _PLACES:
        path, _ = files.take()
        texts.append(path.read_text("utf-8")[: 6 * _TOKENS])
    report: dict[str, Any] = {}
    for model in models:
        card, path = locate(model)
        for build in builds:
            command = (sys.executable, "-P", str(Path(__file__).with_name("held_memory.py")))
            with tempfile.TemporaryDirectory() as state:
                done = subprocess.run(
                    [*command, str(converted.used(path)), str(card.context), str(_TOKENS)],
                    env={
                        **build.environment(Path(state)),
                        "PYTHONPATH": f"{build.path}{os.pathsep}{Path(__file__).parent}",
                        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # as in the model process
                    },
                    input=json.dumps(texts),
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
            report.setdefault(model, {})[build.name] = json.loads(done.stdout)
        first, *others = (build.name for build in builds)
        for other in others:
            old, new = report[model][first], report[model][other]
            report[model][f"{other}/{first}"] = {
                "heldWithAll": round(_held(new) / _held(old), 3),
                "whole": round(new["all"]["Rss"] / old["all"]["Rss"], 3),
            }
    return report


def _held(found: dict[str, Any]) -> float:
    """MB with all places, less those before there was a context."""
    return float(found["all"]["Rss"] - found["before"]["Rss"])


async def measured(given: argparse.Namespace, report: dict[str, Any]) -> None:
    """Each part goes to the report, and that to its file, once it is there."""
    card, model = locate(given.model)
    parts: dict[str, Any] = report["parts"]
    with tempfile.TemporaryDirectory(prefix="lc-") as name:
        project = Path(name)
        files = Files.of(given.projects, project, given.seed)
        for wanted, budget in ((_WITHOUT_BUDGET, False), (("typing", "reading"), True)):
            chosen = [part for part in wanted if part in given.part]
            if not chosen:
                continue
            async with contextlib.AsyncExitStack() as stack:
                own = {"window": given.window}
                start = partial(started, model=model, project=project, own=own, budget=budget)
                servers = [await stack.enter_async_context(start(build)) for build in given.build]
                report["looks"] = {server.build.name: server.looks for server in servers}
                path, gaps = files.take()
                for server in servers:  # the first of all requests warms everything up
                    document = Document(server.editor, path, "python")
                    await ask(server, document, gaps[0], 0.0)
                    await server.quiet()
                    document.close()
                comparison = Comparison(servers, files, given, model, card)
                for part in chosen:
                    began = time.monotonic()
                    comparison.until = began + 60 * given.limit
                    parts[part] = await getattr(comparison, part)()
                    write(given, report, part, began)
        if "memory" in given.part:
            began = time.monotonic()
            parts["memory"] = held(given.build, given.memory_model or [given.model], files)
            write(given, report, "memory", began)


def write(given: argparse.Namespace, report: dict[str, Any], part: str, began: float) -> None:
    report["seconds"][part] = round(time.monotonic() - began, 1)
    if given.out:
        given.out.write_text(json.dumps(report, indent=1), "utf-8")
    print(f"{part}: {report['seconds'][part]:.0f} s", file=sys.stderr, flush=True)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=Build.named, action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument(
        "--projects", type=Path, default=Path(__file__).parents[2], help="a folder of projects"
    )
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--out", type=Path, help="the JSON file")
    parser.add_argument("--rest", type=rest_and_count, action="append", metavar="SECONDS:COUNT", help="jumps")
    parser.add_argument("--returns", type=int, default=40)
    parser.add_argument("--first", type=int, default=20, help="files")
    parser.add_argument("--keys", type=int, default=150, help="of recorded typing")
    parser.add_argument("--minutes", type=float, default=4.0, help="of reading")
    parser.add_argument("--window", default="small", choices=("small", "large", "auto"))
    parser.add_argument("--cancels", type=int, default=20)
    parser.add_argument(
        "--prompt", type=float, default=2.0, help="seconds of a prompt, within which is cancelled"
    )
    parser.add_argument("--raw", type=int, default=0, metavar="THREADS", help="also a bare llama.cpp loop")
    parser.add_argument("--memory-model", action="append", help="models for `memory`, by default --model")
    parser.add_argument("--limit", type=float, default=math.inf, help="minutes of jumps, returns and first")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main() -> None:
    given = options().parse_args()
    given.part = given.part or list(PARTS)
    report: dict[str, Any] = {
        "model": given.model,
        "window": given.window,
        "builds": {build.name: str(build.path) for build in given.build},
        "machine": {"processors": os.cpu_count(), "load": os.getloadavg()[0], "system": platform.platform()},
        "seconds": {},
        "parts": {},
    }
    asyncio.run(measured(given, report))
    for line in table(report["parts"]):
        print(line)


if __name__ == "__main__":
    main()
