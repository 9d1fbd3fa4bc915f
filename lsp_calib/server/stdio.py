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


def open_input(stdin: BinaryIO) -> asyncio.StreamReader:
    """A stream of what comes in on `stdin`, whose buffer nobody else may have read from.

    For the running event loop. The thread that reads ends with the input, or with the process.
    """
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
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
