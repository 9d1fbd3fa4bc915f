"""Runs an unreviewed program with isolation and limits, where a trial program could do nothing forbidden.

Also runs the tests of generated code: it is right if they pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import attrs

from lsp_calib.errors import SandboxError
from lsp_calib.studies.sandbox import system_calls
from lsp_calib.studies.sandbox.execution import execute
from lsp_calib.studies.sandbox.isolation import (
    HERE,
    SUITE_LIMITS,
    Isolation,
    Limits,
    ProgramOutcome,
    candidates,
    interpreter,
    isolated_python,
)

# More than Linux has.
_MOST_FAMILIES = 64

# Each attempt prints its name if it succeeds. The placeholders are replaced by the targets of the attempts.
_ATTEMPTS = """
import ctypes, errno, json, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(action):
    try:
        return bool(action())
    except Exception:
        return False
def read():
    return CANARY in open(FILE).read()
def write():
    open(FOLDER + "/written", "w").close()
    return True
def system():
    open("/usr/written", "w").close()
    return True
def connect():
    return socket.create_connection(("127.0.0.1", PORT), 1)
def signal():
    return os.kill(PID, 0) is None
def processes():
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}
def privileged():
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
    return int(status["CapEff"], 16) or int(status["CapBnd"], 16) or status["NoNewPrivs"].strip() != "1"
def call(number):
    # No argument is valid: of a call that gets through, the kernel says so.
    done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
    return done != -1 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EACCES)
def family(number):
    for kind in range(1, 7):
        try:
            return socket.socket(number, kind)
        except OSError:
            continue
def enter_as_x32():
    return call(0x40000000 | 39)  # getpid
