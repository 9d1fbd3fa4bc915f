"""Fitting calibrators: choices are made inside the folds, and the same records give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from test_calibration_calibrator import MODEL

from lsp_calib.calibration.arrays import BoolArray, IntArray
from lsp_calib.calibration.calibrators.fitting import (
    FeatureData,
    Fitted,
    LabelledAnswers,
    Recipe,
    fit_calibrator,
)
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.scores import log_loss, skill_score
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.values import Evidence

PURPOSE = Purpose(MODEL, "1", "line", "python")
PLACES = np.array(["line-start", "mid-word"])
GOOD = Recipe("good", ("total", "entropy-sum", "broken"))
BY_PLACE = Recipe("by place", GOOD.features, by_place=True)
NOISE = Recipe("noise", ("in-word", "line-repeats"))


def answers(n: int = 400, *, apart: float = 0.0, seed: int = 0) -> tuple[list[Evidence], BoolArray, IntArray]:
    """n answers of 20 projects, right by three features; places lie `apart` nats from the middle."""
    rng = np.random.default_rng(seed)
    logprobs = -rng.exponential(0.4, (n, 4))
    entropy, broken = rng.normal(3.0, 2.0, n), rng.random(n) < 0.2
    noise = rng.normal(size=(n, 2))
    place = rng.integers(2, size=n)
    z = 3.0 + 1.5 * logprobs.sum(axis=1) - 0.6 * (entropy - 3.0) - 2.0 * broken
    correct = rng.random(n) < sigmoid(z + apart * (2 * place - 1))
    evidences = [
        Evidence(
            tuple(logprobs[i].tolist()),
            {
                "entropy-sum": float(entropy[i]),
                "broken": float(broken[i]),
                "in-word": float(noise[i, 0]),
                "line-repeats": float(noise[i, 1]),
            },
            str(PLACES[place[i]]),
        )
        for i in range(n)
    ]
    return evidences, correct, np.arange(n) // (n // 20)


def fit(
    evidences: Sequence[Evidence], correct: BoolArray, groups: IntArray, *recipes: Recipe, seed: int = 0
) -> Fitted:
    return fit_calibrator(
        LabelledAnswers(
            PURPOSE,
            evidences,
            correct,
            groups,
            source="shipped",
            state="shipped",
            created="2026-11-22",
            seed=seed,
        ),
        candidates=[2, 4],
        recipes=recipes,
    )


def test_every_curve_is_fitted_and_features_beat_the_plain_measures() -> None:
    evidences, correct, groups = answers()
    fitted = fit(evidences, correct, groups, NOISE, GOOD)
    calibrator = fitted.calibrator
    measures = [curve.measure for curve in calibrator.curves]
    assert measures == ["features-2", "features-2-without-entropies", "total", calibrator.raw_measure]
    assert list(fitted.confidences) == measures
    assert [f.name for f in calibrator.curves[0].features] == list(GOOD.features)
    assert [f.name for f in calibrator.curves[1].features] == ["total", "broken"]
    weights = {feature.name: feature.weight for feature in calibrator.curves[0].features}
    assert weights["total"] > 0 > max(weights["entropy-sum"], weights["broken"])
    skill = {measure: skill_score(fitted.confidences[measure], correct) for measure in measures}
    assert skill["features-2"] > skill["features-2-without-entropies"] > skill["total"]
    assert calibrator.metrics["skill"].value == skill["features-2"]
    p = calibrator.probabilities(evidences)
    assert log_loss(p, correct) < log_loss(fitted.confidence, correct), "labels fitted on look better"


def test_no_choice_and_no_fit_has_seen_the_group_it_is_judged_by() -> None:
    """Turning over the labels of one fold changes the predictions of the other folds only."""
    evidences, correct, groups = answers(120)
    recipes = (NOISE, GOOD)
    before = fit(evidences, correct, groups, *recipes)
    out = grouped_folds(groups, 5) == 2
    after = fit(evidences, correct ^ out, groups, *recipes)
    for measure in ("features-2", "features-2-without-entropies", "total"):
        assert np.array_equal(before.confidences[measure][out], after.confidences[measure][out])
        assert not np.allclose(before.confidences[measure][~out], after.confidences[measure][~out])


def test_offsets_by_place_are_chosen_where_places_differ_and_repair_them() -> None:
    for apart, by_place in ((0.9, True), (0.0, False)):
        evidences, correct, groups = answers(300, apart=apart, seed=1)
        data = FeatureData.of(evidences, correct, groups, [GOOD])
        choice = data.choose([GOOD, BY_PLACE])
        offsets = {one.place: one.offset for one in data.curve("features-2", choice).offsets}
        if by_place:
            assert choice.recipe == BY_PLACE
            assert offsets["mid-word"] - offsets["line-start"] == pytest.approx(1.8, abs=0.7)
        else:
            assert abs(offsets.get("mid-word", 0.0) - offsets.get("line-start", 0.0)) < 0.5


def test_places_with_labels_enough_have_metrics_of_their_own() -> None:
    evidences, correct, groups = answers(200)
    calibrator = fit(evidences, correct, groups, GOOD).calibrator
    assert sorted(calibrator.by_place) == ["line-start", "mid-word"]
    for metrics in calibrator.by_place.values():
        assert sorted(metrics) == ["auc", "ece", "skill"]
        assert metrics["ece"].kind == "calibrated-band"
    assert fit(evidences[:40], correct[:40], np.arange(40), GOOD).calibrator.by_place == {}


def test_features_that_one_answer_lacks_are_left_out() -> None:
    evidences, correct, groups = answers(120)
    evidences[7] = Evidence(evidences[7].logprobs, {"broken": 0.0}, "mid-word")
    calibrator = fit(evidences, correct, groups, GOOD).calibrator
    assert [f.name for f in calibrator.curves[0].features] == ["total", "broken"]
    assert [curve.measure for curve in calibrator.curves][1] == "total", "nothing left without entropies"
    bare = [Evidence(evidence.logprobs) for evidence in evidences]
    assert fit(bare, correct, groups, GOOD).calibrator.measure == "total"
