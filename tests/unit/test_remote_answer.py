"""What remote servers send, read; and what of it is believed."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.generation.run import GenerationBuilder
from lsp_calib.inference.remote.answer import (
    Answer,
    Chunk,
    Entry,
    Event,
    NotCompatibleError,
    implausible,
    read_event,
    read_models,
    typed_logprob,
)
from lsp_calib.inference.remote.server import EventReader
from lsp_calib.values import Stop, Timing, Token

# As the servers send them, shortened by what is of no use here.
LLAMA = r"""{"choices": [{"text": " x", "index": 0, "logprobs": {"content": [{"id": 856, "token": " x",
  "bytes": [32, 120], "logprob": -0.5, "top_logprobs": [
    {"id": 856, "token": " x", "bytes": [32, 120], "logprob": -0.5},
    {"id": 379, "token": " y", "bytes": [32, 121], "logprob": -1.5}]}]}, "finish_reason": null}],
  "created": 1772367069, "model": "qwen", "system_fingerprint": "b8000-abc", "object": "text_completion"}"""
LLAMA_END = r"""{"choices": [{"text": "", "index": 0, "logprobs": null, "finish_reason": "stop"}],
  "usage": {"completion_tokens": 3, "prompt_tokens": 611, "total_tokens": 614},
  "timings": {"cache_n": 604, "prompt_n": 7, "prompt_ms": 41.0, "predicted_n": 3, "predicted_ms": 90.1}}"""
VLLM = r"""{"id": "cmpl-8c16f81d43846721", "object": "text_completion", "created": 1772367069,
  "model": "Qwen/Qwen2.5-Coder-1.5B", "choices": [{"index": 0, "text": " x", "logprobs": {
    "text_offset": [0], "token_logprobs": [-0.5], "tokens": [" x"],
    "top_logprobs": [{" x": -0.5, " y": -1.5, "bytes:\\xe2\\x80": -4.0}]},
  "finish_reason": "stop", "stop_reason": "\n"}], "usage": null}"""
OLLAMA = r"""{"id": "cmpl-404", "object": "text_completion", "created": 1772367069,
  "model": "qwen2.5-coder:1.5b", "choices": [{"text": " x", "index": 0, "finish_reason": null}]}"""


NAMES = [
    *("choices", "text", "logprobs", "content", "tokens", "token_logprobs", "top_logprobs", "usage"),
    *("timings", "token", "bytes", "logprob", "error", "data", "id", "finish_reason"),
]


def event(raw: object) -> Event:
    return read_event(json.dumps(raw))


class TestTheStream:
    @given(
        st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)),
        st.lists(st.integers(1, 9)),
        st.sampled_from([b"\n", b"\r\n"]),
    )
    def test_events_are_read_however_they_are_cut(self, said: list[str], cuts: list[int], end: bytes) -> None:
        stream = b"".join(b": ping" + end + b"data: " + text.encode() + end + end for text in said)
        reader, events = EventReader(streamed=True), []
        for cut in cuts:
            events += reader.feed(stream[:cut])
            stream = stream[cut:]
        assert events + reader.feed(stream) + reader.end() == said

    def test_the_last_event_needs_no_line_end(self) -> None:
        reader = EventReader(streamed=True)
        assert reader.feed(b'event: x\nid: 1\ndata: {"a": 1}\n\ndata: [DONE]') == ['{"a": 1}']
        assert reader.end() == ["[DONE]"]


class TestAChunk:
    def test_of_llama_server(self) -> None:
        expected = Entry(b" x", -0.5, ((b" x", -0.5), (b" y", -1.5)))
        assert read_event(LLAMA) == Event((Chunk(" x", (expected,)),), "qwen")
        end = read_event(LLAMA_END)
        assert end.chunks == (Chunk(finish="stop"),)
        assert (end.prompt_tokens, end.prompt_reused, end.completion_tokens) == (611, 604, 3)

    def test_of_llama_server_where_it_stops(self) -> None:
        """It sends nothing of the newline that it was told to stop at, but it was chosen all the same."""
        top = [
            {"id": 198, "token": "\n", "bytes": [10], "logprob": -0.07},
            {"id": 2, "token": "", "logprob": -4.4},
        ]
        listed = {"id": 198, "token": "", "bytes": [], "logprob": -0.07, "top_logprobs": top}
        (chunk,) = event({"choices": [{"text": "", "logprobs": {"content": [listed]}}]}).chunks
        assert chunk.entries == (Entry(b"\n", -0.07, ((b"\n", -0.07), (b"", -4.4))),)
        assert implausible(chunk.entries, greedy=True) == ""

    def test_of_vllm(self) -> None:
        entry = Entry(b" x", -0.5, ((b" x", -0.5), (b" y", -1.5), (b"\xe2\x80", -4.0)))
        assert read_event(VLLM).chunks == (Chunk(" x", (entry,), 0, "stop"),)
        details = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}
        got = event({"choices": [], "usage": details})
        assert (got.prompt_tokens, got.prompt_reused, got.completion_tokens) == (9, 8, 2)

    def test_of_ollama_has_no_log_probabilities(self) -> None:
        assert read_event(OLLAMA).chunks == (Chunk(" x"),)

    @pytest.mark.parametrize("token", ["\ufffd", None, 3])
    def test_a_token_that_is_not_spelled_is_of_unknown_bytes(self, token: object) -> None:
        logprobs = {"tokens": [token], "token_logprobs": [-1], "top_logprobs": [None]}
        (chunk,) = event({"choices": [{"text": "", "logprobs": logprobs}]}).chunks
        assert chunk.entries == (Entry(None, -1.0),)

    @pytest.mark.parametrize("value", [None, "x", True, [], 10**400, float("nan")])
    def test_what_is_no_number_is_none(self, value: object) -> None:
        logprobs = {"content": [{"token": "a", "logprob": value}]}
        (chunk,) = event({"choices": [{"text": "a", "logprobs": logprobs}]}).chunks
        assert math.isnan(chunk.entries[0].logprob)

    @pytest.mark.parametrize(
        "raw",
        [
            {"error": {"message": "too long", "code": 400}},
            {"error": "model not found"},
            {"object": "error", "message": "no such model"},
            {"message": "no"},
        ],
    )
    def test_a_servers_complaint_is_known_in_any_shape(self, raw: object) -> None:
        assert event(raw).failed

    @pytest.mark.parametrize(
        "text",
        [
            *("", "hello", "[]", "{}", '{"choices": 3}', '{"choices": [3]}', '{"choices": [{"text": 3}]}'),
            "[" * 99999,
        ],
    )
    def test_garbage_is_named_as_such(self, text: str) -> None:
        with pytest.raises(NotCompatibleError):
            read_event(text)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(),
            lambda x: st.lists(x) | st.dictionaries(st.sampled_from(NAMES), x),
        )
    )
    def test_no_json_at_all_does_harm(self, raw: object) -> None:
        for parse in (read_event, read_models):
            with contextlib.suppress(NotCompatibleError):
                parse(json.dumps(raw))


def test_the_list_of_models() -> None:
    assert read_models('{"data": [{"id": "a"}, {"id": 3}, 4, {"id": "b"}]}') == ("a", "b")


def entry(text: str, logprob: float = -0.5, **others: float) -> Entry:
    top = {text: logprob, **others} if others else {}
    return Entry(text.encode(), logprob, tuple((word.encode(), value) for word, value in top.items()))


class TestWhatCannotBeTrue:
    def test_plausible_numbers_are_believed(self) -> None:
        assert implausible([entry("a"), entry("b", -2.0), entry("c", 0.0)], greedy=True) == ""
        assert implausible([entry("a", -0.1, b=-3.0), entry("c", 1e-7, d=-18.0)], greedy=True) == ""
        # A sure ending, with alternatives that are known to be unlikely.
        assert implausible([entry("a", 0.0, b=-17.0)], greedy=True) == ""

    @pytest.mark.parametrize(
        ("entries", "words"),
        [
            ([entry("a"), entry("b", math.nan)], "no log-probability for some"),
            ([entry("a"), entry("b", -math.inf)], "cannot be chosen"),
            ([entry("a"), entry("b", -9999.0)], "cannot be chosen"),
            ([entry("a"), entry("b", -3.4e38)], "cannot be chosen"),
            ([entry("a"), entry("b", 0.01)], "above zero"),
            ([entry("a"), entry("b", math.inf)], "above zero"),
            ([entry("a", 0.0)], "speculative"),
            ([entry("a", 0.0), entry("b", 0.0)], "speculative"),
            ([entry("a", 0.0, x=-17.0), entry("b", 0.0, x=-17.0)], "speculative"),
            ([entry("a", -0.5, x=-2.0), entry("b", 0.0)], "speculative"),
            ([entry("a", -0.1, x=-0.1)], "more than 1"),
            ([entry("a", 0.0, x=-1.0)], "more than 1"),
            ([entry("a", -3.0, x=-0.2), entry("b", -4.0, x=-0.1), entry("c", -0.1, x=-4.0)], "not those of"),
        ],
    )
    def test_what_is_wrong_is_said_in_words(self, entries: list[Entry], words: str) -> None:
        assert words in implausible(entries, greedy=True)

    def test_sampling_may_choose_what_is_less_likely(self) -> None:
        assert implausible([entry("a", -3.0, x=-0.2)], greedy=False) == ""


class TestAnAnswer:
    def answer(self, *chunks: Chunk, **options: Any) -> Answer:
        answer = Answer(**options)
        for one in chunks:
            answer.add(one)
        return answer

    def test_the_token_that_ends_the_line_comes_last_and_adds_nothing(self) -> None:
        answer = self.answer(
            Chunk("a", (entry("a"),)),
            Chunk("b", (entry("b\n", -1.0),)),
            Chunk(finish="stop"),
        )
        got = answer.generation(Timing())
        assert (got.text, got.stop, got.doubt) == ("ab", Stop.LINE, "")
        assert [(token.text, token.logprob) for token in got.tokens] == [("a", -0.5), ("b", -1.0)]

    def test_the_end_of_the_text_is_told_from_the_end_of_the_line(self) -> None:
        answer = self.answer(Chunk("a", (entry("a"), entry("<|endoftext|>"))), Chunk(finish="stop"))
        got = answer.generation(Timing())
        assert (got.text, got.stop) == ("a", Stop.END_OF_TEXT)
        assert [token.text for token in got.tokens] == ["a", ""]

    def test_a_server_that_does_not_stop_is_stopped(self) -> None:
        answer = self.answer(Chunk("a\nb", (entry("a"), entry("\n"), entry("b"))))
        assert answer.complete
        got = answer.generation(Timing())
        assert (got.text, got.stop, len(got.tokens)) == ("a", Stop.LINE, 2)
        lines = self.answer(Chunk("a\nb", (entry("a"), entry("\n"), entry("b"))), one_line=False)
        assert lines.generation(Timing()).text == "a\nb"

    def test_no_more_tokens_than_were_asked_for(self) -> None:
        answer = self.answer(Chunk("retabc", tuple(map(entry, ("ret", "a", "b", "c")))), forced="ret", most=2)
        assert answer.complete
        got = answer.generation(Timing())
        assert (got.text, got.stop, len(got.tokens)) == ("ab", Stop.LENGTH, 2)

    def test_what_is_typed_is_no_part_of_the_answer(self) -> None:
        answer = self.answer(
            Chunk("re", (entry("re", -0.1, r=-3.0),)),
            Chunk("turn x", (entry("turn", -0.2, t=-2.0, x=-4.0), entry(" x"))),
            forced="ret",
        )
        got = answer.generation(Timing())
        assert got.text == "urn x"
        assert [token.text for token in got.tokens] == ["urn", " x"]
        # Of the second token it was known that it begins with "t".
        assert got.tokens[0].typed_logprob == pytest.approx(math.log(math.exp(-0.2) + math.exp(-2.0)))
        assert got.logprobs[0] == pytest.approx(-0.2 - math.log(math.exp(-0.2) + math.exp(-2.0)))

    @given(st.text("abc\n", max_size=5), st.text("abc", max_size=4))
    def test_a_contradiction_is_seen_as_soon_as_it_is_there(self, said: str, forced: str) -> None:
        answer = self.answer(Chunk(said), forced=forced)
        assert answer.contradicts == (not forced.startswith(said) and not said.startswith(forced))
        answer.add(Chunk(finish="stop"))
        assert answer.contradicts == (not said.startswith(forced))

    @given(st.text(max_size=6), st.text(max_size=3), st.lists(st.tuples(st.text(max_size=3), st.floats())))
    def test_whatever_comes_gives_an_answer(
        self, text: str, forced: str, said: list[tuple[str, float]]
    ) -> None:
        answer = self.answer(Chunk(text, tuple(entry(*one) for one in said)), forced=forced)
        got = answer.generation(Timing())
        assert "\n" not in got.text
        if not got.doubt:
            assert all(math.isfinite(value) and value <= 0 for value in got.logprobs)

    def test_agreeing_tokens_are_those_that_begin_what_is_typed_or_go_on_from_it(self) -> None:
        one = entry("return", -1.0, ret=-2.0, r=-3.0, x=-0.9)
        expected = math.log(sum(math.exp(value) for value in (-1.0, -2.0, -3.0)))
        assert typed_logprob(one, b"ret") == pytest.approx(expected)
        assert typed_logprob(entry("return", -1.0), b"ret") == 0.0


FUNCTION = "    x = [\n1]\n\n    return f(\n)\n", "\n\n# Behind it.\nf(1)\n"


@given(cuts=st.sets(st.integers(1, len("".join(FUNCTION)) - 1)), most=st.sampled_from([5, 500]))
def test_a_servers_answer_ends_with_the_function_as_a_local_one_does(cuts: set[int], most: int) -> None:
    """The same text, tokens and reason, whatever the server says behind the function."""
    whole = "".join(FUNCTION)
    edges = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]
    local = GenerationBuilder("", one_line=False, function=0)
    remote = Answer(one_line=False, most=most, function=0)
    for at, piece in enumerate(pieces):
        if local.stop is None and local.length < most:
            local.add(Token(-1, -0.5, 0.0, ""), piece.encode())
        if not remote.complete:
            entry = Entry(piece.encode(), -0.5)
            remote.add(Chunk(piece, (entry,), finish="length" if at + 1 == len(pieces) else ""))
    expected, found = local.finish(Timing()), remote.generation(Timing())
    assert (found.text, found.stop, found.doubt) == (expected.text, expected.stop, "")
    assert [token.text for token in found.tokens] == [token.text for token in expected.tokens]
