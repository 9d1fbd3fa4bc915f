"""An answer of an OpenAI-compatible server: its events, its text and tokens, and what is believed of them.

Pure. Two shapes of log-probabilities are in use on `/v1/completions`: OpenAI's own, four parallel lists
(vLLM, llama-cpp-python), and the one of chats, a list of objects (llama-server).
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from lsp_calib.inference.generation.run import function_end
from lsp_calib.values import Generation, Stop, Timing, Token

_BYTES = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)\Z")
# More than any server lists for a token, of models, and than a model's name has characters.
_MOST_ALTERNATIVES = 256
_MOST_MODELS = 2000
_LONGEST_NAME = 300
# More characters than a token has.
_LONGEST_TOKEN = 256
_NEVER = -9999.0  # vLLM's stand-in for minus infinity
_ROUNDING = 1e-4


class NotCompatibleError(ValueError):
    """What a server sent is not what an OpenAI-compatible one sends."""


@attrs.frozen
class Entry:
    """A server's report on one token.

    data: its bytes, None where they are not known. logprob: natural logarithm of its probability; NaN where
    there is no number. top: likely tokens at its place with their log-probabilities, as far as their bytes
    are known.
    """

    data: bytes | None
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()


@attrs.frozen
class Chunk:
    """A piece of an answer. index: of which one, where several were asked for. finish: why it ended, "" while
    it goes on."""

    text: str = ""
    entries: tuple[Entry, ...] = ()
    index: int = 0
    finish: str = ""


@attrs.frozen
class Event:
    """What a server sent at once. model: its name for the model, "" if it names none. failed: it reports an
    error. Numbers of tokens are 0 where they are not reported; prompt_reused: found in the server's cache."""

    chunks: tuple[Chunk, ...] = ()
    model: str = ""
    failed: bool = False
    prompt_tokens: int = 0
    prompt_reused: int = 0
    completion_tokens: int = 0


def read_event(text: str) -> Event:
    """One event, or a whole answer that was not streamed. Raises NotCompatibleError if it is neither."""
    raw = _object(text)
    if raw.get("error") or raw.get("object") == "error" or ("choices" not in raw and "message" in raw):
        return Event(failed=True)
    choices = raw.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise NotCompatibleError
    usage, timings = _mapping(raw.get("usage")), _mapping(raw.get("timings"))
    details = _mapping(usage.get("prompt_tokens_details"))
    reused = _count(timings.get("cache_n")) or _count(details.get("cached_tokens"))
    return Event(
        chunks=tuple(map(_chunk, choices)),
        model=_string(raw.get("model"))[:_LONGEST_NAME],
        prompt_tokens=_count(usage.get("prompt_tokens")) or reused + _count(timings.get("prompt_n")),
        prompt_reused=reused,
        completion_tokens=_count(usage.get("completion_tokens")) or _count(timings.get("predicted_n")),
    )


def read_models(text: str) -> tuple[str, ...]:
    """The names in an answer of `/v1/models`. Raises NotCompatibleError if it is not one."""
    data = _object(text).get("data")
    if not isinstance(data, list):
        raise NotCompatibleError
    names = (_string(_mapping(model).get("id")) for model in data[:_MOST_MODELS])
    return tuple(name for name in names if 0 < len(name) <= _LONGEST_NAME)


