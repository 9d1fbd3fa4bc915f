"""Fitting calibrators, anew or from another one: choices are made inside the folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from test_calibration_calibrator import MODEL

from lsp_calib.calibration.arrays import BoolArray, IntArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import (
    RECIPES,
    FeatureData,
    Fitted,
    LabelledAnswers,
    Recipe,
    adapt_calibrator,
    base_for,
    fit_calibrator,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.scores import log_loss, skill_score
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.confidence.features import FEATURES
from lsp_calib.values import Evidence, ModelIdentity

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
    table = np.column_stack((entropy, broken, noise)).tolist()
    features = [dict(zip(("entropy-sum", "broken", *NOISE.features), row, strict=True)) for row in table]
    every = zip(logprobs.tolist(), features, PLACES[place].tolist(), strict=True)
    evidences = [Evidence(tuple(values), known, at) for values, known, at in every]
    return evidences, correct, np.arange(n) // (n // 20)


def fit(
    evidences: Sequence[Evidence], correct: BoolArray, groups: IntArray, *recipes: Recipe, seed: int = 0
) -> Fitted:
    about: dict[str, Any] = {"source": "shipped", "state": "shipped", "created": "2026-11-22", "seed": seed}
    labelled = LabelledAnswers(PURPOSE, evidences, correct, groups, **about)
    return fit_calibrator(labelled, candidates=[2, 4], recipes=recipes)


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


PYTHON = Purpose(ModelIdentity("model", "Q4", "0" * 64), "line-test-1", "line", "python")
GO = attrs.evolve(PYTHON, language="go")
WEIGHTS = {"total": 1.0, "end-surprisal": -0.5, "broken": -1.5, "new-names": -0.7, "line-repeats": 0.8}

ABOUT = {"source": "shipped", "state": "shipped", "created": "2026-11-23"}


def without_entropies(one):
    return attrs.evolve(one, features={k: v for k, v in one.features.items() if k != "entropy-sum"})


def weighed(n, seed, *, shift=0.0):
    """n answers in 20 groups, and whether each is right: by weights, and `shift` nats."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=n) for name in FEATURES}
    score = sum(weight * values[name] for name, weight in WEIGHTS.items()) + shift
    right = rng.random(n) < 1 / (1 + np.exp(-score))
    rows = [{name: float(column[k]) for name, column in values.items()} for k in range(n)]
    evidences = [Evidence((-float(rng.exponential()),), row) for row in rows]
    return evidences, right, np.arange(n) % 20


def fitted(n, seed, purpose=PYTHON, **more):
    provenance = (Origin(f"of {purpose.language}", "1.0", n),)
    labelled = LabelledAnswers(purpose, *weighed(n, seed, **more), **ABOUT, provenance=provenance)
    return fit_calibrator(labelled, recipes=RECIPES[2:3], candidates=(None,))


def adapted(base, n, seed, **more):
    return adapt(base, *weighed(n, seed, **more), provenance=(Origin("of go", "1.0", n),))


def adapt(base, evidences, right, groups, **more):
    return adapt_calibrator(base, LabelledAnswers(GO, evidences, right, groups, **ABOUT, **more))


@pytest.fixture(scope="module")
def base():
    return fitted(2000, 1).calibrator


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_with_few_labels_it_is_better_than_one_of_their_own(base, shift):
    """In the mean of several draws of so few."""
    lost = np.zeros(2)
    for seed in range(2, 6):
        _, right, _ = weighed(200, seed, shift=shift)
        found = adapted(base, 200, seed, shift=shift), fitted(200, seed, GO, shift=shift)
        lost += [log_loss(one.confidence, right) for one in found]
    assert lost[0] < lost[1]


def test_it_says_what_it_is_and_of_what(base):
    found = adapted(base, 200, 2).calibrator
    assert (found.purpose, found.source, found.n) == (GO, "shipped", 200)
    assert found.provenance == (Origin("of go", "1.0", 200), Origin(base.id, base.created, base.n))
    assert [curve.measure for curve in found.curves] == [curve.measure for curve in base.curves]
    assert found.curves[0].shift is not None
    assert Calibrator.from_json(found.to_json()) == found


def test_a_curve_whose_features_are_missing_is_left_out_and_without_any_there_is_none(base):
    evidences, right, groups = weighed(100, 5)
    found = adapt(base, [without_entropies(one) for one in evidences], right, groups)
    assert found.calibrator.measure == "features-2-without-entropies"
    bare = [attrs.evolve(one, features={}) for one in evidences]
    assert adapt(base, bare, right, groups) is None
    assert adapt(base, evidences, right, np.zeros(100)) is None


def test_an_answer_without_a_feature_gets_what_the_next_curve_says(base):
    """As in the editor; and the other answers keep theirs."""
    evidences, right, groups = weighed(100, 7)
    every = adapt(base, evidences, right, groups)
    evidences[3] = without_entropies(evidences[3])
    found = adapt(base, evidences, right, groups)
    assert found.calibrator.measure == every.calibrator.measure == base.measure
    assert np.isfinite(found.confidence).all()
    assert found.confidence[3] == found.confidences["features-2-without-entropies"][3]
    others = np.arange(100) != 3
    assert found.confidence[others] == pytest.approx(every.confidence[others], abs=0.05)


class TestBase:
    def test_the_same_model_and_prompt_in_the_language_or_another(self, base):
        model = ModelIdentity("other", "Q4", "1" * 64)
        others = [{"language": "go"}, {"prompt_version": "line-test-2"}, {"model": model}]
        go, *different = (attrs.evolve(base, purpose=attrs.evolve(PYTHON, **one)) for one in others)
        every = [base, go, *different]
        assert base_for(PYTHON, every, 100, {"mine"}, for_others=False) == base
        assert base_for(GO, every, 100, {"mine"}, for_others=False) == go
        assert base_for(GO, every, 100, {"mine"}, for_others=True) == base
        assert base_for(GO, different, 100, {"mine"}, for_others=False) is None

    def test_it_rests_on_three_times_the_labels(self, base):
        assert base_for(GO, [base], 666, {"mine"}, for_others=True) == base
        assert base_for(GO, [base], 667, {"mine"}, for_others=True) is None

    def test_it_was_not_fitted_on_these_projects(self, base):
        assert base_for(GO, [base], 100, {"of python"}, for_others=True) is None

    def test_nor_was_what_it_was_made_from(self, base):
        made = adapted(base, 300, 6).calibrator
        assert base_for(GO, [base, made], 100, {"mine"}, for_others=False) == made
        assert base_for(GO, [base, made], 100, {"of python"}, for_others=False) is None

    def test_one_of_another_language_was_not_made_from_a_third(self, base):
        """Otherwise the calibrators would depend on which of them is made first."""
        made = adapted(base, 300, 6).calibrator
        rust = attrs.evolve(PYTHON, language="rust")
        assert base_for(rust, [made, base], 200, {"mine"}, for_others=True) == base
        assert base_for(rust, [made], 200, {"mine"}, for_others=True) is None
