"""A keystroke beside the same tokens in a bare llama.cpp loop, and at a llama-server.

    python tests/benchmarks/against.py --model qwen2.5-coder-1.5b --steps 150
    llama-server -m MODEL.gguf -t 2 -c 4096 -np 1 --port 8080
    python tests/benchmarks/against.py --peer http://127.0.0.1:8080

After each answer of the server the loop (`raw_child.py`; it needs llama-cpp-python) and the peer get exactly
the token ids of its prompt, and generate as many tokens. The peer has its prompt cache on, temperature 0, and
computes no probabilities.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import httpx
from ratios import ratios, words

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import build_prompt
from lsp_calib.inference.models import converted
from lsp_calib.settings import Settings, resolve
from lsp_calib.tools.bench.report import percentile
from lsp_calib.tools.bench.run import Typist, place_of
from lsp_calib.tools.bench.server import Served, scratch_folder, served, settled, until_idle
from lsp_calib.tools.bench.trace import Edit, load_trace, select

_PATIENCE = 300.0


@attrs.frozen
class Repeated:
    """The same tokens somewhere else. ms: until the last is there. evaluated: prompt tokens that were not in
    its cache. same: whether its work was the same."""

    ms: float
    evaluated: int
    same: bool


class Loop:
    """A `raw_child` process: asked right after the server, while that is idle."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, model: Path, context: int, threads: int) -> AsyncIterator[Loop]:
        child = Path(__file__).with_name("raw_child.py")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(child), str(model), str(context), str(threads)),
            stdin=PIPE,
            stdout=PIPE,
            limit=1 << 24,
        )
        loop = cls(process)
        try:
            await loop.read()
            yield loop
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def ask(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        return await self.read()

    async def read(self) -> Any:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), _PATIENCE)
        if not line:
            raise SystemExit(
                "The bare loop ended. It loads a second copy of the model: is there memory for it?"
            )
        return json.loads(line)

    async def repeat(
        self, tokens: Sequence[int], keep: int, text: str, generated: int, threads: int
    ) -> Repeated:
        then = await self.ask("tokens", text=text)
        work = {"prompt": tokens, "keep": keep, "then": then, "generated": generated, "threads": threads}
        found = await self.ask("replay", **work)
        # The loop has one cache, the server several: it may have kept fewer tokens.
        return Repeated(found["ms"], found["evaluated"], found["evaluated"] == len(tokens) - keep)


async def at_peer(peer: httpx.AsyncClient, tokens: Sequence[int], generated: int) -> Repeated:
    body = {"prompt": tokens, "n_predict": generated, "cache_prompt": True, "temperature": 0}
    body |= {"samplers": ["temperature"], "ignore_eos": True, "stream": False}
    began = time.perf_counter()
    answer = (await peer.post("/completion", json=body)).raise_for_status()
    ms = 1e3 * (time.perf_counter() - began)
    known = answer.json()
    lengths = known["tokens_evaluated"], known["tokens_predicted"]
    return Repeated(ms, known["timings"]["prompt_n"], lengths == (len(tokens), generated))


@attrs.define
class Pairs:
    """same: milliseconds of the server and of the same tokens elsewhere, by kind of keystroke. unequal: how
    often other work was done there."""

    same: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list))
    unequal: int = 0

    def add(self, place: str, ms: float, other: Repeated) -> None:
        if other.same:
            self.same[place].append((ms, other.ms))
            self.same["all"].append((ms, other.ms))
        else:
            self.unequal += 1


async def type_edit(
    server: Served,
    edit: Edit,
    loop: Loop,
    peer: httpx.AsyncClient | None,
    to: dict[str, Pairs],
) -> list[int]:
    """Type an edit, and ask for the same tokens elsewhere after each answer; returns the tokens evaluated."""
    typist = Typist(server.editor, server.scratch, edit)
    evaluated = []
    before = await until_idle(server.probe)
    for at, step in enumerate(edit.steps):
        ms, suggestion = await typist.answer(step)
        after = await settled(server.probe)
        new, generated = (
            after.prompt_tokens - before.prompt_tokens,
            after.generated_tokens - before.generated_tokens,
        )
        before = after
        if not new or not generated:
            continue
        evaluated.append(new)
        cursor = Cursor(typist.document.lines, *step.cursor, "python").without_closers_behind()
        prompt = build_prompt(cursor, server.scratch.layout)
        tokens = await loop.ask("prompt", segments=[[kind.value, text] for kind, text in prompt.segments])
        text = prompt.forced + (suggestion["text"] if suggestion else "") + "\n"
        place, keep = place_of(at, step).value, max(len(tokens) - new, 0)
        to["loop"].add(place, ms, await loop.repeat(tokens, keep, text, generated, after.threads))
        if peer is not None:
            to["peer"].add(place, ms, await at_peer(peer, tokens, generated))
    typist.document.close()
    return evaluated


async def measure(given: argparse.Namespace) -> tuple[dict[str, Pairs], list[int]]:
    trusted, _ = resolve(Settings(model=given.model))
    found, evaluated = {"loop": Pairs(), **({"peer": Pairs()} if given.peer else {})}, list[int]()
    async with contextlib.AsyncExitStack() as stack:
        scratch = stack.enter_context(scratch_folder(trusted))
        server = await stack.enter_async_context(served(scratch))
        threads = (await server.probe.stats()).threads
        model = converted.used(scratch.model)
        loop = await stack.enter_async_context(Loop.started(model, scratch.card.context, threads))
        client = httpx.AsyncClient(base_url=given.peer or "", timeout=_PATIENCE, trust_env=False)
        peer = await stack.enter_async_context(client) if given.peer else None
        for edit in select(load_trace(), given.steps):
            evaluated += await type_edit(server, edit, loop, peer, found)
    return found, evaluated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peer", metavar="URL")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--model")
    found, evaluated = asyncio.run(measure(parser.parse_args()))
    print(f"Prompt tokens evaluated, p50: {percentile(evaluated, 50)}")
    for where, pairs in found.items():
        print(f"Over the {where} ({pairs.unequal} did other work):")
        for place, same in pairs.same.items():
            print(f"  {place}: {words(ratios(same))}")


if __name__ == "__main__":
    main()
