"""Many continuations with a reused cache, after cancelled and after pre-empted work: the numbers stay true.

The yardstick is llama.cpp itself: how far its numbers for the same texts are apart when they are evaluated in
other batches. A cache that held a wrong token, or one at a wrong place, would be far beyond that.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from llama_scene import Reference, finish, generate, ignore, interruptions, request, step_seconds

from lsp_calib import home
from lsp_calib.calibration.calibrator import Calibrator
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.inference.backend import Interrupted, LoadOptions, Run
from lsp_calib.inference.engine import Priority, Request, Sampling
from lsp_calib.values import Generation

llama = pytest.importorskip("lsp_calib.inference.local.llama")

pytestmark = [pytest.mark.model, pytest.mark.long]

CONTINUATIONS = 200
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
WAYS: list[dict[str, Any]] = [
    {"splits": [1] * 1024},
    {"splits": [3] * 512},
    {"splits": [512], "ubatch": 512},
    {"splits": [512], "ubatch": 32},
]


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
        del lines[:-9]
        words = random.choice(LINES).split(" ")
        return "\n".join([*lines, " ".join(words[: random.randint(1, len(words))])])

    def request(self, priority: Priority) -> Request:
        sampling = self._random.choice([None, Sampling(1.0, self._random.randrange(1000))])
        return request(self.text(), most=8, one_line=False, priority=priority, sampling=sampling)


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[llama.LlamaModel]:
    loaded = llama.LlamaModel(LoadOptions(model_path, 512, threads=1))
    yield loaded
    loaded.close()


class Cases:
    """A request that is answered after something has happened to the cache, with its answer."""

    def __init__(self, model: llama.LlamaModel, random: Random) -> None:
        self._model = model
        self._random = random
        self._typist = Typist(random)
        self._longest = 2 * step_seconds(model)
        self.interrupted = 0

    def reuse(self) -> tuple[Request, Generation]:
        wanted = self._typist.request(Priority.INTERACTIVE)
        return wanted, generate(self._model, wanted)

    def cancel(self) -> tuple[Request, Generation]:
        """Something is abandoned on its way; then the next is asked."""
        self._start(self._model.begin(self._typist.request(Priority.INTERACTIVE), on_tokens=ignore))
        return self.reuse()

    def pre_emption(self) -> tuple[Request, Generation]:
        """Background work is interrupted, interactive work goes first, and it resumes."""
        wanted = self._typist.request(Priority.BACKGROUND)
        run = self._model.begin(wanted, on_tokens=ignore)
        for _ in range(self._random.randint(1, 3)):
            self._start(run)
            self.reuse()
        return wanted, finish(run)

    def _start(self, run: Run) -> None:
        with interruptions(self._model, self._random, self._longest):
            try:
                run.advance()
            except Interrupted:
                self.interrupted += 1


class Judged:
    """Tiers by the shipped calibrator, of numbers that should be the same."""

    # Of a calibrated probability: what the numbers' spread can make of it.
    NEAR = 0.05

    def __init__(self) -> None:
        path = home.shipped_models() / "calibrators" / "line-smollm2-135m.json"
        self._calibrator = Calibrator.load(path)
        self._policy = PRESETS["balanced"]
        self.changed = self.moved = 0
        self._theirs: list[bool] = []

    @property
    def their_share(self) -> float:
        return float(np.mean(self._theirs))

    def ours(self, found: Any, scratch: Any) -> None:
        one, other = self._assess(found), self._assess(scratch)
        if one.tier is not other.tier:
            self.changed += 1
            self.moved += abs(one.calibrated - other.calibrated) > self.NEAR

    def llama_cpps(self, found: Any, scratch: Any) -> None:
        self._theirs.append(self._assess(found).tier is not self._assess(scratch).tier)

    def _assess(self, logprobs: Any) -> Any:
        return self._calibrator.assess([min(float(value), 0.0) for value in logprobs], self._policy)


def test_log_probabilities_are_as_near_to_those_from_scratch_as_llama_cpp_is_to_itself(
    model: llama.LlamaModel, model_path: Path
) -> None:
    random = Random(20)
    cases = Cases(model, random)
    reference = Reference(model_path)
    found: dict[str, list[float]] = {"reuse": [], "cancel": [], "pre_emption": []}
    apart: list[float] = []
    judged = Judged()
    reused = total = 0
    for n in range(CONTINUATIONS):
        kind = list(found)[n % 3]
        wanted, generation = getattr(cases, kind)()
        reused += generation.timing.prompt_reused
        total += generation.timing.prompt_tokens
        given = reference.tokens(wanted.prompt.segments[0][1])
        assert generation.timing.prompt_tokens == len(given)
        tokens = [*given, *(token.id for token in generation.tokens)]
        scratch = reference.log_probabilities(tokens, len(given))
        found[kind] += [abs(token.logprob - s) for token, s in zip(generation.tokens, scratch, strict=True)]
        judged.ours([token.logprob for token in generation.tokens], scratch)
        if n % 5 == 0:
            for way in WAYS:
                other = reference.log_probabilities(tokens, len(given), **way)
                apart += abs(other - scratch).tolist()
                judged.llama_cpps(other, scratch)
    reference.close()
    assert reused > 0.2 * total, "there was something to go wrong"
    assert cases.interrupted > CONTINUATIONS / 8
    for differences in found.values():
        # A floor, for processors on which no way of splitting makes a difference.
        assert max(differences) <= max(2 * max(apart), 1e-3)
        assert np.quantile(differences, 0.95) <= max(1.5 * np.quantile(apart, 0.95), 1e-3)
        assert np.mean(differences) <= max(1.5 * np.mean(apart), 2e-4)
    # A tier changes only where the probability was at a threshold to begin with, and as seldom as it does
    # when llama.cpp itself takes other batches.
    assert judged.moved == 0, "a tier changed far from a threshold"
    assert judged.changed / CONTINUATIONS <= max(2 * judged.their_share, 0.02)
