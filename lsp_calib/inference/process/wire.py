"""The frames between a client and the model process: a length, then one JSON object. No pickle.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON. Both ends refuse a frame over
`MOST_BYTES` and a message whose fields are not of the stated types.

Client to process
    {"op": "hello", "protocol": int, "linger": float | null,
     "threads": int, "gpuLayers": int | null, "mlock": bool}
    {"op": "generate", "id": int, "segments": [[kind, text], ...], "forced": str, "version": str,
     "maxTokens": int, "priority": int, "document": str, "deadline": float | null, "oneLine": bool,
     "sampling": [temperature, seed] | null, "temperatures": [float, ...], "reuse": bool, "first": int}
    {"op": "score", "id": int, "segments": ..., "forced": str, "version": str, "text": str,
     "priority": int, "temperatures": [float, ...]}
    {"op": "enough" | "cancel" | "stats", "id": int}
    {"op": "linger", "linger": float}                      instead of what `hello` said
    {"op": "restart"}
Process to client
    {"event": "welcome", "pid": int, "threads": int, "gpuLayers": int | null, "mlock": bool}
    {"event": "loading", "fraction": float}
    {"event": "ready", "sha256": str, "engine": str, "notes": [str, ...], "threads": int,
     "acceleration": str}
    {"event": "failed", "kind": "file" | "missing", "message": str}
    {"event": "busy" | "free"}                             another client's work goes before this one's
    {"event": "bye" | "error", "message": str}             and the connection is closed
    {"id": int, "first": [logprob, ...]}                   the first tokens of an answer, if asked for
    {"id": int, "tokens": [token, ...]}                    a piece of a scored text
    {"id": int, "generation": {...}} | {"id": int, "scored": true} | {"id": int, "stats": {...}}
    {"id": int, "error": "cancelled" | "superseded" | "deadline" | "failed", "message": str}
A token is [id, logprob, typed_logprob, text], followed by [logit, [log_sum_exp, ...], entropy] if there is a
softmax. The last four messages with an id are the last for that id.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
from typing import Any, TypeVar

import attrs

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Priority, Request, Sampling, ScoreRequest
from lsp_calib.values import Generation, Prompt, Segment, Softmax, Stop, Timing, Token

PROTOCOL = 3
MOST_BYTES = 16 << 20
HEADER = struct.Struct(">I")
# More than any context has positions: a request that claims more is not to be believed.
_MOST_TOKENS = 1 << 31
_MOST_TEMPERATURES = 64

_COUNTS = (
    "running",
    "waiting",
    "clients",
    "threads",
    "prompt_tokens",
    "generated_tokens",
    "ahead_tokens",
)

T = TypeVar("T")
Message = dict[str, Any]


@attrs.frozen
class Options:
    """How a client wants the model loaded; those of the first client hold.

    threads: 0 chooses by measuring. gpu_layers: None uses a GPU where it is faster.
    """

    threads: int = 0
    gpu_layers: int | None = None
    mlock: bool = False


@attrs.frozen
class Hello:
    """What a client says first. linger: seconds the process stays after its last client, None: no wish."""

    options: Options = Options()
    linger: float | None = None


@attrs.frozen
class Loaded:
    """What a loaded model is.

    engine: what runs it. notes: what a user should know of how it was loaded. acceleration: the name of what
    it uses of the hardware.
    """

    sha256: str
    engine: str
    notes: tuple[str, ...] = ()
    threads: int = 0
    acceleration: str = ""


@attrs.frozen
class Stats:
    """What the process does and has done. Times are `time.monotonic()` of the process's machine, in seconds.

    idle_since: None while something runs. running, waiting: requests of all clients. The rest: see
    `backend.Counters`.
    """

    now: float
    idle_since: float | None
    running: int
    waiting: int
    clients: int
    threads: int
    prompt_tokens: int
    generated_tokens: int
    decode_ms: float
    ahead_tokens: int
    ahead_ms: float


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


async def receive(reader: asyncio.StreamReader) -> Message:
    """The next message. Raises IncompleteReadError at the stream's end, EngineError for what is none."""
    header = await reader.readexactly(HEADER.size)
    return decode(await reader.readexactly(length(header)))


