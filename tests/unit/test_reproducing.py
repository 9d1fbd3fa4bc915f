"""How a generation reproduces typed characters: the model's own way where it agrees, else by whole words.

The rules themselves are real; the model is a table of the continuations it prefers, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lsp_calib.inference.backend import Counters
from lsp_calib.inference.engine import Request
from lsp_calib.inference.generation.run import GenerationRun, Shared
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.values import Generation, Prompt, Segment, Stop, Token

PIECES = ["", "f", "fra", "rak", "frak", "r", "A", "C", "(", ")", "\n", " ", "a", "foo", "o", "k", "x"]
BYTES = [piece.encode() for piece in PIECES]


def tokenize(text: bytes) -> list[int]:
    """The longest token first."""
    tokens: list[int] = []
    while text:
        best = max((piece for piece in BYTES if piece and text.startswith(piece)), key=len)
        tokens.append(BYTES.index(best))
        text = text[len(best) :]
    return tokens


VOCABULARY = Vocabulary(BYTES, tokenize)


class TableRun(GenerationRun):
    """table: after the text so far (tokens joined by |) the pieces that come, best first, then all others."""

    def __init__(self, forced: str, table: Mapping[str, Sequence[str]]) -> None:
        self.table = table
        self.asked: list[str] = []
        super().__init__(
            Shared(VOCABULARY, 100, Counters()),
            Request(Prompt(((Segment.TEXT, "x"),), forced, "test"), 8),
            [PIECES.index("x")],
        )

    def _generate(self) -> None:
        while not self._over:
            so_far = "|".join(PIECES[token] for token in self._tokens[1:])
            self.asked.append(so_far)
            liked = [PIECES.index(piece) for piece in self.table.get(so_far, ("\n",))]
            order = [*liked, *(token for token in range(len(PIECES)) if token not in liked)]
            remaining = self._builder.remaining
            allowed = set(VOCABULARY.allowed(remaining).tolist()) if remaining else set(order)
            token = next(token for token in order if token in allowed)
            candidate = Token(token, -0.5, -0.25 if remaining else 0.0, "")
            if remaining:
                self._reproduce(candidate, order[0])
            else:
                self._take(candidate)


def answered(forced: str, table: Mapping[str, Sequence[str]]) -> tuple[TableRun, Generation]:
    run = TableRun(forced, table)
    return run, run.advance()


def pieces(ids: Sequence[int]) -> list[str]:
    return [PIECES[id] for id in ids]


def test_where_the_model_writes_the_word_by_itself_the_answer_is_the_one_without_typing() -> None:
    table = {"": ("f", "fra"), "f": ("rak",), "f|rak": ("C",), "fra": ("A",)}
    _, healed = answered("fra", table)
    _, clean = answered("", table)
    assert healed.text == "kC"
    assert clean.text == "frakC"
    assert pieces(healed.healing) == ["f"]
    assert [token.id for token in healed.tokens] == [token.id for token in clean.tokens[1:]]
    assert healed.tokens[0].logprob == -0.5
    assert healed.tokens[0].typed_logprob == -0.25
    assert healed.tokens[0].text == "k"


def test_where_it_meant_another_word_the_tokens_are_taken_back() -> None:
    """`f` was likely because of `f(`."""
    table = {"": ("f", "fra"), "f": ("(", "rak"), "fra": ("A",)}
    run, generation = answered("fra", table)
    assert run.asked == ["", "f", "fra", "fra|A"]
    assert generation.text == "A"
    assert pieces(generation.healing) == ["fra"]
    assert pieces([token.id for token in generation.tokens]) == ["A", "\n"]
    assert generation.stop is Stop.LINE
    assert generation.timing.generated_tokens == 4, "what was taken back was work as well"


def test_it_is_taken_back_to_where_it_began() -> None:
    table = {"": ("f", "frak"), "f": ("r",), "f|r": ("(",), "frak": ("(",)}
    run, generation = answered("frak", table)
    assert run.asked[:4] == ["", "f", "f|r", "frak"]
    assert generation.text == "("


def test_what_was_taken_back_is_not_tried_again_but_later_words_are() -> None:
    table = {"": ("foo",), "foo": (" ",), "foo| ": ("f", "fra"), "foo| |f": ("rak",)}
    run, generation = answered("foo fra", table)
    assert run.asked == ["", "foo", "foo| ", "foo| |f", "foo| |f|rak"]
    assert generation.text == "k"


@pytest.mark.parametrize("likes", [("(",), ("",), ("\n",)])
def test_a_choice_that_disagrees_at_once_is_not_tried(likes: Sequence[str]) -> None:
    """Nor is a control token, which has no characters."""
    run, generation = answered("fra", {"": (*likes, "frak")})
    assert run.asked == ["", "frak"]
    assert generation.text == "k"
