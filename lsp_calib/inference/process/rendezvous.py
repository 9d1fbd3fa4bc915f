"""Where a model process and its clients meet, and how they check that they belong to one user.

On POSIX a socket file that only this user can reach. Elsewhere a port of the loopback interface, which every
user of the machine can reach: there both sides prove that they know a secret from a file that only this user
can read, and the secret itself is never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import socket
import stat
import struct
import sys
import time
from pathlib import Path

import attrs

from lsp_calib import __version__, home
from lsp_calib.files import read_file, write_atomically
from lsp_calib.inference import backends
from lsp_calib.inference.process import wire
from lsp_calib.json_text import parse_json

# The line that a process writes to its standard output once it accepts connections; the beginning of one that
# says why it cannot; its exit code when another process holds the lock.
LISTENING = "listening"
UNABLE = "unable: "
LOST = 3
# A socket's path has 108 bytes on Linux, 104 on macOS, its end included.
_LONGEST_PATH = 100
_LONGEST_NAME = len("/0123456789abcdef.sock")
_TMP = Path("/tmp")
# Times that a folder for a socket is made where other processes remove it.
_TRIES = 5
# Seconds after which a folder in which nobody listens is one that was left.
_OLD = 60.0
_NONCE = 16
_PROOF = 32
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@attrs.frozen
class Rendezvous:
    """One place. lock: its holder is the model process. socket: None where there are no socket files.
    port: where port and secret are then written."""

    lock: Path
    socket: Path | None
    port: Path


def place(model: Path, context: int) -> Rendezvous:
    """Where to meet for a model file. Raises SettingsError if the state folder is not the user's own, or
    LSP_CALIB_ENGINE names no engine.

    The name contains everything that requires a separate process: a release never uses an older one's, and
    machines that share a state folder never each other's.
    """
    folder = home.run_folder()
    with_socket_file = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
    if os.environ.get("LSP_CALIB_SOCKET") == "tcp":
        with_socket_file = False
    elsewhere = _folder_elsewhere(folder) if with_socket_file else None
    parts = (
        str(model.resolve()),
        str(context),
        backends.forced(),
        f"{wire.PROTOCOL} {__version__}",
        _machine(),
        # Who meets at another socket must not find its lock taken here.
        str(elsewhere or with_socket_file),
    )
    name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Rendezvous(
        folder / f"{name}.lock",
        (elsewhere or folder) / f"{name}.sock" if with_socket_file else None,
        folder / f"{name}.port",
    )


def listen(where: Rendezvous) -> socket.socket:
    """A listening socket there, in the place of a stale one. Only the holder of the lock may call this."""
    clear(where)
    if where.socket is not None:
        listening = socket.socket(socket.AF_UNIX)
        for left in reversed(range(_TRIES)):
            if _is_elsewhere(where):
                with contextlib.suppress(FileExistsError):
                    where.socket.parent.mkdir(mode=0o700)
                home.owned_folder(where.socket.parent)
            before = os.umask(0o177)
            try:
                listening.bind(str(where.socket))
                break
            except FileNotFoundError:  # its folder was just removed by another process, as an old one
                if not left:
                    raise
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(where.socket)) from error
            finally:
                os.umask(before)
        listening.listen(64)
        return listening
    listening = socket.socket(socket.AF_INET)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    _write_port(where.port, listening.getsockname()[1])
    return listening


def clear(where: Rendezvous) -> None:
    """Remove the socket or port file, and a folder elsewhere that nobody else has a socket in."""
    for path in (where.socket, where.port):
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
    if where.socket is not None and _is_elsewhere(where):
        with contextlib.suppress(OSError):
            where.socket.parent.rmdir()


def remove_old_folders() -> None:
    """Remove the folders elsewhere, of this user, in which killed processes have left their sockets."""
    if sys.platform == "win32":
        return
    name = re.compile(rf"lsp-calib-{os.geteuid()}-[0-9a-f]{{8}}(\.[0-9]+)?")
    for parent in dict.fromkeys((_runtime_folder(), _TMP)):
        with contextlib.suppress(OSError):
            for folder in [found for found in parent.iterdir() if name.fullmatch(found.name)]:
                with contextlib.suppress(OSError):
                    _remove_if_old(folder)


def _remove_if_old(folder: Path) -> None:
    if not _is_old(folder) or not all(map(_is_dead, folder.iterdir())):
        return
    # A process that makes its socket now does so before the folder is renamed, and then the folder is new; or
    # later, and then it makes another folder.
    aside = folder.with_name(f"{folder.name.partition('.')[0]}.{os.getpid()}")
    folder.rename(aside)
    if not _is_old(aside):
        aside.rename(folder)
        return
    for path in aside.iterdir():
        path.unlink()
    aside.rmdir()


def _is_old(folder: Path) -> bool:
    """Whether a folder is the user's own, and nothing was put into it lately."""
    status = folder.lstat()
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return mine and time.time() - status.st_mtime > _OLD


