"""Time and memory of the examples for summaries, in a workspace made of real files.

    python tests/programs/example_index.py FOLDER [--functions 10000] [--language python]

FOLDER: sources, such as the projects of `lsp-calib data pull projects`. Its files are copied one by one until
they have that many functions. Prints one JSON document: for the first search through the workspace its
seconds and those of the processor, how much memory the process takes before and after; for functions drawn
at random, milliseconds to find examples, to take an edit of their document, and both together; for an edit on
the disk, milliseconds to notice and take it; the characters of their prompts with shipped examples and with
those found.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from lsp_calib.evaluation.lines import source_files
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import SHOTS, build_prompt
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, functions
from lsp_calib.text_lines import split_lines
from lsp_calib.workspace_files import lines_of

SAMPLES = 60


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--language", default="python")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        found = copied(given.folder, root, given.functions, given.language)
        print(json.dumps(found | measured(root, given.language), indent=2))


def copied(folder: Path, root: Path, wanted: int, language: str) -> dict[str, int]:
    """Copy files until they have so many functions; counts files, lines and functions."""
    files = lines = n = 0
    for path in source_files(folder, language):
        text = lines_of(path)
        here = len(functions(text, language))
        if not here:
            continue
        target = root / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(text), "utf-8")
        files, lines, n = files + 1, lines + len(text), n + here
        if n >= wanted:
            break
    return {"files": files, "lines": lines, "functions": n}


def measured(root: Path, language: str) -> dict[str, object]:
    process = psutil.Process()
    before = process.memory_info().rss
    index = WorkspaceExamples(root, Exclusion)
    wall, cpu = time.perf_counter(), time.process_time()
    index.scan(language, root, seconds=600)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = process.memory_info().rss
    rng = random.Random(0)
    paths = rng.sample([path for path in sorted(root.rglob("*.*")) if path.is_file()], SAMPLES)
    find, take, both, noticed, shipped, retrieved = [], [], [], [], [], []
    for path in paths:
        name, lines = path.relative_to(root).as_posix(), split_lines(path.read_text("utf-8"))
        function = rng.choice(functions(lines, language))
        edited = ("# edited", *lines)
        shipped.append(characters(function, language, ()))
        retrieved.append(characters(function, language, index.best(function, language, name, SHOTS)))
        find.append(milliseconds(lambda: index.best(function, language, name, SHOTS)))  # noqa: B023
        take.append(milliseconds(lambda: index.put(name, language, edited)))  # noqa: B023
        again = milliseconds(lambda: index.best(function, language, name, SHOTS, {name: edited}))  # noqa: B023
        both.append(take[-1] + again)
        path.write_text("\n".join(("# edited twice", *lines)), "utf-8")
        noticed.append(milliseconds(lambda: index.scan(language, path.parent, seconds=60)))  # noqa: B023
    return {
        "examples": len(index),
        "scan": {"seconds": round(wall, 1), "processor": round(cpu, 1)},
        "megabytes": {"before": before // 10**6, "after": after // 10**6},
        "find": spread(find),
        "edit": spread(take),
        "edit and find": spread(both),
        "edit on the disk": spread(noticed),
        "prompt, shipped": spread(shipped),
        "prompt, found": spread(retrieved),
    }


def characters(function: Function, language: str, examples: Sequence[Example]) -> float:
    """Of a prompt for the larger of the shipped models."""
    card = load_cards()["qwen2.5-coder-1.5b"]
    prompt = build_prompt(function, language, card.chat, card.window, examples)
    return float(sum(len(text) for _, text in prompt.segments))


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def spread(values: list[float]) -> dict[str, float]:
    values = sorted(values)
    return {
        "median": round(statistics.median(values), 1),
        "p95": round(values[int(0.95 * len(values))], 1),
        "most": round(values[-1], 1),
    }


if __name__ == "__main__":
    main()
