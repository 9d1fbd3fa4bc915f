"""Parses the output of an OpenAI-compatible server: server-sent events, pieces of an answer, lists of models.

Pure. Two shapes of log-probabilities are in use on `/v1/completions`: OpenAI's own, four parallel lists
(vLLM, llama-cpp-python), and the one of chats, a list of objects (llama-server).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from lsp_calib.errors import EngineError

_BYTES = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)\Z")
_NO_BYTES = re.compile(r"token_id:\d+\Z")

# More than any server lists for a token, of models, and than a model's name has characters.
_MOST_ALTERNATIVES = 256
_MOST_MODELS = 2000
_LONGEST_NAME = 300

NOT_COMPATIBLE = (
    "The remote server's answer is not OpenAI-compatible. Check `remote.url`: it usually ends in /v1."
)


def most_tokens(asked: int) -> int:
    """More tokens, and more pieces, than a server's answer has where so many tokens were asked for."""
    return 2 * asked + 32


@attrs.frozen
class Entry:
    """A server's report on one token.

    data: the bytes it stands for, None where the server's data does not determine them.
    logprob: natural logarithm of its probability; NaN where there is no number.
    top: likely tokens at its place with their log-probabilities, as far as their bytes are known.
    """

    id: int
    data: bytes | None
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()


@attrs.frozen
class Usage:
    """Numbers of tokens; 0 where not reported. prompt_reused: found in the server's cache."""

    prompt_tokens: int = 0
    prompt_reused: int = 0
    completion_tokens: int = 0


@attrs.frozen
class Chunk:
    """A piece of an answer. finish: why it ended, "" while it goes on. error: the server's own message."""

    text: str = ""
    entries: tuple[Entry, ...] = ()
    offsets: tuple[int, ...] = ()
    finish: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    error: str = ""


class EventReader:
    """Server-sent events from bytes as they arrive: the text after `data:`, without other fields.

    But llama-server sends an error after `error:`; it becomes an event as other servers send one.
    Not httpx-sse: that buffers a line of any length, and drops an event that the stream's end cuts short.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line whose end has not come
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """The events that `data` completes."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest = []
        self._rest.append(rest)
        events = [self._line(line) for line in lines]
        return [event for event in events if event is not None]

    def end(self) -> list[str]:
        """The last event, if no empty line followed it."""
        events = [self._line(b"".join(self._rest)), self._line(b"")]
        self._rest = []
        return [event for event in events if event is not None]

    def _line(self, line: bytes) -> str | None:
        text = line.removesuffix(b"\r").decode("utf-8", "replace")
        if not text:
            event, self._data = "\n".join(self._data), []
            return event or None
        field, _, value = text.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        return _error_event(value) if field == "error" else None


class WholeReader:
    """As `EventReader`, for an answer that is not streamed: one event, at its end."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[str]:
        self._data += data
        return []

    def end(self) -> list[str]:
        return [self._data.decode("utf-8", "replace")]


def _error_event(value: str) -> str:
    """The event with an error that was sent in a field of its own, as JSON or as plain words."""
    error: Any = value.strip()
    with contextlib.suppress(EngineError):
        error = _json(value)
    return json.dumps({"error": error or {"message": ""}})


def parse_chunk(text: str, most: int = most_tokens(1 << 12)) -> Chunk:
    """One event's data, or a whole answer that was not streamed. Raises EngineError if it is neither.

    most: tokens to read; others that are listed after them are left out.
    """
    raw = _json(text)
    if not isinstance(raw, Mapping):
        raise EngineError(NOT_COMPATIBLE)
    if error := error_in(raw):
        return Chunk(error=error)
    choices = raw.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise EngineError(NOT_COMPATIBLE)
    usage = _usage(raw)
    if not choices:
        return Chunk(usage=usage)
    choice = choices[0]
    content = choice.get("text")
    if not isinstance(content, str | None):
        raise EngineError(NOT_COMPATIBLE)
    entries, offsets = _entries(choice.get("logprobs"), most)
    return Chunk(
        text=_clean(content or ""),
        entries=entries,
        offsets=offsets,
        finish=_string(choice.get("finish_reason")),
        stop_reason=_string(choice.get("stop_reason")),
        usage=usage,
    )


@attrs.frozen
class Served:
    """A server's models, None where it has no list of them; and whether it is llama-server, which has more
    options than OpenAI's."""

    names: tuple[str, ...] | None = None
    llama_server: bool = False


