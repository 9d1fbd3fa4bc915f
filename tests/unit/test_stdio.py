"""Standard input as the server reads it, and standard output for a client that may not read."""

import asyncio
import os
import threading
from functools import partial
from io import FileIO
from pathlib import Path

import pytest

from lsp_calib.server.streams import MOST_UNSENT, MOST_UNTAKEN, Frames, Input, Newest, Output, read_frames


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
            return await messages(Input(stdin).stream)

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
            return await messages(Input(stdin).stream)

    assert asyncio.run(receive()) == [b"one", b"two"]


def test_a_loop_that_ends_before_the_input_does_is_no_error() -> None:
    """The thread finds the loop closed, and ends."""
    read, write = os.pipe()

    async def leave() -> None:
        Input(stdin)

    with os.fdopen(read, "rb") as stdin, FileIO(write, "w") as end:
        asyncio.run(leave())
        end.write(b"too late")
        thread = next((one for one in threading.enumerate() if one.name == "stdin"), None)
        if thread is not None:
            thread.join(10)
            assert not thread.is_alive()


class Scene:
    """An output into a pipe that nobody reads yet."""

    def __init__(self) -> None:
        self.read_end, write = os.pipe()
        self._write = os.fdopen(write, "wb")
        self.output = Output(self._write)

    async def fill(self) -> int:
        """Write until the output is full; returns the number of bytes."""
        count = 0
        while not self.output.is_full:
            self.output.write(b"." * 50_000)
            count += 50_000
            await asyncio.sleep(0)
        return count

    async def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += await asyncio.to_thread(os.read, self.read_end, 1 << 16)
        return data

    def stop_reading(self) -> None:
        os.close(self.read_end)

    def close(self) -> None:
        self._write.close()


async def test_what_does_not_fit_waits_and_arrives_in_its_order() -> None:
    scene = Scene()
    pieces = [bytes([65 + n % 26]) * (n * 997 % 20_000) for n in range(200)]
    for piece in pieces:
        scene.output.write(piece)
    assert scene.output.is_full
    sent = b"".join(pieces)
    waiting = asyncio.create_task(scene.output.room())
    assert await scene.read(len(sent)) == sent
    await asyncio.wait_for(waiting, 10)
    assert not scene.output.is_full
    scene.output.write(b"and on")
    assert await scene.read(6) == b"and on"
    scene.stop_reading()
    scene.close()


async def test_of_what_waits_for_a_client_only_the_newest_of_a_kind_is_sent() -> None:
    scene = Scene()
    newest = Newest(scene.output)
    newest.send("a", lambda: scene.output.write(b"at once"))
    assert await scene.read(7) == b"at once"
    count = await scene.fill()
    for number in range(10_000):
        newest.send("a", partial(scene.output.write, b"a%d" % number))
        newest.send("b", partial(scene.output.write, b"b%d" % number))
    newest.drop("b")
    assert await scene.read(count + 5) == b"." * count + b"a9999"
    scene.stop_reading()
    scene.close()


async def test_nor_an_older_one_after_a_newer_that_found_room() -> None:
    scene = Scene()
    newest = Newest(scene.output)
    await scene.fill()
    newest.send("a", lambda: scene.output.write(b"old"))
    await asyncio.sleep(0.01)
    while scene.output.is_full:  # in one step of the event loop, in which the client reads
        os.read(scene.read_end, 1 << 16)
    newest.send("a", lambda: scene.output.write(b"new"))
    await asyncio.sleep(0.01)
    scene.output.write(b"end")
    received = b""
    while not received.endswith(b"end"):
        received += await scene.read(1)
    assert received.strip(b".") == b"newend"
    scene.stop_reading()
    scene.close()


async def test_waiting_for_room_that_was_filled_again_holds_nothing_up() -> None:
    scene = Scene()
    await scene.fill()
    while scene.output.is_full:
        os.read(scene.read_end, 1 << 16)
    scene.output.write(b"." * (MOST_UNSENT + 1))
    assert scene.output.is_full
    await asyncio.sleep(0.01)  # the room there was is reported only now
    waiting = asyncio.create_task(scene.output.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    scene.stop_reading()
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(waiting, 10)
    scene.close()


async def test_a_client_that_has_closed_its_end_is_gone() -> None:
    scene = Scene()
    gone = asyncio.Event()
    scene.output.on_gone = gone.set
    await scene.fill()
    waiting = asyncio.create_task(scene.output.room())
    await asyncio.sleep(0)
    scene.stop_reading()
    await asyncio.wait_for(gone.wait(), 10)
    with pytest.raises(BrokenPipeError):
        await waiting
    scene.output.write(b"for nobody")
    assert scene.output.is_full
    scene.output.finish()
    scene.close()


async def test_input_that_nobody_takes_is_not_read() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stdin, FileIO(write, "w") as end:
        incoming = Input(stdin)
        os.set_blocking(write, False)
        count, stuck = 0, 0
        while stuck < 50:
            written = end.write(b"x" * 65536)
            count, stuck = count + (written or 0), 0 if written else stuck + 1
            assert count < 4 * MOST_UNTAKEN
            await asyncio.sleep(0.002)
        assert count >= MOST_UNTAKEN
        # It goes on once it is taken.
        assert len(await incoming.stream.readexactly(count)) == count
        assert end.write(b"y") == 1
        assert await asyncio.wait_for(incoming.stream.readexactly(1), 10) == b"y"
