"""Standard input as a stream of the event loop.

pygls reads each header line and each body on a thread of a pool and waits for it: four thread switches per
message. Here one thread reads what is available, and the event loop cuts messages out of it. (A pipe of the
event loop is no alternative: standard input may be a file, and processes that share it need it to block.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import BinaryIO

_AT_ONCE = 1 << 16


def open_input(stdin: BinaryIO) -> asyncio.StreamReader:
    """The bytes of `stdin` as a stream of the running event loop; its buffer must be unused so far.

    The thread that reads ends with the input, or with the process.
    """
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    descriptor = stdin.fileno()

    def pump() -> None:
        # The loop is closed if the server has ended before the input.
        with contextlib.suppress(RuntimeError):
            with contextlib.suppress(OSError):
                while data := os.read(descriptor, _AT_ONCE):
                    loop.call_soon_threadsafe(stream.feed_data, data)
            loop.call_soon_threadsafe(stream.feed_eof)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    return stream
