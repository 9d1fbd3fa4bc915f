"""The frames between client and model process: what goes in comes out, and garbage is an EngineError."""

import io
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import EngineError
from lsp_calib.inference import wire
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

anything = st.text(st.characters())  # lone surrogates included: editors do send them
numbers = st.floats(0, 1e9)
counts = st.integers(0, 2**31)
requests = st.builds(
    Request,
    st.builds(Prompt, st.lists(st.tuples(st.sampled_from(Segment), anything)).map(tuple), anything, anything),
    counts,
    st.sampled_from(Priority),
)
generations = st.builds(
    Generation,
    anything,
    st.lists(st.builds(Token, counts, st.floats(-1e6, 0), st.floats(-1e6, 0), anything), max_size=20).map(
        tuple
    ),
    st.sampled_from(Stop),
    st.builds(Timing, numbers, counts, counts, numbers, numbers, numbers),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
REQUEST = wire.request_to_wire(7, Request(Prompt(((Segment.TEXT, "a"),), "b", "v"), 8))
GENERATION = wire.generation_to_wire(Generation("x", (Token(1, -0.5, 0.0, "x"),), Stop.LINE, Timing()))


def over_the_wire(message: wire.Message) -> wire.Message:
    received = wire.read(io.BytesIO(wire.encode(message)))
    assert received is not None
    return received


@given(st.integers(1, 2**40), requests)
def test_a_request_arrives_as_it_was_sent(request_id: int, request: Request) -> None:
    assert wire.request_from_wire(over_the_wire(wire.request_to_wire(request_id, request))) == (
        request_id,
        request,
    )


@given(generations)
def test_a_generation_arrives_as_it_was_sent_to_the_last_bit(generation: Generation) -> None:
    assert wire.generation_from_wire(over_the_wire(wire.generation_to_wire(generation))) == generation


@given(st.lists(st.dictionaries(st.text(), st.integers()), max_size=5))
def test_frames_follow_each_other_on_one_stream(messages: list[dict[str, int]]) -> None:
    stream = io.BytesIO(b"".join(wire.encode(message) for message in messages))
    assert [wire.read(stream) for _ in messages] == messages
    assert wire.read(stream) is None


@given(st.data())
def test_a_stream_that_ends_inside_a_frame_has_no_message(data: st.DataObject) -> None:
    frame = wire.encode(REQUEST)
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert wire.read(io.BytesIO(frame[:cut])) is None


@given(st.binary(max_size=200))
def test_random_bytes_are_no_message_or_an_engine_error(garbage: bytes) -> None:
    try:
        message = wire.read(io.BytesIO(garbage))
    except EngineError:
        return
    assert message is None or isinstance(message, dict)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"text"', b"1", b"null", b"{", b"\xff\xfe", b"{}x", b"[" * 200_000, b"1" * 5_000],
    ids=lambda body: f"{body[:6]!r}, {len(body)} bytes",
)
def test_a_body_that_is_no_object_is_an_engine_error(body: bytes) -> None:
    with pytest.raises(EngineError, match="understand"):
        wire.decode(body)


def test_a_frame_that_claims_too_much_is_refused_before_it_is_read() -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert size <= 4, "the body must not be read"
            return super().read(size)

    with pytest.raises(EngineError, match=str(wire.MOST_BYTES)):
        wire.read(Endless(struct.pack(">I", wire.MOST_BYTES + 1) + b"{}"))


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(EngineError, match="too long"):
        wire.encode({"text": "x" * wire.MOST_BYTES})


@pytest.mark.parametrize("field", sorted(REQUEST.keys() - {"op"}))
def test_a_request_without_one_of_its_fields_is_an_engine_error(field: str) -> None:
    with pytest.raises(EngineError, match="request"):
        wire.request_from_wire({key: value for key, value in REQUEST.items() if key != field})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "7"},
        {"id": True},
        {"segments": "ab"},
        {"segments": [["text"]]},
        {"segments": [["text", 1]]},
        {"segments": [["file", "a"]]},
        {"segments": 3},
        {"forced": None},
        {"version": 1},
        {"maxTokens": 1.5},
        {"maxTokens": True},
        {"priority": 9},
        {"priority": []},
    ],
    ids=str,
)
def test_a_request_with_a_field_of_another_type_is_an_engine_error(change: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="request"):
        wire.request_from_wire({**REQUEST, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"text": None},
        {"tokens": [[1, -0.5]]},
        {"tokens": [["1", -0.5, "x"]]},
        {"tokens": [[1, None, "x"]]},
        {"tokens": [[1, 10**400, "x"]]},
        {"stop": "never"},
        {"timing": [1, 2, 3]},
        {"timing": [0, float("inf"), 0, 0, 0, 0]},
        {"timing": "012345"[:5]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_an_answer_with_a_field_of_another_type_is_an_engine_error(change: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="answer"):
        wire.generation_from_wire({**GENERATION, **change})


@given(st.sampled_from(sorted(GENERATION)), json_values)
def test_whatever_stands_in_an_answer_it_is_read_or_an_engine_error(field: str, value: Any) -> None:
    try:
        read = wire.generation_from_wire({**GENERATION, field: value})
    except EngineError:
        return
    assert isinstance(read, Generation)


@given(st.dictionaries(st.sampled_from(sorted(REQUEST)), json_values))
def test_whatever_stands_in_a_request_it_is_read_or_an_engine_error(message: dict[str, Any]) -> None:
    try:
        request_id, request = wire.request_from_wire({**REQUEST, **message})
    except EngineError:
        return
    json.dumps(wire.request_to_wire(request_id, request))
