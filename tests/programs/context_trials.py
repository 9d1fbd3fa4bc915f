"""Another amount of context on places that records have: which completes more of them, paired.

    python tests/programs/context_trials.py RECORDS --sources FOLDER --related 0 --count 200 --output FILE
    python tests/programs/context_trials.py RECORDS --output FILE

RECORDS: of `lsp-calib eval line`, or the journal of an unfinished run. FOLDER: the projects that they are of.
Their model is asked again at places drawn at random from them, with --window characters of the document and
--related characters of pieces of other places, each as in the records' own prompt where it is not given.
FILE keeps a line of JSON for each place, without source, and a run goes on with those it holds; without
--sources the table alone is printed again. A minus before the difference: what the records have is better.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from observed_evidence import read
from paired_records import Pair, table

from lsp_calib.completion.postprocess import offered
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.errors import DataError
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.lines import surroundings_of
from lsp_calib.evaluation.recomputed import item_of
from lsp_calib.evaluation.records import Record
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.inference.engines import open_engine
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import Stop

Row = dict[str, Any]


def changed(header: Header, window: int | None, related: int | None) -> Layout:
    """The layout of the records with other amounts. Raises DataError if it is no longer made."""
    layout = Layout.named(header.prompt_version, load_cards()[header.model.name])
    if layout is None:
        raise DataError(f"The prompt {header.prompt_version} is no longer made.")
    return attrs.evolve(
        layout,
        window=layout.window if window is None else window,
        related=layout.related if related is None else related,
    )


async def ask(
    header: Header, records: Sequence[Record], sources: Path, layout: Layout, threads: int, file: Path
) -> None:
    known = {row["item"] for row in rows_of(file)}
    engine = open_engine(EngineChoice(model=header.model.name, threads=threads))
    try:
        for record in records:
            if record.item in known:
                continue
            item = item_of(record, sources, language=header.language)
            prompt = build_prompt(item.cursor, layout, surroundings_of(item, layout))
            request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False)
            found = await engine.generate(request)
            text = offered(found.text, item.cursor).text
            shown = bool(text) and found.stop is not Stop.LENGTH
            row: Row = {"item": record.item, "shown": shown, "exact": shown and item.is_correct(text)}
            row |= {"window": layout.window, "related": layout.related}
            row |= {"promptTokens": found.timing.prompt_tokens}
            with file.open("a") as output:
                output.write(json.dumps(row) + "\n")
    finally:
        await engine.close()


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def pairs(records: Sequence[Record], rows: Sequence[Row]) -> list[Pair]:
    """Each record beside the answer with the other context."""
    by_item = {row["item"]: row for row in rows}

    def again(record: Record) -> Record:
        row = by_item[record.item]
        return attrs.evolve(record, correct={"exact": row["exact"]}, shown=row["shown"])

    return [(one, again(one)) for one in records if one.item in by_item]


def report(header: Header, records: Sequence[Record], rows: Sequence[Row]) -> str:
    found = pairs(records, rows)
    amounts = {(row["window"], row["related"]) for row in rows}
    if len(amounts) != 1:
        raise DataError("The file has rows of several amounts of context, or none.")
    ((window, related),) = amounts
    parts: dict[str, list[Pair]] = {}
    for pair in found:
        parts.setdefault(pair[0].condition, []).append(pair)
    parts["both"] = found
    tokens = np.median([row["promptTokens"] for row in rows])
    title = f"{header.model.name}; first: {header.prompt_version}; other: window {window}, related {related}"
    return f"{title}, {tokens:.0f} tokens in the median\n\n{table(parts, header)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--window", type=int)
    parser.add_argument("--related", type=int)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    header, records = read(given.records)
    if given.sources:
        drawn = sorted(records, key=lambda one: one.item)
        np.random.default_rng(0).shuffle(drawn)
        layout = changed(header, given.window, given.related)
        asyncio.run(ask(header, drawn[: given.count], given.sources, layout, given.threads, given.output))
    print(report(header, records, rows_of(given.output)))


if __name__ == "__main__":
    main()
