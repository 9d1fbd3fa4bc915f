"""A function that answers items without a model: what the runner drives is any function."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.corpus.asking import Pool, alone, processes, run
from lsp_calib.corpus.places import Plain
from lsp_calib.corpus.records import Header, Record
from lsp_calib.errors import EngineError, StoppedError
from lsp_calib.values import ModelIdentity

HEADER = Header(
    "line", "python", ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", 7, created="2026-01-02"
)


def items(count: int) -> list[tuple[str, Plain]]:
    return [(f"project-1.{n % 3}/file.py:{n}:1", {"n": n}) for n in range(count)]


@attrs.frozen
class Answering:
    """Always answers the same to the same item, and writes down in a folder who was asked.

    seconds: how long an answer takes, at most. killing: the item whose worker is killed when it is asked for
    the first time. failing: these have no answer.
    """

    folder: str
    seconds: float = 0.0
    killing: int = -1
    failing: tuple[int, ...] = ()

    def __call__(self, payload: Plain) -> Plain:
        n = payload["n"]
        seen = Path(self.folder, f"{n}.asked")
        first = not seen.exists()
        with seen.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if n == self.killing and first:
            os.kill(os.getpid(), signal.SIGKILL)
        noise = hashlib.sha256(str(n).encode()).digest()
        time.sleep(self.seconds * noise[0] / 255)
        if n in self.failing:
            raise EngineError(f"There is no answer to {n}.")
        return {"record": record(n).to_row(), "timing": {"ms": time.perf_counter()}}


def record(n: int) -> Record:
    noise = hashlib.sha256(str(n).encode()).digest()
    logprobs = tuple(-byte / 77 for byte in noise[: 1 + noise[31] % 9])
    return Record(
        item=items(n + 1)[n][0],
        group=f"project-1.{n % 3}",
        stratum="mid-line",
        correct={"exact": n % 2 == 0},
        shown=n % 5 != 0,
        stop="line",
        tokens=tuple(noise[: len(logprobs)]),
        logprobs=logprobs,
        typed_logprobs=(-0.125,) + (0.0,) * (len(logprobs) - 1),
        entropies=tuple(byte / 99 for byte in noise[: len(logprobs)]),
        prompt=noise.hex()[:16],
    )


def asked(folder: Path) -> dict[int, int]:
    """How often each item was asked for."""
    return {int(path.stem): len(path.read_text().split()) for path in folder.glob("*.asked")}


def main(arguments: list[str]) -> None:
    """A run that a test kills: PATH FOLDER COUNT SECONDS [JOBS]."""
    path, folder, count, seconds, *jobs = arguments
    pool: Pool = partial(processes, int(jobs[0])) if jobs else alone
    try:
        run(items(int(count)), Answering(folder, float(seconds)), pool, Path(path), HEADER)
    except StoppedError as error:
        raise SystemExit(str(error)) from None


def whole(path: Path, folder: Path, count: int) -> bytes:
    """What an uninterrupted run makes."""
    folder.mkdir(exist_ok=True)
    run(items(count), Answering(str(folder)), alone, path, HEADER)
    return path.read_bytes()


def timings(path: Path) -> list[dict[str, Any]]:
    import json

    text = path.with_name(path.name + ".timing.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    main(sys.argv[1:])