class Answer:
    """Collects the pieces of one answer.

    forced: characters it has to reproduce first. most: tokens after these. greedy: whether the likeliest
    token was asked for at each place. function: as for `Request`; the answer is complete where the function
    has ended, whatever the server goes on to say.
    """

    def __init__(
        self,
        *,
        forced: str = "",
        one_line: bool = True,
        most: int = 64,
        greedy: bool = True,
        function: int | None = None,
    ) -> None:
        self._forced = forced
        self._one_line = one_line
        self._most = most
        self._greedy = greedy
        self._function = function
        self._function_end: int | None = None
        self._text = ""
        self._entries: list[Entry] = []
        # What a server may still send: pieces, however little is in them, and tokens.
        self._left = self._most_entries = 2 * (most + len(forced.encode("utf-8", "replace"))) + 32
        self._finish = ""
        self._unlisted = False

    def add(self, chunk: Chunk) -> None:
        self._text += chunk.text
        self._left -= 1 + len(chunk.text) // _LONGEST_TOKEN
        self._entries += chunk.entries[: self._most_entries - len(self._entries)]
        self._finish = chunk.finish or self._finish
        self._unlisted = self._unlisted or bool(chunk.text and not chunk.entries)
        if self._function is not None and self._text.startswith(self._forced):
            end = function_end(self._text[len(self._forced) :], self._function)
            self._function_end = None if end is None else len(self._forced) + end

    @property
    def finished(self) -> bool:
        """Whether the server has reported the end of the answer."""
        return bool(self._finish)

    @property
    def contradicts(self) -> bool:
        """Whether the answer contradicts the text already typed."""
        if self._text.startswith(self._forced):
            return False
        return self.finished or not self._forced.startswith(self._text)

    @property
    def complete(self) -> bool:
        """Whether the rest of the answer is not needed, or it has none."""
        ended = self._function_end is not None or (self._one_line and "\n" in self._text)
        if self.finished or self.contradicts or self._overflows or ended:
            return True
        return len(self._entries) >= self._most and len(self._carried() or ()) >= self._most

    @property
    def _overflows(self) -> bool:
        """Whether the server goes on although it has sent more than it was asked for."""
        return self._left < 0 or len(self._entries) >= self._most_entries

    @property
    def tokens(self) -> int:
        """Tokens that the server has listed."""
        return len(self._entries)

    def generation(self, timing: Timing, doubt: str = "") -> Generation:
        """The answer. Where it is in doubt it has no tokens, because they are no evidence.

        doubt: why it is in doubt whatever it says.
        """
        carried = self._carried()
        text = self._wanted().encode()[len(self._forced.encode()) :]
        if carried is not None and len(carried) >= self._most:
            carried = carried[: self._most]
            text = b"".join(token.piece for token in carried)
        doubt = doubt or self._doubt(carried)
        tokens = tuple(
            Token(-1, min(one.entry.logprob, 0.0), one.typed_logprob, one.piece.decode("utf-8", "replace"))
            for one in carried or ()
        )
        return Generation(
            text=text.decode("utf-8", "replace").rstrip("\r"),
            tokens=() if doubt else tokens,
            stop=self._stop(carried),
            timing=timing,
            doubt=doubt,
        )

    def _wanted(self) -> str:
        """What was sent, up to the end of the line or the function that was asked for."""
        return self._text.partition("\n")[0] if self._one_line else self._text[: self._function_end]

    def _stop(self, carried: list[_Carried] | None) -> Stop:
        if self._function_end is not None:
            return Stop.FUNCTION
        ended = carried[-1] if carried and carried[-1].ends else None
        full = bool(carried) and ended is None and len(carried or ()) >= self._most
        if self._finish == "length" or self._overflows or full:
            return Stop.LENGTH
        last = ended.entry.data or b"" if ended is not None else b""
        if self._one_line and ("\n" in self._text or b"\n" in last):
            return Stop.LINE
        return Stop.END_OF_TEXT

    def _carried(self) -> list[_Carried] | None:
        """The tokens that add to the answer, the one that ended it last; None if they spell another text.

        Of those that show a function's end none is the answer's.
        """
        left, remaining = self._wanted().encode(), self._forced.encode()
        carried: list[_Carried] = []
        for entry in self._entries:
            whole = entry.data
            if self._function_end is not None and not left:
                break
            # The last token may go beyond the text, which a server cuts where it was told to stop.
            if whole is None or not (left.startswith(whole) or whole.startswith(left)):
                return None
            piece = whole[: len(left)]
            left = left[len(piece) :]
            ends = whole != piece or (not whole and not left)
            if whole[len(remaining) :] or not remaining:
                typed = typed_logprob(entry, remaining) if remaining else 0.0
                carried.append(_Carried(entry, typed, piece[len(remaining) :], ends))
            remaining = remaining[len(piece) :]
            if ends:
                break
        return None if left else carried

    def _doubt(self, carried: list[_Carried] | None) -> str:
        if not self._entries:
            return "the server gives no log-probabilities, so its confidence is unknown"
        if self._unlisted:
            return "the server gives log-probabilities for some tokens only, as under speculative decoding"
        if carried is None:
            return "the server's log-probabilities do not belong to the tokens of its answer"
        return implausible(self._entries, greedy=self._greedy)


@attrs.frozen
class _Carried:
    """A token that adds to the answer. piece: its text. ends: it goes beyond the line, or is no text."""

    entry: Entry
    typed_logprob: float
    piece: bytes
    ends: bool


def typed_logprob(entry: Entry, typed: bytes) -> float:
    """Logarithm of the probability of all tokens known to agree with the typed text; 0 if none is known."""
    if not entry.top:
        return 0.0
    agreeing = [
        value
        for data, value in _likely(entry).items()
        if data and (data.startswith(typed) or typed.startswith(data)) and not math.isnan(value)
    ]
    total = math.fsum(math.exp(min(value, 0.0)) for value in agreeing)
    # No less than the chosen one alone, and no more than everything.
    return min(math.log(total), 0.0) if total > 0.0 else 0.0


