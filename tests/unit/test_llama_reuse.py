"""Many continuations with a reused cache, after cancelled and after pre-empted work: the numbers stay true.

The yardstick is llama.cpp itself: its numbers for the same texts, evaluated from scratch in small and in
large batches. Where a text was evaluated in batches of one kind, they are the same; where a part of it is
left from another kind, they are no further off than the kinds are from each other. A cache that held a wrong
token, or one at a wrong place, would be far beyond that.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from llama_scene import Reference, finish, generate, ignore, interruptions, request, step_seconds
from marks import repetitions

from lsp_calib.inference.backend import Interrupted, LoadOptions, Run
from lsp_calib.inference.engine import Priority, Request, Sampling
from lsp_calib.values import Generation

llama = pytest.importorskip("lsp_calib.inference.local.llama")

pytestmark = [pytest.mark.model, pytest.mark.long]

CONTINUATIONS = repetitions(thorough=200, long=24)
LINES = [
    "import json",
    "from pathlib import Path",
    "def read(path):",
    "    with open(path) as file:",
    "        return json.load(file)",
    "    for name, value in items:",
    "        total += value * 2",
    "class Store:",
    "    def __init__(self, path):",
    "        self.path = Path(path)",
    "    def __len__(self):",
    "    if not self.path.exists():",
    "        raise ValueError(name)",
    "    # the last one wins",
]
# llama.cpp attends in one of two ways, which differ by up to some tenths of a nat: one for fewer than 64
# tokens at once, one for 64 and more.
SMALL, LARGE = [32] * 32, [64] * 16
# A few at once: on some processors the other kernels differ too.
FEW = [3] * 512
# Nats: the order of additions.
SAME = 1e-3


class Typist:
    """Two documents being edited: lines come, go and change; what is asked ends inside a line."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._documents = [random.choices(LINES, k=5) for _ in range(2)]

    def text(self) -> str:
        random = self._random
        lines = random.choice(self._documents)
        edit = random.random()
        if edit < 0.6 or len(lines) < 3:
            lines.append(random.choice(LINES))
        elif edit < 0.8:
            lines.pop()
        else:
            lines[random.randrange(len(lines))] = random.choice(LINES)
        if len(lines) > 7:
            del lines[3:-3]  # the beginning stays: it is there to be reused
        words = random.choice(LINES).split(" ")
        return "\n".join([*lines, " ".join(words[: random.randint(1, len(words))])])

    def request(self, priority: Priority) -> Request:
        sampling = self._random.choice([None, Sampling(0.6, self._random.randrange(1000))])
        return request(self.text(), most=8, one_line=False, priority=priority, sampling=sampling)


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[llama.LlamaModel]:
    loaded = llama.LlamaModel(LoadOptions(model_path, 512, threads=1))
    yield loaded
    loaded.close()


Case = tuple[str, Request, Generation]


class Cases:
    """What happened to the cache, then a request that was answered, and its answer."""

    def __init__(self, model: llama.LlamaModel, random: Random) -> None:
        self._model = model
        self._random = random
        self._typist = Typist(random)
        self._longest = 2 * step_seconds(model)
        self.interrupted = 0

    def all(self) -> Iterator[Case]:
        """One kind after the other, for ever."""
        while True:
            yield "reuse", *self._next()
            yield self._cancel()
            yield from self._pre_emption()

    def _next(self) -> tuple[Request, Generation]:
        wanted = self._typist.request(Priority.INTERACTIVE)
        return wanted, generate(self._model, wanted)

    def _cancel(self) -> Case:
        """Something is abandoned on its way; then the next is asked."""
        self._start(self._model.begin(self._typist.request(Priority.INTERACTIVE), on_tokens=ignore))
        return "cancel", *self._next()

    def _pre_emption(self) -> Iterator[Case]:
        """Background work is interrupted, interactive work goes first, and it resumes."""
        wanted = self._typist.request(Priority.BACKGROUND)
        run = self._model.begin(wanted, on_tokens=ignore)
        for _ in range(self._random.randint(1, 3)):
            self._start(run)
            yield "went first", *self._next()
        yield "resumed", wanted, finish(run)

    def _start(self, run: Run) -> None:
        with interruptions(self._model, self._random, self._longest):
            try:
                run.advance()
            except Interrupted:
                self.interrupted += 1


def test_log_probabilities_are_as_near_to_those_from_scratch_as_llama_cpp_is_to_itself(
    model: llama.LlamaModel, model_path: Path
) -> None:
    cases = Cases(model, Random(20))
    reference = Reference(model_path)
    found: dict[str, list[float]] = defaultdict(list)
    apart: list[float] = []
    few: list[float] = []
    reused = total = 0
    for n, (kind, wanted, generation) in enumerate(itertools.islice(cases.all(), CONTINUATIONS)):
        reused += generation.timing.prompt_reused
        total += generation.timing.prompt_tokens
        given = reference.tokens(wanted.prompt.segments[0][1])
        assert generation.timing.prompt_tokens == len(given)
        tokens = [*given, *(token.id for token in generation.tokens)]
        ours = np.array([token.logprob for token in generation.tokens])
        scratch = reference.log_probabilities(tokens, len(given), splits=SMALL)
        if n % 8 == 0:
            few += abs(reference.log_probabilities(tokens, len(given), splits=FEW) - scratch).tolist()
        if n % 8 == 0 or not np.allclose(ours, scratch, rtol=0, atol=SAME):
            large = reference.log_probabilities(tokens, len(given), splits=LARGE)
            apart += abs(large - scratch).tolist()
            scratch = min(scratch, large, key=lambda numbers: abs(ours - numbers).max())
        found[kind] += abs(ours - scratch).tolist()
    reference.close()
    assert reused > 0.2 * total, "there was something to go wrong"
    assert cases.interrupted > CONTINUATIONS / 8
    assert set(found) == {"reuse", "cancel", "went first", "resumed"}
    for differences in found.values():
        assert len(differences) > CONTINUATIONS / 2
        # Most are the same, and what is not is no further off than llama.cpp can be from itself. A floor, for
        # processors on which its ways make no difference.
        assert np.quantile(differences, 0.75) <= max(1.5 * np.quantile(few, 0.75), SAME)
        assert max(differences) <= max(max(apart), 2 * max(few), SAME)
        assert np.mean(differences) <= max(np.mean(apart), 1.5 * np.mean(few), 2e-4)
