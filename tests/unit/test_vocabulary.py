"""Which tokens may come next while characters before the cursor are reproduced."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import EngineError
from lsp_calib.inference.generation.vocabulary import Vocabulary

# Few different bytes, so that tokens overlap; inside and outside words, and two halves of a character.
alphabet = b"ab_ .(\xc3\xa9"
bytes_ = st.lists(st.sampled_from(alphabet), min_size=1, max_size=6).map(bytes)
EVERY_BYTE = [bytes([byte]) for byte in range(256)]


def greedy(pieces: list[bytes], text: bytes) -> list[int]:
    """The longest token first: a tokenisation as good as any."""
    tokens = []
    while text:
        best = max(
            (i for i, piece in enumerate(pieces) if piece and text.startswith(piece)),
            key=lambda i: len(pieces[i]),
        )
        tokens.append(best)
        text = text[len(pieces[best]) :]
    return tokens


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Every single byte, some longer tokens, some control tokens (which have no bytes), in any order."""
    longer = draw(st.lists(bytes_.filter(lambda piece: len(piece) > 1), unique=True, max_size=25))
    pieces = draw(st.permutations([*EVERY_BYTE, *longer, b"", b""]))
    return Vocabulary(pieces, lambda text: greedy(pieces, text))


def word(byte: int) -> bool:
    return byte >= 0x80 or chr(byte).isalnum() or byte == ord("_")


def reference(vocabulary: Vocabulary, remaining: bytes) -> set[int]:
    """The definition, by looking at each token."""
    allowed = set(greedy(list(vocabulary.pieces), remaining)[:1])
    for token, piece in enumerate(vocabulary.pieces):
        if piece.startswith(remaining):
            allowed.add(token)
        elif piece and remaining.startswith(piece):
            at = len(piece)
            if not (word(remaining[at - 1]) and word(remaining[at])):
                allowed.add(token)
    return allowed


@given(vocabularies(), bytes_)
def test_the_allowed_tokens_are_those_of_the_definition(vocabulary: Vocabulary, remaining: bytes) -> None:
    allowed = vocabulary.allowed(remaining).tolist()
    assert set(allowed) == reference(vocabulary, remaining)
    assert len(set(allowed)) == len(allowed), "none is counted twice when their probabilities are added up"


@given(vocabularies(), bytes_, st.randoms(use_true_random=False))
def test_whatever_is_chosen_the_bytes_are_reproduced_in_the_end(
    vocabulary: Vocabulary, remaining: bytes, random: Random
) -> None:
    """There is always a token, it never contradicts what remains, and each brings the end nearer."""
    while remaining:
        token = random.choice(vocabulary.allowed(remaining).tolist())
        piece = vocabulary.pieces[token]
        assert piece
        assert piece.startswith(remaining) or remaining.startswith(piece)
        remaining = remaining[len(piece) :]


@given(vocabularies(), st.binary(min_size=1, max_size=30))
def test_a_tokeniser_that_adds_a_space_or_replaces_bytes_is_not_believed(
    vocabulary: Vocabulary, remaining: bytes
) -> None:
    """SentencePiece begins with a space; all of them replace the second half of a character by U+FFFD."""
    space = list(vocabulary.pieces).index(b" ")
    odd = Vocabulary(vocabulary.pieces, lambda _: [space])
    while remaining:
        allowed = odd.allowed(remaining).tolist()
        assert allowed
        for token in allowed:
            piece = odd.pieces[token]
            assert piece.startswith(remaining) or remaining.startswith(piece)
        remaining = remaining[max(len(odd.pieces[token]) for token in allowed) :]


def test_a_token_that_stops_inside_a_word_is_left_out() -> None:
    pieces = [b"f", b"foo", b"foo_bar", b"fo", b".", b"o", b".f"]
    vocabulary = Vocabulary(pieces, lambda text: greedy(pieces, text))
    assert {pieces[i] for i in vocabulary.allowed(b"foo")} == {b"foo", b"foo_bar"}
    assert {pieces[i] for i in vocabulary.allowed(b".foo")} == {b".", b".f"}, "its own tokenisation stays"


def test_bytes_that_no_token_makes_are_an_engine_error() -> None:
    """Small vocabularies lack bytes: a control character before the cursor must not end the process."""
    vocabulary = Vocabulary([b"a", b""], lambda _: [])
    with pytest.raises(EngineError, match="x04"):
        vocabulary.allowed(b"\x04a")


@pytest.mark.parametrize("prefix", [b"\xff", b"\xff\xff", b"a\xff", b"\xfe"])
def test_the_last_bytes_have_no_successor_and_are_found_all_the_same(prefix: bytes) -> None:
    pieces = [*EVERY_BYTE, prefix + b"x", prefix + b"\xff", b"b", b"zz"]
    vocabulary = Vocabulary(pieces, lambda text: greedy(pieces, text))
    found = {pieces[i] for i in vocabulary.allowed(prefix)}
    assert {prefix + b"x", prefix + b"\xff"} <= found
    assert b"b" not in found
