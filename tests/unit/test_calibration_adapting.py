"""A calibrator that begins with another one: which, what it is afterwards, and that it helps."""

import attrs
import numpy as np
import pytest

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import (
    RECIPES,
    LabelledAnswers,
    adapt_calibrator,
    base_for,
    fit_calibrator,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.scores import log_loss
from lsp_calib.confidence.features import FEATURES
from lsp_calib.values import Evidence, ModelIdentity

PYTHON = Purpose(ModelIdentity("model", "Q4", "0" * 64), "line-test-1", "line", "python")
GO = attrs.evolve(PYTHON, language="go")
WEIGHTS = {"total": 1.0, "end-surprisal": -0.5, "broken": -1.5, "new-names": -0.7, "line-repeats": 0.8}

ABOUT = {"source": "shipped", "state": "shipped", "created": "2026-11-23"}


def without_entropies(one):
    return attrs.evolve(one, features={k: v for k, v in one.features.items() if k != "entropy-sum"})


def answers(n, seed, *, shift=0.0):
    """n answers in 20 groups, and whether each is right: by weights, and `shift` nats."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=n) for name in FEATURES}
    score = sum(weight * values[name] for name, weight in WEIGHTS.items()) + shift
    right = rng.random(n) < 1 / (1 + np.exp(-score))
    evidences = [
        Evidence((-float(rng.exponential()),), {name: float(column[k]) for name, column in values.items()})
        for k in range(n)
    ]
    return evidences, right, np.arange(n) % 20


def fitted(n, seed, purpose=PYTHON, **more):
    provenance = (Origin(f"of {purpose.language}", "1.0", n),)
    labelled = LabelledAnswers(purpose, *answers(n, seed, **more), **ABOUT, provenance=provenance)
    return fit_calibrator(labelled, recipes=RECIPES[2:3], candidates=(None,))


def adapted(base, n, seed, **more):
    return adapt(base, *answers(n, seed, **more), provenance=(Origin("of go", "1.0", n),))


def adapt(base, evidences, right, groups, **more):
    return adapt_calibrator(base, LabelledAnswers(GO, evidences, right, groups, **ABOUT, **more))


@pytest.fixture(scope="module")
def base():
    return fitted(2000, 1).calibrator


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_with_few_labels_it_is_better_than_one_of_their_own(base, shift):
    _, right, _ = answers(200, 2, shift=shift)
    moved, own = adapted(base, 200, 2, shift=shift), fitted(200, 2, GO, shift=shift)
    assert log_loss(moved.confidence, right) < log_loss(own.confidence, right)


def test_it_says_what_it_is_and_of_what(base):
    found = adapted(base, 200, 2).calibrator
    assert (found.purpose, found.source, found.n) == (GO, "shipped", 200)
    assert found.provenance == (Origin("of go", "1.0", 200), Origin(base.id, base.created, base.n))
    assert [curve.measure for curve in found.curves] == [curve.measure for curve in base.curves]
    assert found.curves[0].shift is not None
    assert Calibrator.from_json(found.to_json()) == found


def test_a_curve_whose_features_are_missing_is_left_out_and_without_any_there_is_none(base):
    evidences, right, groups = answers(100, 5)
    found = adapt(base, [without_entropies(one) for one in evidences], right, groups)
    assert found.calibrator.measure == "features-2-without-entropies"
    bare = [attrs.evolve(one, features={}) for one in evidences]
    assert adapt(base, bare, right, groups) is None
    assert adapt(base, evidences, right, np.zeros(100)) is None


def test_an_answer_without_a_feature_gets_what_the_next_curve_says(base):
    """As in the editor; and the other answers keep theirs."""
    evidences, right, groups = answers(100, 7)
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
        go = attrs.evolve(base, purpose=GO)
        other_prompt = attrs.evolve(base, purpose=attrs.evolve(PYTHON, prompt_version="line-test-2"))
        other_model = attrs.evolve(
            base, purpose=attrs.evolve(PYTHON, model=ModelIdentity("other", "Q4", "1" * 64))
        )
        every = [base, go, other_prompt, other_model]
        assert base_for(PYTHON, every, 100, {"mine"}, for_others=False) == base
        assert base_for(GO, every, 100, {"mine"}, for_others=False) == go
        assert base_for(GO, every, 100, {"mine"}, for_others=True) == base
        assert base_for(GO, [other_prompt, other_model], 100, {"mine"}, for_others=False) is None

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
