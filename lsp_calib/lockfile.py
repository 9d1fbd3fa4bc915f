"""Locks on files (filelock), and which process holds one. The system frees them however their process ends.

The file of a lock stays: removing it would let two processes hold locks on two files of the same name.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.files import open_file, read_file

if TYPE_CHECKING:
    from filelock import BaseFileLock

UNKNOWN = 0
"""Stands for a process that holds a lock and has not said its number."""

# Seconds: so long another one may look whether a lock is held.
_LOOK = 0.03

# A lock that nobody refers to is released.
_held: list[BaseFileLock] = []


def take(path: Path) -> BaseFileLock | None:
    """Lock `path` until this process ends, or the lock is released; None if another process holds it.

    Raises OSError if the file cannot be opened or made.
    """
    from filelock import FileLock, Timeout  # takes 40 ms

    lock = FileLock(path, mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=_LOOK, poll_interval=0.005)
    except Timeout:
        return None
    # On a full disk the lock holds without the number of its process, and without that of an earlier one.
    with contextlib.suppress(OSError):
        _number(path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        descriptor = open_file(_number(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    _held.append(lock)
    return lock


def holder(path: Path) -> int | None:
    """The process that holds the lock, UNKNOWN if it has not said its number, None if none does."""
    from filelock import FileLock, Timeout

    if not path.exists():
        return None
    try:
        with FileLock(path, mode=0o600).acquire(timeout=_LOOK, poll_interval=0.005):
            return None
    except Timeout:
        with contextlib.suppress(OSError, ValueError):
            return int(read_file(_number(path), 32))
        return UNKNOWN


def kill_holder(path: Path, pid: int) -> bool:
    """Kill process `pid` if, and only if, it is another one and holds the lock. False: it is not."""
    if pid in (UNKNOWN, os.getpid()) or holder(path) != pid:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    return True


def _number(path: Path) -> Path:
    return path.with_suffix(".pid")
