"""An answer from its tokens' bytes: what was typed is left out, and no character is torn apart."""

import functools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Counters
from lsp_calib.inference.generation.run import (
    GenerationBuilder,
    GenerationRun,
    function_end,
    prompt_tokens,
    shortened,
)
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

texts = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[bytes]:
    """The bytes of a text, cut anywhere, also inside characters."""
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(len(data) - 1, 1)))))
    return [
        data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if data[start:end]
    ]


def built(pieces: list[bytes], forced: str = "", **options: Any) -> Generation:
    """The answer whose tokens have these bytes, up to its end."""
    builder = GenerationBuilder(forced, **options)
    for token, piece in enumerate(pieces):
        if builder.stop is None:
            builder.add(Token(token, -1.0, 0.0, ""), piece)
    return builder.finish(Timing())


@given(st.data(), texts, texts)
def test_the_answer_is_what_follows_the_forced_characters(
    data: st.DataObject, forced: str, text: str
) -> None:
    generation = built(data.draw(pieces(forced + text + "\nmore")), forced, one_line=True)
    assert (generation.text, generation.stop) == (text, Stop.LINE)
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
            chosen.add(Token(token, -1.0, 0.0, ""), piece)
            if token < some:
                begun.give(piece)
            else:
                begun.add(Token(token, -1.0, 0.0, ""), piece)
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
        builder.add(Token(token, -1.0, 0.0, ""), piece)
    builder.end(Token(99, -0.5, 0.0, ""))
    generation = builder.finish(Timing())
    assert (generation.text, generation.stop) == (text, Stop.END_OF_TEXT)
    assert generation.tokens[-1].id == 99


def test_a_character_that_was_cut_off_is_left_out() -> None:
    generation = built(["aé".encode()[:2]], one_line=True)
    assert (generation.text, generation.stop) == ("a", Stop.LENGTH)


@pytest.mark.parametrize(("one_line", "text"), [(True, "x"), (False, "x\r")])
def test_a_carriage_return_belongs_to_the_line_s_end(one_line: bool, text: str) -> None:
    assert built([b"x\r"], one_line=one_line).text == text


FUNCTION = (
    '    """One\nand two."""\n    x = [\n1,  # (\n]\n\n    return "#" + f(\n)\n',
    "\n\n# Behind it.\nf(1)\n",
)


@given(st.data())
def test_a_function_ends_where_a_line_is_indented_no_more_than_its_definition(data: st.DataObject) -> None:
    body, behind = FUNCTION
    cut = data.draw(pieces(body + behind))
    generation = built(cut, one_line=False, function=0)
    assert (generation.text, generation.stop) == (body, Stop.FUNCTION)
    assert "".join(token.text for token in generation.tokens) == body
    kept = len(generation.tokens)
    assert len(b"".join(cut[:kept])) >= len(body) > len(b"".join(cut[: kept - 1])), "the last ends its line"


@pytest.mark.parametrize(
    ("text", "indentation", "end"),
    [
        ("    return 1", 0, None),
        ("    return 1\n\n    ", 0, None),
        ("    return 1\n    # more\n", 0, None),
        ("def g():", 0, 0),
        ("        return 1\n    def g():\n", 4, 17),
        ("\treturn 1\nx", 0, 10),
        ("    x = '''\nnot closed", 0, None),
        ("    x = 'not closed\ny", 0, 20),
        ("    x = 1 + \\\n2\ny", 0, 16),
        ('    sql = """a\nb\\', 0, None),  # open behind a backslash, as where a token ends with one
        ("    sql = '''a\nb\\", 0, None),
    ],
)
def test_the_end_of_a_function(text: str, indentation: int, end: int | None) -> None:
    assert function_end(text, indentation) == end


def shorten(pieces: list[tuple[Segment, int]], room: int, **more: int) -> list[tuple[int, int]]:
    """What stays of texts with so many tokens: (piece, number in it)."""
    segments = tuple((kind, f"{at} {length}") for at, (kind, length) in enumerate(pieces))

    def tokenize(text: bytes, *, control: bool) -> list[tuple[int, int]]:  # noqa: ARG001
        at, length = map(int, text.split())
        return [(at, number) for number in range(length)]

    prompt = Prompt(segments, "", "v", more.get("most"), more.get("below", -1))
    return shortened(prompt, tokenize, room)  # type: ignore[arg-type,return-value]


