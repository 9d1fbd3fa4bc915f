"""How a generation reproduces typed characters: the model's own way where it agrees, else by whole words.

The rules themselves are real; the model is a table of the continuations it prefers, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lsp_calib.inference.backend import Counters
from lsp_calib.inference.engine import Request
from lsp_calib.inference.generation.run import Evaluator, GenerationRun
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
    """table: after the text so far (tokens joined by |) the pieces that come, best first, then all others.
    forces: whether it can force the lead of a request."""

    def __init__(self, forced: str, table: Mapping[str, Sequence[str]], lead: str, forces: bool) -> None:
        self.table, self.forces = table, forces
        self.asked: list[str] = []
        super().__init__(
            Evaluator(VOCABULARY, 100, Counters()),
            Request(Prompt(((Segment.TEXT, "x"),), forced, "test"), 8, lead=lead),
            [PIECES.index("x")],
        )

    def _generate(self) -> None:
        while not self._over:
            token, likeliest = self._candidates()
            if self._required if self.forces else self._builder.remaining:
                self._reproduce(token, likeliest)
            else:
                self._take(token)
            if self.forces:
                self._follow_lead()

    def _candidates(self) -> tuple[Token, Token]:
        """The likeliest token of those that may come, and of all."""
        so_far = "|".join(PIECES[token] for token in self._tokens[1:])
        self.asked.append(so_far)
        liked = [PIECES.index(piece) for piece in self.table.get(so_far, ("\n",))]
        order = [*liked, *(token for token in range(len(PIECES)) if token not in liked)]
        required = self._required
        allowed = set(VOCABULARY.allowed(required).tolist()) if required else set(order)
        typed_logprob = -0.25 if self._builder.remaining else 0.0
        best = next(token for token in order if token in allowed)
        return Token(best, -0.5, typed_logprob, ""), Token(order[0], -0.5, typed_logprob, "")


def answered(
    forced: str, table: Mapping[str, Sequence[str]], lead: str = "", *, forces: bool = False
) -> tuple[TableRun, Generation]:
    run = TableRun(forced, table, lead, forces)
    return run, run.advance()


def led(forced: str, lead: str, table: Mapping[str, Sequence[str]]) -> tuple[TableRun, Generation]:
    return answered(forced, table, lead, forces=True)


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
    first = healed.tokens[0]
    assert (first.logprob, first.typed_logprob, first.text) == (-0.5, -0.25, "k")


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


def test_an_answer_that_begins_with_the_lead_is_the_model_s_own_to_the_last_token() -> None:
    """`f` and `rak` end inside the word of the lead, and are the model's own choice."""
    table = {"": ("(",), "(": ("f",), "(|f": ("rak",), "(|f|rak": ("A",)}
    run, generation = led("(", "frak", table)
    _, own = answered("(", table)
    assert not generation.led
    assert generation.text == own.text == "frakA"
    tokens, own_tokens = (
        [(token.id, token.logprob, token.typed_logprob) for token in one.tokens] for one in (generation, own)
    )
    assert tokens == own_tokens
    assert run.asked == ["", "(", "(|f", "(|f|rak", "(|f|rak|A"]


@pytest.mark.parametrize("table", [{"": ("(",), "(": ("f",), "(|f": ("(",)}, {"": ("(",), "(": ("\n",)}])
def test_another_answer_is_taken_back_and_the_lead_counts(table: dict[str, tuple[str, ...]]) -> None:
    """Its tokens are part of the text. What is typed is not, and is known."""
    run, generation = led("(", "frak", {**table, "(|frak": ("A",)})
    assert (generation.led, generation.text) == (True, "frakA")
    assert pieces([token.id for token in generation.tokens]) == ["frak", "A", "\n"]
    assert pieces(generation.healing) == ["("]
    assert (generation.tokens[0].logprob, generation.tokens[0].typed_logprob) == (-0.5, 0.0)
    assert run.asked[-1] == "(|frak|A"


def test_a_token_of_what_is_typed_and_of_the_lead_is_known_as_far_as_it_is_typed() -> None:
    _, generation = led("f", "rak", {"": ("foo", "frak"), "frak": ("A",)})
    assert (generation.text, generation.led) == ("rakA", True)
    assert (generation.tokens[0].logprob, generation.tokens[0].typed_logprob) == (-0.5, -0.25)
    assert generation.tokens[0].text == "rak"


def test_while_the_lead_is_forced_the_model_s_own_way_through_its_words_is_tried() -> None:
    """And taken back with the text that it has added, where it leads elsewhere."""
    table = {"": ("x",), "f": ("rak",), "f|rak": ("C",)}
    run, generation = led("", "a(frak", {**table, "a": ("(",), "a|(": ("f",), "a|(|f": ("rak",)})
    assert generation.led
    assert pieces([token.id for token in generation.tokens]) == ["a", "(", "f", "rak", "\n"]
    run, generation = led("", "a(frak", {**table, "a": ("(",), "a|(": ("f",), "a|(|f": ("o",)})
    assert pieces([token.id for token in generation.tokens]) == ["a", "(", "frak", "\n"]
    assert generation.text == "a(frak"
    assert "a|(|f" in run.asked


def test_an_engine_that_cannot_force_a_lead_gives_its_own_answer() -> None:
    _, generation = answered("", {"": ("x",)}, "frak")
    assert (generation.text, generation.led) == ("x", False)