def _is_dead(path: Path) -> bool:
    """Whether a file is a socket at which nobody listens."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # as where so many clients wait that there is no room for another
            return False
    return False


async def connect(where: Rendezvous) -> Streams:
    """A connection to the process there. Raises OSError if there is none, or none of the user's own."""
    if where.socket is not None:
        if _is_elsewhere(where):
            home.owned_folder(where.socket.parent)  # it may have been made since `place`
        reader, writer = await asyncio.open_unix_connection(str(where.socket))
        if not same_user(writer):
            writer.close()
            raise ConnectionRefusedError(f"{where.socket} is another user's")
        return reader, writer
    port, secret = _read_port(where.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        nonce = secrets.token_bytes(_NONCE)
        writer.write(nonce)
        theirs = await reader.readexactly(_NONCE)
        if not hmac.compare_digest(await reader.readexactly(_PROOF), _proof(secret, b"process", nonce)):
            raise ConnectionRefusedError(f"port {port} is not the model process's")
        writer.write(_proof(secret, b"client", theirs))
    except (OSError, asyncio.IncompleteReadError) as error:
        writer.close()
        raise ConnectionRefusedError(str(error)) from error
    return reader, writer


async def admit(where: Rendezvous, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the client belongs to the same user. Raises OSError or IncompleteReadError if it leaves."""
    if where.socket is not None:
        return same_user(writer)
    secret = _read_port(where.port)[1]
    theirs = await reader.readexactly(_NONCE)
    nonce = secrets.token_bytes(_NONCE)
    writer.write(nonce + _proof(secret, b"process", theirs))
    return hmac.compare_digest(await reader.readexactly(_PROOF), _proof(secret, b"client", nonce))


def same_user(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is this user's, as the system tells it; True where it does not."""
    if sys.platform != "linux":
        return True
    credentials = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


def _machine() -> str:
    """What tells this machine from others that share the state folder."""
    # The name of the host as well: machines that start from one image may have one id.
    for path in _MACHINE_IDS:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if found := Path(path).read_text("ascii").strip():
                return f"{found} {socket.gethostname()}"
    return socket.gethostname()


def _folder_elsewhere(folder: Path) -> Path | None:
    """The private folder for sockets, where paths in the state folder are too long; None if they are not."""
    if len(os.fsencode(folder)) + _LONGEST_NAME <= _LONGEST_PATH:
        return None
    there = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    name = f"lsp-calib-{os.geteuid()}-{there}"
    private = _runtime_folder() / name
    if len(os.fsencode(private)) + _LONGEST_NAME > _LONGEST_PATH:
        private = _TMP / name
    # All users share /tmp: check the folder found there. Only a process that listens makes one.
    with contextlib.suppress(FileNotFoundError):
        home.owned_folder(private)
    return private


def _is_elsewhere(where: Rendezvous) -> bool:
    """Whether the socket lies in a folder of its own, outside of the state folder."""
    return where.socket is not None and where.socket.parent != where.lock.parent


def _runtime_folder() -> Path:
    """XDG_RUNTIME_DIR if it is the user's own, else /tmp. Not TMPDIR: one user's programs differ in it."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or _TMP)
    with contextlib.suppress(OSError):
        status = folder.stat()
        mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if folder.is_absolute() and mine:
            return folder
    return _TMP


def _write_port(path: Path, port: int) -> None:
    content = json.dumps([port, secrets.token_hex(32)]).encode()
    write_atomically(path, content, 0o600, durable=False)


def _read_port(path: Path) -> tuple[int, bytes]:
    """Raises OSError if no process listens."""
    try:
        port, secret = parse_json(read_file(path))
        return int(port), bytes.fromhex(secret)
    except (ValueError, TypeError) as error:
        raise ConnectionRefusedError(f"{path} cannot be read: {error}") from error


def _proof(secret: bytes, who: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, who + nonce, "sha256")
