"""The messages between a client and the model process: frames of a length and one JSON object. No pickle.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON. Both ends refuse a frame over
`MOST_BYTES`, and a message with a missing field or one of another type. The standard library parses the JSON
and msgspec checks it: msgspec's own parser refuses the lone surrogates that editors send.

Client to process
    {"op": "hello", "protocol": int, "linger": float | null,
     "threads": int, "gpuLayers": int | null, "mlock": bool}
    {"op": "generate", "id": int, "segments": [[kind, text], ...], "forced": str, "version": str,
     "maxTokens": int, "priority": int, "document": str, "deadline": float | null, "oneLine": bool,
     "function": int | null,
     "sampling": [temperature, seed] | null, "temperatures": [float, ...], "reuse": bool,
     "observe": int, "given": [id, ...], "words": [str, ...], "first": int}
    {"op": "score", "id": int, "segments": ..., "forced": str, "version": str, "text": str,
     "priority": int, "temperatures": [float, ...], "above": float | null}
    {"op": "enough" | "cancel" | "stats", "id": int}
    {"op": "linger", "linger": float}                      replaces the value in `hello`
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
    {"id": int, "scored": true, "counted": [{...}, ...]}   the fields of `Distributions` in base64
    {"id": int, "error": "cancelled" | "superseded" | "deadline" | "failed", "message": str}
A token is [id, logprob, typed_logprob, text, softmax, seen], without what is null at its end. softmax is
[logit, [log_sum_exp, ...], entropy] or null; seen is [entropy, margin, second, newline] or null, and so is
each of these. If the request has words, seen goes on with [logprob, ...] of these and
[[text, logprob], ...] of the likeliest tokens. The last five messages with an id are the last for that id.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import attrs
import msgspec
from msgspec import Meta

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Observe, Priority, Request, Sampling, ScoreRequest
from lsp_calib.json_text import converted
from lsp_calib.values import (
    Distributions,
    Generation,
    Observation,
    Prompt,
    Segment,
    Softmax,
    Stop,
    Timing,
    Token,
)

PROTOCOL = 8
MOST_BYTES = 16 << 20
HEADER = struct.Struct(">I")
_LARGEST = sys.float_info.max
# More tokens than any answer has.
_MOST_GIVEN = 1 << 16
# More than any question has answers.
_MOST_WORDS = 64
_UNREADABLE_ANSWER = "The model process sent an answer that cannot be read"

Message = dict[str, Any]

# NaN and the infinities are not within any bounds. No context has as many positions as `Count` allows.
Count = Annotated[int, Meta(ge=0, le=1 << 31)]
Finite = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
# Any combination of the flags of `Observe`.
Flags = Annotated[int, Meta(ge=0, lt=2 * max(flag.value for flag in Observe))]
Positive = Annotated[float, Meta(gt=0.0, le=_LARGEST)]
Seconds = Annotated[float, Meta(ge=0.0, le=_LARGEST)]


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """How a client wants the model loaded; those of the first client apply.

    threads: 0 chooses by measuring. gpu_layers: None uses a GPU where it is faster.
    """

    threads: Count
    gpu_layers: Count | None
    mlock: bool


DEFAULT_OPTIONS = Options(threads=0, gpu_layers=None, mlock=False)


@attrs.frozen
class Hello:
    """A client's first message. linger: seconds the process stays after its last client, None: no wish."""

    options: Options = DEFAULT_OPTIONS
    linger: float | None = None


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


class _Linger(msgspec.Struct, frozen=True):
    linger: Seconds | None


class _Asked(msgspec.Struct, frozen=True, rename="camel", tag_field="op"):
    id: int
    segments: list[tuple[Segment, str]]
    forced: str
    version: str
    priority: Priority
    most_prompt: Count | None
    below: Annotated[int, Meta(ge=-1, le=1 << 31)]


class _Score(_Asked, frozen=True, tag="score"):
    temperatures: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=64)]
    text: str
    above: Annotated[float, Meta(ge=0.0, le=1.0)] | None


