"""Which tokens may come next while typed characters are reproduced; and texts, tokenised from memory."""

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsp_calib
from lsp_calib.errors import EngineError
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.local.native import Tokenizer

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


class Words:
    """A tokeniser that splits into words first, as byte-pair encoding does; counts the bytes it saw."""

    def __init__(self, pattern: bytes = rb"\w+|\s+|[^\w\s]+") -> None:
        self.pattern = re.compile(pattern, re.ASCII)
        self.seen = 0

    def __call__(self, text: bytes, control: bool) -> tuple[int, ...]:
        self.seen += len(text)
        return tuple(hash((word, control)) for word in self.pattern.findall(text))


line = st.sampled_from(["value = 1", "    return x", "", "# a comment's end.", "x\r", "é", "\tif y:", "  "])
text = st.lists(line, max_size=200).map("\n".join)


@given(text, text)
def test_the_tokens_are_those_of_the_whole_text(first: str, more: str) -> None:
    words = Words()
    remembering = Tokenizer(words)
    assert remembering.cuts
    for one in (first, first + more, more + first, first):
        assert remembering(one.encode()) == words(one.encode(), False)
        assert remembering(one.encode(), control=True) == words(one.encode(), True)


@given(text, text)
def test_a_tokeniser_whose_words_cross_line_ends_is_given_whole_texts(first: str, more: str) -> None:
    across = Words(rb"\w+\n\s*|\w+|\s+|[^\w\s]+")
    remembering = Tokenizer(across)
    assert not remembering.cuts
    for one in (first, first + more):
        assert remembering(one.encode()) == across(one.encode(), False)


def test_typing_at_the_end_of_a_text_costs_its_last_piece() -> None:
    words = Words()
    remembering = Tokenizer(words)
    above = b"    value = compute(alpha, beta)\n    total += value\n" * 100
    remembering(above)
    words.seen = 0
    for n in range(20):
        remembering(above + b"    another"[: n % 11])
    assert words.seen < 20 * 1200


def test_what_is_no_part_of_a_window_is_not_kept() -> None:
    words = Words()
    remembering = Tokenizer(words)
    huge = b"value = 1\n" * 10_000
    words.seen = 0
    assert remembering(huge) == remembering(huge)
    assert words.seen == 2 * len(huge)


def test_the_default_models_tokens_are_the_same_with_and_without(model_path: Path) -> None:
    """On every source file of this package."""
    pytest.importorskip("llama_cpp")
    from lsp_calib.inference.backend import Acceleration
    from lsp_calib.inference.local.native import Weights

    weights = Weights(model_path, acceleration=Acceleration(), on_progress=lambda _: None)
    try:
        assert weights.tokenize.cuts
        for path in sorted(Path(lsp_calib.__file__).parent.rglob("*.py")):
            source = path.read_bytes()
            assert weights.tokenize(source) == weights._tokenize(source, False), path
    finally:
        weights.close()
