"""Builds the isolation: its own namespaces and file system, in which the program is started.

Runs as a separate program (see `isolation.jail_command`) with a plan, one JSON object, on standard input. Its
first process leaves the caller's keyring and control groups, makes the namespaces and waits. Its child,
process 1 of the namespace, builds the file system and becomes `init`. The outcome is one JSON object on the
file descriptor `report`.
Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from lsp_calib.studies.sandbox import init, kernel

# This runs before every tested program: modules for types only, or for few plans, are not imported here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from lsp_calib.studies.sandbox.init import Plan

_NOT_COPIED = (".git", ".hg", ".venv", "node_modules", "__pycache__")


def main() -> NoReturn:
    """Carry out the plan. The exit status is always 0; the report says what the program did."""
    plan: Plan = json.loads(sys.stdin.buffer.read())
    if plan["isolation"] == "inside":
        # Bubblewrap has built the isolation; this is process 1 in it.
        _report(plan, _inside)
    kernel.die_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        # If memory runs out, the kernel should kill this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    if plan["isolation"] == "bubblewrap":
        _report(plan, _wrap)
    _report(plan, _namespaces)


def _report(plan: Plan, act: Callable[[Plan], dict[str, Any]]) -> NoReturn:
    try:
        said = act(plan)
    except OSError as error:
        said = {"ended": "setup", "why": str(error)}
    if said:
        os.write(plan["report"], json.dumps(said).encode())
    os._exit(0)


def _leave_caller(plan: Plan) -> None:
    """Leave the keyring of the caller's login, and its control groups."""
    kernel.leave_session_keyring()
    for group in plan["groups"]:
        (Path(group) / "cgroup.procs").write_text("0")


def _namespaces(plan: Plan) -> dict[str, Any]:
    _leave_caller(plan)
    _enter_namespaces(plan["uid_map"], plan["gid_map"], privileged=plan["user"] is not None)
    child = os.fork()
    if child == 0:
        _report(plan, _first_process)
    os.waitpid(child, 0)
    return {}


def _enter_namespaces(uid_map: str, gid_map: str, *, privileged: bool) -> None:
    """Move this process to new namespaces. `privileged`: the maps contain more users than this one.

    Only a process that stays outside the namespace can write such maps.
    """
    me = Path(f"/proc/{os.getpid()}")
    if not privileged:
        kernel.unshare(kernel.ALL_NAMESPACES)
        _write_maps(me, uid_map, gid_map, deny_groups=True)
        return
    unshared, tell = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(tell)
        status = 1
        with contextlib.suppress(OSError):
            if os.read(unshared, 1):
                _write_maps(me, uid_map, gid_map, deny_groups=False)
                status = 0
        os._exit(status)
    os.close(unshared)
    kernel.unshare(kernel.ALL_NAMESPACES)
    os.write(tell, b"x")
    os.close(tell)
    if os.waitpid(helper, 0)[1]:
        raise OSError("the user namespace's maps cannot be written")


def _write_maps(process: Path, uid_map: str, gid_map: str, *, deny_groups: bool) -> None:
    if deny_groups:
        (process / "setgroups").write_text("deny")
    (process / "uid_map").write_text(uid_map)
    (process / "gid_map").write_text(gid_map)


def _first_process(plan: Plan) -> dict[str, Any]:
    kernel.die_with_parent(signal.SIGKILL)
    kernel.forbid_tracing()
    with contextlib.suppress(OSError):
        # If /proc/sys is read-only (in some containers), nested namespaces stay allowed.
        kernel.forbid_namespaces()
    _build_root(plan)
    if plan["project"]:
        copy_project(plan["project"], f"{plan['root']}{plan['scratch']}/project")
    kernel.change_root(plan["root"])
    return init.run(plan)


def _build_root(plan: Plan) -> None:
    """Build a small file system on `root`: system and interpreter read-only, one writable folder."""
    root: str = plan["root"]
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    scratch = f"{root}{plan['scratch']}"
    Path(scratch).mkdir()
    size, files = plan["limits"]["disk"], plan["limits"]["files"]
    kernel.mount(
        "tmpfs",
        scratch,
        "tmpfs",
        kernel.MS_NOSUID | kernel.MS_NODEV,
        f"size={size},nr_inodes={files},mode=1777",
    )
    for name, target in plan["links"]:
        Path(f"{root}{name}").symlink_to(target)
    for source, target in plan["binds"]:
        _bind(source, f"{root}{target}")
        kernel.restrict_mount(f"{root}{target}", recursive=True)
    for name in plan["devices"]:
        _bind(f"/dev/{name}", f"{root}/dev/{name}")
    for name, target in (("shm", plan["scratch"]), ("fd", "/proc/self/fd")):
        Path(f"{root}/dev/{name}").symlink_to(target)
    proc = Path(f"{root}/proc")
    proc.mkdir()
    with contextlib.suppress(OSError):
        # Refused in a container that hides parts of its own /proc; then the program has no /proc.
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", str(proc), "proc", flags)
        kernel.restrict_mount(str(proc))
        for name in plan["masked"]:
            kernel.mount("/dev/null", name.replace("/proc", str(proc), 1), flags=kernel.MS_BIND)
    kernel.restrict_mount(root)


def _bind(source: str, target: str) -> None:
    place = Path(target)
    if Path(source).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)


def copy_project(source: str, target: str) -> None:
    """Copy a project: files, folders and links (as links), without special files and version history."""
    import shutil

    not_copied = shutil.ignore_patterns(*_NOT_COPIED)

    def skipped(folder: str, names: list[str]) -> set[str]:
        odd = {
            name
            for name in names
            if not (path := Path(folder, name)).is_symlink() and not path.is_file() and not path.is_dir()
        }
        return odd | set(not_copied(folder, names))

    shutil.copytree(source, target, symlinks=True, ignore=skipped)


def _wrap(plan: Plan) -> dict[str, Any]:
    _leave_caller(plan)
    os.lseek(0, 0, os.SEEK_SET)
    os.set_inheritable(plan["report"], True)
    inner = {**plan, "isolation": "inside"}
    with open(0, "r+b", closefd=False) as file:
        file.truncate()
        file.write(json.dumps(inner).encode())
    os.lseek(0, 0, os.SEEK_SET)
    os.execv(plan["wrapper"][0], plan["wrapper"])


def _inside(plan: Plan) -> dict[str, Any]:
    kernel.forbid_tracing()
    if plan["project"]:
        copy_project(plan["project"], f"{plan['scratch']}/project")
    return init.run(plan)
