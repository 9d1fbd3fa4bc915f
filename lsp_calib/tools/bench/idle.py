"""Processor time of a process, as the system counts it."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def cpu_seconds(pid: int) -> float | None:
    """Seconds of processor time that a process has used, in steps of about 10 ms; None if that is not known.

    Only Linux tells this of another process without help.
    """
    try:
        # The name, in brackets, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