TEXT, CONTROL = Segment.TEXT, Segment.CONTROL


class TestShortening:
    @given(
        st.lists(st.tuples(st.sampled_from(Segment), st.integers(0, 8)), max_size=6),
        st.integers(0, 30),
        st.none() | st.integers(1, 40),
    )
    def test_the_newest_text_and_all_control_tokens_stay(
        self, pieces: list[tuple[Segment, int]], room: int, most: int | None
    ) -> None:
        controls = sum(length for kind, length in pieces if kind is Segment.CONTROL)
        more = {} if most is None else {"most": most}
        if controls > room:
            with pytest.raises(EngineError, match="too long"):
                shorten(pieces, room, **more)
            return
        whole = [(at, number) for at, (_, length) in enumerate(pieces) for number in range(length)]
        kept = shorten(pieces, room, **more)
        limit = room if most is None else min(room, most)
        if len(whole) <= limit:
            assert kept == whole
        else:
            assert len(kept) <= max(limit, controls)
            assert len(kept) >= min(limit - (most or 0) // 8, len(whole))
        lost = [entry for entry in whole if entry not in kept]
        texts = [entry for entry in whole if pieces[entry[0]][0] is Segment.TEXT]
        assert lost == texts[: len(lost)]

    def test_of_the_text_below_the_cursor_the_end_goes(self) -> None:
        pieces = [(CONTROL, 1), (TEXT, 4), (CONTROL, 1), (TEXT, 6), (CONTROL, 1), (TEXT, 3)]
        kept = shorten(pieces, 9, below=3)
        assert kept == [(0, 0), (2, 0), (3, 0), (3, 1), (3, 2), (4, 0), (5, 0), (5, 1), (5, 2)]

    def test_the_next_keys_find_the_tokens_of_a_shortened_prompt_in_the_cache(self) -> None:
        """A cut that moved with each key would have the whole prompt evaluated again each time."""
        kept = [shorten([(TEXT, 1500 + typed)], 4000, most=1000) for typed in range(250)]
        assert max(map(len, kept)) == 1000
        begins = [tokens[0] for tokens in kept]
        assert len(set(begins)) == 3, "it moves every 125 keys"


def test_a_control_token_ends_the_text() -> None:
    """It has no text: what follows would be joined to what came before it, and its improbability lost."""
    pieces = [b"print(x)", b"", b"42"]
    run: Any = SimpleNamespace(_chosen=0, _counters=Counters(), _taken=[], _tokens=[], _pieces=pieces)
    run._add = functools.partial(GenerationRun._add, run)
    run._builder = GenerationBuilder("", one_line=True)
    for token, logprob in ((0, -0.1), (1, -4.0)):
        GenerationRun._take(run, Token(token, logprob, 0.0, ""))
    generation = run._builder.finish(Timing())
    assert (generation.text, generation.stop) == ("print(x)", Stop.END_OF_TEXT)
    assert [token.logprob for token in generation.tokens] == [-0.1, -4.0]


@pytest.mark.parametrize(
    ("text", "bos", "begins", "tokens"),
    [
        ("ab", 7, True, [7, 97, 98]),
        ("ab", 7, False, [97, 98]),
        ("ab", None, False, [97, 98]),
        ("abcdef", 7, True, [7, 99, 100, 101, 102]),
        ("", 7, False, [7]),
        ("", None, False, [10]),
    ],
)
def test_a_prompt_begins_as_the_model_was_trained_and_has_a_token_in_any_case(
    text: str, bos: int | None, begins: bool, tokens: list[int]
) -> None:
    """After the last one there are probabilities, also in an empty document. A byte is a token here."""

    def tokenize(text: bytes, /, *, control: bool = False) -> list[int]:
        return [] if control else list(text)

    assert prompt_tokens(Prompt(((TEXT, text),), "", "v"), tokenize, 5, bos, begins=begins) == tokens
