"""Answers that have to begin with a text, with the real model in this process: the model's own where it
begins so, else one in which that text counts like the rest."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from llama_scene import Reference, generate, interruptions, one_by_one, persist, step_seconds

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import Observe, Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Prompt, Segment

llama = pytest.importorskip("lsp_calib.inference.local.llama")

pytestmark = pytest.mark.model

EXACT = 2e-6
CODE = '''import json
from decimal import Decimal


class Account:
    """Money of a person."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = Decimal(balance)
        self.entries = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        self.entries.append(("deposit", amount))

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("amount exceeds the balance")
        self.balance -= amount
        self.entries.append(("withdraw", amount))

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"owner": self.owner, "balance": str(self.balance)}, file)
'''.splitlines()
# (the line, from 0, the text before the cursor): the rest of the line is not written yet.
PLACES = [
    *((8, "        self.ow"), (9, "        self.balance = D"), (10, "        self."), (13, "        if am")),
    *((14, "            raise V"), (15, "        self.balance +"), (16, "        self.entries.a")),
    *((19, "        if "), (22, "        self.entries"), (25, "        with op")),
]
# How a word of the answer goes on, with what stands before it.
ITEM = re.compile(r"\W*\w*")
NEVER = "zebra_quartet"


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[llama.LlamaModel]:
    loaded = llama.LlamaModel(LoadOptions(model_path, 1024, threads=1))
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def prompts(model_card: ModelCard) -> list[Prompt]:
    layout = Layout.of(model_card)
    cursors = (
        Cursor.at((*CODE[:line], before, *CODE[line + 1 :]), line, len(before), "python")
        for line, before in PLACES
    )
    return [build_prompt(cursor, layout) for cursor in cursors]


def asked(prompt: Prompt, lead: str = "") -> Request:
    return Request(prompt, 64, observe=Observe.ENTROPY, lead=lead)


ABOVE = "\n".join(CODE[:8]) + "\n        self"


def plain(text: str, forced: str = "", **more: Any) -> Request:
    return Request(Prompt(((Segment.TEXT, text),), forced, "test"), 64, **more)


def test_an_item_that_begins_the_model_s_own_answer_changes_nothing_of_it(
    model: llama.LlamaModel, prompts: list[Prompt]
) -> None:
    """To the last bit: the same text has the same probability."""
    for prompt in prompts:
        own = generate(model, asked(prompt))
        found = ITEM.match(own.text)
        assert found is not None
        for item in (found[0], own.text[:1], own.text):
            beside = generate(model, asked(prompt, item))
            found_ = (beside.led, beside.text, beside.tokens, beside.healing)
            assert found_ == (False, own.text, own.tokens, own.healing)


def test_of_an_item_that_the_model_would_never_choose_the_number_is_low(
    model: llama.LlamaModel, prompts: list[Prompt]
) -> None:
    for prompt in prompts:
        own = generate(model, asked(prompt))
        never = generate(model, asked(prompt, NEVER))
        assert never.led
        assert never.text.startswith(NEVER)
        assert "".join(token.text for token in never.tokens) == never.text
        assert math.fsum(never.logprobs) < min(math.fsum(own.logprobs), math.log(0.001))
        assert never.entropies is not None, "a curve over the probabilities has what it needs"
        assert generate(model, asked(prompt)).tokens == own.tokens, "and the own answer stays as it was"


def test_the_tokens_of_an_item_count_as_they_do_from_scratch(
    model: llama.LlamaModel, model_path: Path
) -> None:
    """All tokens of an answer behind a boundary, where nothing is typed of its first one."""
    reference = Reference(model_path)
    own = generate(model, plain(f"{ABOVE}."))
    beside = generate(model, plain(f"{ABOVE}.", lead="entries = dict("))
    given = reference.tokens(f"{ABOVE}.")
    assert beside.led
    assert not own.text.startswith("entries")
    ids = [token.id for token in beside.tokens]
    splits = one_by_one(len(given), len(ids))
    expected = reference.log_probabilities([*given, *ids], len(given), splits=splits)
    reference.close()
    assert beside.logprobs == pytest.approx(expected, abs=EXACT)


def test_what_is_typed_of_an_item_is_known(model: llama.LlamaModel) -> None:
    """The more of it is typed, the likelier is the rest; typed as a whole it is the answer behind it."""
    totals = []
    for typed in (".", ".e", ".en", ".entri"):
        answer = generate(model, plain(ABOVE, typed, lead=".entries"[len(typed) :]))
        assert (typed + answer.text).startswith(".entries")
        totals.append(math.fsum(answer.logprobs))
    assert totals == sorted(totals)
    assert totals[-1] > totals[0] + 1.0


def test_nothing_is_forced_behind_given_tokens_that_have_left_the_item(model: llama.LlamaModel) -> None:
    """As those of an alternative to an answer that began with it."""
    other = generate(model, plain(f"{ABOVE}.", lead="größe")).tokens[0].id
    own = generate(model, plain(f"{ABOVE}.", given=(other,)))
    for lead in ("entries", "ääääääää", "zebra"):
        beside = generate(model, plain(f"{ABOVE}.", given=(other,), lead=lead))
        assert (beside.text, beside.tokens, beside.led) == (own.text, own.tokens, False)


def test_interrupted_at_many_moments_it_ends_the_same(model: llama.LlamaModel, prompts: list[Prompt]) -> None:
    wanted = asked(prompts[5], NEVER)
    expected = generate(model, wanted)
    longest = 4 * step_seconds(model)
    interrupted = 0
    for seed in range(4):
        generate(model, asked(prompts[seed]))  # something else is in the cache
        run = model.begin(wanted)
        with interruptions(model, Random(seed), longest):
            generation, times = persist(model, run)
        interrupted += times
        assert generation is not None
        assert attrs.evolve(generation, timing=expected.timing) == expected
    assert interrupted
