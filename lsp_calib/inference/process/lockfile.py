"""A lock on a file, held by one process for its life. The system frees it however that process ends.

The file itself stays: to remove it would let two processes hold locks on two files of one name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    # A locked byte cannot be read by others there: it lies far behind the process's number.
    _FAR = 1 << 30

    def _lock(descriptor: int, *, probe: bool) -> bool:
        del probe
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _lock(descriptor: int, *, probe: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if probe else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def take(path: Path) -> int | None:
    """Hold the lock until this process ends: an open descriptor, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(3):
        if _lock(descriptor, probe=False):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        time.sleep(0.01)  # it may be `holder` that looks
    os.close(descriptor)
    return None


def holder(path: Path) -> int | None:
    """The process that holds the lock, None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if _lock(descriptor, probe=True):
            return None
        words = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(words) if words.isdecimal() else None
    finally:
        os.close(descriptor)  # which frees what was locked to look


def kill_holder(path: Path, pid: int) -> bool:
    """Kill process `pid` if it holds the lock, and only then. False: it does not."""
    with contextlib.ExitStack() as stack:
        kill = partial(os.kill, pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        if sys.platform == "linux":
            # Opened before the look at the lock: it means that process, whoever gets its number later.
            try:
                process = os.pidfd_open(pid)
            except OSError:
                return False
            stack.callback(os.close, process)
            kill = partial(signal.pidfd_send_signal, process, signal.SIGKILL)
        if holder(path) != pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            kill()
        return True
