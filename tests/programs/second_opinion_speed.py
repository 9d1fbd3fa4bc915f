"""The time of a second opinion beside answers by hand without it, over the protocol, at the same places.

    python tests/programs/second_opinion_speed.py MODEL [--places 12] [--window small]

MODEL: an installed model that has records of both windows. The folder with the sets of `lsp-calib data pull`
is LSP_CALIB_DATA. Two servers, each with a model process of its own, go to places of the records, one in each
project: an automatic request, then one by hand, then one after a key. Of the two one has the measure
"geometric-mean", with which there is no second opinion. Nothing is evaluated ahead.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from sure_parts import MODELS

from lsp_calib import home
from lsp_calib.corpus.records import Record, read_records
from lsp_calib.tools.client import SERVER, Document, Editor, suggestion_of

PATIENCE = 120.0
PARTS = ("automatic", "by hand", "a key afterwards")


@attrs.define
class Served:
    """A server, and its seconds for each of `PARTS`, by place."""

    editor: Editor
    folder: Path
    seconds: list[tuple[float, ...]] = attrs.field(factory=list)
    measures: list[str] = attrs.field(factory=list)

    @classmethod
    async def start(cls, folder: Path, projects: Path, options: dict[str, Any]) -> Served:
        folder.mkdir(mode=0o700)
        (folder / "models").symlink_to(home.state_dir() / "models")
        editor = Editor()
        env = {**os.environ, "LSP_CALIB_HOME": str(folder), "LSP_CALIB_LINGER": "1"}
        await editor.start(SERVER, env=env, cwd=projects)
        await editor.open_session(projects, {"trusted": options})
        await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)
        return cls(editor, folder)

    async def visit(self, path: Path, line: int, column: int) -> None:
        document = Document(self.editor, path, "python")
        text = document.lines[line]
        document.replace(line, column, len(text), "")
        found, measure = [], ""
        for part in PARTS:
            if part == PARTS[2]:
                document.replace(line, column, column, text[column : column + 1])
                column += 1
            began = time.perf_counter()
            item = await document.complete(line, column, PATIENCE, by_hand=part == PARTS[1])
            found.append(time.perf_counter() - began)
            if part == PARTS[1]:
                measure = (suggestion_of(item) or {}).get("measure", "none")
        document.close()
        self.seconds.append(tuple(found))
        self.measures.append(measure)


def places(model: str, n: int) -> list[Record]:
    """A place of each of so many projects, in lines that were finished."""
    _, records = read_records(MODELS / "records" / "lines" / f"line-{model}.jsonl")
    by_project: dict[str, Record] = {}
    for at, record in enumerate(records):
        if record.condition == "inserting" and record.shown and at % 7 == 0:
            by_project.setdefault(record.group, record)
    return list(by_project.values())[:n]


def table(both: Sequence[Served]) -> str:
    rows = ["| | as today | with a second opinion | ratio |", "|---|--:|--:|--:|"]
    for at, part in enumerate(PARTS):
        today, second = ([seconds[at] for seconds in one.seconds] for one in both)
        ratio = statistics.median(b / a for a, b in zip(today, second, strict=True))
        old, new = statistics.median(today), statistics.median(second)
        rows.append(f"| {part} | {old:.2f} s | {new:.2f} s | {ratio:.2f} |")
    return "\n".join(rows)


async def measured(model: str, n: int, window: str) -> list[Served]:
    projects = Path(os.environ["LSP_CALIB_DATA"]) / "projects"
    options = {"model": model, "window": window, "prefetch": {"enabled": False}, "hideBelow": False}
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        for name, more in (("today", {"confidence": {"measure": "geometric-mean"}}), ("second", {})):
            servers.append(await Served.start(Path(folder, name), projects, options | more))
        for at, record in enumerate(places(model, n)):
            path, line, column = record.item.rsplit(":", 2)
            for served in servers[:: 1 if at % 2 else -1]:
                await served.visit(projects / path, int(line) - 1, int(column) - 1)
            seconds = (", ".join(f"{part:.2f}" for part in one.seconds[-1]) for one in servers)
            print(f"{at + 1}: {'; '.join(seconds)} ({servers[1].measures[-1]})", file=sys.stderr, flush=True)
        for served in servers:
            await served.editor.quit()
            await served.editor.close()
        return servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--places", type=int, default=12)
    parser.add_argument("--window", choices=("small", "large"), default="large")
    given = parser.parse_args()
    today, second = asyncio.run(measured(given.model, given.places, given.window))
    print(table([today, second]))
    had = sum(measure.startswith(("second-opinion", "surer-of-two")) for measure in second.measures)
    print(f"\nwith a second opinion: {had} of {len(second.measures)}: {', '.join(second.measures)}")


if __name__ == "__main__":
    main()
