"""Frames of the base protocol: a header, an empty line, and as many bytes as the header says.

Field names are case-insensitive and come in any order; unknown fields are ignored. Bytes that belong to no
frame are skipped up to the next frame; only a frame that the end of the stream cuts off is lost.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

import attrs

logger = logging.getLogger(__name__)

# More than any editor sends (VS Code does not send files above 50 MB). A greater length is a mistake, and
# believing it would swallow all later messages.
MOST_BYTES = 64 << 20
# No header has a longer line. Of a longer one the last bytes are kept, in which a header may begin.
_MOST_LINE = 8192
_TAIL = 128
_AT_ONCE = 1 << 16

_FIELD = re.compile(rb"[ \t]*([!#-'*+.^-z|~0-9A-Z-]+)[ \t]*:(.*)", re.DOTALL)
# After skipped bytes a header may begin in the middle of a line.
_ANYWHERE = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?\n\Z", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")


@attrs.frozen
class Skipped:
    """Bytes that belong to no frame were skipped. why: a description of them, for a log line."""

    why: str


class Frames:
    """Cuts a stream into the bodies of frames: `feed` it bytes, and take complete bodies with `next`.

    most: the greatest length of a body in bytes; a longer one is skipped.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._buffer = bytearray()
        self._searched = 0  # there is no line end before this index
        self._length: int | None = None  # as far as the header has given it
        self._body = False  # the header is complete
        self._lost = False  # skipping to the next frame

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> bytes | Skipped | None:
        """The next body, or a report of bytes skipped before it; None if no body is complete yet."""
        while not self._body:
            line = self._line()
            if line is None:
                return None
            if isinstance(line, Skipped):
                return self._lose(line.why)
            if (why := self._read(line)) and (skipped := self._lose(why)):
                return skipped
        assert self._length is not None
        if len(self._buffer) < self._length:
            return None
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._searched, self._length, self._body = 0, None, False
        return body

    def _line(self) -> bytes | Skipped | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            if len(self._buffer) <= _MOST_LINE:
                self._searched = len(self._buffer)
                return None
            del self._buffer[:-_TAIL]
            self._searched = len(self._buffer)
            return None if self._lost else Skipped(f"a line of more than {_MOST_LINE} bytes")
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _read(self, line: bytes) -> str:
        """Read a line of a header. Returns the fault, or ""."""
        if not line.strip():
            if self._length is not None:
                self._body = True
            return ""
        field = _FIELD.fullmatch(line)
        if field is None or self._lost:
            found = _ANYWHERE.search(line)
            return self._set_length(found[1]) if found else "a line that is not a header"
        if field[1].lower() == b"content-length":
            return self._set_length(field[2].strip())
        return ""

    def _set_length(self, text: bytes) -> str:
        if not _LENGTH.fullmatch(text):
            return "a length that is not a number"
        length = int(text)
        if length > self.most:
            return f"a length of more than {self.most} bytes"
        if self._length is not None and length != self._length:
            return "two different lengths"
        self._length, self._lost = length, False
        return ""

    def _lose(self, why: str) -> Skipped | None:
        """Skip to the next frame. Reports the skipped bytes once until then."""
        reported, self._lost = self._lost, True
        self._length = None
        return None if reported else Skipped(why)


async def read_frames(stream: asyncio.StreamReader, frames: Frames, take: Callable[[bytes], None]) -> None:
    """Call `take` with each body until the stream ends. Raises the errors of `take`."""
    while True:
        while (found := frames.next()) is not None:
            if isinstance(found, Skipped):
                logger.warning("Skipped to the next message: the editor sent %s.", found.why)
                continue
            take(found)
            # The handler of this message must begin before the next message is taken: that one may change the
            # document or end the server.
            await asyncio.sleep(0)
        try:
            data = await stream.read(_AT_ONCE)
        except ConnectionError:
            return
        if not data:
            return
        frames.feed(data)
