"""The kinds of isolation on this machine, the limits of a program there, and what is common to all plans."""

from __future__ import annotations

import atexit
import enum
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import SandboxError

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
    proved: whether it returned the token that proves its end (see `harness`): deceptive code can end with
        exit status 0, too.
    stdout, stderr: the beginnings of the output.
    """

    ending: Ending
    code: int
    proved: bool
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """How it ended, for people."""
        if self.ending is Ending.EXIT:
            return f"it ended with exit status {self.code}"
        if self.ending is Ending.SIGNAL:
            return f"signal {self.code} ended it"
        return f"it reached its {self.ending} limit"


HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

_JAIL = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from lsp_calib.studies.sandbox.jail import main; main()"
)


def interpreter() -> str:
    """The running Python with all links resolved, so not a virtual environment's."""
    return os.path.realpath(sys.executable)


def isolated_python(*words: str) -> list[str]:
    """The words of a command with that Python, ignoring the user's packages and variables."""
    return [interpreter(), "-I", "-S", "-B", *words]


def jail_command(root: str = str(ROOT)) -> list[str]:
    """The command that starts a jail: Python without site-packages, importing only from this package.

    root: the folder that holds the package, as the new process sees it.
    """
    return [interpreter(), "-I", "-S", "-c", _JAIL, root]


# User id inside the sandbox. Outside it is that of nobody if we are root, else our own.
_USER = 1000
_NOBODY = 65534

# Paths at which bubblewrap shows the code of process 1 and the project to copy.
_CODE = "/run/lsp-calib"
_PROJECT = "/run/project"

# A user sees the names of all their keys there, whatever keyring they are in.
_MASKED = ("/proc/keys", "/proc/key-users")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "localtime")
_TEXTS = {
    "passwd": f"user:x:{_USER}:{_USER}::/tmp/home:/bin/sh\nnobody:x:{_NOBODY}:{_NOBODY}::/:/bin/false\n",
    "group": f"user:x:{_USER}:\nnogroup:x:{_NOBODY}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@attrs.frozen
class Isolation:
    """One way to isolate a program.

    kind: "namespaces" (made by this package) or "bubblewrap". bubblewrap: the path of bwrap.
    folder: private to this process, with an `etc` to show and an empty `root` to mount on.
    """

    kind: str
    folder: Path
    bubblewrap: str = ""

    def plan(self, scratch: str, project: Path | None, visible: tuple[Path, ...]) -> dict[str, Any]:
        """The isolation part of the plan for `jail`. scratch: the writable folder, as the program sees it."""
        user, group = os.geteuid(), os.getegid()
        root = user == 0
        links, binds = _system(self.folder / "etc")
        binds += [(str(path), str(path)) for path in [*_interpreters(), *visible]]
        return {
            "isolation": self.kind,
            "root": str(self.folder / "root"),
            "scratch": scratch,
            "links": links,
            "binds": binds,
            "devices": _DEVICES,
            "masked": [name for name in _MASKED if Path(name).exists()],
            "user": [_USER, _USER] if root and self.kind == "namespaces" else None,
            "uid_map": _map(user, root=root),
            "gid_map": _map(group, root=root),
            "project": (_PROJECT if self.kind == "bubblewrap" else str(project)) if project else None,
        }

    def wrapper(self, plan: dict[str, Any], project: Path | None, limits: Limits) -> list[str]:
        """Bubblewrap's command line for a plan."""
        words = [self.bubblewrap, "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"]
        words += ["--uid", str(_USER), "--gid", str(_USER), "--cap-drop", "ALL", "--clearenv"]
        if "--disable-userns" in _bubblewrap_help(self.bubblewrap):
            words += ["--unshare-user", "--disable-userns"]
        words += ["--size", str(limits.disk), "--perms", "1777", "--tmpfs", plan["scratch"]]
        for name, target in plan["links"]:
            words += ["--symlink", target, name]
        for source, target in plan["binds"]:
            words += ["--ro-bind", source, target]
        for name in _DEVICES:
            words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        words += ["--symlink", plan["scratch"], "/dev/shm", "--symlink", "/proc/self/fd", "/dev/fd"]
        words += ["--proc", "/proc"]
        for name in plan["masked"]:
            words += ["--dev-bind", "/dev/null", name]
        for module in ("__init__", "jail", "init", "kernel", "system_calls"):
            inside = f"{_CODE}/lsp_calib/studies/sandbox/{module}.py"
            words += ["--ro-bind", str(HERE / f"{module}.py"), inside]
        if project:
            words += ["--ro-bind", str(project), _PROJECT]
        return [*words, "--remount-ro", "/", "--chdir", "/", "--", *jail_command(_CODE)]


def candidates() -> list[Isolation]:
    """Isolations that might work here, the best first; `probe` tries whether one does."""
    if not sys.platform.startswith("linux"):
        return []
    folder = _private_folder()
    ours = Isolation("namespaces", folder)
    program = shutil.which("bwrap")
    if program is None or os.geteuid() == 0:
        # Started by root, bubblewrap would let the program access root's files.
        return [ours]
    # Ours first: it also limits the number of files. Some systems allow namespaces only to bubblewrap.
    return [ours, Isolation("bubblewrap", folder, os.path.realpath(program))]


def _private_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lsp-calib-sandbox-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "root").mkdir()
    etc = folder / "etc"
    etc.mkdir(mode=0o755)
    for name, text in _TEXTS.items():
        (etc / name).write_text(text)
    for name in _ETC:
        if Path("/etc", name).is_file():
            shutil.copyfile(Path("/etc", name), etc / name)
    if Path("/etc/alternatives").is_dir():
        shutil.copytree("/etc/alternatives", etc / "alternatives", symlinks=True)
    for path in [folder / "root", *etc.rglob("*"), etc]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _system(etc: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(links to make, folders to show): the system's programs and libraries, and a small /etc."""
    links, binds = [], [(str(etc), "/etc")]
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            links.append((name, os.readlink(path)))  # noqa: PTH115 - the link's unchanged text
        elif path.is_dir():
            binds.append((name, name))
    return links, binds


def _interpreters() -> list[Path]:
    """Folders of the running Python that are not part of the system."""
    folders = {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}
    folders.add(Path(interpreter()).parent)
    outside = sorted(path for path in folders if not path.is_relative_to("/usr"))
    kept = [
        path for path in outside if not any(path != other and path.is_relative_to(other) for other in outside)
    ]
    for path in kept:
        if Path.home().resolve().is_relative_to(path):
            raise SandboxError(
                f"The sandbox would have to show {path}, where Python is installed, and your home folder "
                "lies within it. Use a Python that is installed in a folder of its own."
            )
    return kept


def _map(own: int, *, root: bool) -> str:
    """The map of a user namespace: first id inside, first id outside, number of ids."""
    return f"0 0 1\n{_USER} {_NOBODY} 1\n" if root else f"{_USER} {own} 1\n"


def _bubblewrap_help(program: str) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
