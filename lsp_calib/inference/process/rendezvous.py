"""Where a model process and its clients meet, and how they check that they belong to one user.

On POSIX a socket file that only this user can reach. Elsewhere, and where its path would be too long, a port
of the loopback interface, which every user of the machine can reach: there both sides prove that they know a
secret from a file that only this user can read, and the secret itself is never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import struct
import sys
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
_LONGEST_PATH = 103
_LONGEST_NAME = len("/0123456789ab.sock")
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
    with_socket_file = (
        hasattr(socket, "AF_UNIX")
        and sys.platform != "win32"
        and os.environ.get("LSP_CALIB_SOCKET") != "tcp"
        and len(os.fsencode(folder)) + _LONGEST_NAME <= _LONGEST_PATH
    )
    parts = (
        str(model.resolve()),
        str(context),
        backends.forced(),
        f"{wire.PROTOCOL} {__version__}",
        _machine(),
        # Who meets in another way must not find its lock taken here.
        str(with_socket_file),
    )
    name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return Rendezvous(
        folder / f"{name}.lock",
        folder / f"{name}.sock" if with_socket_file else None,
        folder / f"{name}.port",
    )


def listen(where: Rendezvous) -> socket.socket:
    """A listening socket there, in the place of a stale one. Only the holder of the lock may call this."""
    clear(where)
    if where.socket is not None:
        listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            listening.bind(str(where.socket))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(where.socket)) from error
        finally:
            os.umask(before)
        listening.listen(64)
        return listening
    listening = socket.socket(socket.AF_INET)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    content = json.dumps([listening.getsockname()[1], secrets.token_hex(32)]).encode()
    write_atomically(where.port, content, 0o600, durable=False)
    return listening


def clear(where: Rendezvous) -> None:
    """Remove the socket or port file."""
    for path in (where.socket, where.port):
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


async def connect(where: Rendezvous) -> Streams:
    """A connection to the process there. Raises OSError if there is none, or none of the user's own."""
    if where.socket is not None:
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
    except BaseException:
        writer.close()
        raise
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


def _read_port(path: Path) -> tuple[int, bytes]:
    """Raises OSError if no process listens."""
    try:
        port, secret = parse_json(read_file(path))
        return int(port), bytes.fromhex(secret)
    except (ValueError, TypeError) as error:
        raise ConnectionRefusedError(f"{path} cannot be read: {error}") from error


def _proof(secret: bytes, who: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, who + nonce, "sha256")
