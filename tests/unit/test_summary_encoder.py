"""The encoder's part in a summary's confidence: weighed where it is installed, and done without elsewhere."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
from encoder_scene import CARD, install, needs_encoder
from test_eval_summary import WordEncoder
from test_summarization import EXAMPLE, Scripted

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENCODER,
    WITHOUT_ENTROPIES,
    Calibrator,
)
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.fitting import SUMMARY_RECIPES, Fitted, LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.confidence.features import ENCODER, FIT_FEATURES, SUMMARY_VERSION
from lsp_calib.corpus.item_worker import OBSERVED
from lsp_calib.inference.models import sidecar
from lsp_calib.summarization.encoder import InstalledEncoder, installed_encoder
from lsp_calib.summarization.features import FIT_NAMES
from lsp_calib.summarization.service import SummaryService
from lsp_calib.values import Evidence, ModelIdentity, Observation

PURPOSE = Purpose(ModelIdentity("m", "Q4", "0" * 64), "summary-bm25-1", "summary", "python")


def evidence(rng: np.random.Generator, right: bool, *, encoder: bool, entropies: bool = True) -> Evidence:
    names = [name for recipe in SUMMARY_RECIPES for name in recipe.features]
    of_tokens = {"total", "geometric-mean-first-12"}
    values = {name: float(rng.normal()) for name in names if name not in of_tokens}
    values["code-cosine"] += 2.0 * right
    unknown = (set() if encoder else FIT_FEATURES) | (set() if entropies else {"entropy-mean"})
    kept = {name: value for name, value in values.items() if name not in unknown}
    return Evidence((-0.1 - float(rng.random()), -0.2), kept)


def fitted(*, encoder: bool = True, n: int = 200) -> Fitted:
    rng = np.random.default_rng(3)
    right = rng.random(n) < 0.4
    evidences = [evidence(rng, bool(one), encoder=encoder) for one in right]
    of = {"source": "workspace", "state": "ready", "created": "2026-11-22"}
    labelled = LabelledAnswers(PURPOSE, evidences, right, np.arange(n) % 20, **of)
    return fit_calibrator(labelled, candidates=[2])


def test_a_curve_is_fitted_for_where_there_is_no_encoder() -> None:
    calibrator = fitted().calibrator
    measures = [curve.measure for curve in calibrator.curves]
    assert measures[:3] == [FEATURES_MEASURE, WITHOUT_ENTROPIES, WITHOUT_ENCODER]
    best, without_entropies, without_encoder = (
        {feature.name for feature in curve.features} for curve in calibrator.curves[:3]
    )
    assert best >= FIT_FEATURES
    assert without_entropies == best - {"entropy-mean"}
    assert not without_encoder & FIT_FEATURES
    assert "entropy-mean" in without_encoder
    assert calibrator.metrics["skill"].value > 0.2
    assert Calibrator.from_json(calibrator.to_json()) == calibrator


def test_labels_without_an_encoder_have_no_such_curves() -> None:
    measures = [curve.measure for curve in fitted(encoder=False).calibrator.curves]
    assert measures[:2] == [FEATURES_MEASURE, WITHOUT_ENTROPIES]
    assert WITHOUT_ENCODER not in measures


def test_the_curve_is_that_of_what_is_known() -> None:
    calibrator, rng = fitted().calibrator, np.random.default_rng(0)
    for known, measure in (
        ({"encoder": True}, FEATURES_MEASURE),
        ({"encoder": False}, WITHOUT_ENCODER),
        ({"encoder": True, "entropies": False}, WITHOUT_ENTROPIES),
        ({"encoder": False, "entropies": False}, "total"),
    ):
        assessed = calibrator.assess(evidence(rng, True, **known), PRESETS["balanced"])
        assert assessed.measure == measure


def test_another_encoder_needs_another_version() -> None:
    """A calibrator's numbers are of one encoder: this fails if the default is changed without another
    version."""
    assert (SUMMARY_VERSION, OBSERVED.version, CARD.sha256[:12]) == (1, 1, "8199be6f699a")
    assert set(FIT_NAMES) >= FIT_FEATURES
    assert {name for recipe in SUMMARY_RECIPES if recipe.needs(ENCODER) for name in recipe.features} >= (
        FIT_FEATURES
    )


class Asked:
    """Passes for the installed encoder, and counts."""

    def __init__(self, encoder: WordEncoder | None) -> None:
        self.encoder, self.times = encoder, 0

    def __call__(self) -> WordEncoder | None:
        self.times += 1
        return self.encoder


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("installed", "measure"), [(True, FEATURES_MEASURE), (False, WITHOUT_ENCODER)])
async def test_the_editor_weighs_it_where_it_is_installed(installed: bool, measure: str) -> None:
    store = CalibratorStore.open()
    store.promote(fitted().calibrator)
    asked = Asked(WordEncoder() if installed else None)
    engine = Scripted("Return the area of a circle.")
    tokens = tuple(attrs.evolve(token, seen=Observation(entropy=0.1)) for token in engine.answer.tokens)
    engine.answer = attrs.evolve(engine.answer, tokens=tokens)
    service = SummaryService(engine, ConfidenceEstimator(store), asked)
    summary = await service.summarize(EXAMPLE, "python")
    assert summary is not None
    assert summary.suggestion.confidence.measure == measure
    assert FIT_FEATURES.issubset(summary.evidence.features) == installed
    assert asked.times == 1
    again = service.assessed_again(summary)
    assert again.suggestion.confidence == summary.suggestion.confidence
    # With a calibrator that does not weigh it, and for a wording that has no confidence, it is not loaded.
    await service.summarize(EXAMPLE, "java")
    await service.summarize(EXAMPLE, "python", seed=1)
    assert asked.times == 1


@pytest.mark.usefixtures("home")
def test_without_the_files_there_is_none_and_none_is_missed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert InstalledEncoder()() is None
    assert not caplog.records


@pytest.mark.usefixtures("home")
def test_files_that_cannot_be_read_cost_no_summary(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    for one in CARD.files:
        one.path.parent.mkdir(mode=0o700, exist_ok=True)
        one.path.write_bytes(b"x")
    monkeypatch.setattr(sidecar, "sha256_of", refused)
    with caplog.at_level(logging.WARNING):
        assert InstalledEncoder()() is None
    assert "Permission denied" in caplog.text


def test_all_connections_share_one() -> None:
    assert installed_encoder() is installed_encoder()


@needs_encoder
def test_it_is_found_once_it_is_pulled_and_loaded_once(home: Path) -> None:
    installed = InstalledEncoder()
    assert installed() is None
    install(home)
    encoder = installed()
    assert encoder is not None
    assert installed() is encoder


@needs_encoder
def test_a_damaged_one_is_given_up_and_the_log_says_so_once(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(home)
    model = CARD.model.path
    model.unlink()
    model.write_bytes(b"x" * CARD.model.size)
    installed = InstalledEncoder()
    with caplog.at_level(logging.WARNING):
        assert installed() is None
        assert installed() is None
    (record,) = caplog.records
    assert "lsp-calib models" in record.getMessage()
    assert str(state.state_dir()) in record.getMessage()


@pytest.mark.usefixtures("home")
def test_without_its_files_its_libraries_are_not_loaded() -> None:
    """They take 30 MB of each server that makes a summary."""
    code = (
        "import sys; from lsp_calib.summarization.encoder import InstalledEncoder\n"
        "sys.exit(InstalledEncoder()() is not None or bool({'onnxruntime', 'tokenizers'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
