"""Confidence as the server sends it, beside the library's and `eval`'s, on source that no record names.

    python tests/programs/served_confidence.py TREE --model NAME [--count 200]

At each place the real server is asked over the protocol, by a client that acts like an editor, and then the
model by `eval`'s own worker. Three comparisons:

- the confidence on the wire, and the shipped calibrator's for the evidence that the server has stored of the
  suggestion (five digits of each number);
- the text features that the server stored, from its index of the open document, and those from scratch;
- the confidence on the wire, and the calibrator's for `eval`'s answer. The server's cache makes other steps
  than an evaluation from scratch, and llama.cpp's numbers depend on the steps.

And how good the confidences are: skill, rank and tiers. The user's models are used, in a scratch state
folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib import home
from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.validation import summarise
from lsp_calib.commands.records import collect_records
from lsp_calib.completion.features import text_features
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.evaluation.collect import AskingOptions
from lsp_calib.evaluation.lines import LineItem, plain, sample_lines
from lsp_calib.evaluation.recomputed import answer_of
from lsp_calib.evaluation.tasks import Task
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.local.native import read_pieces
from lsp_calib.inference.models.cards import locate
from lsp_calib.tools.client import Document, Editor, suggestion_of
from lsp_calib.values import Evidence

TIERS = ("accept", "review", "reject")
PATIENCE_S = 300.0


@attrs.frozen
class Served:
    """What the server sent at an item's place, and what it stored of it."""

    item: LineItem
    wire: Mapping[str, Any]
    stored: Evidence

    @property
    def confidence(self) -> float:
        return float(self.wire["confidence"])

    @property
    def right(self) -> bool:
        return self.item.is_correct(self.wire["text"])


async def opened(
    items: Sequence[LineItem], folder: Path, model: str
) -> AsyncIterator[tuple[LineItem, Document]]:
    """Each place in a document that the real server has open, one after the other."""
    editor = Editor()
    command = [sys.executable, "-P", "-m", "lsp_calib", "serve"]
    await editor.start(command, env={**os.environ, "LSP_CALIB_MODEL": model}, cwd=folder)
    try:
        await editor.open_session(folder, {"prefetch": {"enabled": False}})
        await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE_S)
        for number, item in enumerate(items):
            path = folder / f"place_{number}.py"
            path.write_text("\n".join(item.cursor.lines), "utf-8")
            document = Document(editor, path, "python")
            yield item, document
            document.close()
        await editor.quit()
    finally:
        await editor.close()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder to work in, with a scratch state folder that has the user's models."""
    models = home.state_dir() / "models"
    with tempfile.TemporaryDirectory(prefix="lsp-calib-served-", ignore_cleanup_errors=True) as name:
        state = home.private_folder(Path(name) / "home")
        (state / "models").symlink_to(models, target_is_directory=True)
        os.environ |= {"LSP_CALIB_HOME": str(state), "LSP_CALIB_LINGER": "0"}
        folder = Path(name) / "project"
        folder.mkdir()
        yield folder


async def ask_the_server(items: Sequence[LineItem], folder: Path, model: str) -> dict[str, dict[str, Any]]:
    """The suggestion objects by item; places without one are missing."""
    found = {}
    async for item, document in opened(items, folder, model):
        wire = suggestion_of(await document.complete(item.cursor.line, item.cursor.column, PATIENCE_S))
        if wire is not None:
            found[item.id] = wire
    return found


def stored_evidence() -> dict[str, Evidence]:
    """By the suggestion's id."""
    store = FeedbackStore(home.state_dir() / "feedback.db")
    rows = list(store.export())
    store.close()
    return {row["id"]: Evidence(tuple(row["logprobs"]), row["features"], row["place"]) for row in rows}


