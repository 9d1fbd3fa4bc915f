"""The bytes between a client and the server: frames of the base protocol, standard input and output.

A frame is a header, an empty line, and as many bytes as the header says. Field names are case-insensitive and
come in any order; unknown fields are ignored. Bytes that belong to no frame are skipped up to the next frame;
only a frame that the end of the stream cuts off is lost.

pygls reads each header line and each body on a thread of a pool and waits for it: four thread switches per
message. Here one thread reads what is available, and the event loop cuts messages out of it. (A pipe of the
event loop is no alternative: standard input may be a file, and processes that share it need it to block.)

Output is written by another thread, as a client may not read. While many bytes wait, no further message is
taken: the client gets its answers before it can ask more.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Hashable
from typing import BinaryIO, Protocol

_Act = Callable[[], None]
_AT_ONCE = 1 << 16
# Bytes of input that wait while no message is taken; a client may write so many before it reads.
MOST_UNTAKEN = 8 << 20
# So many reads of input wait for the event loop.
_MOST_READS = 16
# While more bytes of output wait, no message is taken; it goes on with half as many.
MOST_UNSENT = 1 << 20
# Seconds in which a client whose input has ended reads nothing before it is taken for gone.
_GONE = 2.0


class _Flow(asyncio.ReadTransport):
    """Between the thread that reads and the stream: the thread reads on only while the stream takes more."""

    def __init__(self) -> None:
        super().__init__()
        self._free = threading.Semaphore(_MOST_READS)
        self._paused = False
        self._taken = 0  # reads that the stream has taken while it was paused

    def wait(self) -> None:
        """For the thread: wait until it may read."""
        self._free.acquire()

    def took(self) -> None:
        """The stream has taken the bytes of one read."""
        self._taken += 1
        if not self._paused:
            self.resume_reading()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._taken:
            self._free.release(self._taken)
        self._taken = 0


class Input:
    """The bytes of `stdin` as a stream of the running event loop; its buffer must be unused so far.

    on_end: called once the input has ended, perhaps before its last messages are taken.
    The thread that reads ends with the input, or with the process.
    """

    def __init__(self, stdin: BinaryIO, on_end: _Act = lambda: None) -> None:
        self.stream = asyncio.StreamReader(MOST_UNTAKEN // 2)  # it pauses at twice its limit
        self._flow = _Flow()
        self.stream.set_transport(self._flow)
        self._on_end = on_end
        self._ended = False
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._pump, args=(stdin.fileno(),), name="stdin", daemon=True).start()

    def end(self) -> None:
        """Take the input as ended."""
        if not self._ended:
            self._ended = True
            self.stream.feed_eof()
            self._on_end()

    def _pump(self, descriptor: int) -> None:
        # The loop is closed if the server has ended before the input.
        with contextlib.suppress(RuntimeError):
            with contextlib.suppress(OSError):
                while True:
                    self._flow.wait()
                    data = os.read(descriptor, _AT_ONCE)
                    if not data:
                        break
                    self._loop.call_soon_threadsafe(self._feed, data)
            self._loop.call_soon_threadsafe(self.end)

    def _feed(self, data: bytes) -> None:
        if not self._ended:
            self.stream.feed_data(data)
            self._flow.took()


class Outgoing(Protocol):
    """The messages that go to the client."""

    def write(self, data: bytes, /) -> None:
        """Send bytes, or keep them until the client reads."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the client that no message is taken; also once the client has gone."""
        ...

    async def room(self) -> None:
        """Wait until it is no longer full. Raises ConnectionError if the client has gone."""
        ...

    def close(self) -> None: ...