def enter_as_i386():
    # push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("53b814000000cd805bc3"))
    enter = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    child = os.fork()
    if child == 0:
        os._exit(enter() > 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
print(json.dumps({
    "read a file in your home folder": attempt(read),
    "write beside it": attempt(write),
    "write to /usr": attempt(system),
    "reach a port of this machine": attempt(connect),
    "reach another process": attempt(signal),
    "see another process": attempt(processes),
    "hold privileges": attempt(privileged),
    **{f"make the system call {name}": attempt(lambda: call(CALLS[name])) for name in CALLS},
    **{f"open a socket of the family {number}": attempt(lambda: family(number)) for number in FAMILIES},
    "make system calls as a program of x32": X86 and attempt(enter_as_x32),
    "make system calls as a 32-bit program": X86 and attempt(enter_as_i386),
}))
"""


@lru_cache(maxsize=1)
def probed_isolation() -> Isolation:
    """The isolation to use here; it is tested once in each process. Raises SandboxError if none works."""
    complaints = []
    for candidate in candidates():
        try:
            holes = probe(candidate)
        except SandboxError as error:
            complaints.append(f"{candidate.kind}: {error}")
            continue
        if not holes:
            return candidate
        complaints.append(f"{candidate.kind}: code inside could {', '.join(holes)}.")
    raise SandboxError(
        "Generated code runs only in isolation, and no kind of isolation works on this machine. "
        f"{' '.join(complaints) or 'Isolation needs Linux.'} "
        "Install bubblewrap, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, and "
        "kernel.apparmor_restrict_unprivileged_userns=0 where AppArmor guards them), or use another machine."
    )


def probe(candidate: Isolation) -> list[str]:
    """The forbidden actions that a program inside could do; empty if the isolation works.

    Raises SandboxError if no program can be run in it.
    """
    with trial() as source:
        command, limits = isolated_python("main.py"), Limits(wall_s=60.0)
        outcome = execute(command, limits, candidate, files={"main.py": source})
    try:
        holes = json.loads(outcome.stdout)
    except ValueError as error:
        said = outcome.stderr.strip()[-300:]
        raise SandboxError(f"A trial program could not be run: {outcome.words}. {said}") from error
    return [what for what, done in holes.items() if done]


@contextlib.contextmanager
def trial() -> Iterator[str]:
    """The trial program, with its targets in place. It prints whether it could do each forbidden action."""
    canary = secrets.token_hex(16)
    machine = os.uname().machine
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix=".lsp-calib-canary-", dir=_place()))
        )
        (folder / "canary").write_text(canary)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = {
            "CANARY": canary,
            "FILE": str(folder / "canary"),
            "FOLDER": str(folder),
            "PORT": listener.getsockname()[1],
            "PID": os.getpid(),
            "CALLS": system_calls.refused(machine),
            "FAMILIES": [number for number in range(_MOST_FAMILIES) if number != socket.AF_UNIX],
            "X86": machine == "x86_64",
        }
        yield "".join(f"{name} = {value!r}\n" for name, value in names.items()) + _ATTEMPTS


def _place() -> Path | None:
    """The home folder if it is writable, else the folder for temporary files."""
    with contextlib.suppress(RuntimeError):
        home = Path.home()
        if os.access(home, os.W_OK):
            return home
    return None


def run(
    program: str | Sequence[str],
    *,
    limits: Limits | None = None,
    files: Mapping[str, str] | None = None,
    payload: str | None = None,
) -> ProgramOutcome:
    """Run a program until it ends or reaches a limit.

    program: Python source, or a command as a list of words, the first an absolute path.
    files: content by relative name, in its home folder, which is also its working folder.
    payload: text on file descriptor 3; then 4 and 5 serve to prove that it ran to its end (see `harness`).
    Raises SandboxError if nothing isolates here, or the program cannot be started.
    """
    if isinstance(program, str):
        files = {**(files or {}), "main.py": program}
        program = isolated_python("main.py")
    return execute(
        list(program),
        limits or Limits(),
        probed_isolation(),
        files=dict(files or {}),
        payload=payload,
    )


def run_suite(
    project: Path,
    command: Sequence[str],
    *,
    changes: Mapping[str, str] | None = None,
    environment: Path | None = None,
    variables: Mapping[str, str] | None = None,
    payload: str | None = None,
    limits: Limits = SUITE_LIMITS,
) -> ProgramOutcome:
    """Run a command of the user in a copy of a project; the project itself is never written.

    project: its folder. Version history, virtual environments and caches are not copied.
    command: its words; the first is searched in the environment's programs, then in the system's.
    changes: new content of files, by name relative to the project.
    environment: a virtual environment, shown read-only. variables: environment variables.
    payload: as for `run`.
    Raises SandboxError if nothing isolates here, the copy exceeds the disk limit, or the command cannot
    be started.
    """
    if not project.is_dir():
        raise SandboxError(f"There is no folder {project} to run tests in.")
    for name in changes or {}:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise SandboxError(f"{name!r} does not lie within the project: name it relative to {project}.")
    visible, path = _environment(environment)
    words = [_find(command[0], path), *command[1:]]
    return execute(
        words,
        limits,
        probed_isolation(),
        payload=payload,
        project=project.resolve(),
        changes=dict(changes or {}),
        visible=visible,
        variables={"PATH": ":".join(path), **(variables or {})},
    )


def _environment(folder: Path | None) -> tuple[tuple[Path, ...], list[str]]:
    """(folders to show for a virtual environment, folders in which to search programs)."""
    system = ["/usr/local/bin", "/usr/bin", "/bin"]
    if folder is None:
        return (), [str(Path(interpreter()).parent), *system]
    folder = folder.absolute()
    python = folder / "bin" / "python"
    if not python.exists():
        raise SandboxError(f"{folder} is no virtual environment: it has no bin/python.")
    installation = python.resolve().parent.parent
    shown = (folder,) if installation.is_relative_to("/usr") else (folder, installation)
    return shown, [str(folder / "bin"), *system]


def _find(name: str, path: Sequence[str]) -> str:
    if "/" in name:
        return name
    for folder in path:
        if (Path(folder) / name).exists():
            return f"{folder}/{name}"
    raise SandboxError(f"There is no program {name!r} in {', '.join(path)}. Install it in the environment.")


# Limits for the tests of one function; nearly all reference solutions take a hundredth of this. The limit on
# processor time decides: MBPP/123's reference needs 4.5 s of it, and took over 15 s on a busy machine.
TEST_LIMITS = Limits(wall_s=45.0, cpu_s=10)


@attrs.frozen
class TestedProgram:
    """A program and code that raises if it is wrong.

    source, tests: Python; the tests see the names of the source. entry_points: names that they call.
    """

    # pytest must not collect this class.
    __test__ = False

    source: str
    tests: str
    entry_points: tuple[str, ...]


class Tested(Protocol):
    """An item whose completion can be tested."""

    def program(self, completion: str) -> TestedProgram: ...


def run_tests(program: TestedProgram, *, limits: Limits = TEST_LIMITS) -> ProgramOutcome:
    """Run a program and its tests in the sandbox; `proved` says that every test ran and none raised.

    Raises SandboxError if nothing isolates here. Failures of the program are no errors.
    """
    harness = (HERE / "harness.py").read_text("utf-8")
    return run(isolated_python("-c", harness), limits=limits, payload=json.dumps(attrs.asdict(program)))


def tests_pass(item: Tested, completion: str) -> bool:
    """Whether an item's tests pass with this completion in its place. Raises as `run_tests` does."""
    return run_tests(item.program(completion)).proved


def all_tests_pass(answers: Sequence[tuple[Tested, str]]) -> Iterator[bool]:
    """The verdicts on (item, completion) pairs, in their order; one for each core at once."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(tests_pass, [item for item, _ in answers], [text for _, text in answers])
        finally:
            pool.shutdown(cancel_futures=True)
