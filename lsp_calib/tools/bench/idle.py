"""Processor time of a process, as counted by the system, and of an idle server."""

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
    """Processor seconds used in `seconds` after the last keystroke; None if the system does not report it."""

    seconds: float
    server: float | None
    model: float | None


async def watch_idle(editor: Editor, probe: Probe, seconds: float) -> Idle:
    await until_idle(probe)
    server, model = editor.pid or 0, probe.pid or 0
    await asyncio.sleep(1)  # wait for work that follows the last answer
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
    """Seconds of processor time that a process has used, in steps of about 10 ms; None if unknown.

    Only Linux reports this for another process without extra packages.
    """
    try:
        # The process name, in brackets, may contain any character.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
