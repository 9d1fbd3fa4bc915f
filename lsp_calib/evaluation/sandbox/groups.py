"""Control groups that limit memory and processes of a whole run, if this user may create them."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lsp_calib.evaluation.sandbox.limits import Limits

MOUNT = Path("/sys/fs/cgroup")

_numbers = itertools.count()

# For the launcher, the first process of the namespace, and processes that start or end just now.
_SPARE_PROCESSES = 8


@contextmanager
def control_groups(limits: Limits, mount: Path = MOUNT) -> Iterator[list[Path]]:
    """Folders of new control groups for one run, empty if none can be created; removed at the end.

    mount: where control groups are mounted, version 1 or 2.
    """
    made: list[Path] = []
    name = f"lsp-calib-{os.getpid()}-{next(_numbers)}"
    try:
        for parent, settings in _wanted(limits, mount):
            with contextlib.suppress(OSError):
                made.append(_make(parent / name, settings))
        yield made
    finally:
        for folder in made:
            _remove(folder)


def ran_out_of_memory(groups: list[Path]) -> bool:
    """Whether the kernel killed a process of these groups because memory ran out."""
    for group in groups:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                rows = dict(line.split() for line in (group / name).read_text().splitlines())
                if int(rows.get("oom_kill", "0")):
                    return True
    return False


def _wanted(limits: Limits, mount: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    processes = {"pids.max": str(limits.processes + _SPARE_PROCESSES)}
    memory = limits.memory_total + limits.disk
    if (mount / "cgroup.controllers").exists():
        settings = {"memory.max": str(memory), "memory.swap.max": "0", **processes}
        yield mount / _own("").lstrip("/"), settings
        return
    # Set the group's memory limit first: the second limit must not be lower.
    settings = {"memory.limit_in_bytes": str(memory), "memory.memsw.limit_in_bytes": str(memory)}
    yield mount / "memory" / _own("memory").lstrip("/"), settings
    yield mount / "pids" / _own("pids").lstrip("/"), processes


def _own(controller: str) -> str:
    """This process's group below the mount."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, names, path = line.split(":", 2)
            if (controller in names.split(",")) if controller else number == "0":
                return path
    return ""


def _make(folder: Path, settings: dict[str, str]) -> Path:
    folder.mkdir()
    try:
        for name, value in settings.items():
            # Without swap accounting this file does not exist, and no swap is counted.
            if "sw" not in name or (folder / name).exists():
                (folder / name).write_text(value)
    except OSError:
        folder.rmdir()
        raise
    return folder


def _remove(folder: Path) -> None:
    # The kernel removes ended processes from the group with a short delay.
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.02)
