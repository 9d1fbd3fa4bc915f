"""The frames between a client and the model process: a length, then one JSON object. No pickle.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON. Both ends refuse a frame over
`MOST_BYTES` and a message whose fields are not of the stated types.

Client to process
    {"op": "generate", "id": int, "segments": [[kind, text], ...], "forced": str, "version": str,
     "maxTokens": int, "priority": int}
    {"op": "cancel", "id": int}
Process to client
    {"event": "loading", "fraction": float}
    {"event": "ready", "sha256": str}
    {"event": "failed", "kind": "file" | "missing", "message": str}
    {"id": int, "generation": {...}} | {"id": int, "error": "cancelled" | "failed", "message": str}
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, TypeVar

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

MOST_BYTES = 16 << 20
HEADER = struct.Struct(">I")

T = TypeVar("T")
Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """One frame. Raises EngineError if it would be too long."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(body) > MOST_BYTES:
        raise EngineError(f"A message of {len(body)} bytes is too long for the model process.")
    return HEADER.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The object of a frame's body. Raises EngineError if it is none."""
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise EngineError(
            f"The model process and its client do not understand each other: {error}."
        ) from error
    if not isinstance(message, dict):
        raise EngineError(
            "The model process and its client do not understand each other: no object in a frame."
        )
    return message


def length(header: bytes) -> int:
    """The body's length in bytes. Raises EngineError if it is not to be believed."""
    (size,) = HEADER.unpack(header)
    if size > MOST_BYTES:
        raise EngineError(f"A frame claims {size} bytes; at most {MOST_BYTES} are allowed.")
    return int(size)


def read(stream: BinaryIO) -> Message | None:
    """The next message from a blocking stream, None at its end (also in the middle of a frame)."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    body = stream.read(length(header))
    return decode(body) if len(body) == length(header) else None


def request_to_wire(request_id: int, request: Request) -> Message:
    return {
        "op": "generate",
        "id": request_id,
        "segments": [[kind.value, text] for kind, text in request.prompt.segments],
        "forced": request.prompt.forced,
        "version": request.prompt.version,
        "maxTokens": request.max_tokens,
        "priority": int(request.priority),
    }


def request_from_wire(message: Message) -> tuple[int, Request]:
    """Raises EngineError if a field is missing or of another type."""
    try:
        segments = tuple((Segment(kind), _typed(text, str)) for kind, text in message["segments"])
        prompt = Prompt(segments, _typed(message["forced"], str), _typed(message["version"], str))
        request = Request(prompt, _typed(message["maxTokens"], int), Priority(message["priority"]))
        return _typed(message["id"], int), request
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(f"The model process was sent a request it cannot read: {error!r}.") from error


def generation_to_wire(generation: Generation) -> Message:
    t = generation.timing
    return {
        "text": generation.text,
        "tokens": [[token.id, token.logprob, token.typed_logprob, token.text] for token in generation.tokens],
        "stop": generation.stop.value,
        "timing": [t.queue_ms, t.prompt_tokens, t.prompt_reused, t.prompt_ms, t.generate_ms, t.total_ms],
    }


def generation_from_wire(message: Message) -> Generation:
    """Raises EngineError if a field is missing or of another type."""
    try:
        tokens = tuple(
            Token(_typed(token, int), float(logprob), float(typed_logprob), _typed(text, str))
            for token, logprob, typed_logprob, text in message["tokens"]
        )
        queue, count, reused, prompt, generate, total = message["timing"]
        timing = Timing(float(queue), int(count), int(reused), float(prompt), float(generate), float(total))
        return Generation(_typed(message["text"], str), tokens, Stop(message["stop"]), timing)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process sent an answer that cannot be read: {error!r}.") from error


def _typed(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value
