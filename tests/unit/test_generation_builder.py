"""An answer from its tokens' bytes: what was typed is left out, and no character is torn apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.generation.builder import GenerationBuilder
from lsp_calib.values import Stop, Timing

texts = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[bytes]:
    """The bytes of a text, cut anywhere, also inside characters."""
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(len(data) - 1, 1)))))
    return [
        data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if data[start:end]
    ]


@given(st.data(), texts, texts)
def test_the_answer_is_what_follows_the_forced_characters(
    data: st.DataObject, forced: str, text: str
) -> None:
    builder = GenerationBuilder(forced, one_line=True)
    for token, piece in enumerate(data.draw(pieces(forced + text + "\nmore"))):
        if builder.stop is None:
            builder.add(token, -1.0, 0.0, piece)
    generation = builder.finish(Timing())
    assert generation.text == text
    assert generation.stop is Stop.LINE
    assert "".join(token.text for token in generation.tokens) == text


@given(st.data(), texts, texts)
def test_given_tokens_are_part_of_the_text_as_if_they_had_been_chosen(
    data: st.DataObject, forced: str, text: str
) -> None:
    cut = data.draw(pieces(forced + text + "\nmore"))
    chosen, begun = GenerationBuilder(forced, one_line=True), GenerationBuilder(forced, one_line=True)
    some = data.draw(st.integers(0, len(cut)))
    for token, piece in enumerate(cut):
        if chosen.stop is None:
            chosen.add(token, -1.0, 0.0, piece)
            if token < some:
                begun.give(piece)
            else:
                begun.add(token, -1.0, 0.0, piece)
    one, other = chosen.finish(Timing()), begun.finish(Timing())
    assert (other.text, other.stop, begun.length) == (one.text, one.stop, chosen.length)
    assert other.tokens == tuple(token for token in one.tokens if token.id >= some)
    assert one.healing == tuple(range(len(one.healing))), "the first tokens"
    assert sum(len(cut[token]) for token in one.healing) <= len(forced.encode())
    assert not one.tokens or one.tokens[0].id == len(one.healing)


@given(st.data(), st.text(max_size=12))
def test_several_lines_are_kept_as_they_are(data: st.DataObject, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    builder = GenerationBuilder("", one_line=False)
    for token, piece in enumerate(data.draw(pieces(text))):
        builder.add(token, -1.0, 0.0, piece)
    builder.end(99, -0.5)
    generation = builder.finish(Timing())
    assert (generation.text, generation.stop) == (text, Stop.END_OF_TEXT)
    assert generation.tokens[-1].id == 99


def test_tokens_that_only_reproduce_what_is_typed_carry_nothing() -> None:
    builder = GenerationBuilder("    ret", one_line=True)
    builder.add(1, -1.0, -1.0, b"    ")
    assert builder.tokens == []
    assert builder.remaining == b"ret"
    builder.add(2, -2.0, -1.5, b"return")
    assert [token.text for token in builder.tokens] == ["urn"]


def test_a_character_that_was_cut_off_is_left_out() -> None:
    builder = GenerationBuilder("", one_line=True)
    builder.add(1, -1.0, 0.0, "aé".encode()[:2])
    generation = builder.finish(Timing())
    assert (generation.text, generation.stop) == ("a", Stop.LENGTH)


@pytest.mark.parametrize(("one_line", "text"), [(True, "x"), (False, "x\r")])
def test_a_carriage_return_belongs_to_the_line_s_end(one_line: bool, text: str) -> None:
    builder = GenerationBuilder("", one_line=one_line)
    builder.add(1, -1.0, 0.0, b"x\r")
    assert builder.finish(Timing()).text == text