def parse_models(text: str) -> Served:
    """An answer of `/v1/models`. Raises EngineError if it is not one."""
    raw = _json(text)
    data = _mapping(raw).get("data")
    if not isinstance(data, list):
        raise EngineError(NOT_COMPATIBLE)
    models = [model for model in data if isinstance(model, Mapping)]
    names = [model.get("id") for model in models[:_MOST_MODELS]]
    return Served(
        tuple(_clean(name) for name in names if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME),
        any(model.get("owned_by") == "llamacpp" for model in models),
    )


def error_in(raw: Mapping[str, Any]) -> str:
    """A server's error message in one of the usual shapes; "" if there is none."""
    error = raw.get("error")
    if not error and (raw.get("object") == "error" or ("choices" not in raw and "message" in raw)):
        error = raw
    if error:
        said = error.get("message") if isinstance(error, Mapping) else error
        return _words(said) or "an error without a message"
    return _words(raw.get("detail"))


def error_message(text: str) -> str:
    """The error message in a body; "" if it is of no known shape."""
    try:
        raw = _json(text)
    except EngineError:
        return ""
    return error_in(raw) if isinstance(raw, Mapping) else ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise EngineError(NOT_COMPATIBLE) from None


def _entries(raw: Any, most: int) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    if not isinstance(raw, Mapping):
        return (), ()
    if isinstance(raw.get("content"), list):
        objects = [item for item in raw["content"][:most] if isinstance(item, Mapping)]
        return tuple(_entry(item) for item in objects), ()
    tokens, logprobs = _list(raw.get("tokens")), _list(raw.get("token_logprobs"))
    tops, offsets = _list(raw.get("top_logprobs")), _list(raw.get("text_offset"))
    known = len(offsets) == len(tokens)
    tokens, offsets = tokens[:most], offsets[:most]
    entries = []
    # The other lists may be shorter than that of the tokens.
    columns = tokens, logprobs[: len(tokens)], tops[: len(tokens)]
    for token, logprob, alternatives in itertools.zip_longest(*columns):
        pairs = [(_data(text), _number(value)) for text, value in _first(_mapping(alternatives).items())]
        entries.append(Entry(-1, _data(token), _number(logprob), _top(pairs)))
    known = known and all(isinstance(offset, int) for offset in offsets)
    return tuple(entries), tuple(offsets) if known else ()


def _entry(raw: Mapping[str, Any]) -> Entry:
    top = [item for item in _first(_list(raw.get("top_logprobs"))) if isinstance(item, Mapping)]
    pairs = [(_data(item.get("token"), item.get("bytes")), _number(item.get("logprob"))) for item in top]
    number = _count(raw.get("id"), -1)
    # For the chosen token llama-server reports only the text it sends, which a stop string may cut; the list
    # has the whole token.
    itself = next((item for item in top if number >= 0 and item.get("id") == number), raw)
    data = _data(itself.get("token"), itself.get("bytes"))
    return Entry(number, data, _number(raw.get("logprob")), _top(pairs))


def _first(alternatives: Iterable[Any]) -> Iterable[Any]:
    return itertools.islice(alternatives, _MOST_ALTERNATIVES)


def _top(pairs: list[tuple[bytes | None, float]]) -> tuple[tuple[bytes, float], ...]:
    return tuple((data, value) for data, value in pairs if data is not None)


def _data(token: Any, spelled: Any = None) -> bytes | None:
    """A token's bytes. Half a character is sent as bytes, as vLLM's `bytes:\\xe2\\x80`, or not at all."""
    if isinstance(spelled, list) and all(type(byte) is int and 0 <= byte < 256 for byte in spelled):
        return bytes(spelled)
    if not isinstance(token, str) or "\ufffd" in token or _NO_BYTES.match(token):
        return None
    if match := _BYTES.match(token):
        return bytes.fromhex(match.group(1).replace("\\x", ""))
    return token.encode("utf-8", "replace")


def _usage(raw: Mapping[str, Any]) -> Usage | None:
    usage, timings = raw.get("usage"), raw.get("timings")
    if not isinstance(usage, Mapping) and not isinstance(timings, Mapping):
        return None
    usage, timings = _mapping(usage), _mapping(timings)
    details = _mapping(usage.get("prompt_tokens_details"))
    reused = _count(timings.get("cache_n")) or _count(details.get("cached_tokens"))
    prompt = _count(usage.get("prompt_tokens")) or reused + _count(timings.get("prompt_n"))
    answer = _count(usage.get("completion_tokens")) or _count(timings.get("predicted_n"))
    return Usage(prompt, reused, answer)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _count(value: Any, otherwise: int = 0) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else otherwise


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _words(value: Any) -> str:
    return " ".join(_clean(_string(value)).split())
