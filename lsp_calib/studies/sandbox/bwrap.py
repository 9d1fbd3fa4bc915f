"""Runs unread programs in bubblewrap: no network, a read-only system, a user without rights, limits.

A command is a chain: `choom` (where memory runs out, the kernel ends the sandbox first), `bwrap`, `timeout`,
`prlimit`, the program. A user namespace alone leaves root what root may do. So for root another `bwrap` is
around, which shows Python even where it lies in a folder that is closed to others, and in between `setpriv`
becomes nobody.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import os
import platform
import secrets
import selectors
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any

import attrs

from lsp_calib.errors import SandboxError

_HERE = Path(__file__).parent
_MIB = 1 << 20
_CHUNK = 1 << 16
_TICK_S = 0.1
_LATER_S = 5.0
_NOBODY, _USER = 65534, 1000
_SCRATCH, _HOME = "/tmp", "/tmp/home"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = {
    "passwd": f"user:x:{_USER}:{_USER}::{_HOME}:/bin/sh\n",
    "group": f"user:x:{_USER}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_VARIABLES = {
    "HOME": _HOME,
    "TMPDIR": _SCRATCH,
    "LANG": "C.UTF-8",
    # The same each time: sets in one order, and none of the plugins that happen to be installed.
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROC, _PROC_AS_IT_IS = ("--proc", "/proc"), ("--ro-bind", "/proc", "/proc")
_NOT_COPIED = {".git", ".hg", ".venv", "node_modules", "__pycache__"}

# Linux, the tables of system calls; all younger architectures share one.
KEYCTL = {"x86_64": 250, "ppc64le": 271, "s390x": 280}.get(platform.machine(), 219)
_GET_KEYRING, _JOIN_SESSION_KEYRING, _SESSION_KEYRING = 0, 1, -3


@attrs.frozen
class Limits:
    """Sizes in bytes, times in seconds.

    wall_s: of the whole run. cpu_s, memory (address space), open_files: of each process. processes: number,
    with threads. disk: of all files in the only writable folder, which is in memory. file_size: of each file.
    output: how much of each output stream is kept. output_total: how much ends the program.
    """

    wall_s: float = 10.0
    cpu_s: int = 10
    memory: int = 1024 * _MIB
    disk: int = 64 * _MIB
    file_size: int = 32 * _MIB
    processes: int = 64
    open_files: int = 256
    output: int = 32 * 1024
    output_total: int = 16 * _MIB

    def words(self) -> list[str]:
        """The options of `prlimit`. A lower limit that holds already stays."""
        import resource  # not there on Windows, where a study is read without running anything

        wanted = {"as": self.memory, "cpu": self.cpu_s, "fsize": self.file_size, "nofile": self.open_files}
        wanted |= {"nproc": self.processes, "stack": 8 * _MIB, "memlock": 1 << 16, "sigpending": 512}
        # core: with 0, a kernel that pipes core dumps to a program would still start that program.
        wanted |= {"msgqueue": 0, "nice": 0, "rtprio": 0, "core": 1}
        words = []
        for name, soft in wanted.items():
            _, most = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
            most = sys.maxsize if most == resource.RLIM_INFINITY else most
            # A second more, so that the soft limit's signal tells why it ended.
            hard = soft + 1 if name == "cpu" else soft
            words.append(f"--{name}={min(soft, most)}:{min(hard, most)}")
        return words


# A project's tests start processes, write files and take their time.
SUITE_LIMITS = Limits(600.0, 600, 8192 * _MIB, 1024 * _MIB, 256 * _MIB, processes=256, open_files=1024)
# Limits for the tests of one function; nearly all reference solutions take a hundredth of this. The limit on
# processor time decides: MBPP/123's reference needs 4.5 s of it, and took over 15 s on a busy machine.
TEST_LIMITS = Limits(wall_s=45.0, cpu_s=10)


@attrs.frozen
class ProgramOutcome:
    """The outcome of a program.

    ended: "exit status 0", "signal 9", "processor limit", "wall limit", "output limit" or "stopped". proved:
    whether it returned the token that proves its end (see `harness`): deceptive code can end with exit status
    0, too. stdout, stderr: the beginnings of the output.
    """

    ended: str
    proved: bool
    stdout: str
    stderr: str


def isolated_python(*words: str) -> list[str]:
    """The words of a command with the running Python, not a virtual environment's, and no user's packages."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-B", *words]