class _Generate(_Asked, frozen=True, tag="generate"):
    temperatures: Annotated[tuple[Positive, ...], Meta(max_length=64)]
    max_tokens: Count
    document: str
    deadline: Finite | None
    one_line: bool
    function: Count | None
    sampling: tuple[Positive, int] | None
    reuse: bool
    observe: Flags
    given: Annotated[tuple[Count, ...], Meta(max_length=_MOST_GIVEN)]
    words: Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(max_length=_MOST_WORDS)]
    first: Count


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    entropy: Finite | None
    margin: Finite | None
    second: Count | None
    newline: Finite | None
    words: tuple[Finite, ...] = ()
    likeliest: tuple[tuple[str, Finite], ...] = ()


class _Token(msgspec.Struct, frozen=True, array_like=True):
    id: int
    logprob: float
    typed_logprob: float
    text: str
    softmax: tuple[float, tuple[float, ...], float] | None = None
    seen: _Seen | None = None


class _Distributions(msgspec.Struct, frozen=True):
    # msgspec reads base64 where bytes are declared.
    sums: bytes
    tokens: bytes
    probabilities: bytes
    targets: bytes
    target_probabilities: bytes
    largest: bytes
    hits: bytes


class _Generation(msgspec.Struct, frozen=True):
    text: str
    tokens: list[_Token]
    stop: Stop
    timing: tuple[float, int, int, float, float, float, float, int]  # the fields of `Timing`, in its order
    doubt: str
    healing: tuple[Count, ...]
    state: tuple[float, ...]


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
    return {
        "op": "hello",
        "protocol": PROTOCOL,
        "linger": hello.linger,
        **msgspec.to_builtins(hello.options),
    }


def hello_from_wire(message: Message) -> Hello:
    """Raises EngineError if it is not a hello, or one of another protocol."""
    if message.get("op") != "hello" or message.get("protocol") != PROTOCOL:
        raise EngineError(
            "The client and the model process use incompatible protocol versions. They come from different "
            "versions of lsp-calib: restart all editors that use it."
        )
    failure = "The model process received a greeting that it cannot read"
    return Hello(_read(message, Options, failure), _read(message, _Linger, failure).linger)


def linger_from_wire(message: Message) -> float:
    """Raises EngineError if it is not a number of seconds."""
    seconds: float = _read(message.get("linger"), Seconds, "The model process received an invalid `linger`")
    return seconds


def options_from_wire(message: Message) -> Options:
    """Raises EngineError if a field is missing or of another type."""
    options: Options = _read(message, Options, "The model process sent options that cannot be read")
    return options


def loaded_to_wire(loaded: Loaded) -> Message:
    return {"event": "ready", **msgspec.to_builtins(loaded)}


def loaded_from_wire(message: Message) -> Loaded:
    """Raises EngineError if a field is missing or of another type."""
    loaded: Loaded = _read(message, Loaded, "The model process sent a message that cannot be read")
    return loaded


def stats_from_wire(message: Message) -> Stats:
    """The inverse of `msgspec.to_builtins`. Raises EngineError if a field is missing or of another type."""
    stats: Stats = _read(message, Stats, "The model process sent statistics that cannot be read")
    return stats


def request_to_wire(request_id: int, request: Request | ScoreRequest, *, first: int = 0) -> Message:
    """first: report the log-probabilities of so many first tokens as soon as they are there; 0 for none."""
    message = {
        "id": request_id,
        "segments": [[kind.value, text] for kind, text in request.prompt.segments],
        "forced": request.prompt.forced,
        "version": request.prompt.version,
        "priority": int(request.priority),
        "mostPrompt": request.prompt.most_tokens,
        "below": request.prompt.below,
        "temperatures": list(request.temperatures),
    }
    if isinstance(request, ScoreRequest):
        return {"op": "score", **message, "text": request.text, "above": request.above}
    sampling = request.sampling
    return {
        "op": "generate",
        **message,
        "maxTokens": request.max_tokens,
        "document": request.document,
        "deadline": request.deadline,
        "oneLine": request.one_line,
        "function": request.function,
        "sampling": None if sampling is None else [sampling.temperature, sampling.seed],
        "reuse": request.reuse,
        "observe": request.observe.value,
        "given": list(request.given),
        "words": list(request.words),
        "first": first,
    }


