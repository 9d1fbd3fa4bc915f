"""Processor time of a process, as the system counts it, and that of an idle server."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import attrs

from lsp_calib.tools.bench.probe import Probe, until_idle
from lsp_calib.tools.client import Editor

_PROC = Path("/proc")


@attrs.frozen
class Idle:
    """Processor seconds used in `seconds` after the last keystroke; None where the system does not tell."""

    seconds: float
    server: float | None
    model: float | None


async def watch_idle(editor: Editor, probe: Probe, seconds: float) -> Idle:
    await until_idle(probe)
    server, model = editor.pid or 0, probe.pid or 0
    await asyncio.sleep(1)  # what the last answer left to do
    before = cpu_seconds(server), cpu_seconds(model)
    began = time.monotonic()
    await asyncio.sleep(seconds)
    watched = time.monotonic() - began
    used = [
        None if old is None or (new := cpu_seconds(pid)) is None else new - old
        for old, pid in zip(before, (server, model), strict=True)
    ]
    return Idle(watched, used[0], used[1])


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
