"""Other answers at a place: the ways that are tried, what they are made of, and their shares."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion.alternatives import alternatives, branch_request, branches, joined, shares
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import offered
from lsp_calib.completion.service import Completion, CompletionService
from lsp_calib.inference import open_engine
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Engine, Observe, Request
from lsp_calib.values import Generation, Observation, Prompt, Segment, Stop, Timing, Token

REQUEST = Request(Prompt(((Segment.TEXT, "x"),), "", "v"), 64, observe=Observe.ENTROPY | Observe.MARGIN)


class Tree:
    """A model of texts over "ab", ended by "$", of at most three tokens. Every probability is known."""

    IDS: ClassVar = {"a": 1, "b": 2, "$": 3}

    def __init__(self, chance: Callable[[str, str], float]) -> None:
        self._chance = chance
        self.asked: list[Request] = []

    def softmax(self, text: str) -> dict[str, float]:
        if len(text) == 3:
            return {"$": 1.0}
        weights = {char: self._chance(text, char) for char in self.IDS}
        return {char: weight / sum(weights.values()) for char, weight in weights.items()}

    def answer(self, request: Request) -> Generation:
        """Greedy, as an engine would."""
        names = {number: char for char, number in self.IDS.items()}
        given = "".join(names[number] for number in request.given)
        text, tokens = given.removesuffix("$"), []
        while not given.endswith("$"):
            softmax = self.softmax(text)
            (char, p), *rest = sorted(softmax.items(), key=lambda pair: -pair[1])
            seen = Observation(entropy=1.0)
            if Observe.MARGIN in request.observe and rest:
                seen = Observation(1.0, math.log(p / rest[0][1]), self.IDS[rest[0][0]])
            tokens.append(Token(self.IDS[char], math.log(p), 0.0, char.replace("$", ""), seen=seen))
            if char == "$":
                break
            text += char
        return Generation(text, tuple(tokens), Stop.END_OF_TEXT, Timing())

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request)
        return self.answer(request)

    def probability(self, text: str) -> float:
        return math.prod(self.softmax(text[:n])[char] for n, char in enumerate(text + "$"))


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    texts = ["".join(text) for n in range(3) for text in itertools.product("ab", repeat=n)]
    weights = {(text, char): draw(st.floats(0.01, 1.0)) for text in texts for char in "ab$"}
    return Tree(lambda text, char: weights[text, char])


async def whole(text: str) -> str:
    return text


@given(trees())
async def test_each_is_another_text_with_its_own_probability(tree: Tree) -> None:
    first = tree.answer(REQUEST)
    found = [pair async for pair in alternatives(tree.generate, REQUEST, first, whole, draws=False)]
    texts = [text for _, text in found]
    assert len({first.text, *texts}) == 1 + len(texts) <= 3
    for generation, text in found:
        assert text == generation.text == "".join(token.text for token in generation.tokens)
        assert math.exp(math.fsum(generation.logprobs)) == pytest.approx(tree.probability(text))
        assert generation.entropies is not None
    # Whatever is decoded continues a beginning of the first answer.
    for request in tree.asked:
        *before, _ = request.given
        assert tuple(before) == tuple(token.id for token in first.tokens)[: len(before)]
        assert request.observe is Observe.ENTROPY


@given(trees(), st.integers(0, 3))
async def test_ways_that_part_behind_a_place_are_not_tried(tree: Tree, until: int) -> None:
    first = tree.answer(REQUEST)
    async for _ in alternatives(tree.generate, REQUEST, first, whole, draws=False, until=until):
        pass
    assert all(len(request.given) - 1 <= until for request in tree.asked)


@given(trees())
def test_the_likeliest_way_is_tried_first(tree: Tree) -> None:
    first = tree.answer(REQUEST)
    ways = branches(first)
    names = {number: char for char, number in tree.IDS.items()}

    def begins(at: int) -> float:
        text = first.text[:at]
        beginning = math.prod(tree.softmax(text[:n])[text[n]] for n in range(at))
        return beginning * tree.softmax(text)[names[first.tokens[at].seen.second]]

    probabilities = [begins(at) for at in ways]
    assert probabilities == pytest.approx(sorted(probabilities, reverse=True))
    assert len(ways) == sum(len(tree.softmax(first.text[:n])) > 1 for n in range(len(first.tokens)))


def test_an_answer_that_was_not_observed_shows_no_other_way() -> None:
    tokens = (Token(1, -0.5, 0.0, "a"), Token(2, -0.5, 0.0, "", seen=Observation(entropy=0.5)))
    assert branches(Generation("a", tokens, Stop.LINE, Timing())) == []


def test_the_token_that_was_given_has_the_text_between() -> None:
    """Typed characters stay out, and a token of the answer's end adds nothing."""
    seen = Observation(entropy=0.25, margin=0.5, second=7)
    tokens = (Token(4, -1.5, -1.0, "urn", seen=seen), Token(5, -0.5, 0.0, " x", seen=seen))
    first = Generation("urn x", tokens, Stop.LINE, Timing(), healing=(3,))
    assert branch_request(REQUEST, first, 0).given == (3, 7)
    rest = (Token(8, -0.25, 0.0, " yes"), Token(9, -0.125, 0.0, ""))
    whole = joined(first, 0, Generation("ry: yes", rest, Stop.LINE, Timing()))
    assert [token.text for token in whole.tokens] == ["ry:", " yes", ""]
    assert whole.logprobs == pytest.approx((-1.0, -0.25, -0.125))
    assert whole.healing == (3,)
    ended = joined(first, 1, Generation("urn", (), Stop.LINE, Timing()))
    assert [token.text for token in ended.tokens] == ["urn", ""]
    assert ended.logprobs == pytest.approx((-0.5, -1.0))


