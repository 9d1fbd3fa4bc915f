"""Text from elsewhere is read as text where Markdown is rendered."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lsp_calib.characters import escape_markdown, shown

# Tables and strikethrough are those of GitHub's Markdown, which editors render.
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKS = st.text(st.sampled_from("ab1 \\`*_{}[]()#+-.!<>|~&:@;/=w\"'"), max_size=20)


@given(MARKS | st.text(max_size=40))
@example("1. one")
@example("# one")
@example("&amp; &#65;")
@example("~~~ *a* __b__ a_b_ _")
@example("[x](http://a.b) ![i][x] <b>")
@example("| a |")
def test_it_renders_as_the_text_alone(text: str) -> None:
    line = " ".join(shown(text).split())
    tokens = RENDERER.parse(escape_markdown(line))
    if not line:
        return
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} == {"text"}
    assert "".join(child.content for child in children) == line


@given(MARKS | st.text(max_size=40))
@example("HTTPS://a.b and WWW.a.b or ann@example.org :smile:")
def test_no_address_and_no_smiley_is_left(text: str) -> None:
    """GitHub's Markdown makes links of bare addresses."""
    assert not re.search(r"(?i)(?<!\\)://|www\.|(?<!\\)@|(?<!\\):[\w+-]+:", escape_markdown(text))


@pytest.mark.parametrize(
    "text", ["Return the sum (an int).", "Set snake_case to -1.5: it counts, e.g. x + 1!", "a & b = {c}"]
)
def test_plain_sentences_stay(text: str) -> None:
    assert escape_markdown(text) == text
