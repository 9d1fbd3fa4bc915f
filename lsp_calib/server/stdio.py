"""Standard input as a stream of the event loop.

pygls hands each line of a header and each body to a thread of a pool and waits for it: four hops a message.
Here one thread reads whatever has come, and the loop takes messages from it without leaving it. (Not a pipe
of the event loop: standard input may be a file, and what it shares with others must stay blocking.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import BinaryIO

_AT_ONCE = 1 << 16


class InputStream(asyncio.StreamReader):
    """Bytes as pygls reads them: what is cut off by the end of input is no message."""

    def __init__(self) -> None:
        super().__init__()
        self._handed_out = False

    async def readline(self) -> bytes:
        if self._handed_out:
            # What is there is read without a pause: the handler of one message is to begin before the next is
            # taken, for that may change the document or end the server.
            self._handed_out = False
            await asyncio.sleep(0)
        try:
            return await super().readline()
        except ValueError:
            return b"\n"  # no header is that long: passed over

    async def readexactly(self, n: int) -> bytes:
        self._handed_out = True
        try:
            return await super().readexactly(n)
        except asyncio.IncompleteReadError:
            return b""


def open_input(stdin: BinaryIO) -> InputStream:
    """A stream of what comes in on `stdin`, whose buffer nobody else may have read from.

    For the running event loop. The thread that reads ends with the input, or with the process.
    """
    loop = asyncio.get_running_loop()
    stream = InputStream()
    descriptor = stdin.fileno()

    def pump() -> None:
        # The loop is closed where the server ended first.
        with contextlib.suppress(RuntimeError):
            with contextlib.suppress(OSError):
                while data := os.read(descriptor, _AT_ONCE):
                    loop.call_soon_threadsafe(stream.feed_data, data)
            loop.call_soon_threadsafe(stream.feed_eof)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    return stream
