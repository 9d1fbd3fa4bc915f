"""The service computes features beside the event loop, and reads the document while the model answers."""

from __future__ import annotations

import asyncio
import threading

import pytest
from test_completion_entropies import CURSOR, Observing, service

from lsp_calib.completion.features import DocumentFeatures, text_features
from lsp_calib.inference.engine import Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Evidence, Generation

pytestmark = pytest.mark.usefixtures("home")

PATIENCE_S = 20.0


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

    async def generate(self, request: Request, early_stop: object = None) -> Generation:
        # If the document were read here, in the event loop, this would never run.
        self._steps.may_read.set()
        assert await asyncio.to_thread(self._steps.was_read.wait, PATIENCE_S)
        return await super().generate(request, early_stop)


async def test_the_document_is_read_while_the_model_answers(
    model_card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    completion = await service(Waiting(model_card, steps)).complete(CURSOR, document="a")
    assert completion is not None
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