def run(
    argv: Sequence[str],
    *,
    limits: Limits | None = None,
    payload: bytes | None = None,
    environment: Path | None = None,
    stop: threading.Event | None = None,
    proc: Sequence[str] = (),
) -> ProgramOutcome:
    """Run a program until it ends, reaches a limit, or `stop` is set.

    argv: the first word is an absolute path. payload: a file for it; the numbers of its descriptor and of two
    that serve to prove that the program ran to its end (see `harness`) follow as further words of argv.
    environment: a virtual environment to show, read-only. proc: how to show /proc, without a trial.
    Raises SandboxError if bubblewrap is missing or does not work here, and if the payload was not read.
    """
    proc, limits, stop = proc or usable(), limits or Limits(), stop or threading.Event()
    token = secrets.token_bytes(16)
    with contextlib.ExitStack() as stack:

        def file(content: bytes = b"") -> int:
            number = os.memfd_create("sandbox")
            stack.callback(os.close, number)
            os.write(number, content)
            os.lseek(number, 0, os.SEEK_SET)
            return number

        status, proof = file(), file()
        etc = {name: file(text.encode()) for name, text in _ETC.items()}
        channels = [] if payload is None else [file(payload), file(token), proof]
        command = [*_command(status, etc, proc, environment, limits), *argv, *map(str, channels)]
        # Its own thread, since it leaves the keyring, and bubblewrap ends with the thread that started it.
        own = stack.enter_context(ThreadPoolExecutor(1, initializer=_leave_session_keyring))
        watching = own.submit(_watch, command, [status, *etc.values(), *channels], status, limits, stop)
        try:
            ended, stdout, stderr = watching.result()
        except BaseException:
            stop.set()
            raise
        told = _told(status)
        returned = os.pread(proof, 64, 0) == token
        begun = payload is None or os.lseek(channels[0], 0, os.SEEK_CUR) > 0
    if not ended and "exit-code" not in told:
        raise SandboxError(
            f"bubblewrap could not build the sandbox: {stderr.strip()[-300:] or 'it was killed'}. Nothing "
            "was run. It has to be version 0.8 or later, and may need leave to make user namespaces: sysctl "
            "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0."
        )
    ended = ended or _ended(told["exit-code"])
    if not begun and ended != "stopped":
        raise SandboxError(
            f"A program did not start in the sandbox, so nothing was judged: {ended}. {stderr.strip()[-300:]}"
        )
    return ProgramOutcome(ended, returned and ended == "exit status 0", stdout, stderr)


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = {"bwrap": "bubblewrap", "timeout": "coreutils"}.get(name, "util-linux")
        raise SandboxError(
            f"{package} is not installed: generated code runs in bubblewrap alone, which needs `{name}`. "
            f"Nothing was run. Install it: `apt install {package}` on Debian and Ubuntu, `dnf install "
            f"{package}` on Fedora, `pacman -S {package}` on Arch, `brew install {package}` with Homebrew."
        )
    return path


