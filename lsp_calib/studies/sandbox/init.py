"""The first process in a jail: starts the program under its limits, watches it, and reports how it ended.

It is process 1 of its namespace: when it ends, all processes in it end. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from pathlib import Path

from lsp_calib.studies.sandbox import kernel, system_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Plan = dict[str, Any]

# File descriptors of a program that has to prove that it ran to its end.
PAYLOAD, TOKEN, PROOF = 3, 4, 5

_PAUSE_S = 0.05
_PAGE = resource.getpagesize()


def run(plan: Plan) -> dict[str, Any]:
    """Run the plan's program to its end. Returns the report.

    ended: "exit" or "signal" (with `code`), "wall", "cpu", "memory". proved: whether it returned the token.
    Raises OSError if it cannot be started.
    """
    _keep_files_to_ourselves(plan["report"])
    _fill_scratch(plan)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # With Python's handler installed, this signal could be delivered to process 1.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    token = os.urandom(16)
    channels = _Channels(plan["payload"], token)
    trouble_r, trouble_w = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.close(trouble_r)
            _become(plan, channels)
        except BaseException as error:  # noqa: BLE001 - the child must end here after any error
            os.write(trouble_w, f"{type(error).__name__}: {error}".encode())
        os._exit(126)
    os.close(trouble_w)
    channels.keep_ours()
    said = os.read(trouble_r, 4096)
    if said:
        raise OSError(f"{plan['argv'][0]} could not be started: {said.decode(errors='replace')}")
    result = _watch(child, plan, started)
    result["proved"] = channels.proof() == token
    return result


def _keep_files_to_ourselves(report: int) -> None:
    """Keep the program from inheriting our files: it could write a report itself.

    report: the file descriptor of ours, which has the number that it had in the process around the sandbox.
    """
    for number in range(3, max(256, report + 1)):
        with contextlib.suppress(OSError):
            os.set_inheritable(number, False)


class _Channels:
    """The pipes of a program that has to prove its end: payload, token, and a pipe to return the token."""

    def __init__(self, payload: str | None, token: bytes) -> None:
        self.theirs: list[int] = []
        self._proof = -1
        if payload is None:
            return
        text = os.memfd_create("payload")
        with open(text, "wb", closefd=False) as file:
            file.write(payload.encode("utf-8", "surrogatepass"))
        os.lseek(text, 0, os.SEEK_SET)
        token_r, token_w = os.pipe()
        os.write(token_w, token)
        os.close(token_w)
        self._proof, proof_w = os.pipe()
        os.set_blocking(self._proof, False)
        self.theirs = [text, token_r, proof_w]

    def install(self) -> None:
        """In the child: move the pipes to the file descriptors that programs expect."""
        # First move all out of the way: one pipe's number may be the target of another.
        moved = [os.dup2(number, 100 + at) for at, number in enumerate(self.theirs)]
        for number, target in zip(moved, (PAYLOAD, TOKEN, PROOF), strict=False):
            os.dup2(number, target)
            os.close(number)

    def keep_ours(self) -> None:
        for number in self.theirs:
            os.close(number)

    def proof(self) -> bytes:
        if self._proof < 0:
            return b""
        try:
            return os.read(self._proof, 64)
        except BlockingIOError:
            # A living descendant holds the pipe open and has written nothing.
            return b""


def _fill_scratch(plan: Plan) -> None:
    """Make the home and temporary folders, the program's files, and the project with its changes."""
    scratch = Path(plan["scratch"])
    (scratch / "home").mkdir()
    for folder, files in (("home", plan["files"]), ("project", plan["changes"])):
        for name, text in files.items():
            path = scratch / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text, "utf-8", "surrogatepass", newline="")
    if plan["user"] is None:
        return
    uid, gid = plan["user"]
    for top in ("home", "project"):
        for folder, folders, names in os.walk(scratch / top):
            for name in (".", *folders, *names):
                os.chown(Path(folder, name), uid, gid, follow_symlinks=False)


def _become(plan: Plan, channels: _Channels) -> NoReturn:
    """Turn this process into the program."""
    os.setsid()
    os.umask(0o022)
    kernel.bound_privileges()
    if plan["user"] is not None:
        uid, gid = plan["user"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _set_limits(plan["limits"])
    kernel.drop_privileges()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    channels.install()
    os.chdir(plan["cwd"])
    kernel.filter_system_calls(system_calls.program(os.uname().machine))
    os.execve(plan["argv"][0], plan["argv"], plan["env"])


def _set_limits(limits: dict[str, Any]) -> None:
    cpu = int(limits["cpu_s"])
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits["memory"], limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file_size"], limits["file_size"]),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_STACK, 8 << 20, 8 << 20),
        (resource.RLIMIT_MEMLOCK, 1 << 16, 1 << 16),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, 512, 512),
        (resource.RLIMIT_NICE, 0, 0),
        (resource.RLIMIT_RTPRIO, 0, 0),
        # 1, not 0: with 0, a kernel that pipes core dumps to a program would still start that program.
        (resource.RLIMIT_CORE, 1, 1),
        # Last, since this limit counts every thread that is started later.
        (resource.RLIMIT_NPROC, limits["processes"], limits["processes"]),
    ):
        _, most = resource.getrlimit(what)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(what, (soft, hard))


def _watch(child: int, plan: Plan, started: float) -> dict[str, Any]:
    limits = plan["limits"]
    looked = started
    while True:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return _ending(ended[1], ended[2], limits)
        now = time.monotonic()
        if now - started > limits["wall_s"]:
            return {"ended": "wall", "code": 0}
        if now - looked > 2 * _PAUSE_S:
            looked = now
            if _memory() > limits["memory_total"]:
                return {"ended": "memory", "code": 0}
        signal.sigtimedwait({signal.SIGCHLD}, _PAUSE_S)


def _ending(status: int, usage: resource.struct_rusage, limits: dict[str, Any]) -> dict[str, Any]:
    spent = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return {"ended": "exit", "code": code}
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and spent >= limits["cpu_s"]):
        return {"ended": "cpu", "code": 0}
    if -code == signal.SIGXFSZ:
        return {"ended": "file-size", "code": 0}
    return {"ended": "signal", "code": -code}


def _memory() -> int:
    """Bytes of memory of all other processes of this namespace; shared memory counts once for each."""
    total = 0
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - faster; called many times a second
            if name.isdigit() and name != "1":
                with contextlib.suppress(OSError, IndexError):
                    total += int(Path(f"/proc/{name}/statm").read_text().split()[1]) * _PAGE
    return total