def implausible(entries: Sequence[Entry], *, greedy: bool) -> str:
    """Why log-probabilities cannot be true, for messages; "" if they can.

    Under speculative decoding llama-server sends zeros for the tokens that were drafted, or nothing at all
    where it streams; llama-cpp-python is known to have sent values that belong to the token beside.
    """
    values = [entry.logprob for entry in entries]
    if any(math.isnan(value) for value in values):
        return "the server gives no log-probability for some tokens"
    if any(not _NEVER < value <= _ROUNDING for value in values):
        return "the server gives log-probabilities that are above zero, or of tokens that cannot be chosen"
    listed = [entry for entry in entries if entry.top]
    zeros = [entry for entry in entries if entry.logprob == 0.0]
    all_certain = len(zeros) == len(entries) and (len(entries) > 1 or not listed)
    if zeros and (all_certain or (listed and any(not entry.top for entry in zeros))):
        return (
            "the server calls its tokens certain (log-probability 0), as some do under speculative decoding, "
            "which is implausible"
        )
    sums = [math.fsum(math.exp(min(v, 1.0)) for v in _likely(one).values() if v == v) for one in listed]
    if any(total > 1.001 for total in sums):
        return "the server's probabilities add up to more than 1"
    passed = [entry for entry in listed if max(value for _, value in entry.top) > entry.logprob + 0.01]
    if greedy and 2 * len(passed) > len(listed):
        return "the server's log-probabilities are not those of the tokens it chose"
    return ""


def _likely(entry: Entry) -> dict[bytes, float]:
    """The log-probabilities that are known at a token's place, its own among them."""
    return dict(entry.top) if entry.data is None else {**dict(entry.top), entry.data: entry.logprob}


def _chunk(choice: Mapping[str, Any]) -> Chunk:
    text = choice.get("text")
    if not isinstance(text, str | None):
        raise NotCompatibleError
    return Chunk(
        text=_string(text),
        entries=tuple(_entries(choice.get("logprobs"))),
        index=_count(choice.get("index")),
        finish=_string(choice.get("finish_reason")),
    )


def _entries(raw: Any) -> Iterable[Entry]:
    raw = _mapping(raw)
    if isinstance(raw.get("content"), list):
        return (_entry(item) for item in raw["content"] if isinstance(item, Mapping))
    tokens, logprobs = _list(raw.get("tokens")), _list(raw.get("token_logprobs"))
    # The other lists may be shorter than that of the tokens.
    columns = tokens, logprobs[: len(tokens)], _list(raw.get("top_logprobs"))[: len(tokens)]
    return (
        Entry(
            _data(token),
            _number(logprob),
            _top((_data(text), value) for text, value in _mapping(alternatives).items()),
        )
        for token, logprob, alternatives in itertools.zip_longest(*columns)
    )


def _entry(raw: Mapping[str, Any]) -> Entry:
    top = [item for item in _list(raw.get("top_logprobs")) if isinstance(item, Mapping)]
    # For the chosen token llama-server reports only the text it sends, which a stop string may cut; the list
    # has the whole token.
    number = raw.get("id")
    itself = next((item for item in top if number is not None and item.get("id") == number), raw)
    pairs = ((_data(item.get("token"), item.get("bytes")), item.get("logprob")) for item in top)
    return Entry(_data(itself.get("token"), itself.get("bytes")), _number(raw.get("logprob")), _top(pairs))


def _top(pairs: Iterable[tuple[bytes | None, Any]]) -> tuple[tuple[bytes, float], ...]:
    first = itertools.islice(pairs, _MOST_ALTERNATIVES)
    return tuple((data, _number(value)) for data, value in first if data is not None)


def _data(token: Any, spelled: Any = None) -> bytes | None:
    """A token's bytes. Half a character is sent as bytes, as vLLM's `bytes:\\xe2\\x80`, or not at all."""
    if isinstance(spelled, list) and all(type(byte) is int and 0 <= byte < 256 for byte in spelled):
        return bytes(spelled)
    if not isinstance(token, str) or "\ufffd" in token:
        return None
    if match := _BYTES.match(token):
        return bytes.fromhex(match.group(1).replace("\\x", ""))
    return token.encode("utf-8", "replace")


def _object(text: str) -> Mapping[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise NotCompatibleError from None
    if not isinstance(raw, Mapping):
        raise NotCompatibleError
    return raw


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _string(value: Any) -> str:
    """Without halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
