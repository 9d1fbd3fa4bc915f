"""The runner with the real model: whoever asks, and whatever is killed, the records are the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lsp_calib.corpus.asking import AskingOptions, collect
from lsp_calib.corpus.places import Task, line_task
from lsp_calib.corpus.records import journal_path, read_records
from lsp_calib.inference.choice import EngineChoice

pytestmark = [
    pytest.mark.long,
    pytest.mark.model,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
    pytest.mark.usefixtures("home_with_model"),
]

COUNT = 24
LIMIT = 120.0  # seconds; generous: only what hangs exceeds it
# One thread: with more the processes of a test would fight for the cores.
CHOICE = EngineChoice(model="smollm2-135m", threads=1, linger=2.0)
SOURCE = """
def area_{n}(width, height):
    if width < {n} or height < 0:
        raise ValueError("no such rectangle")
    return width * height + {n}


def names_{n}(people):
    return [person.name for person in people if person.age > {n}]
"""


def make_task(folder: Path) -> Task:
    return line_task([folder / f"project-{n}" for n in range(4)], COUNT, seed=1)


def gather(task: Task, jobs: int, path: Path) -> bytes:
    collect(task, CHOICE, path, AskingOptions(jobs=jobs, seed=1, created="2026-01-02"))
    return path.read_bytes()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Small files: what is under test is not the model, so its prompts are short."""
    for n in range(4):
        folder = tmp_path / f"project-{n}"
        folder.mkdir()
        for m in range(3):
            (folder / f"file_{m}.py").write_text(SOURCE.format(n=10 * n + m))
    return tmp_path


def test_several_processes_make_the_same_file(source: Path) -> None:
    task = make_task(source)
    alone = gather(task, 1, source / "alone.jsonl")
    _, records = read_records(source / "alone.jsonl")
    assert len(records) == COUNT
    assert all(len(r.entropies) == len(r.tokens) == len(r.logprobs) for r in records)
    assert any(r.correct["exact"] for r in records), "the model gets some right, or this shows little"
    assert gather(task, 2, source / "shared.jsonl") == alone


def test_what_ends_an_evaluation_ends_its_workers_and_their_model(source: Path) -> None:
    """Each holds a model in memory: what stayed would go on taking it."""
    folder, temporary = source / "out", source / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "lsp_calib", "eval", "line", *map(str, source.glob("project-*"))]
    command += ["--samples", "200", "--jobs", "2", "--threads", "1", "--quiet"]
    command += ["--model", "smollm2-135m", "--output", str(folder)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(temporary), "LSP_CALIB_LINGER": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = journal_path(folder / "records.jsonl")
    end = time.monotonic() + LIMIT
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 4):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "no answers"
        time.sleep(0.05)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert len(family) >= 4, "it, two workers and their model"
    process.kill()
    process.communicate(timeout=LIMIT)
    end = time.monotonic() + LIMIT
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family):
        assert time.monotonic() < end, "they are all gone"
        time.sleep(0.1)