def _command(
    status: int, etc: Mapping[str, int], proc: Sequence[str], environment: Path | None, limits: Limits
) -> list[str]:
    """The words before those of the program.

    status: a descriptor for what bubblewrap tells. etc: descriptors of texts.
    """
    bwrap = [_tool("bwrap"), "--die-with-parent", *_view(environment, limits)]
    words = [_tool("choom"), "-n", "1000", "--"]
    if os.geteuid() == 0:
        # In a namespace too: the death of root's process, as it has no capabilities, ends none of nobody's.
        words += [*bwrap, "--unshare-pid", "--ro-bind", "/etc", "/etc", "--dev-bind", "/dev", "/dev"]
        words += ["--bind", "/proc", "/proc", "--", _tool("setpriv"), f"--reuid={_NOBODY}"]
        words += [f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
        words += ["--inh-caps=-all", "--"]
    words += [*bwrap, "--new-session", "--unshare-all", "--unshare-user", "--disable-userns"]
    words += ["--uid", str(_USER), "--gid", str(_USER), "--json-status-fd", str(status)]
    for name, number in etc.items():
        words += ["--file", str(number), f"/etc/{name}"]
    for name in ("ld.so.cache", "alternatives"):
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in _DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    words += ["--symlink", _SCRATCH, "/dev/shm", "--symlink", "/proc/self/fd", "/dev/fd", *proc]
    for name in ("/proc/keys", "/proc/key-users"):
        # They name all keys of a user, whatever keyring a program is in.
        if Path(name).exists():
            words += ["--dev-bind", "/dev/null", name]
    words += ["--dir", _HOME, "--remount-ro", "/", "--chdir", _HOME, "--clearenv"]
    path = f"{environment.absolute()}/bin:" if environment else ""
    for name, value in {**_VARIABLES, "PATH": f"{path}/usr/local/bin:/usr/bin:/bin"}.items():
        words += ["--setenv", name, value]
    # bubblewrap ends with us, but not if we are killed while it builds the sandbox: then time alone ends it.
    words += ["--", _tool("timeout"), "-s", "KILL", str(limits.wall_s + _LATER_S)]
    return [*words, _tool("prlimit"), *limits.words(), "--"]


def _view(environment: Path | None, limits: Limits) -> list[str]:
    """The options that show an empty /tmp and, read-only, the system, this Python and an environment's."""
    words = ["--size", str(limits.disk), "--perms", "1777", "--tmpfs", _SCRATCH]
    links: dict[Path, str] = {}
    folders = {Path(prefix).resolve() for prefix in (sys.base_prefix, sys.base_exec_prefix)}
    for name in map(Path, _SYSTEM):
        links |= _links(name)
        folders |= {name} if name.is_dir() and not name.is_symlink() else set()
    if environment:
        # Its Python finds the library from the folder that pyvenv.cfg names, which may lie behind a link.
        for python in (environment.absolute() / "bin" / "python", _home_of(environment) / "python"):
            links |= _links(python)
            folders |= {python.parent.resolve().parent, python.resolve().parent.parent}
    for folder in sorted(folders):
        if Path.home().resolve().is_relative_to(folder):
            raise SandboxError(
                f"The sandbox would have to show {folder}, where Python is installed, and your home folder "
                "lies within it. Use a Python that is installed in a folder of its own."
            )
        # By name: where a folder on the way is closed to others, bubblewrap would close its own as well.
        for parent in [*folder.parents][-2::-1]:
            words += ["--dir", str(parent)]
        words += ["--ro-bind", str(folder), str(folder)]
    for at, target in links.items():
        if not any(at.is_relative_to(folder) for folder in folders):
            words += ["--symlink", target, str(at)]
    return words


def _home_of(environment: Path) -> Path:
    """The folder of the Python that an environment was made with."""
    settings = environment / "pyvenv.cfg"
    lines = settings.read_text("utf-8").splitlines() if settings.exists() else []
    homes = [line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "home"]
    return Path(homes[0]) if homes else environment.absolute() / "bin"


def _links(path: Path) -> dict[Path, str]:
    """The symbolic links on the way to a file, with their targets."""
    found: dict[Path, str] = {}
    at, left = Path("/"), list(path.parts)
    while left:
        at /= left.pop(0)
        if at.name == "..":
            at = at.parent.parent
        elif at.is_symlink():
            found[at] = os.readlink(at)  # noqa: PTH115 - the link's unchanged text
            left = [*Path(found[at]).parts, *left]
            at = at.parent
    return found


def _leave_session_keyring() -> None:
    """Join a new, empty session keyring in this thread and what it starts. That of the login holds keys."""
    ctypes.CDLL(None).syscall(KEYCTL, _JOIN_SESSION_KEYRING, None)


def _told(status: int) -> dict[str, int]:
    """What bubblewrap has told so far: its first process (`child-pid`), and in the end `exit-code`."""
    lines = os.pread(status, _CHUNK, 0).splitlines()
    return {name: value for line in lines if line for name, value in json.loads(line).items()}


def _ended(code: int) -> str:
    """How a program ended by bubblewrap's exit status: 128 and more for signals."""
    if code == 128 + signal.SIGXCPU:
        return "processor limit"
    return f"signal {code - 128}" if code > 128 else f"exit status {code}"


def _watch(
    command: Sequence[str], passed: Sequence[int], status: int, limits: Limits, stop: threading.Event
) -> tuple[str, str, str]:
    """Run a command to its end. Returns why it was ended, "" if by itself, and how its output begins."""
    deadline, written, texts = time.monotonic() + limits.wall_s, 0, (bytearray(), bytearray())
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        process = stack.enter_context(
            Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, pass_fds=passed, process_group=0, env={})
        )
        for stream, text in zip((process.stdout, process.stderr), texts, strict=True):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ, text)
        first, ended = -1, ""
        while selector.get_map() or process.poll() is None:
            for key, _ in selector.select(_TICK_S) if selector.get_map() else ():
                data = os.read(key.fd, _CHUNK)
                written += len(data)
                key.data.extend(data[: max(limits.output - len(key.data), 0)])
                if not data:
                    selector.unregister(key.fileobj)
            # The number of root's counts in the namespace around, whose first process no program reaches.
            if first < 0 and os.geteuid() != 0 and (told := _told(status)):
                with contextlib.suppress(ProcessLookupError):
                    first = os.pidfd_open(told["child-pid"])
                    stack.callback(os.close, first)
            ended = ended or ("output limit" if written > limits.output_total else "")
            ended = ended or ("wall limit" if time.monotonic() > deadline else "")
            ended = ended or ("stopped" if stop.is_set() else "")
            if ended:
                _kill(process, first)
            if not selector.get_map():
                with contextlib.suppress(TimeoutExpired):
                    process.wait(_TICK_S)
        _kill(process, first)
    return ended, texts[0].decode("utf-8", "replace"), texts[1].decode("utf-8", "replace")


