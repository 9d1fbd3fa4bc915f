"""Starts a program in a given isolation and in control groups, watches it, and reports how it ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import SandboxError
from lsp_calib.studies.sandbox.isolation import Ending, Isolation, Limits, ProgramOutcome, jail_command

MOUNT = Path("/sys/fs/cgroup")

_numbers = itertools.count()

# For the jail, the first process of the namespace, and processes that start or end just now.
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


# Seconds allowed for starting, building the isolation and cleaning up on a busy machine.
_GRACE_S = 30.0
_CHUNK = 1 << 16


def execute(
    argv: list[str],
    limits: Limits,
    isolation: Isolation,
    *,
    files: Mapping[str, str] | None = None,
    payload: str | None = None,
    project: Path | None = None,
    changes: Mapping[str, str] | None = None,
    visible: tuple[Path, ...] = (),
    variables: Mapping[str, str] | None = None,
) -> ProgramOutcome:
    """Run a command in this isolation until it ends or reaches a limit; see `runner` for the arguments.

    argv: the first word is an absolute path. visible: folders shown read-only besides the system's.
    Raises SandboxError if it cannot be started.
    """
    scratch = "/tmp"
    home = f"{scratch}/home"
    with control_groups(limits) as groups:
        plan: dict[str, Any] = {
            **isolation.plan(scratch, project, visible),
            "argv": argv,
            "cwd": f"{scratch}/project" if project else home,
            "env": {
                "HOME": home,
                "TMPDIR": scratch,
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                **(variables or {}),
            },
            "files": files or {},
            "changes": changes or {},
            "payload": payload,
            "limits": attrs.asdict(limits),
            "groups": [str(group) for group in groups],
        }
        if isolation.kind == "bubblewrap":
            plan["wrapper"] = isolation.wrapper(plan, project, limits)
        watched = _start(plan, limits)
        return _outcome(watched, groups)


@attrs.define
class _Stream:
    """One output stream of the process; its beginning is kept."""

    keep: int
    text: bytearray = attrs.field(factory=bytearray)
    size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.text += data[: max(self.keep - len(self.text), 0)]


@attrs.define
class _Watched:
    stdout: _Stream
    stderr: _Stream
    report: _Stream
    stopped: Ending | None = None


def _start(plan: dict[str, Any], limits: Limits) -> _Watched:
    """Start the jail and read its output until every process that could write has ended."""
    report_r, report_w = os.pipe()
    started = time.monotonic()
    with tempfile.TemporaryFile() as spec, os.fdopen(report_r, "rb", buffering=0) as report:
        try:
            spec.write(json.dumps({**plan, "report": report_w}).encode())
            spec.seek(0)
            process = subprocess.Popen(
                jail_command(),
                stdin=spec,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[report_w],
                start_new_session=True,
                cwd="/",
                env={},
            )
        finally:
            os.close(report_w)
        with process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                watched = _Watched(_Stream(limits.output), _Stream(limits.output), _Stream(_CHUNK))
                streams = {
                    process.stdout.fileno(): watched.stdout,
                    process.stderr.fileno(): watched.stderr,
                    report.fileno(): watched.report,
                }
                _read(streams, watched, process, limits, started + limits.wall_s + _GRACE_S)
            finally:
                _kill(process)
    return watched


def _read(
    streams: Mapping[int, _Stream],
    watched: _Watched,
    process: subprocess.Popen[bytes],
    limits: Limits,
    deadline: float,
) -> None:
    with selectors.DefaultSelector() as selector:
        for number in streams:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0.0))
            if not ready and watched.stopped is None:
                watched.stopped = Ending.WALL
                _kill(process)
                deadline += _GRACE_S
            elif not ready:
                # A process escaped the limits and keeps our pipes open; the isolation still contains it.
                return
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK)
                streams[key.fd].add(data)
                if not data:
                    selector.unregister(key.fd)
            if watched.stdout.size + watched.stderr.size > limits.output_total and watched.stopped is None:
                watched.stopped = Ending.OUTPUT
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the jail, including process 1 of its namespace, which ends all processes in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _outcome(watched: _Watched, groups: list[Path]) -> ProgramOutcome:
    try:
        said = json.loads(bytes(watched.report.text) or b"{}")
    except ValueError:
        said = {}
    if said.get("ended") == "setup":
        raise SandboxError(
            f"The sandbox could not be built: {said['why']}. Nothing was run. `lsp-calib doctor` lists "
            "what this machine offers; installing bubblewrap often helps."
        )
    ending = watched.stopped
    if ending is None and ran_out_of_memory(groups):
        ending = Ending.MEMORY
    if ending is None and not said:
        stderr = watched.stderr.text.decode("utf-8", "replace").strip()
        raise SandboxError(
            "The sandbox ended without a report, so the outcome of the program is unknown. "
            f"The end of its output: {stderr[-500:] or 'empty'}"
        )
    ended = ending or Ending(said["ended"])
    by_itself = ended in (Ending.EXIT, Ending.SIGNAL)
    return ProgramOutcome(
        ending=ended,
        code=int(said.get("code", 0)) if by_itself else 0,
        proved=ended is Ending.EXIT and said["code"] == 0 and bool(said["proved"]),
        stdout=watched.stdout.text.decode("utf-8", "replace"),
        stderr=watched.stderr.text.decode("utf-8", "replace"),
    )