def report(
    served: Sequence[Served],
    evaluated: Mapping[str, Evidence],
    texts: Mapping[str, str],
    calibrator: Calibrator,
) -> None:
    by_library = np.array([calibrator.probability(one.stored) for one in served], dtype=np.float64)
    on_the_wire = np.array([one.confidence for one in served])
    off = np.abs(by_library - on_the_wire)
    print(f"wire and library, from stored evidence: at most {off.max():.1e}, median {np.median(off):.1e}")
    scratch = [text_features(one.item.cursor, one.wire["text"]) for one in served]
    differ = sum(
        any(abs(value - one.stored.features[name]) > 1e-5 for name, value in values.items())
        for one, values in zip(served, scratch, strict=True)
    )
    print(f"text features by the server's index and from scratch differ at {differ} of {len(served)} places")
    both = [one for one in served if texts.get(one.item.id) == one.wire["text"]]
    print(f"eval has the same text at {len(both)} of {len(served)} places")
    theirs = np.array([calibrator.probability(evaluated[one.item.id]) for one in both], dtype=np.float64)
    ours = np.array([one.confidence for one in both])
    off = np.abs(theirs - ours)
    tiers = [one.wire["tier"] for one in both]
    quantiles = ", ".join(f"{q:.0%} {np.quantile(off, q):.4f}" for q in (0.5, 0.75, 0.95, 1.0))
    print(f"wire and eval, {len(both)} places: {quantiles}")
    logs = np.array([abs(sum(one.stored.logprobs) - sum(evaluated[one.item.id].logprobs)) for one in both])
    quantiles = ", ".join(f"{q:.0%} {np.quantile(logs, q):.4f}" for q in (0.5, 0.75, 0.95, 1.0))
    print(f"the same, log-probability of the whole line in nats: {quantiles}")
    right = np.array([one.right for one in served])
    with quietly():
        metrics = summarise(on_the_wire, right, [one.item.id.rsplit(":", 2)[0] for one in served])
    for name in ("skill", "auc", "ece"):
        metric = metrics[name]
        print(f"{name} {metric.value:+.3f} ({metric.low:+.3f} to {metric.high:+.3f})")
    print(f"right {right.mean():.1%} of {right.size}, promised {on_the_wire.mean():.1%}")
    tiers = [one.wire["tier"] for one in served]
    for tier in TIERS:
        at = np.array([found == tier for found in tiers])
        share = f"{right[at].mean():.1%} right" if at.any() else "none"
        print(f"{tier}: {at.mean():.1%}, {share}")
    for one in served[:8]:
        print(f"  {one.confidence:.2f} {one.right!s:5} {one.wire['tier']}: {one.wire['reason']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    each = -(-given.count // len(given.trees))
    items = [item for tree in given.trees for item in sample_lines(tree, tree.resolve().name, each)]
    card, file = locate(given.model)
    with scratch() as folder:
        wires = asyncio.run(ask_the_server(items, folder, given.model))
        stored = stored_evidence()
        task = Task("line", tuple((item.id, plain(item)) for item in items), "python")
        asking = AskingOptions(say=print, model=given.model, quiet=True)
        header, records = collect_records(task, folder.parent / "records.jsonl", asking)
    served = [
        Served(item, wires[item.id], stored[wires[item.id]["id"]]) for item in items if item.id in wires
    ]
    places = {item.id: item for item in items}
    shipped = [Calibrator.load(path) for path in (home.shipped_models() / "calibrators").glob("*.json")]
    calibrator = next(one for one in shipped if one.purpose.model.name == given.model)
    print(f"{given.model}, {calibrator.id}: {len(served)} of {len(items)} places have a suggestion")
    usable = [record for record in records if record.shown and record.logprobs]
    pieces = read_pieces(file)
    prompts = {item.id: build_prompt(item.cursor, Layout.of(card)) for item in items}
    texts = {
        record.item: answer_of(record, places[record.item], pieces, prompts[record.item])[0]
        for record in usable
    }
    report(served, {record.item: record.evidence(header) for record in usable}, texts, calibrator)


if __name__ == "__main__":
    main()
