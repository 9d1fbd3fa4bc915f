"""What a model process and its clients say, and where they meet. Frames of a length and one JSON object.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON. Both ends refuse a frame over
`MOST_BYTES`, and a message with a missing field or one of another type. The standard library parses the JSON
and msgspec checks it: msgspec's own parser refuses the lone surrogates that editors send.

Client to process
    {"op": "hello", "linger": float, "threads": int, "gpu_layers": int | null, "cache_mb": int}
    {"op": "generate", "id": int, "request": {...}}        the fields of `Request`
    {"op": "cancel" | "stats", "id": int}
    {"op": "restart"}
Process to client
    {"event": "welcome", "pid": int}
    {"event": "loading", "fraction": float}
    {"event": "ready", ...}                                the fields of `Loaded`
    {"event": "failed", "kind": "file" | "missing" | "unable", "message": str}
    {"event": "busy" | "free"}                             another client's work goes before this one's
    {"event": "bye", "message": str}                       and the connection is closed
    {"id": int, "generation": {...}} | {"id": int, "stats": {...}}
    {"id": int, "error": "superseded" | "failed", "message": str}

They meet on POSIX at a socket file that only this user can reach. On Windows, and where its path would be too
long, at a port of the loopback interface, which every user of the machine can reach: there both sides prove
that they know a secret from a file that only this user can read, and the secret itself is never sent.
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
from typing import Annotated, Any, TypeVar

import attrs
import msgspec
from msgspec import Meta

from lsp_calib import __version__, home
from lsp_calib.errors import EngineError, LspCalibError, ModelError, ModelFileError, SettingsError
from lsp_calib.files import read_file, write_atomically
from lsp_calib.inference.backend import forced_library
from lsp_calib.inference.engine import Count, Finite
from lsp_calib.json_text import converted, parse_json

MOST_BYTES = 16 << 20
HEADER = struct.Struct(">I")
Message = dict[str, Any]
T = TypeVar("T")

# The line that a process writes to its standard output once it accepts connections; the beginning of one that
# says why it cannot; its exit code when another process holds the lock.
LISTENING = "listening"
UNABLE = "unable: "
LOST = 3


class Hello(msgspec.Struct, frozen=True):
    """A client's first message: how it wants the model loaded, which counts of the first client.

    threads: 0 takes as many as physical cores. gpu_layers: None uses a GPU where it is faster. linger:
    seconds the process stays after its last client. cache_mb: megabytes for the places that are kept beside
    the active one.
    """

    threads: Count
    gpu_layers: Count | None
    linger: Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
    cache_mb: Count


class Loaded(msgspec.Struct, frozen=True):
    """A description of a loaded model.

    engine: the library or program that runs it. notes: messages for the user about how it was loaded.
    acceleration: the name of the hardware features it uses. tried: whether a trial with them succeeded.
    evaluates_ahead: as for `LoadedModel`.
    """

    sha256: str
    engine: str
    notes: tuple[str, ...]
    acceleration: str
    tried: bool
    evaluates_ahead: bool


class Stats(msgspec.Struct, frozen=True):
    """The present and past work of the process. Times are `time.monotonic()` of its machine, in seconds.

    idle_since: None while something runs. running, waiting: requests of all clients. The rest: see
    `backend.Counters`.
    """

    now: Finite
    idle_since: Finite | None
    running: Count
    waiting: Count
    clients: Count
    threads: Count
    prompt_tokens: Count
    generated_tokens: Count
    decode_ms: Finite


def kind_of(error: LspCalibError | OSError) -> str:
    """The kind of a `failed` event: a system that cannot do it now may be able to later."""
    if isinstance(error, ModelFileError):
        return "file"
    return "unable" if isinstance(error, OSError | SettingsError) else "missing"


def failure(event: Message) -> LspCalibError:
    """The error in a `failed` event."""
    kinds: dict[Any, type[LspCalibError]] = {"file": ModelFileError, "unable": EngineError}
    return kinds.get(event.get("kind"), ModelError)(str(event.get("message")))


def encode(message: Message) -> bytes:
    """One frame. Raises EngineError if it would be too long."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(body) > MOST_BYTES:
        raise EngineError(f"A message of {len(body)} bytes is too long for the model process.")
    return HEADER.pack(len(body)) + body


