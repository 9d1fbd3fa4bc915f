"""Frames of the base protocol, with all valid headers and cut into any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.server.streams import Frames

LENGTHS = st.sampled_from(["Content-Length", "content-length", "CONTENT-LENGTH", "Content-length"])
OTHERS = st.lists(
    st.sampled_from(
        [
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n",
            b"content-type:application/vscode-jsonrpc;charset=utf8\r\n",
            b"X-Other: Content-Length: 7\r\n",
            b"Empty:\r\n",
        ]
    ),
    max_size=3,
)
# Bodies that look like headers as well: only their length counts.
BODIES = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"", b"\r\n\r\n", b"Content-Length: 3\r\n\r\n{}", b"\n" * 5])
)


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body and its frame."""
    body = draw(BODIES)
    space, end = draw(st.sampled_from(["", " ", "\t "])), draw(st.sampled_from([b"\r\n", b"\n"]))
    length = f"{draw(LENGTHS)}:{space}{len(body)}{draw(st.sampled_from(['', ' ']))}".encode() + end
    fields = draw(OTHERS)
    fields.insert(draw(st.integers(0, len(fields))), length)
    return body, b"".join(fields) + end + body


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places})
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def read(pieces: list[bytes]) -> tuple[list[bytes], list[str]]:
    """(the bodies, why something was skipped) of a stream that comes in pieces."""
    frames, bodies, skipped = Frames(), [], []
    for piece in pieces:
        frames.feed(piece)
        while (found := frames.next()) is not None:
            (skipped if isinstance(found, str) else bodies).append(found)
    return bodies, skipped


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@given(sent=st.lists(framed(), max_size=6), places=st.lists(st.integers(0, 10_000), max_size=12))
def test_every_frame_arrives_whole_however_it_is_headed_and_cut(
    sent: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    pieces = cut(b"".join(frame for _, frame in sent), places)
    assert read(pieces) == ([body for body, _ in sent], [])


# JSON as editors write it contains no line end and no header.
JUNK = st.one_of(
    st.sampled_from(
        [
            b"Content-Length: -5\r\n\r\n",
            b"Content-Length: twelve\r\n\r\n{}",
            b"Content-Length:\r\n\r\n",
            b"Content-Length: 99999999999999999999999\r\n\r\n{}",
            b"Content-Length: 999999999999\r\n\r\n{}",
            b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
            b"Content-Type: x\r\n\r\n{}",
            b"\r\n\r\n\r\n",
            b'{"no": "header"}',
            b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nx=1",
            b"x" * 20_000,
            b"x" * 8190,
        ]
    ),
    st.text(alphabet='{}[]" abc:-1', max_size=30).map(str.encode),
)


@given(
    junk=st.lists(JUNK, min_size=1, max_size=3),
    place=st.integers(0, 30_000),
    after=st.lists(st.binary(max_size=20), min_size=1, max_size=3),
)
def test_after_bytes_that_are_no_frame_the_next_frame_arrives(
    junk: list[bytes], place: int, after: list[bytes]
) -> None:
    """Invalid bytes never swallow all later frames."""
    # Each on its own line: otherwise the end of one piece could turn the next into a header.
    bodies, _ = read(cut(b"\r\n".join(junk) + b"\r\n" + b"".join(map(frame, after)), [place]))
    assert bodies == after


@pytest.mark.parametrize(
    "header",
    ["-5", "1e3", "0x10", "+3", "", "99999999999999999999999", "999999999999", "5, 6", "²"],
)
def test_an_absurd_length_is_reported_once_and_skipped(header: str) -> None:
    """With its body, which the next header follows without a line end."""
    body = b'{"jsonrpc":"2.0","method":"a/b"}'
    stream = f"Content-Length: {header}\r\nContent-Type: x\r\n\r\n".encode() + body + frame(b"after")
    bodies, skipped = read([stream])
    assert (bodies, len(skipped)) == ([b"after"], 1)


def test_a_stream_without_frames_takes_no_memory() -> None:
    frames = Frames()
    for _ in range(100):
        frames.feed(b"x" * 10_000)
        frames.next()
    assert len(frames._buffer) < 20_000
    frames.feed(frame(b"after"))
    assert frames.next() == b"after"


def test_a_frame_that_is_cut_off_is_dropped() -> None:
    assert read([frame(b"whole") + frame(b"cut off")[:-3]]) == ([b"whole"], [])
