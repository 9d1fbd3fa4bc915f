"""A remote answer as it grows: its new text, whether it agrees with the typed text, whether it is plausible.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from lsp_calib.inference.remote.wire import Chunk, Entry, Usage, most_tokens
from lsp_calib.values import Generation, Stop, Timing, Token

_NEVER = -9999.0  # vLLM's stand-in for minus infinity
_ROUNDING = 1e-4
# More characters than a token has.
_LONGEST_TOKEN = 256


@attrs.frozen
class _Carried:
    """A token that adds to the answer. piece: its text. ends: it goes beyond the line, or is no text."""

    entry: Entry
    typed_logprob: float
    piece: bytes
    ends: bool


class RemoteAnswer:
    """Collects the chunks of one answer.

    forced: characters it has to reproduce first. most: tokens after these. greedy: whether the likeliest
    token was asked for at each place.
    """

    def __init__(
        self, *, forced: str = "", one_line: bool = True, most: int = 64, greedy: bool = True
    ) -> None:
        self._forced = forced
        self._one_line = one_line
        self._most = most
        self._greedy = greedy
        self._text = ""
        self._has_newline = False
        self._entries: list[Entry] = []
        # What a server may still send: pieces, however little is in them, and tokens.
        self._left = self._most_entries = most_tokens(most + len(forced.encode("utf-8", "replace")))
        self._finish = ""
        self._stop_reason = ""
        self._unlisted = False
        self.usage = Usage()

    def add(self, chunk: Chunk) -> None:
        self._text += chunk.text
        self._has_newline = self._has_newline or "\n" in chunk.text
        self._left -= 1 + len(chunk.text) // _LONGEST_TOKEN
        self._entries += chunk.entries[: self._most_entries - len(self._entries)]
        self._finish = chunk.finish or self._finish
        self._stop_reason = chunk.stop_reason or self._stop_reason
        self._unlisted = self._unlisted or bool(chunk.text and not chunk.entries)
        self.usage = chunk.usage or self.usage

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
    def enough(self) -> bool:
        """Whether the rest of the answer is not needed."""
        if (self._one_line and self._has_newline) or self._overflows:
            return True
        if len(self._entries) < self._most:
            return False
        carried = self._carried()
        return carried is not None and len(carried) >= self._most

    @property
    def _overflows(self) -> bool:
        """Whether the server goes on although it has sent more than it was asked for."""
        return self._left < 0 or len(self._entries) >= self._most_entries

    @property
    def generated_tokens(self) -> int:
        return max(len(self._entries), self.usage.completion_tokens)

    def generation(self, timing: Timing) -> Generation:
        """The answer. Where it is in doubt it has no tokens, because they are no evidence."""
        carried = self._carried()
        text = self._line().encode()[len(self._forced.encode()) :]
        if carried is not None and len(carried) >= self._most:
            carried = carried[: self._most]
            text = b"".join(token.piece for token in carried)
        doubt = self._doubt(carried)
        tokens = tuple(
            Token(
                token.entry.id,
                min(token.entry.logprob, 0.0),
                token.typed_logprob,
                token.piece.decode("utf-8", "replace"),
            )
            for token in carried or ()
        )
        return Generation(
            text=text.decode("utf-8", "replace").rstrip("\r"),
            tokens=() if doubt else tokens,
            stop=self._stop(carried),
            timing=timing,
            doubt=doubt,
        )

    def _line(self) -> str:
        return self._text.partition("\n")[0] if self._one_line else self._text

    def _stop(self, carried: list[_Carried] | None) -> Stop:
        ended = carried[-1] if carried and carried[-1].ends else None
        if (
            self._finish == "length"
            or self._overflows
            or (carried and ended is None and len(carried) >= self._most)
        ):
            return Stop.LENGTH
        last = ended.entry.data or b"" if ended is not None else b""
        if self._one_line and ("\n" in self._text or "\n" in self._stop_reason or b"\n" in last):
            return Stop.LINE
        return Stop.END_OF_TEXT

    def _carried(self) -> list[_Carried] | None:
        """The tokens that add to the answer, the one that ended it last; None if they spell another text."""
        text = self._line().encode()
        pieces = spell([entry.data for entry in self._entries], text)
        if pieces is None:
            return None
        left = len(text)
        remaining = self._forced.encode()
        carried: list[_Carried] = []
        for entry, piece in zip(self._entries, pieces, strict=True):
            whole = piece if entry.data is None else entry.data
            left -= len(piece)
            ends = whole != piece or (not whole and left == 0)
            new = whole[len(remaining) :]
            if new or not remaining:
                typed = typed_logprob(entry, remaining) if remaining else 0.0
                carried.append(_Carried(entry, typed, piece[len(remaining) :], ends))
            remaining = remaining[len(piece) :]
            if ends:
                break
        return carried

    def _doubt(self, carried: list[_Carried] | None) -> str:
        if not self._entries:
            return "the server gives no log-probabilities, so its confidence is unknown"
        # The token that ends an answer is counted by some servers and not listed; llama-server lists it.
        spare = self._finish == "stop" and all(entry.id < 0 for entry in self._entries)
        if self._unlisted or self.usage.completion_tokens - len(self._entries) > spare:
            return "the server gives log-probabilities for some tokens only, as under speculative decoding"
        if carried is None:
            return "the server's log-probabilities do not belong to the tokens of its answer"
        return implausible(self._entries, greedy=self._greedy)


def spell(tokens: Sequence[bytes | None], text: bytes) -> list[bytes] | None:
    """The part of `text` that each token spells; None if together they do not spell it.

    Tokens of unknown bytes (None) take the text between their neighbours. The last ones may go beyond the
    text, which a server cuts where it was told to stop, and a token may be no text at all.
    """
    pieces: list[bytes] = []
    at = 0
    unknown = -1
    for i, token in enumerate(tokens):
        if token is None:
            unknown = i if unknown < 0 else unknown
            pieces.append(b"")
            continue
        start = text.find(token, at) if unknown >= 0 and token else at
        if start >= 0 and text.startswith(token, start):
            piece = token
        elif token.startswith(text[at:]):
            start, piece = at, text[at:]
        else:
            return None
        if unknown >= 0 and token:
            pieces[unknown] = text[at:start]
            unknown = -1
        pieces.append(piece)
        at = start + len(piece)
    if unknown >= 0:
        pieces[unknown] = text[at:]
        at = len(text)
    return pieces if at == len(text) else None


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
    if any(value <= _NEVER for value in values):
        return "the server gives log-probabilities of tokens that could never have been chosen"
    if any(value > _ROUNDING for value in values):
        return "the server gives log-probabilities above zero, which is impossible"
    listed = [entry for entry in entries if entry.top]
    zeros = [entry for entry in entries if entry.logprob == 0.0]
    if zeros and (
        (len(zeros) == len(entries) and (len(entries) > 1 or not listed))
        or (listed and any(not entry.top for entry in zeros))
    ):
        return (
            "the server calls its tokens certain (log-probability 0), as some do under speculative decoding, "
            "which is implausible"
        )
    if any(_more_than_everything(entry) for entry in listed):
        return "the server's probabilities add up to more than 1"
    passed = [entry for entry in listed if max(value for _, value in entry.top) > entry.logprob + 0.01]
    if greedy and 2 * len(passed) > len(listed):
        return "the server's log-probabilities are not those of the tokens it chose"
    return ""


def _more_than_everything(entry: Entry) -> bool:
    values = _likely(entry).values()
    return math.fsum(math.exp(min(value, 1.0)) for value in values if value == value) > 1.001


def _likely(entry: Entry) -> dict[bytes, float]:
    """The log-probabilities that are known at a token's place, its own among them."""
    return dict(entry.top) if entry.data is None else {**dict(entry.top), entry.data: entry.logprob}
