"""The frames between client and model process: what goes in comes out, and garbage is an EngineError."""

import asyncio
import contextlib
import json
import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Observe, Priority, Request, Sampling
from lsp_calib.inference.process import protocol
from lsp_calib.values import Generation, Observation, Prompt, Segment, Stop, Timing, Token

anything = st.text(st.characters())  # lone surrogates included: editors do send them
numbers = st.floats(0, 1e9)
counts = st.integers(0, 2**31)
finite = st.floats(allow_nan=False, allow_infinity=False)
prompts = st.builds(
    Prompt, st.lists(st.tuples(st.sampled_from(Segment), anything)).map(tuple), anything, anything
)
requests = st.builds(
    Request,
    prompts,
    counts,
    st.sampled_from(Priority),
    anything,
    st.booleans(),
    st.none() | st.builds(Sampling, st.floats(1e-3, 10), st.integers(0, 2**63)),
    st.booleans(),
    st.integers(0, 3).map(Observe),
    st.lists(counts, max_size=5).map(tuple),
    st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple),
    st.none() | counts,
)
generations = st.builds(
    Generation,
    anything,
    st.lists(
        st.builds(
            Token,
            counts,
            st.floats(-1e6, 0),
            st.floats(-1e6, 0),
            anything,
            st.none()
            | st.builds(
                Observation,
                st.none() | numbers,
                st.none() | numbers,
                st.none() | counts,
                st.lists(finite, max_size=3).map(tuple),
                st.lists(st.tuples(anything, finite), max_size=5).map(tuple),
            ),
        ),
        max_size=20,
    ).map(tuple),
    st.sampled_from(Stop),
    st.builds(Timing, numbers, counts, counts, numbers, numbers, numbers, numbers, counts),
    anything,
    st.lists(counts, max_size=3).map(tuple),
    st.booleans(),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
REQUEST = msgspec.to_builtins(Request(Prompt(((Segment.TEXT, "a"),), "b", "v"), 8))
GENERATION = msgspec.to_builtins(Generation("x", (Token(1, -0.5, 0.0, "x"),), Stop.LINE, Timing()))
PROMPT = REQUEST["prompt"]
(TOKEN,) = GENERATION["tokens"]
HELLO = protocol.Hello(2, 3, 4.5, 100)
LOADED = protocol.Loaded("abc", "an engine", ("a note",), "cpu", tried=True, evaluates_ahead=True)


def received(stream: bytes) -> list[protocol.Message]:
    """The messages of a stream that ends."""

    async def all_of_them() -> list[protocol.Message]:
        reader = asyncio.StreamReader()
        reader.feed_data(stream)
        reader.feed_eof()
        messages: list[protocol.Message] = []
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                messages.append(await protocol.receive(reader))
        return messages

    return asyncio.run(all_of_them())


def over_the_wire(message: protocol.Message) -> protocol.Message:
    (only,) = received(protocol.encode(message))
    return only


@given(requests | generations)
def test_it_arrives_as_it_was_sent_to_the_last_bit(sent: Request | Generation) -> None:
    assert protocol.read(over_the_wire(msgspec.to_builtins(sent)), type(sent)) == sent


@given(st.lists(st.dictionaries(st.text(), st.integers()), max_size=5))
def test_frames_follow_each_other_on_one_stream(messages: list[dict[str, int]]) -> None:
    assert received(b"".join(protocol.encode(message) for message in messages)) == messages


@given(st.data())
def test_a_stream_that_ends_inside_a_frame_has_no_message(data: st.DataObject) -> None:
    frame = protocol.encode(REQUEST)
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert received(frame[:cut]) == []


@given(st.binary(max_size=200))
def test_random_bytes_are_no_message_or_an_engine_error(garbage: bytes) -> None:
    try:
        messages = received(garbage)
    except EngineError:
        return
    assert all(isinstance(message, dict) for message in messages)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"text"', b"1", b"null", b"{", b"\xff\xfe", b"{}x", b"[" * 200_000, b"1" * 5_000],
    ids=lambda body: f"{body[:6]!r}, {len(body)} bytes",
)
def test_a_body_that_is_no_object_is_an_engine_error(body: bytes) -> None:
    with pytest.raises(EngineError, match="broke their protocol"):
        received(struct.pack(">I", len(body)) + body)


def test_a_frame_that_claims_too_much_is_refused_before_it_is_read() -> None:
    """The stream goes on, so a reader that waited for the body would wait for ever."""

    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(struct.pack(">I", protocol.MOST_BYTES + 1) + b"{}")
        await asyncio.wait_for(protocol.receive(reader), 20)

    with pytest.raises(EngineError, match=str(protocol.MOST_BYTES)):
        asyncio.run(read())


@pytest.mark.parametrize(
    "changed",
    [
        REQUEST | {"prompt": {**PROMPT, "segments": [["file", "a"]]}},
        REQUEST | {"prompt": {**PROMPT, "forced": None}},
        *(REQUEST | change for change in ({"max_tokens": 1.5}, {"priority": 9}, {"observe": 16})),
        *(REQUEST | change for change in ({"sampling": {"temperature": 0, "seed": 1}}, {"given": [-1]})),
        *(
            GENERATION | {"tokens": [one]}
            for one in (TOKEN | {"logprob": 10**400}, {"id": 1, "logprob": -0.5})
        ),
        *(GENERATION | change for change in ({"stop": "never"}, {"timing": {"prompt_tokens": math.inf}})),
    ],
)
def test_a_request_or_an_answer_with_a_field_of_another_type_is_an_engine_error(
    changed: dict[str, Any],
) -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        protocol.read(changed, Request if "prompt" in changed else Generation)


@pytest.mark.parametrize(
    ("kind", "message"), [(Request, REQUEST), (Generation, GENERATION)], ids=["request", "answer"]
)
@given(data=st.data())
def test_whatever_stands_in_it_it_is_read_or_an_engine_error(
    kind: type, message: dict[str, Any], data: st.DataObject
) -> None:
    changed = {**message, data.draw(st.sampled_from(sorted(message))): data.draw(json_values)}
    try:
        read = protocol.read(changed, kind)
    except EngineError:
        return
    json.dumps(msgspec.to_builtins(read))


@pytest.mark.parametrize("message", [HELLO, LOADED], ids=["hello", "ready"])
@given(data=st.data())
def test_other_messages_are_read_or_an_engine_error(message: Any, data: st.DataObject) -> None:
    fields = msgspec.to_builtins(message)
    assert protocol.read(over_the_wire(fields), type(message)) == message
    field = data.draw(st.sampled_from(sorted(fields)))
    with contextlib.suppress(EngineError):
        protocol.read({**fields, field: data.draw(json_values)}, type(message))
    with pytest.raises(EngineError):
        protocol.read({key: value for key, value in fields.items() if key != field}, type(message))


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(EngineError, match="too long"):
        protocol.encode({"text": "x" * protocol.MOST_BYTES})
