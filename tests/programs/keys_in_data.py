"""How long a key takes in six kinds of data, and a completion in a document while one runs in another.

    python tests/programs/keys_in_data.py [--model smollm2-135m] [--keys 12] [--threads 0]

The real server, with a document of 200 KB of each kind (of CJK text and emoji: 100 lines of code with such
strings and comments) in which keys are typed in the middle, each with a request, as an editor sends it. Then
the same with code. A time is that from the change until the answer; the prompt tokens that are evaluated for
it, and the generated ones, do not depend on what else the machine does.
The second part asks in one document, and, while that prompt of about 1,500 tokens is evaluated, in another
one; by turns with the same request alone.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import random
import time
from collections.abc import Callable, Sequence

import attrs
import numpy as np

from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.report import median_ratio
from lsp_calib.tools.bench.server import Scratch, Served, scratch_folder, served, until_idle
from lsp_calib.tools.bench.typist import open_dense
from lsp_calib.tools.client import Document

_SIZE = 200_000
# Seconds; enough on a busy machine.
_ANSWER = 300.0
_CODE = """\
def total{n}(items, limit):
    total = {n}
    for item in items:
        if item.price > limit:
            total += item.price * item.count
    return total

"""


def _code(note: str = "the sum") -> str:
    return "".join(
        _CODE.replace("\n    total", f'\n    """{note}"""\n    total', 1).format(n=n) for n in range(15)
    )


def _base64(chance: random.Random) -> str:
    data = base64.b64encode(chance.randbytes(3 * _SIZE // 4)).decode()
    return "DATA = [\n" + "".join(f'    "{data[at : at + 76]}",\n' for at in range(0, _SIZE, 76)) + "]\n"


def _minified(_: random.Random) -> str:
    one = "function a{n}(b,c){{for(var d=0;d<b.length;d++)if(b[d]>c)return d+{n};return-1}}"
    return "".join(one.format(n=n) for n in range(_SIZE // len(one)))


def _table(chance: random.Random) -> str:
    rows = (", ".join(str(chance.randrange(65536)) for _ in range(12)) for _ in range(_SIZE // 80))
    return "TABLE = [\n" + "".join(f"    {row},\n" for row in rows) + "]\n"


def _literal(chance: random.Random) -> str:
    words = ("value", "error", "the", "of", "file", "name", "and", "was", "read", "line")
    text = " ".join(chance.choice(words) for _ in range(_SIZE // 5))
    return f'TEXT = "{text}"\n'


def _cjk(chance: random.Random) -> str:
    return _code("".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(30)))


def _emoji(chance: random.Random) -> str:
    return _code("".join(chr(chance.randrange(0x1F300, 0x1F5FF)) for _ in range(30)))


KINDS: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "base64": ("python", _base64),
    "minified": ("javascript", _minified),
    "generated table": ("python", _table),
    "long literal": ("python", _literal),
    "CJK": ("python", _cjk),
    "emoji": ("python", _emoji),
    "code": ("python", lambda _: _code()),
}


async def type_in(server: Served, kind: str, keys: int) -> tuple[list[float], list[tuple[int, int]]]:
    """Milliseconds, and tokens evaluated and generated, of each key but the first, whose prompt is new."""
    language, made = KINDS[kind]
    editor, scratch, probe = server.editor, server.scratch, server.probe
    path = scratch.project / f"data_{kind.replace(' ', '_')}.{language[:2]}"
    path.write_text(made(random.Random(0)), "utf-8")
    document = Document(editor, path, language)
    line = max(len(document.lines) // 2 - 1, 0)  # a text of one line ends with an empty one
    if kind in ("CJK", "emoji", "code"):  # behind the text, in a line that is written
        line = next(at for at in range(line, len(document.lines)) if '"""' in document.lines[at])
    column = len(document.lines[line]) // 2
    before = await until_idle(probe)
    times, tokens = list[float](), list[tuple[int, int]]()
    typed = "1234567890" * 2 if kind == "generated table" else "valueOfItAndSomeMore"
    for key in typed[: keys + 1]:
        document.replace(line, column, column, key)
        sent, column = editor.sent_at, column + 1
        await document.complete(line, column, _ANSWER)
        times.append(1e3 * (editor.received_at - sent))
        after = await until_idle(probe)
        evaluated = after.prompt_tokens - before.prompt_tokens
        tokens.append((evaluated, after.generated_tokens - before.generated_tokens))
        before = after
    document.close()
    return times[1:], tokens[1:]


