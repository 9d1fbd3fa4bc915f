"""Filling a small disk: with bytes, or with names."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path


def fill(disk: Path) -> Path:
    """Take all bytes of a disk; returns the file to remove for there to be room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    return ballast


def fill_names(disk: Path) -> Path:
    """Let no file be made on a disk any more; returns the folder with the files to remove."""
    folder = disk / "names"
    folder.mkdir()
    with contextlib.suppress(OSError):
        for number in count():
            (folder / str(number)).touch()
    return folder
