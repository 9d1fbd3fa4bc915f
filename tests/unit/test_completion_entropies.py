"""Completions in the editor ask for entropies, and nothing that costs more; without them they do not fail."""

from __future__ import annotations

import pytest
from openai_server import spoken
from remote_scene import Play, clean_fixture, play_fixture  # noqa: F401 - fixtures

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import CompletionService
from lsp_calib.inference.engine import LoadedModel, Observe, Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Generation, ModelIdentity, Observation, Stop, Timing, Token

CURSOR = Cursor.at(["def add(a, b):", "    return "], 1, 11, "python")


class Observing:
    """An engine that observes what it is asked for."""

    def __init__(self, card: ModelCard) -> None:
        self.card = card
        self.asked: list[Request] = []

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity(self.card.name, self.card.quantisation, self.card.sha256), self.card)

    async def generate(self, request: Request, _early_stop: object = None) -> Generation:
        self.asked.append(request)
        tokens = (
            Token(1, -0.5, 0.0, "a + b", seen=Observation(entropy=0.75)),
            Token(2, -0.25, 0.0, "", seen=Observation(entropy=0.5)),
        )
        return Generation("a + b", tokens, Stop.LINE, Timing())


def service(engine: object) -> CompletionService:
    return CompletionService(engine, ConfidenceEstimator(CalibratorStore.open()))  # type: ignore[arg-type]


@pytest.mark.usefixtures("home")
async def test_a_completion_asks_for_entropies_alone_and_uses_them(model_card: ModelCard) -> None:
    engine = Observing(model_card)
    completion = await service(engine).complete(CURSOR)
    assert completion is not None
    assert completion.evidence.features["entropy-sum"] == 1.25
    (asked,) = engine.asked
    assert (asked.observe, asked.temperatures, asked.given) == (Observe.ENTROPY, (), ())


async def test_an_engine_without_entropies_completes_without_them(play: Play) -> None:
    scene = await play(tokens=lambda _: spoken("a + b\n"))
    completion = await service(scene.engine).complete(CURSOR)
    assert completion is not None
    assert completion.suggestion.confidence.calibrated is not None
    assert "total" in completion.evidence.features
    assert "entropy-sum" not in completion.evidence.features