class Output:
    """An `Outgoing` to `stdout`, whose buffer must be unused.

    on_gone: called in the event loop once the client has closed its end.
    """

    def __init__(self, stdout: BinaryIO) -> None:
        self.on_gone: _Act = lambda: None
        self.gone = False
        self._descriptor = stdout.fileno()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Changed under the lock: by the event loop, and by the thread that writes.
        self._changed = threading.Condition()
        self._waiting: collections.deque[bytes] = collections.deque()
        self._unsent = self._sent = 0
        self._thread: threading.Thread | None = None
        self._full = self._input_ended = False
        self._has_room = asyncio.Event()

    def write(self, data: bytes) -> None:
        with self._changed:
            if self.gone:
                return
            if self._thread is None:
                self._loop = asyncio.get_running_loop()
                self._thread = threading.Thread(target=self._write_waiting, name="stdout", daemon=True)
                self._thread.start()
            self._waiting.append(data)
            self._unsent += len(data)
            self._full = self._full or self._unsent > MOST_UNSENT
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        return self._full or self.gone

    async def room(self) -> None:
        while self._full and not self.gone:
            # It may have been set for room that was filled again since.
            self._has_room.clear()
            sent = self._sent
            try:
                async with asyncio.timeout(_GONE):
                    await self._has_room.wait()
            except TimeoutError:
                if self._input_ended and sent == self._sent:
                    break
        if self._full or self.gone:
            raise BrokenPipeError("the client has gone")

    def input_ended(self) -> None:
        """The client writes no more: from now on, one that does not read has gone."""
        self._input_ended = True

    def close(self) -> None:
        """Nothing: `finish` waits for the last messages, once the event loop has ended."""

    def finish(self) -> None:
        """Wait until everything is sent, or the client has read nothing for some seconds."""
        with self._changed:
            sent = -1
            while self._unsent and not self.gone and sent != self._sent:
                sent = self._sent
                self._changed.wait_for(lambda: not self._unsent or self.gone, _GONE)

    def _write_waiting(self) -> None:
        """For the thread: write what waits, for ever."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                data = memoryview(self._waiting.popleft())
            while data:
                try:
                    count = os.write(self._descriptor, data[:_AT_ONCE])
                except OSError:
                    with self._changed:
                        self.gone = True
                        self._waiting.clear()
                        self._changed.notify_all()
                    self._later(self._went)
                    return
                data = data[count:]
                with self._changed:
                    self._sent += count
                    self._unsent -= count
                    roomy = self._full and self._unsent <= MOST_UNSENT // 2
                    self._full = self._full and not roomy
                    self._changed.notify_all()
                if roomy:
                    self._later(self._has_room.set)

    def _later(self, call: _Act) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)

    def _went(self) -> None:
        self._has_room.set()
        self.on_gone()


class Newest:
    """Notifications that wait while a client does not read: of each kind only the newest is worth sending."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._waiting: dict[Hashable, _Act] = {}
        self._sending: asyncio.Task[None] | None = None

    def send(self, kind: Hashable, send: _Act) -> None:
        """Call `send` now, or once the client reads, unless another one of this kind replaces it."""
        if not self._outgoing.is_full:
            self.drop(kind)
            send()
            return
        self._waiting[kind] = send
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def drop(self, kind: Hashable) -> None:
        """What waits of this kind is not sent any more."""
        self._waiting.pop(kind, None)

    async def _send(self) -> None:
        try:
            while self._waiting:
                await self._outgoing.room()
                if self._waiting:
                    self._waiting.pop(next(iter(self._waiting)))()
        except ConnectionError:
            self._waiting.clear()
        finally:
            self._sending = None


logger = logging.getLogger(__name__)

# More than any editor sends (VS Code does not send files above 50 MB). A greater length is a mistake, and
# believing it would swallow all later messages.
MOST_BYTES = 64 << 20
# No header has a longer line. Of a longer one the last bytes are kept, in which a header may begin.
_MOST_LINE = 8192
_TAIL = 128

_FIELD = re.compile(rb"[ \t]*([!#-'*+.^-z|~0-9A-Z-]+)[ \t]*:(.*)", re.DOTALL)
# After skipped bytes a header may begin in the middle of a line.
_ANYWHERE = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?\n\Z", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")


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

    def next(self) -> bytes | str | None:
        """The next body; or what was skipped before it, for a log line; None if no body is complete yet."""
        while not self._body:
            line = self._line()
            if line is None:
                return None
            if isinstance(line, str):
                return self._lose(line)
            if (why := self._read(line)) and (skipped := self._lose(why)):
                return skipped
        assert self._length is not None
        if len(self._buffer) < self._length:
            return None
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._searched, self._length, self._body = 0, None, False
        return body

    def _line(self) -> bytes | str | None:
        """The next line, or why it is none."""
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            if len(self._buffer) <= _MOST_LINE:
                self._searched = len(self._buffer)
                return None
            del self._buffer[:-_TAIL]
            self._searched = len(self._buffer)
            return None if self._lost else f"a line of more than {_MOST_LINE} bytes"
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

    def _lose(self, why: str) -> str | None:
        """Skip to the next frame. Reports the skipped bytes once until then."""
        reported, self._lost = self._lost, True
        self._length = None
        return None if reported else why


async def read_frames(
    stream: asyncio.StreamReader,
    frames: Frames,
    take: Callable[[bytes], None],
    outgoing: Outgoing | None = None,
) -> None:
    """Call `take` with each body until the stream ends or the client has gone. Raises the errors of `take`.

    outgoing: takes the answers; while it is full, no body is taken.
    """
    while True:
        while (found := frames.next()) is not None:
            if isinstance(found, str):
                logger.warning("Skipped to the next message: the editor sent %s.", found)
                continue
            if outgoing is not None and outgoing.is_full:
                try:
                    await outgoing.room()
                except ConnectionError:
                    return
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
