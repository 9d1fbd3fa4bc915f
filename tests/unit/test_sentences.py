"""Where the first sentence of a text ends."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.syntax import first_sentence_end

MORE = " Then more follows."


@pytest.mark.parametrize(
    "sentence",
    [
        "Read the file, e.g. a log.",
        "Read the file, i.e. a log, or (e.g. in tests) a string.",
        "Read the file, E.g. A log.",
        "Read names, sizes etc. of all files.",
        "Read names, sizes, etc.",
        "Compare one vs. the other, cf. Knuth et al. 1977.",
        "Compute it as in fig. 2 and eq. 3 on pp. 12.",
        "Ask the server, and print no. 5 of its answers.",
        "Say no.",
        "Parse a file of version 1.2.3 as v. 2 does.",
        "Parse a file of version 3.",
        "Fetch https://example.org/?q=1.",
        "Wait... until it is there.",
        "Call f(...) with all of them.",
        "Return empty? or any! of the list.",
        "Return a ? b : c as text.",
        "Split at . or at ! in a text.",
        'Print "Hello."',
        "Print it (see below.)",
        "Sort by the method of J. Smith and A. B. Lee.",
        "1. Read the file.",
        "a. Read the file.",
        "Is it a file?",
        "Stop it!",
        "Set x.",
        "Use .NET or Node.js for it.",
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(sentence: str) -> None:
    text = sentence + MORE
    assert text[: first_sentence_end(text)] == sentence


@pytest.mark.parametrize("text", ["", "no end", "ends with e.g.", "a.b", "Read it, i.e.", "3.14"])
def test_a_text_may_have_no_end(text: str) -> None:
    assert first_sentence_end(text) is None


def test_no_space_is_needed_after_a_full_stop_that_is_wide() -> None:
    assert first_sentence_end("讀取文件。然後") == 5


@given(st.text(alphabet=st.sampled_from("aZ1 .!?()\"'e.g\u3002"), max_size=60))
def test_the_end_is_after_a_mark(text: str) -> None:
    end = first_sentence_end(text)
    if end is not None:
        assert text[:end].rstrip(")]\"'")[-1:] in (".", "!", "?", "\u3002")
        assert first_sentence_end(text[:end]) is not None  # what was cut there is one sentence


@pytest.mark.parametrize("part", [". ", "e.g. ", "a.", "J. ", '."', "? a", "...", "e. g"])
def test_hostile_texts_take_no_time(part: str) -> None:
    began = time.process_time()
    first_sentence_end(part * 20_000)
    assert time.process_time() - began < 1.0
