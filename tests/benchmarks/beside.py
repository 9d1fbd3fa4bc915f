"""How much longer a keystroke takes while other processes load a core each, and how soon that ends.

    python tests/benchmarks/beside.py --beside 1 --requests 40 --model qwen2.5-coder-1.5b

Types up to 12 keys again and again: on the quiet machine, beside busy processes, and for ten seconds after
them. Each key asks the model for a few tokens, with all of its prompt except the current line in the cache:
the readings of a key differ only in the other processes. These are in sessions of their own, as a build
in another terminal: Linux desktops share the processor by session first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median

import attrs
from ratios import ratios, words

from lsp_calib.settings import Settings, resolve
from lsp_calib.tools.bench.run import Typist
from lsp_calib.tools.bench.server import Served, scratch_folder, served, until_idle
from lsp_calib.tools.bench.trace import Edit, Kind, Step, load_trace

# Seconds of readings after the busy processes have ended, in two windows.
AFTER = 10.0
# Number of keys to try in a line: its last ones, since the rest of the line is short there.
_TRIED = 16
_KEYS = 12
# A key is used if this many tokens were generated for it.
_FEW = range(2, 9)


@attrs.frozen
class Asked:
    """One keystroke. key: its number, from 0. at: seconds from the start of its phase until it was typed."""

    key: int
    at: float
    ms: float
    evaluated: int
    generated: int

    def same_work(self, other: Asked) -> bool:
        return (self.key, self.evaluated, self.generated) == (other.key, other.evaluated, other.generated)


class Hand:
    """Types the same keys of a document again and again. keys: of its steps those that are used."""

    def __init__(self, server: Served) -> None:
        self.keys: list[int] = []
        self._server = server
        self._next = 0

    async def choose(self, edits: Sequence[Edit]) -> None:
        """Take the line of code with most keys that the model answers with few tokens."""
        best: tuple[list[int], Edit] | None = None
        for edit in filter(None, map(last_keys, edits)):
            self._open(edit)
            asked = [await self._ask(key) for key in range(len(edit.steps))]
            few = [one.key for one in asked if one.generated in _FEW][:_KEYS]
            self._typist.document.close()
            if best is None or len(few) > len(best[0]):
                best = few, edit
            if len(few) == _KEYS:
                break
        if best is None or not best[0]:
            raise SystemExit("The model generated 2 to 8 tokens at none of the keystrokes tried.")
        self.keys = best[0]
        self._open(best[1])

    async def phase(self, requests: int, seconds: float = 0.0) -> list[Asked]:
        """So many keys, or as many as there is time for; every phase starts with the same cache."""
        await self._ask(self.keys[-1])
        began, found = time.monotonic(), list[Asked]()
        while len(found) < requests or time.monotonic() < began + seconds:
            asked = await self._ask(self.keys[len(found) % len(self.keys)])
            found.append(attrs.evolve(asked, at=asked.at - began))
        return found

    def _open(self, edit: Edit) -> None:
        self._steps, self._lines = edit.steps, line_before_each(edit)
        self._typist = Typist(self._server.editor, self._server.scratch, edit)

    async def _ask(self, key: int) -> Asked:
        document, line = self._typist.document, self._steps[0].start[0]
        document.replace(line, 0, len(document.lines[line]), self._lines[key])
        # The server remembers its answers for as long as a document is open.
        document.close()
        document.open()
        before = await until_idle(self._server.probe)
        at = time.monotonic()
        ms, _ = await self._typist.answer(self._steps[key])
        after = await until_idle(self._server.probe)
        evaluated = after.prompt_tokens - before.prompt_tokens
        return Asked(key, at, ms, evaluated, after.generated_tokens - before.generated_tokens)


def last_keys(edit: Edit) -> Edit | None:
    """The last keys of the longest run of keys in one line of code; None if it has too few."""
    runs: list[list[Step]] = [[]]
    lines = list(edit.before)
    for step in edit.steps:
        step.apply(lines)
        if step.kind is not Kind.TYPE or step.jump or (runs[-1] and step.start != runs[-1][-1].cursor):
            runs.append([])
        # Code, not prose, whose completions may be long.
        if step.kind is Kind.TYPE and re.match(r"\s*[\w.]+( = |\()|\s*return \w", lines[step.start[0]]):
            runs[-1].append(step)
    steps = max(runs, key=len)[-_TRIED:]
    if len(steps) < _TRIED:
        return None
    first = next(at for at, step in enumerate(edit.steps) if step is steps[0])
    return attrs.evolve(edit, before=tuple(edit.lines_after(first)), steps=tuple(steps))


def line_before_each(edit: Edit) -> list[str]:
    """The text of the edited line before each step; all steps are in that line."""
    line, lines = edit.steps[0].start[0], list(edit.before)
    found = []
    for step in edit.steps:
        found.append(lines[line])
        step.apply(lines)
    return found


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that want a core each. They end with this process."""
    code = "import os\nwhile os.getppid() == int(os.environ['OF']):\n    for _ in range(100000): pass"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", f"import os; os.environ['OF'] = str(os.getppid())\n{code}"],
            start_new_session=True,
        )
        for _ in range(count)
    ]
    time.sleep(0.5)  # until they run
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


async def measure(trusted: Settings, beside: int, requests: int) -> dict[str, list[Asked]]:
    with scratch_folder(trusted) as scratch:
        # Nothing is evaluated ahead: it would run into the next key's time.
        async with served(scratch, ahead=False) as server:
            hand = Hand(server)
            await hand.choose(load_trace())
            found = {"quiet": await hand.phase(requests)}
            with busy(beside):
                found["beside"] = await hand.phase(requests)
            found["after"] = await hand.phase(0, AFTER)
            return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--beside", type=int, default=1)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--model")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    trusted, _ = resolve(Settings(model=given.model))
    found = asyncio.run(measure(trusted, given.beside, given.requests))
    quiet = found["quiet"]
    pairs = [(b.ms, q.ms) for b, q in zip(found["beside"], quiet, strict=True) if b.same_work(q)]
    later = [
        (one.at, one.ms / median(usual))
        for one in found["after"]
        if (usual := [q.ms for q in quiet if q.same_work(one)])
    ]
    report = {"unequal": len(quiet) - len(pairs), **ratios(pairs)}
    for low, high in ((0, 5), (5, 10)):
        inside = [ratio for at, ratio in later if low <= at < high]
        report[f"seconds{low}To{high}"] = round(median(inside), 3) if inside else None
    if given.json:
        print(json.dumps(report, indent=2))
        return
    print(f"Beside {given.beside} busy, over the quiet machine: {words(report)}.")
    first, then = report["seconds0To5"], report["seconds5To10"]
    print(f"After they had ended: {first} in seconds 0 to 5, {then} in 5 to 10.")


if __name__ == "__main__":
    main()
