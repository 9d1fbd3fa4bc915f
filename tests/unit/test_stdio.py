"""Standard input as the server reads it."""

import asyncio
import os
import threading
from io import FileIO
from pathlib import Path

from lsp_calib.server.framing import Frames, read_frames
from lsp_calib.server.stdio import open_input


async def messages(stream: asyncio.StreamReader) -> list[bytes]:
    """Bodies of messages with headers, read as the server reads them."""
    bodies: list[bytes] = []
    await read_frames(stream, Frames(), bodies.append)
    return bodies


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def through_a_pipe(*pieces: bytes) -> list[bytes]:
    read, write = os.pipe()

    def send() -> None:
        with FileIO(write, "w") as end:
            for piece in pieces:
                end.write(piece)

    async def receive() -> list[bytes]:
        with os.fdopen(read, "rb") as stdin:
            return await messages(open_input(stdin))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return asyncio.run(receive())
    finally:
        sender.join()


def test_messages_arrive_whole_however_they_are_cut() -> None:
    bodies = [b"{}", b"x" * 300_000, "é\n\r\n".encode()]
    sent = b"".join(map(frame, bodies))
    assert through_a_pipe(sent[:5], sent[5:19], sent[19:200_000], sent[200_000:]) == bodies


def test_all_messages_of_one_write_arrive() -> None:
    assert through_a_pipe(b"".join(frame(b"%d" % n) for n in range(500))) == [b"%d" % n for n in range(500)]


def test_a_message_that_the_end_cuts_off_is_dropped() -> None:
    assert through_a_pipe(frame(b"whole"), frame(b"cut off")[:-3]) == [b"whole"]
    assert through_a_pipe(b"Content-Le") == []
    assert through_a_pipe() == []


def test_a_line_without_an_end_is_skipped() -> None:
    assert through_a_pipe(b"x" * 300_000 + b"\r\n\r\n", frame(b"after")) == [b"after"]


def test_standard_input_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_bytes(frame(b"one") + frame(b"two"))

    async def receive() -> list[bytes]:
        with path.open("rb") as stdin:
            return await messages(open_input(stdin))

    assert asyncio.run(receive()) == [b"one", b"two"]


def test_a_loop_that_ends_before_the_input_does_is_no_error() -> None:
    """The thread finds the loop closed, and ends."""
    read, write = os.pipe()

    async def leave() -> None:
        open_input(stdin)

    with os.fdopen(read, "rb") as stdin, FileIO(write, "w") as end:
        asyncio.run(leave())
        end.write(b"too late")
        thread = next((one for one in threading.enumerate() if one.name == "stdin"), None)
        if thread is not None:
            thread.join(10)
            assert not thread.is_alive()
