"""A Dask cluster of real processes, whose workers a test can kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 120.0  # seconds; generous: only what hangs exceeds it


class Cluster:
    """A scheduler and worker processes, each with one thread and nobody to start it again.

    path: folders from which workers can import what they are sent.
    """

    def __init__(self, folder: Path, *path: Path) -> None:
        self._folder = folder
        self._path = os.pathsep.join(map(str, path))
        self._file = folder / "scheduler.json"
        folder.mkdir(parents=True)
        self._scheduler = self._start(
            "scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self._file)
        )
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            try:
                return str(json.loads(self._file.read_text())["address"])
            except (OSError, ValueError):
                time.sleep(0.05)
        raise TimeoutError((self._folder / "scheduler.log").read_text())

    def add_worker(self) -> None:
        self.workers.append(
            self._start("worker", self.address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
        )

    def close(self) -> None:
        for process in (*self.workers, self._scheduler):
            process.kill()
            process.wait()

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *arguments],
                env={**os.environ, "PYTHONPATH": self._path},
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