def request_from_wire(message: Message) -> tuple[int, Request | ScoreRequest, int]:
    """The id, the request and `first`. Raises EngineError if a field is missing or of another type."""
    read: _Generate | _Score = _read(
        message, _Generate | _Score, "The model process received a request that it cannot read"
    )
    prompt = Prompt(tuple(read.segments), read.forced, read.version, read.most_prompt, read.below)
    if isinstance(read, _Score):
        return read.id, ScoreRequest(prompt, read.text, read.priority, read.temperatures, read.above), 0
    request = Request(
        prompt=prompt,
        max_tokens=read.max_tokens,
        priority=read.priority,
        document=read.document,
        deadline=read.deadline,
        one_line=read.one_line,
        function=read.function,
        sampling=None if read.sampling is None else Sampling(*read.sampling),
        temperatures=read.temperatures,
        reuse=read.reuse,
        observe=Observe(read.observe),
        given=read.given,
        words=read.words,
    )
    return read.id, request, read.first


def distributions_to_wire(counted: Sequence[Distributions]) -> list[dict[str, str]]:
    return [
        {name: base64.b64encode(value).decode("ascii") for name, value in attrs.asdict(one).items()}
        for one in counted
    ]


def distributions_from_wire(counted: Any) -> tuple[Distributions, ...]:
    """Raises EngineError if a field is missing, of another type, or not base64."""
    read: list[_Distributions] = _read(counted, list[_Distributions], _UNREADABLE_ANSWER)
    return tuple(Distributions(**msgspec.structs.asdict(one)) for one in read)


def generation_to_wire(generation: Generation) -> Message:
    return {
        "text": generation.text,
        "tokens": tokens_to_wire(generation.tokens),
        "stop": generation.stop.value,
        "timing": list(attrs.astuple(generation.timing)),
        "doubt": generation.doubt,
        "healing": list(generation.healing),
        "state": list(generation.state),
    }


def generation_from_wire(message: Message) -> Generation:
    """Raises EngineError if a field is missing or of another type."""
    read = _read(message, _Generation, _UNREADABLE_ANSWER)
    tokens = tuple(map(_token, read.tokens))
    timing = Timing(*read.timing)
    return Generation(read.text, tokens, read.stop, timing, read.doubt, read.healing, read.state)


def tokens_to_wire(tokens: tuple[Token, ...] | list[Token]) -> list[list[Any]]:
    return [_token_to_wire(token) for token in tokens]


def tokens_from_wire(tokens: Any) -> list[Token]:
    """Raises EngineError if a field is missing or of another type."""
    return [_token(token) for token in _read(tokens, list[_Token], _UNREADABLE_ANSWER)]


def logprobs_from_wire(logprobs: Any) -> tuple[float, ...]:
    """Raises EngineError if they are not numbers."""
    read: tuple[float, ...] = _read(logprobs, tuple[float, ...], _UNREADABLE_ANSWER)
    return read


def _token_to_wire(token: Token) -> list[Any]:
    row: list[Any] = [token.id, token.logprob, token.typed_logprob, token.text]
    if (softmax := token.softmax) is not None:
        row.append([softmax.logit, list(softmax.log_sum_exps), softmax.entropy])
    if (seen := token.seen) is not None:
        row += [None] * (token.softmax is None)
        told: list[Any] = [seen.entropy, seen.margin, seen.second, seen.newline]
        if seen.words or seen.likeliest:
            told += [list(seen.words), [list(one) for one in seen.likeliest]]
        row.append(told)
    return row


def _token(read: _Token) -> Token:
    softmax = None if read.softmax is None else Softmax(*read.softmax)
    seen = None if read.seen is None else Observation(**msgspec.structs.asdict(read.seen))
    return Token(read.id, read.logprob, read.typed_logprob, read.text, softmax, seen)


def _read(value: Any, kind: Any, failure: str) -> Any:
    """`value`, checked and converted. Raises EngineError: `failure`, and which field is wrong."""
    try:
        return converted(value, kind)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise EngineError(f"{failure}: {error}.") from error
