"""Locks on files, on every platform. The system frees them however their process ends.

The file of a lock stays: removing it would let two processes hold locks on two files of the same name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from lsp_calib.files import open_file

_LOCKS = Path("/proc/locks")

if sys.platform == "win32":
    import msvcrt

    # On Windows other processes cannot read a locked byte: this one lies far behind the file's content.
    _FAR = 1 << 30

    def lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file until it is closed. False: another process holds the lock."""
        del shared  # there is only one kind
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, at, os.SEEK_SET)
        return True

else:
    import fcntl

    def lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file until it is closed. False: another process holds the lock."""
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_for_lock(descriptor: int) -> None:
        """Lock an open file until it is closed, once no other process holds the lock. Not on Windows."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)


UNKNOWN = 0
"""Stands for a process that holds a lock whose file does not say which one it is."""


def take(path: Path) -> int | None:
    """Lock `path` until this process ends: an open descriptor, None if another process holds the lock.

    Raises OSError if the file cannot be opened or made.
    """
    descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
    for _ in range(3):
        if lock(descriptor):
            # On a full disk the lock holds without the number of its process.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        time.sleep(0.01)  # `holder` may hold the lock for a moment
    os.close(descriptor)
    return None


def holder(path: Path) -> int | None:
    """The process that holds the lock, UNKNOWN if the file does not say it, None if none does."""
    try:
        descriptor = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if lock(descriptor, shared=True):
            return None
        words = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(words) if words.isdecimal() else _listed(descriptor)
    finally:
        os.close(descriptor)  # this frees the lock taken for the check


def _listed(descriptor: int) -> int:
    """The process that holds the lock of an open file, as Linux lists it; UNKNOWN elsewhere."""
    status = os.fstat(descriptor)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        rows = (row.split() for row in _LOCKS.read_text("ascii").splitlines())
        found = next(row for row in rows if row[1:2] == ["FLOCK"] and row[5:6] == [file])
        return int(found[4])
    except (OSError, ValueError, IndexError, StopIteration):
        return UNKNOWN


def kill_holder(path: Path, pid: int) -> bool:
    """Kill process `pid` if, and only if, it is another one and holds the lock. False: it is not."""
    if pid in (UNKNOWN, os.getpid()):
        return False
    with contextlib.ExitStack() as stack:
        kill = partial(os.kill, pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        if sys.platform == "linux":
            # Opened before the lock is checked: it refers to this process even if its number is reused later.
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
