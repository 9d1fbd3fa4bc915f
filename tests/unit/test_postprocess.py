"""What of an answer is offered."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import clean


def at(before: str, after: str = "") -> Cursor:
    return Cursor.at([before + after], 0, len(before))


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred",
        "a\0b",
        "a\rb",
        "bell\a",
        "\x7f",
        "\x85",
        "a\x9bb",
        chr(0xD800),
        "\ufffd",
        "a\u2028b",
        "a\u2029b",
    ],
    ids=ascii,
)
def test_an_answer_with_control_characters_is_dropped_whole(text: str) -> None:
    assert clean(text, at("x = ")) == ""


@pytest.mark.parametrize(
    "code", [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], ids=hex
)
def test_an_answer_that_reads_otherwise_than_it_runs_is_dropped_whole(code: int) -> None:
    """Bidirectional controls: CVE-2021-42574."""
    assert clean(f"if x: {chr(code)}return", at("")) == ""


@pytest.mark.parametrize("text", ["\tx", "x\ty", "é", "日本", "😀", "👩\u200d💻", "a b"])
def test_other_characters_stay(text: str) -> None:
    assert clean(text, at("")) == text


@pytest.mark.parametrize("text", ["", " ", "\t \t", "\u3000"])
def test_white_space_alone_is_nothing_to_offer(text: str) -> None:
    assert clean(text, at("x")) == ""


def test_white_space_at_the_end_goes_and_at_the_beginning_stays() -> None:
    assert clean("  return x \t ", at("")) == "  return x"


@pytest.mark.parametrize(
    ("before", "text", "after", "offered"),
    [
        ("print(", "x)", ")", "x"),
        ("print(", "f(x))", ")", "f(x)"),
        ("def f(", "self, x):", "):", "self, x"),
        ("a = [", "1, 2]", "]", "1, 2"),
        ("x['", "key']", "']", "key"),
        ("s = '", "abc'", "'", "abc"),
        ("f(", "x)", ")   ", "x"),
        ("return ", "a + b", " + b", "a"),
        ("return ", "a + b", "+ b", "a "),
    ],
)
def test_what_stands_after_the_cursor_is_not_offered_again(
    before: str, text: str, after: str, offered: str
) -> None:
    assert clean(text, at(before, after)) == offered


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [("print(", "f(x)", ")"), ("a = [", "b[0]", "]"), ("f({", "'a': {}", "})"), ("print(", "x", ")")],
)
def test_a_bracket_that_the_answer_itself_opened_stays_closed(before: str, text: str, after: str) -> None:
    assert clean(text, at(before, after)) == text


def test_an_answer_that_is_all_there_already_is_nothing_to_offer() -> None:
    assert clean(")", at("f(", ")")) == ""


@given(
    st.text(),
    st.text(st.characters(exclude_characters="\r\n")),
    st.text(st.characters(exclude_characters="\r\n")),
)
def test_what_is_offered_begins_the_answer_and_holds_no_control_character(
    text: str, before: str, after: str
) -> None:
    offered = clean(text, at(before, after))
    assert text.startswith(offered)
    assert offered == "" or offered.strip()
    assert not any(unicodedata.category(char) == "Cc" and char != "\t" for char in offered)
