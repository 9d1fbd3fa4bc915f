"""Files, opened safely and replaced whole; and whether they lie on another machine.

A workspace may hold anything under the name of a file, and so may the state folder: to open a pipe waits for
its other end without end, and a device may do anything. So every file there is opened here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from lsp_calib.errors import DataError, SettingsError

# In bytes. A larger file holds nothing that is read whole.
_MOST = 256 << 20
FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
"""The numbers of the errors of a full disk, and of a user who may put no more on it."""

# Types of file systems as Linux names them. FUSE file systems are named after their program.
_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "ceph", "lustre", "gpfs"),
    *("glusterfs", "beegfs", "orangefs", "virtiofs", "vboxsf", "davfs", "sshfs", "rclone", "s3fs", "gcsfuse"),
}
_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE_DRIVE = 4  # of GetDriveTypeW


def open_file(path: Path, flags: int = os.O_RDONLY, *, links: bool = True, mode: int = 0o600) -> int:
    """A descriptor of a regular file; opening it never waits for another program.

    links: whether a link as the last part of the path is followed. mode: the permissions of a new file.
    Raises OSError, whose `strerror` is for people, also for anything but a regular file.
    """
    if not flags & os.O_EXCL:
        # Looked at before: opening some devices is enough to set them off.
        try:
            check_regular(path, links=links)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
    for name in ("O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK", *(() if links else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags, mode)
    except ValueError as error:
        raise _no_name(error) from error
    try:
        _refuse_special(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: Path, most: int = _MOST, *, links: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes. links, errors: as for `open_file`."""
    with os.fdopen(open_file(path, links=links), "rb") as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
        return stream.read()


def check_regular(path: Path, *, links: bool = True) -> os.stat_result:
    """The status of a regular file, which is not opened. links, errors: as for `open_file`.

    A link to a file that is not there is an error of its own: a drive may be unmounted, and a new file in its
    place would hide the one on it.
    """
    try:
        status = path.stat() if links else path.lstat()
    except FileNotFoundError:
        if not path.is_symlink():
            raise
        words = f"it is a link to {path.readlink()}, which is not there: is a drive missing?"
        raise OSError(errno.ENXIO, words, str(path)) from None
    except ValueError as error:
        raise _no_name(error) from error
    _refuse_special(status, path)
    return status


def names_of(path: Path) -> tuple[str, ...]:
    """A path as a text, and that of the file behind it where links lead elsewhere.

    It opens nothing: neither a pipe nor a missing file holds it up.
    """
    with contextlib.suppress(OSError, ValueError):
        return tuple(dict.fromkeys((str(path), os.path.realpath(path))))
    return (str(path),)


def why(error: Exception) -> str:
    """The reason of an error, for a message that names the file itself."""
    return str(getattr(error, "strerror", None) or error)


def _no_name(error: ValueError) -> OSError:
    """For a path with a NUL or half of a surrogate pair in it, which no system call takes."""
    return OSError(errno.EINVAL, f"it is no name of a file ({error})")


def _refuse_special(status: os.stat_result, path: Path) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is no regular file, but a pipe, a device or a link", str(path))


def replace_file(path: Path, text: str) -> None:
    """Replace a file that the user reads. A new one gets the umask's permissions, an existing file keeps its
    own.

    Raises DataError if it cannot be written.
    """
    try:
        try:
            mode = check_regular(path).st_mode & 0o777
        except FileNotFoundError:
            umask = os.umask(0o077)
            os.umask(umask)
            mode = 0o666 & ~umask
        write_atomically(path, text.encode("utf-8"), mode)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_atomically(path: Path, data: bytes, mode: int, *, durable: bool = True) -> None:
    """Replace the content of `path` with `data`: completely or not at all, even after a crash.

    mode: its permissions. durable: on disk when this returns, so that it survives a power cut.
    Raises OSError if it cannot be written.
    """
    import tempfile  # takes milliseconds, and no start writes a file

    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # The name of the temporary file says nothing to a user.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    if durable:
        sync_folder(path.parent)


@contextlib.contextmanager
def exported(path: Path, mode: int = 0o600, *, what: str = "export", option: str = "") -> Iterator[TextIO]:
    """A new text file that something is exported to. What could not be written whole, as on a full disk, does
    not stay.

    mode: its permissions. what, option: what it is, and how another place is given, for the messages.
    Raises SettingsError if there is a file of this name, DataError if it cannot be written.
    """
    made = False
    try:
        handle = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode)
        made = True
        # Closing writes what is left, and may fail as well.
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        if made:
            path.unlink(missing_ok=True)
        elif isinstance(error, FileExistsError):
            raise SettingsError(
                f"{path} exists, and no {what} overwrites a file. Give another name{option}, or remove it."
            ) from error
        if isinstance(error, OSError):
            raise DataError(
                f"{path} cannot be written: {error.strerror or error}. Give another place{option}."
            ) from error
        raise


def sync_folder(folder: Path) -> None:
    """Write a folder to disk: until then a rename or a new file in it may not survive a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