async def receive(reader: asyncio.StreamReader) -> Message:
    """The next message. Raises IncompleteReadError at the stream's end, EngineError for anything else."""
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    if size > MOST_BYTES:
        raise EngineError(f"A frame claims {size} bytes; at most {MOST_BYTES} are allowed.")
    body = await reader.readexactly(size)
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
        if not isinstance(message, dict):
            raise ValueError("a frame holds no object")
    except (ValueError, RecursionError) as error:
        raise EngineError(
            f"The model process and its client broke their protocol: {error}. Restart the model."
        ) from error
    return message


def read(value: Any, kind: type[T]) -> T:
    """`value`, made by `msgspec.to_builtins`, as an object again.

    Raises EngineError, with the field that is wrong, if one is missing or of another type.
    """
    try:
        return converted(value, kind)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise EngineError(f"A message of the model process, or to it, cannot be read: {error}.") from error


# A socket's path has 108 bytes on Linux, 104 on macOS, its end included.
_LONGEST_PATH = 103
_NONCE = 16
_PROOF = 32

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@attrs.frozen
class Place:
    """Where the clients of one model process meet it. lock: its holder is that process. socket: None where
    there are no socket files. port: where port and secret are then written."""

    name: str
    lock: Path
    socket: Path | None
    port: Path

    @classmethod
    def named(cls, name: str) -> Place:
        """Raises SettingsError if the state folder is not the user's own."""
        folder = home.run_folder()
        there = folder / f"{name}.sock"
        has_socket = sys.platform != "win32" and len(os.fsencode(there)) <= _LONGEST_PATH
        return cls(name, folder / f"{name}.lock", there if has_socket else None, folder / f"{name}.port")

    @classmethod
    def of(cls, model: Path, context: int) -> Place:
        """The place for a model file. Raises SettingsError if the state folder is not the user's own, or
        LSP_CALIB_ENGINE names no engine.

        The name contains everything that requires a separate process: a release never uses an older one's,
        and machines that share a state folder never each other's.
        """
        parts = (str(model.resolve()), str(context), forced_library(), __version__, socket.gethostname())
        return cls.named(hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12])


def listen(place: Place) -> socket.socket:
    """A listening socket there, in the place of a stale one. Only the holder of the lock may call this."""
    clear(place)
    if place.socket is not None:
        listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            listening.bind(str(place.socket))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(place.socket)) from error
        finally:
            os.umask(before)
    else:
        listening = socket.socket(socket.AF_INET)
        listening.bind(("127.0.0.1", 0))
        content = json.dumps([listening.getsockname()[1], secrets.token_hex(32)]).encode()
        write_atomically(place.port, content, 0o600, durable=False)
    listening.listen(64)
    return listening


def clear(place: Place) -> None:
    """Remove the socket or port file."""
    for path in (place.socket, place.port):
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


async def connect(place: Place) -> Streams:
    """A connection to the process there. Raises OSError if there is none, or none of the user's own."""
    if place.socket is not None:
        reader, writer = await asyncio.open_unix_connection(str(place.socket))
        if not _same_user(writer):
            writer.close()
            raise ConnectionRefusedError(f"{place.socket} is another user's")
        return reader, writer
    port, secret = _read_port(place.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        nonce = secrets.token_bytes(_NONCE)
        writer.write(nonce)
        theirs = await reader.readexactly(_NONCE)
        if not hmac.compare_digest(await reader.readexactly(_PROOF), _proof(secret, b"process", nonce)):
            raise ConnectionRefusedError(f"port {port} is not the model process's")
        writer.write(_proof(secret, b"client", theirs))
    except BaseException as error:
        writer.close()
        if isinstance(error, asyncio.IncompleteReadError):
            raise ConnectionRefusedError(str(error)) from error
        raise
    return reader, writer


async def admit(place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the client belongs to the same user. Raises OSError or IncompleteReadError if it leaves."""
    if place.socket is not None:
        return _same_user(writer)
    secret = _read_port(place.port)[1]
    theirs = await reader.readexactly(_NONCE)
    nonce = secrets.token_bytes(_NONCE)
    writer.write(nonce + _proof(secret, b"process", theirs))
    return hmac.compare_digest(await reader.readexactly(_PROOF), _proof(secret, b"client", nonce))


def _same_user(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is this user's, as the system says; True where it does not."""
    if sys.platform != "linux":
        return True
    credentials = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


def _read_port(path: Path) -> tuple[int, bytes]:
    """Raises OSError if no process listens."""
    try:
        port, secret = parse_json(read_file(path))
        return int(port), bytes.fromhex(secret)
    except (ValueError, TypeError) as error:
        raise ConnectionRefusedError(f"{path} cannot be read: {error}") from error


def _proof(secret: bytes, who: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, who + nonce, "sha256")
