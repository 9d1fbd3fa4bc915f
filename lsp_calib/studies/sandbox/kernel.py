"""Linux system calls missing from the standard library. Standard library only: no site-packages here."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from lsp_calib.studies.sandbox import system_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lsp_calib.studies.sandbox.system_calls import Instruction

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
ALL_NAMESPACES = (
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
)

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
_MNT_DETACH = 2

_MOUNT_ATTR_RDONLY = 1
_MOUNT_ATTR_NOSUID = 2
_MOUNT_ATTR_NODEV = 4
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

# System calls without a wrapper in the C library. Newer ones have the same number on all architectures.
_MOUNT_SETATTR = 442
_PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process to new namespaces; a new process namespace applies to its children."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    _checked(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            options.encode() if options else None,
        ),
        f"mount {target}",
    )


def restrict_mount(target: str, *, recursive: bool = False) -> None:
    """Make a mount read-only, and ignore set-user-id bits and device files on it."""
    flags = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _checked(result, f"mount_setattr {target}")


def change_root(folder: str) -> None:
    """Make `folder`, a mount point, the root, and unmount the old root with all mounts below it."""
    os.chdir(folder)
    _checked(_libc.syscall(ctypes.c_long(_PIVOT_ROOT), b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", ctypes.c_int(_MNT_DETACH)), "umount the old root")
    os.chdir("/")


def _prctl(option: int, value: int, more: int = 0) -> int:
    zero = ctypes.c_ulong(0)
    return int(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(more), zero, zero))


def die_with_parent(signal: int) -> None:
    _checked(_prctl(_PR_SET_PDEATHSIG, signal), "PR_SET_PDEATHSIG")


def forbid_tracing() -> None:
    """Keep other processes of this user from reading or tracing this process."""
    _checked(_prctl(_PR_SET_DUMPABLE, 0), "PR_SET_DUMPABLE")


def bound_privileges() -> None:
    """Keep programs started later from gaining capabilities. Call this while the process still has some."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Fails beyond the last capability that this kernel knows, and if there is none to drop.
        _prctl(_PR_CAPBSET_DROP, capability)


def drop_privileges() -> None:
    """Drop all capabilities, and keep set-user-id programs from giving any."""
    _checked(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "PR_SET_NO_NEW_PRIVS")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")


class _Filter(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("rows", ctypes.c_char_p))


def filter_system_calls(program: list[Instruction]) -> None:
    """Put this process and all that it starts under a filter for good. It must be past `drop_privileges`."""
    import struct

    rows = b"".join(struct.pack("HBBI", *row) for row in program)
    header = _Filter(len(program), rows)
    _checked(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header)), "PR_SET_SECCOMP")


def leave_session_keyring() -> None:
    """Join a new, empty session keyring. The one of the login holds the user's keys."""
    keyctl = system_calls.refused(os.uname().machine)["keyctl"]
    operation, unnamed = ctypes.c_int(_KEYCTL_JOIN_SESSION_KEYRING), ctypes.c_char_p(None)
    joined = _libc.syscall(ctypes.c_long(keyctl), operation, unnamed)
    # Without keyrings, or where the container forbids them, a program has none to read either.
    if joined >= 0 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
        _checked(joined, "a new session keyring")


def forbid_namespaces() -> None:
    """Forbid new namespaces in this user namespace: mounts in them would have no size limit."""
    for path in Path("/proc/sys/user").glob("max_*_namespaces"):
        path.write_text("0")