def _kill(process: Popen[bytes], first: int) -> None:
    """Kill bubblewrap and the first process of its namespace, with which all there end.

    first: a descriptor of it, -1 if it is not known. It ends with bubblewrap by itself, unless the program
    has traced it and made it forget that.
    """
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    if first >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)


@functools.cache
def usable() -> tuple[str, ...]:
    """How bubblewrap shows /proc here, where a trial program in it could do nothing that it must not.

    It runs once in each process. Raises SandboxError otherwise.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxError("Generated code runs in bubblewrap alone, which needs Linux. Nothing was run.")
    try:
        proc: tuple[str, ...] = _PROC
        holes = trial(proc)
    except SandboxError as error:
        # A container that covers parts of its /proc forbids another one.
        if "mount proc" not in str(error):
            raise
        proc = _PROC_AS_IT_IS
        holes = [one for one in trial(proc) if one != "see another process"]
    if holes:
        raise SandboxError(
            f"Generated code runs in bubblewrap alone, and in it a trial program could {', '.join(holes)}. "
            "Nothing else was run. Use another machine, or a virtual one."
        )
    return proc


def trial(proc: Sequence[str]) -> list[str]:
    """What a trial program could do that it must not."""
    with attempts() as words:
        outcome = run(isolated_python(*words), limits=Limits(wall_s=60.0), proc=proc)
    try:
        return [what for what, done in json.loads(outcome.stdout).items() if done]
    except ValueError as error:
        raise SandboxError(
            f"A trial in bubblewrap failed by {outcome.ended}. {outcome.stderr.strip()[-300:]}"
        ) from error


@contextlib.contextmanager
def attempts() -> Iterator[list[str]]:
    """The words with which Python runs the trial program, and what it aims at."""
    content = secrets.token_hex(16)
    place = Path.home() if os.access(Path.home(), os.W_OK) else None
    keyring = ctypes.CDLL(None).syscall(KEYCTL, _GET_KEYRING, _SESSION_KEYRING, 0)
    with (
        tempfile.TemporaryDirectory(prefix=".lsp-calib-trial-", dir=place) as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        Path(folder, "file").write_text(content)
        aims = (content, folder, listener.getsockname()[1], os.getpid(), KEYCTL, keyring)
        yield ["-c", (_HERE / "trial.py").read_text("utf-8"), *map(str, aims)]


def run_suite(
    project: Path, environment: Path, job: Mapping[str, Any], *, limits: Limits = SUITE_LIMITS
) -> ProgramOutcome:
    """Run tests of a project in a copy of it; the project itself is never written.

    Version history, virtual environments and caches are not copied. environment: a virtual environment with
    pytest. job: see `suite`. Raises SandboxError as `run` does, and where the tests could not be started.
    """
    outcome = run(
        [f"{environment.absolute()}/bin/python", "-c", (_HERE / "suite.py").read_text("utf-8")],
        limits=limits,
        payload=json.dumps(job).encode() + b"\n" + _packed(project, limits.disk),
        environment=environment,
    )
    if not outcome.stdout.startswith("begun"):
        raise SandboxError(
            f"The tests of {project} could not be run by the pytest of {environment}: {outcome.ended}. "
            f"{' '.join(outcome.stderr.split())[-300:]}"
        )
    return outcome


def _packed(project: Path, most: int) -> bytes:
    """A project as a tar archive: files, folders and links (as links). most: bytes of all files."""
    size = 0

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal size
        if Path(member.name).name in _NOT_COPIED or member.isdev():
            return None
        size += member.size
        if size > most:
            raise SandboxError(
                f"{project} has more than {most >> 20} MB of files: too many for a copy in memory, where its "
                "tests run. Move what they do not need elsewhere."
            )
        return member

    archive = io.BytesIO()
    try:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(project, ".", filter=kept)
    except OSError as error:
        raise SandboxError(f"{project} could not be copied for its tests: {error}") from error
    return archive.getvalue()


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


def run_tests(
    program: TestedProgram, *, limits: Limits = TEST_LIMITS, stop: threading.Event | None = None
) -> ProgramOutcome:
    """Run a program and its tests in the sandbox; `proved` says that every test ran and none raised.

    Raises SandboxError as `run` does. Failures of the program are no errors.
    """
    harness = isolated_python("-c", (_HERE / "harness.py").read_text("utf-8"))
    return run(harness, limits=limits, payload=json.dumps(attrs.asdict(program)).encode(), stop=stop)


def all_tests_pass(programs: Sequence[TestedProgram]) -> Iterator[bool]:
    """Whether the tests of each pass, in their order; one for each core at once."""
    stop = threading.Event()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(lambda program: run_tests(program, stop=stop).proved, programs)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