async def ask_beside(server: Served, times: int) -> tuple[list[tuple[float, float]], int]:
    """Pairs of milliseconds to a completion: while another document's is made, and alone. And how often the
    other was answered only afterwards."""
    editor, scratch, probe = server.editor, server.scratch, server.probe
    chance = random.Random(1)
    path = scratch.project / "asked.py"
    path.write_text(_code(), "utf-8")
    document = Document(editor, path, "python")
    line = len(document.lines) // 2
    found, order = dict[bool, list[float]]({True: [], False: []}), 0

    async def ask(*, beside: bool) -> None:
        nonlocal order
        other, digits = open_dense(editor, scratch, chance)
        await document.complete(line, 0, _ANSWER)  # so that its prompt is cached
        document.replace(line, 0, len(document.lines[line]), f"    x{chance.randrange(10**6)} = ")
        column = len(document.lines[line])
        before = await until_idle(probe)
        running = None
        if beside:
            running = asyncio.ensure_future(other.complete(digits, 0, _ANSWER))
            while (await probe.stats()).prompt_tokens == before.prompt_tokens and not running.done():
                await asyncio.sleep(0.002)
        began = time.perf_counter()
        await document.complete(line, column, _ANSWER)
        found[beside].append(1e3 * (time.perf_counter() - began))
        if running is not None:
            order += not running.done()
            await running
        other.close()

    for turn in range(times):
        for beside in (True, False) if turn % 2 else (False, True):
            await ask(beside=beside)
    document.close()
    return list(zip(found[True], found[False], strict=True)), order


async def measure(scratch: Scratch, kinds: Sequence[str], keys: int, times: int) -> None:
    """Print both tables."""
    async with served(scratch, ahead=False) as server:
        print("| a key in | the model is asked | evaluated, generated (median) | ms, median | p95 |")
        print("|---|---:|---:|---:|---:|")
        for kind in kinds:
            found, tokens = await type_in(server, kind, keys)
            asked = sum(evaluated > 0 for evaluated, _ in tokens)
            work = ", ".join(f"{np.median(counts):.0f}" for counts in zip(*tokens, strict=True))
            cells = (work, f"{np.median(found):.1f}", f"{np.quantile(found, 0.95):.1f}")
            print(f"| {kind} | {asked} of {len(tokens)} | {' | '.join(cells)} |", flush=True)
        if not times:
            return
        pairs, order = await ask_beside(server, times)
        ratio = median_ratio(pairs)
        beside, alone = (float(np.median(one)) for one in zip(*pairs, strict=True))
        print(
            f"\nIn another document while one runs: {beside:.0f} ms, alone {alone:.0f} ms; median of ratios "
            f"{ratio[0] if ratio else 0:.2f} ({times} pairs), before the other in {order}."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time keys in data, and completions beside others.")
    parser.add_argument("--model", default="smollm2-135m", help="name of a card, or a file")
    parser.add_argument("--threads", type=int, default=0, help="to decode with; 0: chosen by the server")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind (may be repeated)")
    parser.add_argument("--keys", type=int, default=12, help="keys of each kind, at most 19")
    parser.add_argument("--times", type=int, default=6, help="pairs of the second part; 0: none")
    given = parser.parse_args()
    with scratch_folder(attrs.evolve(Trusted(), model=given.model, threads=given.threads)) as scratch:
        asyncio.run(measure(scratch, given.kind or list(KINDS), given.keys, given.times))


if __name__ == "__main__":
    main()
