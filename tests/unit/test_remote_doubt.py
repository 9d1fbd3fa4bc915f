"""An answer in doubt comes without a confidence, for review, and says why; and nothing is learned from it."""

from __future__ import annotations

import pytest
from openai_server import spoken
from remote_scene import Play, clean_fixture, play_fixture  # noqa: F401 - fixtures

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import RISK_PRESETS
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import CompletionService
from lsp_calib.values import Evidence, ModelIdentity, Tier


def test_a_doubt_is_the_reason_whatever_the_numbers_and_the_policy() -> None:
    for judge in (
        ConfidenceEstimator(CalibratorStore.open()),
        ConfidenceEstimator(CalibratorStore.open(), RISK_PRESETS["lenient"]),
    ):
        model = ModelIdentity("mine", "", "")
        purpose = Purpose(model, "line-prefix-1", "line", "python")
        confidence = judge.of(purpose).assess(Evidence((-0.01,) * 4), doubt="it is a liar")
        assert (confidence.calibrated, confidence.raw, confidence.certified) == (None, None, False)
        assert (confidence.tier, confidence.reason) == (Tier.REVIEW, "it is a liar")
        believed = judge.of(purpose).assess(Evidence((-0.01,) * 4))
        assert believed.raw is not None


@pytest.mark.parametrize("dialect", ["ollama", "vllm"])
async def test_a_completion(play: Play, dialect: str) -> None:
    scene = await play(dialect=dialect, tokens=lambda _: spoken("    return a + b\n"))
    completion = await CompletionService(scene.engine, ConfidenceEstimator(CalibratorStore.open())).complete(
        Cursor.at(["def add(a, b):", "    re"], 1, 6, "python")
    )
    assert completion is not None
    assert completion.suggestion.text == "turn a + b"
    assert bool(completion.evidence.logprobs) == (dialect == "vllm")
    confidence = completion.suggestion.confidence
    assert (confidence.raw is None) == (dialect == "ollama")
    assert ("no log-probabilities" in confidence.reason) == (dialect == "ollama")
