"""Whether a folder lies on another machine: SQLite's write-ahead log must not be used there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

# Types of file systems as Linux names them. FUSE file systems are named after their program.
_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "ceph", "lustre", "gpfs"),
    *("glusterfs", "beegfs", "orangefs", "virtiofs", "vboxsf", "davfs", "sshfs", "rclone", "s3fs", "gcsfuse"),
}
_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE_DRIVE = 4  # of GetDriveTypeW


def on_network(folder: Path) -> bool:
    """Whether a folder lies on a network file system, or on one shared with another system.

    The memory that processes share through a file there is not the same for all of them. Known on Linux and
    Windows; elsewhere, and where the system does not say, the answer is no.
    """
    if sys.platform == "win32":
        import ctypes

        root = Path(folder).resolve().anchor
        return root.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(root) == _REMOTE_DRIVE
    try:
        kind = kind_of_mount(os.path.realpath(folder), _MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        return False
    return kind.removeprefix("fuse.") in _NETWORK


def kind_of_mount(path: str, mounts: str) -> str:
    """The type of the file system that a path lies on; empty if it is not known.

    path: absolute, without links. mounts: as in /proc/self/mountinfo, where of two mounts at one place the
        later one is seen.
    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]).rstrip("/")
        if (path == place or path.startswith(f"{place}/")) and len(place) >= best:
            best, kind = len(place), after.split(" ")[0]
    return kind
