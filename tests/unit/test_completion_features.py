"""The evidence of a completion: entropies are all that is observed, and features are read meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest
from openai_server import spoken
from remote_scene import Play, clean_fixture, play_fixture  # noqa: F401 - fixtures

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, text_features
from lsp_calib.completion.service import CompletionService
from lsp_calib.inference.engine import LoadedModel, Observe, Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Evidence, Generation, ModelIdentity, Observation, Stop, Timing, Token

pytestmark = pytest.mark.usefixtures("home")

CURSOR = Cursor.at(["def add(a, b):", "    return "], 1, 11, "python")
PATIENCE_S = 20.0


class Observing:
    """An engine that observes what it is asked for."""

    def __init__(self, card: ModelCard) -> None:
        self.card = card
        self.asked: list[Request] = []

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity(self.card.name, self.card.quantisation, self.card.sha256), self.card)

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request)
        tokens = (
            Token(1, -0.5, 0.0, "a + b", seen=Observation(entropy=0.75)),
            Token(2, -0.25, 0.0, "", seen=Observation(entropy=0.5)),
        )
        return Generation("a + b", tokens, Stop.LINE, Timing())


def service(engine: object) -> CompletionService:
    return CompletionService(engine, ConfidenceEstimator(CalibratorStore.open()))  # type: ignore[arg-type]


async def test_a_completion_asks_for_entropies_alone_and_uses_them(model_card: ModelCard) -> None:
    engine = Observing(model_card)
    completion = await service(engine).complete(CURSOR)
    assert completion.evidence.features["entropy-sum"] == 1.25
    (asked,) = engine.asked
    assert (asked.observe, asked.given) == (Observe.ENTROPY, ())


async def test_an_engine_without_entropies_completes_without_them(play: Play) -> None:
    scene = await play(tokens=lambda _: spoken("a + b\n"))
    completion = await service(scene.engine).complete(CURSOR)
    assert "total" in completion.evidence.features
    assert "entropy-sum" not in completion.evidence.features


class Steps:
    """Notes in which thread the document is read and the evidence computed, and when it is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[int] = []
        self.may_read = threading.Event()
        self.was_read = threading.Event()
        read, evidence = DocumentFeatures.read, DocumentFeatures.evidence

        def noted_read(*arguments: object) -> None:
            self.threads.append(threading.get_ident())
            assert self.may_read.wait(PATIENCE_S)
            read(*arguments)  # type: ignore[arg-type]
            self.was_read.set()

        def noted_evidence(*arguments: object) -> Evidence:
            self.threads.append(threading.get_ident())
            return evidence(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(DocumentFeatures, "read", noted_read)
        monkeypatch.setattr(DocumentFeatures, "evidence", noted_evidence)


class Waiting(Observing):
    """Answers once the document was read. `asks` is set when it is asked."""

    def __init__(self, card: ModelCard, steps: Steps) -> None:
        super().__init__(card)
        self._steps = steps

    async def generate(self, request: Request) -> Generation:
        # If the document were read here, in the event loop, this would never run.
        self._steps.may_read.set()
        assert await asyncio.to_thread(self._steps.was_read.wait, PATIENCE_S)
        return await super().generate(request)


async def test_the_document_is_read_while_the_model_answers(
    model_card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    completion = await service(Waiting(model_card, steps)).complete(CURSOR, document="a")
    assert len(steps.threads) == 2
    assert threading.get_ident() not in steps.threads
    features = completion.evidence.features
    expected = text_features(CURSOR, "a + b")
    assert {name: features[name] for name in expected} == expected
    assert completion.evidence.doubtful == "a"


async def test_a_closed_document_is_forgotten(model_card: ModelCard) -> None:
    made = service(Observing(model_card))
    await made.complete(CURSOR, document="a")
    assert list(made._features._documents) == ["a"]
    made.forget("a")
    assert not made._features._documents