def hello_to_wire(hello: Hello) -> Message:
    return {
        "op": "hello",
        "protocol": PROTOCOL,
        "linger": hello.linger,
        **options_to_wire(hello.options),
    }


def hello_from_wire(message: Message) -> Hello:
    """Raises EngineError if it is no hello, or one of another protocol."""
    try:
        if message["op"] != "hello" or message["protocol"] != PROTOCOL:
            raise ValueError("another protocol")
        linger = message["linger"]
        return Hello(options_from_wire(message), None if linger is None else _number(linger, 0.0))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process was greeted in words it cannot read: {error!r}.") from error


def linger_from_wire(message: Message) -> float:
    """Raises EngineError if it is no number of seconds."""
    try:
        return _number(message["linger"], 0.0)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(
            f"The model process was told to stay for no number of seconds: {error!r}."
        ) from error


def options_to_wire(options: Options) -> Message:
    return {"threads": options.threads, "gpuLayers": options.gpu_layers, "mlock": options.mlock}


def options_from_wire(message: Message) -> Options:
    """Raises KeyError, TypeError or ValueError."""
    layers = message["gpuLayers"]
    return Options(
        _count(message["threads"]),
        None if layers is None else _count(layers),
        _typed(message["mlock"], bool, True),
    )


def loaded_to_wire(loaded: Loaded) -> Message:
    return {"event": "ready", **attrs.asdict(loaded)}


