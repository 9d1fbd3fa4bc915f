"""What next edits cost: a key in a long file with them and without, and the search for places after an edit.

    python tests/programs/next_edit_speed.py [--keys 240] [--edits 200]

Keys: two servers with a scripted engine, which answers at once, get the same keys in a Python file of 5,000
lines, in turn: letters at the end of a word, six in each line, then on to another line. Of each key there are
the time from the change to the answer of a request for an inline completion, and the processor time of the
server. Where other programs are at work, the processor time is the one to quote.

Places: after a change of a real line, of a name that stands once in the document, about 20 times, and about
200 times, all that has to be computed for a request: the edit of the line, the text that is searched, places
and features. Milliseconds of processor time of a thread that does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs
import numpy as np
from offered_lines import parser_of
from text_features_speed import sources

from lsp_calib.edits.history import History
from lsp_calib.edits.offers import candidates
from lsp_calib.edits.rules import Text
from lsp_calib.home import private_folder
from lsp_calib.studies.tables import table_lines
from lsp_calib.tools.bench.report import estimate, median_ratio, percentile
from lsp_calib.tools.client import Document, Editor

SERVER = Path(__file__).parents[1] / "server" / "scripted_server.py"
LINES, OTHERS, OTHERS_LINES, IN_A_LINE = 5_000, 5, 2_000, 6
# How often names stand in a document, as a range: of 200 places and more nothing is said.
TIMES = {"once": (1, 1), "about 20 times": (17, 23), "about 200 times": (150, 200)}
_PATIENCE = 120.0
_WORD = re.compile(r"\b[a-z_]{4,}\b")


@attrs.define(eq=False)
class Served:
    """A server, and of each key the seconds until the answer, and the processor seconds of the server."""

    editor: Editor
    document: Document
    seconds: list[float] = attrs.field(factory=list)
    processor: list[float] = attrs.field(factory=list)

    @classmethod
    async def start(cls, folder: Path, text: str, *, enabled: bool) -> Served:
        home, work = private_folder(folder / "home"), folder / "work"
        work.mkdir()
        script, path = folder / "script.json", work / "long.py"
        script.write_text(json.dumps({"otherwise": {"text": "x", "logprobs": [-0.1]}}), "utf-8")
        path.write_text(text, "utf-8")
        editor = Editor()
        command = [sys.executable, str(SERVER), str(script)]
        await editor.start(command, env={**os.environ, "LSP_CALIB_HOME": str(home)}, cwd=work)
        options = {"nextEdit": {"enabled": enabled}, "prefetch": {"enabled": False}}
        await editor.open_session(work, options)
        return cls(editor, Document(editor, path, "python"))

    async def key(self, line: int, column: int, letter: str) -> None:
        before, began = self._processor(), time.perf_counter()
        self.document.replace(line, column, column, letter)
        await self.document.complete(line, column + 1, _PATIENCE)
        self.seconds.append(time.perf_counter() - began)
        self.processor.append(self._processor() - before)

    def _processor(self) -> float:
        """Processor seconds of all threads, which Linux counts in nanoseconds."""
        threads = Path(f"/proc/{self.editor.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text("ascii").split()[0]) for one in threads) / 1e9


async def keys_compared(n: int, seed: int = 0) -> list[list[str]]:
    """Rows of a table."""
    text, chance = "\n".join(islice(sources(), LINES)) + "\n", random.Random(seed)
    words = [(at, word.end()) for at, line in enumerate(text.split("\n")) if (word := _WORD.search(line))]
    with tempfile.TemporaryDirectory() as name:
        both = []
        try:
            for enabled in (True, False):
                folder = Path(name, str(enabled))
                folder.mkdir()
                both.append(await Served.start(folder, text, enabled=enabled))
            # The first keys of a server load what the others use.
            places = chance.sample(words, 3 + -(-n // IN_A_LINE))
            for number, (line, column) in enumerate(places):
                for at in range(IN_A_LINE):
                    for served in both[:: 1 if (number + at) % 2 else -1]:
                        await served.key(line, column + at, chance.choice("abcdefgh"))
            for served in both:
                await served.editor.quit()
        finally:
            for served in both:
                await served.editor.close()
    rows = []
    for what, values in (
        ("until the answer", [one.seconds for one in both]),
        ("processor time", [one.processor for one in both]),
    ):
        on, off = (np.array(one[3 * IN_A_LINE :]) for one in values)
        both_ways = np.column_stack((on, off))
        total = estimate(both_ways, lambda rows: rows[..., 0].sum(-1) / rows[..., 1].sum(-1))
        middle = median_ratio(list(zip(on, off, strict=True)))
        times = [f"{1e3 * float(np.median(one)):.2f} ms" for one in (on, off)]
        rows.append([what, str(len(on)), *times, *(_ranged(one) for one in (middle, total))])
    return rows


def _ranged(value: Sequence[float | None] | None) -> str:
    middle, low, high = value or (math.nan,) * 3
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def places_timed(n: int, seed: int = 0) -> list[list[str]]:
    """Rows of a table."""
    every = list(sources())
    rows = []
    for what, lines, others in (
        (f"1 of {LINES:,} lines", every[:LINES], ()),
        (
            f"{OTHERS} of {OTHERS_LINES:,} lines",
            every[:OTHERS_LINES],
            [every[at * OTHERS_LINES : (at + 1) * OTHERS_LINES] for at in range(1, OTHERS)],
        ),
    ):
        beside: dict[Hashable, Text] = {f"other {at}": Text(tuple(one)) for at, one in enumerate(others)}
        for name, (fewest, most) in TIMES.items():
            times = _edits_timed(lines, beside, (fewest, most), n, random.Random(seed))
            p50, p95 = (percentile(times, one) for one in (50, 95))
            rows.append([what, name, str(len(times)), _ranged(p50), _ranged(p95)])
    return rows


def _edits_timed(
    lines: Sequence[str],
    beside: Mapping[Hashable, Text],
    within: tuple[int, int],
    n: int,
    chance: random.Random,
) -> list[float]:
    """Milliseconds after each of n edits. within: how often a name that is changed stands in `lines`."""
    counted = Counter(word for line in lines for word in _WORD.findall(line))
    names = {name for name, times in counted.items() if within[0] <= times <= within[1]}
    places = [
        (at, word) for at, line in enumerate(lines) for word in _WORD.finditer(line) if word.group() in names
    ]
    found = []
    for number, (at, word) in enumerate(chance.choices(places, k=n)):
        was = lines[at]
        became = f"{was[: word.start()]}another{number}{was[word.end() :]}"
        now = (*lines[:at], became, *lines[at + 1 :])
        history = History()
        began = time.thread_time()
        rules = history.changed("here", at, was, became)
        texts: dict[Hashable, Text] = {"here": Text(now), **beside}
        list(candidates(history, rules, texts, "here"))
        found.append(1e3 * (time.thread_time() - began))
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--keys", type=int, default=240)
    parser.add_argument("--edits", type=int, default=200)
    given = parser.parse_args()
    columns = ["documents", "the name stands", "edits", "p50, ms (95 %)", "p95, ms (95 %)"]
    print("\n".join(table_lines(columns, places_timed(given.edits))), end="\n\n", flush=True)
    columns = ["a key", "keys", "with", "without", "median ratio (95 %)", "ratio of sums (95 %)"]
    print("\n".join(table_lines(columns, asyncio.run(keys_compared(given.keys)))))


if __name__ == "__main__":
    main()
