"""The limits of a program in the sandbox, and its outcome."""

from __future__ import annotations

import enum

import attrs

_MIB = 1 << 20


@attrs.frozen
class Limits:
    """Sizes in bytes, times in seconds.

    wall_s: of the whole run. cpu_s: of each process. memory: address space of each process.
    memory_total: of all processes and files together. disk, files: size and number of the files in the
    only writable folder, which is in memory. file_size: of each file. processes: processes and threads.
    open_files: of each process. output: how much of each output stream is kept.
    output_total: how much may be written until the program is ended.
    """

    wall_s: float = 10.0
    cpu_s: int = 10
    memory: int = 1024 * _MIB
    memory_total: int = 1024 * _MIB
    disk: int = 64 * _MIB
    files: int = 4096
    file_size: int = 32 * _MIB
    processes: int = 64
    open_files: int = 256
    output: int = 32 * 1024
    output_total: int = 16 * _MIB


# A project's tests start processes, write files and take their time.
SUITE_LIMITS = Limits(
    wall_s=600.0,
    cpu_s=600,
    memory=8192 * _MIB,
    memory_total=4096 * _MIB,
    disk=1024 * _MIB,
    files=200_000,
    file_size=256 * _MIB,
    processes=256,
    open_files=1024,
)


class Ending(enum.StrEnum):
    """How a program ended: by itself (the first two), or at the named limit."""

    EXIT = "exit"
    SIGNAL = "signal"
    WALL = "wall"
    CPU = "cpu"
    MEMORY = "memory"
    FILE_SIZE = "file-size"
    OUTPUT = "output"


@attrs.frozen
class ProgramOutcome:
    """The outcome of a program.

    code: its exit status, or the number of the signal that ended it; 0 if a limit ended it.
    proved: whether it returned the token that proves its end (see `harness`).
    stdout, stderr: the beginnings of the output; `truncated` is true if one of them was longer.
    wall_s, cpu_s: seconds; cpu_s is that of the first process and the children it waited for, or 0 at some
    limits.
    """

    ending: Ending
    code: int
    proved: bool
    stdout: str
    stderr: str
    truncated: bool
    wall_s: float
    cpu_s: float

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself with exit status 0. Deceptive code can do that too: see `proved`."""
        return self.ending is Ending.EXIT and self.code == 0

    @property
    def words(self) -> str:
        """How it ended, for people."""
        if self.ending is Ending.EXIT:
            return f"it ended with exit status {self.code}"
        if self.ending is Ending.SIGNAL:
            return f"signal {self.code} ended it"
        return f"it reached its {self.ending} limit"