def loaded_from_wire(message: Message) -> Loaded:
    """Raises EngineError if a field is missing or of another type."""
    try:
        return Loaded(
            _typed(message["sha256"], str),
            _typed(message["engine"], str),
            tuple(_typed(note, str) for note in message["notes"]),
            _count(message["threads"]),
            _typed(message["acceleration"], str),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(f"The model process sent words that cannot be read: {error!r}.") from error


def stats_from_wire(message: Message) -> Stats:
    """The inverse of `attrs.asdict`. Raises EngineError if a field is missing or of another type."""
    try:
        idle = message["idle_since"]
        return Stats(
            now=_number(message["now"]),
            idle_since=None if idle is None else _number(idle),
            decode_ms=_number(message["decode_ms"]),
            ahead_ms=_number(message["ahead_ms"]),
            **{name: _count(message[name]) for name in _COUNTS},
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process sent words that cannot be read: {error!r}.") from error


def request_to_wire(request_id: int, request: Request | ScoreRequest, *, first: int = 0) -> Message:
    """first: tell the log-probabilities of so many first tokens as soon as they are there; 0 for none."""
    message = {
        "id": request_id,
        "segments": [[kind.value, text] for kind, text in request.prompt.segments],
        "forced": request.prompt.forced,
        "version": request.prompt.version,
        "priority": int(request.priority),
        "temperatures": list(request.temperatures),
    }
    if isinstance(request, ScoreRequest):
        return {"op": "score", **message, "text": request.text}
    sampling = request.sampling
    return {
        "op": "generate",
        **message,
        "maxTokens": request.max_tokens,
        "document": request.document,
        "deadline": request.deadline,
        "oneLine": request.one_line,
        "sampling": None if sampling is None else [sampling.temperature, sampling.seed],
        "reuse": request.reuse,
        "first": first,
    }


def request_from_wire(message: Message) -> tuple[int, Request | ScoreRequest, int]:
    """The id, the request and `first`. Raises EngineError if a field is missing or of another type."""
    try:
        segments = tuple((Segment(kind), _typed(text, str)) for kind, text in message["segments"])
        prompt = Prompt(segments, _typed(message["forced"], str), _typed(message["version"], str))
        priority = Priority(message["priority"])
        temperatures = tuple(_positive(value) for value in message["temperatures"])
        if len(temperatures) > _MOST_TEMPERATURES:
            raise ValueError("too many temperatures")
        request_id = _typed(message["id"], int)
        if message["op"] == "score":
            if not temperatures:
                raise ValueError("a score without a temperature")
            return request_id, ScoreRequest(prompt, _typed(message["text"], str), priority, temperatures), 0
        deadline = message["deadline"]
        return (
            request_id,
            Request(
                prompt=prompt,
                max_tokens=_count(message["maxTokens"]),
                priority=priority,
                document=_typed(message["document"], str),
                deadline=None if deadline is None else _number(deadline),
                one_line=_typed(message["oneLine"], bool, True),
                sampling=_sampling(message["sampling"]),
                temperatures=temperatures,
                reuse=_typed(message["reuse"], bool, True),
            ),
            _count(message["first"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process was sent a request it cannot read: {error!r}.") from error


def generation_to_wire(generation: Generation) -> Message:
    return {
        "text": generation.text,
        "tokens": tokens_to_wire(generation.tokens),
        "stop": generation.stop.value,
        "timing": list(attrs.astuple(generation.timing)),
        "doubt": generation.doubt,
    }


def generation_from_wire(message: Message) -> Generation:
    """Raises EngineError if a field is missing or of another type."""
    try:
        queue, count, reused, prompt, generate, total, decode_, generated = message["timing"]
        timing = Timing(
            queue_ms=float(queue),
            prompt_tokens=int(count),
            prompt_reused=int(reused),
            prompt_ms=float(prompt),
            generate_ms=float(generate),
            total_ms=float(total),
            decode_ms=float(decode_),
            generated_tokens=int(generated),
        )
        return Generation(
            _typed(message["text"], str),
            tuple(_token(token) for token in message["tokens"]),
            Stop(message["stop"]),
            timing,
            _typed(message["doubt"], str),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process sent an answer that cannot be read: {error!r}.") from error


def tokens_to_wire(tokens: tuple[Token, ...] | list[Token]) -> list[list[Any]]:
    return [_token_to_wire(token) for token in tokens]


def tokens_from_wire(tokens: Any) -> list[Token]:
    """Raises EngineError if a field is missing or of another type."""
    try:
        return [_token(token) for token in tokens]
    except (TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process sent an answer that cannot be read: {error!r}.") from error


def logprobs_from_wire(logprobs: Any) -> tuple[float, ...]:
    """Raises EngineError if they are no numbers."""
    try:
        return tuple(float(logprob) for logprob in logprobs)
    except (TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"The model process sent an answer that cannot be read: {error!r}.") from error


def _token_to_wire(token: Token) -> list[Any]:
    plain = [token.id, token.logprob, token.typed_logprob, token.text]
    if (softmax := token.softmax) is None:
        return plain
    return [*plain, [softmax.logit, list(softmax.log_sum_exps), softmax.entropy]]


def _token(values: Any) -> Token:
    token, logprob, typed_logprob, text, *more = values
    softmax = None
    if more:
        ((logit, log_sum_exps, entropy),) = more
        softmax = Softmax(float(logit), tuple(float(value) for value in log_sum_exps), float(entropy))
    return Token(_typed(token, int), float(logprob), float(typed_logprob), _typed(text, str), softmax)


def _sampling(value: Any) -> Sampling | None:
    if value is None:
        return None
    temperature, seed = value
    return Sampling(_positive(temperature), _typed(seed, int))


def _number(value: Any, least: float = -math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if not (math.isfinite(value) and value >= least):
        raise ValueError(f"{value!r} is out of range")
    return float(value)


def _positive(value: Any) -> float:
    number = _number(value)
    if number <= 0:
        raise ValueError(f"{value!r} is not above 0")
    return number


def _count(value: Any) -> int:
    count = _typed(value, int)
    if not 0 <= count <= _MOST_TOKENS:
        raise ValueError(f"{value!r} is out of range")
    return count


def _typed(value: Any, kind: type[T], truth: bool = False) -> T:
    if not isinstance(value, kind) or isinstance(value, bool) is not truth:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value
