"""The messages between a client and the model process: frames of a length and one JSON object. No pickle.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON. Both ends refuse a frame over
`MOST_BYTES`, and a message with a missing field or one of another type. The standard library parses the JSON
and msgspec checks it: msgspec's own parser refuses the lone surrogates that editors send.

Client to process
    {"op": "hello", "protocol": int, "linger": float | null,
     "threads": int, "gpuLayers": int | null, "mlock": bool}
    {"op": "generate", "id": int, "request": {...}}        the fields of `Request`
    {"op": "score", "id": int, "request": {...}}           the fields of `ScoreRequest`
    {"op": "cancel" | "stats", "id": int}
    {"op": "restart"}
Process to client
    {"event": "welcome", "pid": int, "threads": int, "gpuLayers": int | null, "mlock": bool}
    {"event": "loading", "fraction": float}
    {"event": "ready", "sha256": str, "engine": str, "notes": [str, ...], "threads": int,
     "acceleration": str, "tried": bool}
    {"event": "failed", "kind": "file" | "missing" | "unable", "message": str}
    {"event": "busy" | "free"}                             another client's work goes before this one's
    {"event": "bye" | "error", "message": str}             and the connection is closed
    {"id": int, "tokens": [{...}, ...]}                    a piece of a scored text: the fields of `Token`
    {"id": int, "generation": {...}} | {"id": int, "scored": true} | {"id": int, "stats": {...}}
    {"id": int, "scored": true, "counted": [{...}, ...]}   the fields of `Distributions` in base64
    {"id": int, "error": "superseded" | "failed", "message": str}
A field that has a default may be missing. The last five messages with an id are the last for that id.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from lsp_calib.errors import EngineError, LspCalibError, ModelError, ModelFileError, SettingsError
from lsp_calib.inference.engine import Count, Finite, Request, ScoreRequest
from lsp_calib.json_text import converted

PROTOCOL = 10
MOST_BYTES = 16 << 20
HEADER = struct.Struct(">I")
Message = dict[str, Any]
T = TypeVar("T")


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """How a client wants the model loaded; those of the first client apply.

    threads: 0 chooses by measuring. gpu_layers: None uses a GPU where it is faster.
    """

    threads: Count
    gpu_layers: Count | None
    mlock: bool


def kind_of(error: LspCalibError | OSError) -> str:
    """The kind of a `failed` event: a system that cannot do it now may be able to later."""
    if isinstance(error, ModelFileError):
        return "file"
    return "unable" if isinstance(error, OSError | SettingsError) else "missing"


def failure(event: Message) -> LspCalibError:
    """The error in a `failed` event."""
    kinds: dict[Any, type[LspCalibError]] = {"file": ModelFileError, "unable": EngineError}
    return kinds.get(event.get("kind"), ModelError)(str(event.get("message")))


class Hello(Options, frozen=True, rename="camel"):
    """A client's first message. linger: seconds the process stays after its last client, None: no wish."""

    linger: Annotated[float, Meta(ge=0.0, le=sys.float_info.max)] | None


NO_WISHES = Hello(threads=0, gpu_layers=None, mlock=False, linger=None)


class Loaded(msgspec.Struct, frozen=True):
    """A description of a loaded model.

    engine: the library or program that runs it. notes: messages for the user about how it was loaded.
    acceleration: the name of the hardware features it uses. tried: whether a trial with them succeeded.
    """

    sha256: str
    engine: str
    notes: tuple[str, ...]
    threads: Count
    acceleration: str
    tried: bool


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
    ahead_tokens: Count
    ahead_ms: Finite


class _Asked(msgspec.Struct, frozen=True):
    id: int
    request: Any


def encode(message: Message) -> bytes:
    """One frame. Raises EngineError if it would be too long."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(body) > MOST_BYTES:
        raise EngineError(f"A message of {len(body)} bytes is too long for the model process.")
    return HEADER.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The object in a frame's body. Raises EngineError if it is not an object."""
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise EngineError(
            f"The model process and its client broke their protocol: {error}. Restart the model."
        ) from error
    if not isinstance(message, dict):
        raise EngineError(
            "The model process and its client broke their protocol: a frame holds no object. "
            "Restart the model."
        )
    return message


def length(header: bytes) -> int:
    """The body's length in bytes. Raises EngineError if it is over `MOST_BYTES`."""
    (size,) = HEADER.unpack(header)
    if size > MOST_BYTES:
        raise EngineError(f"A frame claims {size} bytes; at most {MOST_BYTES} are allowed.")
    return int(size)


async def receive(reader: asyncio.StreamReader) -> Message:
    """The next message. Raises IncompleteReadError at the stream's end, EngineError for anything else."""
    header = await reader.readexactly(HEADER.size)
    return decode(await reader.readexactly(length(header)))


def hello_to_wire(hello: Hello) -> Message:
    return {"op": "hello", "protocol": PROTOCOL, **msgspec.to_builtins(hello)}


def hello_from_wire(message: Message) -> Hello:
    """Raises EngineError if it is not a hello, or one of another protocol."""
    if message.get("op") != "hello" or message.get("protocol") != PROTOCOL:
        raise EngineError(
            "The client and the model process use incompatible protocol versions. They come from different "
            "versions of lsp-calib: restart all editors that use it."
        )
    return read(message, Hello, "The model process received a greeting that it cannot read")


def request_to_wire(request: Request | ScoreRequest) -> Message:
    """A request without its id."""
    op = "score" if isinstance(request, ScoreRequest) else "generate"
    return {"op": op, "request": msgspec.to_builtins(request)}


def request_from_wire(message: Message) -> tuple[int, Request | ScoreRequest]:
    """The id and the request. Raises EngineError if a field is missing or of another type."""
    failure = "The model process received a request that it cannot read"
    asked = read(message, _Asked, failure)
    kind: type[Request | ScoreRequest] = ScoreRequest if message["op"] == "score" else Request
    return asked.id, read(asked.request, kind, failure)


def read(
    value: Any, kind: type[T], failure: str = "The model process sent an answer that cannot be read"
) -> T:
    """`value`, made by `msgspec.to_builtins`, as an object again.

    Raises EngineError, `failure` and which field is wrong, if one is missing or of another type.
    """
    try:
        return converted(value, kind)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise EngineError(f"{failure}: {error}.") from error