logprobs = st.floats(-60.0, 0.0)


@given(logprobs, st.lists(logprobs, max_size=2))
def test_shares_add_up_to_one_at_most_and_keep_the_order(first_logprob: float, others: list[float]) -> None:
    found = shares(first_logprob, others)
    assert len(found) == len(others)
    assert all(share >= 0.0 for share in found)
    assert sum(found) <= 1.0 + 1e-12
    for one, two in itertools.combinations(range(len(others)), 2):
        assert (found[one] <= found[two]) or others[one] > others[two]


@given(trees())
def test_where_the_model_is_right_about_itself_the_shares_are_its_probabilities(tree: Tree) -> None:
    first = tree.answer(REQUEST)
    p = tree.probability(first.text)
    (share,) = shares(math.log(p), [math.log(tree.probability("ab"))])
    if first.text != "ab":
        assert (1.0 - p) * share == pytest.approx(tree.probability("ab"))


LINES = [
    "class Stack:",
    "    def __init__(self):",
    "        self.items = []",
    "",
    "    def push(self, item):",
    "        self.items.",
]


@pytest.fixture
def engine(home_with_model: Path) -> Engine:
    assert home_with_model
    return open_engine(EngineChoice(model="smollm2-135m", threads=1, linger=2.0))


@pytest.mark.model
async def test_alternatives_of_the_real_model(engine: Engine) -> None:
    """Each differs, goes on from the cursor, and has the probability that the model gives its text."""
    cursor = Cursor.at(LINES, 5, len(LINES[5]), "python")
    service = CompletionService(engine, ConfidenceEstimator(CalibratorStore.open()))
    try:
        first = await service.complete(cursor)
        assert isinstance(first, Completion)
        others = await service.alternatives(first)
        assert [other.suggestion.rank for other in others] == [2, 3]
        texts = [one.suggestion.text for one in (first, *others)]
        assert len({text.strip() for text in texts}) == 3
        for other in others:
            assert offered(other.suggestion.text, cursor).text == other.suggestion.text
            assert other.suggestion.confidence.tier.value != "accept"
            assert other.evidence.features.keys() == first.evidence.features.keys()
        confidences = [one.suggestion.confidence.calibrated for one in (first, *others)]
        assert sum(p for p in confidences if p is not None) <= 1.0
        assert None not in confidences
        # Once some of the first is typed, they go on from there.
        typed = Cursor.at([*LINES[:5], LINES[5] + texts[0][:3]], 5, len(LINES[5]) + 3, "python")
        rest = attrs.evolve(first, cursor=typed, suggestion=attrs.evolve(first.suggestion, text=texts[0][3:]))
        for other in await service.alternatives(rest):
            assert other.cursor == typed
            assert other.suggestion.text not in ("", rest.suggestion.text)
    finally:
        await engine.close()
