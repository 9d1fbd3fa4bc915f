"""The refit policy: learns from a few dozen labels, and never judges by labels that were seen."""

import math
import re

import attrs
import numpy as np
import pytest
from msgspec.structs import replace
from test_calibration_calibrator import make, platt, predict

from lsp_calib.calibration.calibrators import refit as refitting
from lsp_calib.calibration.calibrators.calibrator import Curve, Offset, Shift, Weighted
from lsp_calib.calibration.calibrators.promotion import MOST_WEIGHT, LabelWeights
from lsp_calib.calibration.calibrators.refit import (
    FEEDBACK,
    INTERCEPT_SD,
    SLOPE_SD,
    WEIGHT_SD,
    expected_shift,
    refit_curve,
)
from lsp_calib.calibration.logistic import PlattCalibrator, Prior, log_odds, sigmoid
from lsp_calib.calibration.scores import log_loss
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

SHIPPED = make(**platt(0.8, -1.2, "geometric-mean"))
TODAY = "2026-12-01"
USUAL = expected_shift(SHIPPED.curves[0], "shipped")


def answer(*probabilities, **features):
    """The evidence of an answer with these probabilities of its tokens."""
    return Evidence(tuple(float(np.log(p)) for p in probabilities), features)


def raws(answers):
    """The probabilities of answers of one token, shape (n,)."""
    return np.array([math.exp(one.logprobs[0]) for one in answers])


def labels(n, shift=0.0, seed=0):
    """The first n labels of a user whose log-odds lie `shift` off the shipped calibrator's."""
    rng = np.random.default_rng(seed)
    raw = rng.beta(5, 1.5, 3000)
    correct = rng.random(3000) < sigmoid(0.8 * log_odds(raw) - 1.2 + shift)
    return [answer(r) for r in raw[:n]], correct[:n]


def refit(current, evidences, correct, counting=None, *, base=None, seen=None, **options):
    """By default each label is a visit, and those count as seen on which a personal calibrator was fitted."""
    if seen is None:
        seen = sum(origin.items for origin in current.provenance if origin.name == FEEDBACK)
    counting = counting or LabelWeights.of(len(evidences))
    return refitting.refit(current, evidences, correct, counting, base=base or current, seen=seen, **options)


def run(n, shift=0.0, seed=0, current=SHIPPED, **options):
    return refit(current, *labels(n, shift, seed), created=TODAY, **options)


@pytest.mark.parametrize("n", range(5))
def test_fewer_than_five_labels_change_nothing(n):
    result = run(n)
    assert not result.promoted
    assert result.reason == f"not enough labels yet: {n} of 5"
    assert (result.n, result.before, result.after, result.calibrator) == (n, None, None, None)


def test_a_different_user_gets_a_calibrator_of_his_own():
    result = run(60, shift=-2.0)
    assert result.promoted
    assert "on 60 labels" in result.reason
    assert f"{result.after['logLoss']:.3f} against {result.before['logLoss']:.3f}" in result.reason
    assert result.after["logLoss"] < result.before["logLoss"]
    assert result.after["meanConfidence"] < result.before["meanConfidence"]
    new = result.calibrator
    told = (new.source, new.state, new.n, new.parent, new.created)
    assert told == ("personal", "ready", 60, SHIPPED.id, TODAY)
    assert new.purpose == SHIPPED.purpose
    assert new.curves[0].intercept < SHIPPED.curves[0].intercept - 0.5
    (curve,) = new.curves
    assert (curve.shift.slope_sd, curve.shift.intercept_sd) == (SLOPE_SD, INTERCEPT_SD)
    assert curve.features[0].weight == pytest.approx(0.8 * curve.shift.slope)
    assert curve.intercept == pytest.approx(-1.2 * curve.shift.slope + curve.shift.intercept)
    assert run(40, shift=-2.0).calibrator.state == "learning"


def test_who_differs_is_found_and_who_does_not_is_left_alone():
    promoted = {shift: np.mean([run(50, shift, s).promoted for s in range(40)]) for shift in (0.0, -1.5)}
    assert promoted[-1.5] > 0.8
    assert promoted[0.0] < 0.2


def test_without_evidence_against_the_present_one_it_stays_and_the_reason_says_how_much_there_is():
    seed = next(s for s in range(40) if run(50, -0.5, s).reason.startswith("not enough evidence"))
    result = run(50, -0.5, seed)
    assert not result.promoted
    assert result.after["logLoss"] <= result.before["logLoss"], "no worse, but that may be chance"
    assert re.fullmatch(
        r"not enough evidence yet that the present calibrator is wrong for you: odds of \d\.\d to 1 from 50 "
        r"labels, and 5 to 1 are needed",
        result.reason,
    )
    # A prior was never right for anybody, and a personal one has shown that the shipped one was not.
    for source in ("prior", "personal"):
        current = attrs.evolve(SHIPPED, source=source)
        assert run(50, -0.5, seed, current, base=attrs.evolve(SHIPPED, source="prior"), seen=0).promoted


def test_labels_that_speak_against_a_change_prevent_it():
    # Leave-one-out on labels the shipped one explains as well as can be: each fit without the item is worse.
    logprobs = [answer(0.5)] * 8
    current = make(**platt(1.0, 0.0, "geometric-mean"))
    result = refit(current, logprobs, [True, False] * 4, created=TODAY)
    assert not result.promoted
    before, after = result.before["logLoss"], result.after["logLoss"]
    losses = f"log loss {before:.3f} against {after:.3f} of the new one on 8 labels"
    assert result.reason == f"the present calibrator is better: {losses}"
    assert result.calibrator is None
    assert after > before


@pytest.mark.parametrize("outcome", [True, False])
@pytest.mark.parametrize("n", [5, 40, 400])
def test_labels_of_one_class_are_never_enough(n, outcome):
    """Any shift in their direction fits them. One of the other class is enough."""
    logprobs, _ = labels(n)
    result = refit(SHIPPED, logprobs, [outcome] * n, created=TODAY)
    assert not result.promoted
    word = "right" if outcome else "wrong"
    assert result.reason == f"all {n} labels are {word}: at least one other is needed"
    assert result.calibrator is None


def test_a_personal_one_is_judged_by_labels_it_has_not_seen():
    first = run(30, shift=-1.0).calibrator
    again = run(30, shift=-1.0, current=first, base=SHIPPED)
    assert not again.promoted
    assert again.reason == f"not enough new labels yet: 0 of 5 since {first.id}"
    more = run(60, shift=-1.0, current=first, base=SHIPPED)
    assert "on 30 labels" in more.reason
    logprobs, correct = labels(60, -1.0)
    p = predict(first, raws(logprobs[30:]))
    assert more.before["brier"] == pytest.approx(np.mean((p - correct[30:]) ** 2))
    explicit = run(60, shift=-1.0, current=first, base=SHIPPED, seen=50)
    assert "on 10 labels" in explicit.reason


def test_an_episode_of_which_one_label_was_seen_is_not_fresh():
    first = run(30, shift=-1.0).calibrator
    episodes = [*range(30), *range(25, 30), *range(30, 55)]  # the 31st to 35th label: of visits begun before
    result = run(60, shift=-1.0, current=first, base=SHIPPED, counting=LabelWeights.of(60, episodes))
    assert result.n == 55
    assert "on 25 labels" in result.reason


class TestEpisodes:
    """Labels of one visit to one line are one label, whatever is counted, fitted or held out."""

    @pytest.mark.parametrize("n", [40, 60])
    def test_what_is_repeated_changes_nothing(self, n):
        """Each label once, or each up to nine times: as many visits, which weigh less than twice as much."""
        logprobs, correct = labels(n, shift=-2.0)
        times = np.arange(n) % 9 + 1
        visits = np.repeat(np.arange(n), times)
        once = refit(SHIPPED, logprobs, correct, created=TODAY)
        counting = LabelWeights.of(times.sum(), visits)
        often = refit(SHIPPED, [logprobs[i] for i in visits], correct[visits], counting, created=TODAY)
        assert once.promoted
        assert often.promoted
        assert (often.n, often.calibrator.n, often.calibrator.n_correct) == (n, n, once.calibrator.n_correct)
        each = LabelWeights.of(2 * n, lines=[*range(2 * n)])
        twice = refit(SHIPPED, [*logprobs] * 2, [*correct] * 2, each, created=TODAY)
        shifts = [one.calibrator.curves[0].shift.intercept for one in (once, often, twice)]
        assert shifts == sorted(shifts, reverse=True)

    @pytest.mark.parametrize("n", [12, 60])
    def test_no_prediction_has_seen_a_label_of_its_own_episode(self, n, monkeypatch):
        """The quality on record is that of fits without the whole episode."""
        monkeypatch.setattr(refitting, "NOISE", 0.0)  # as Platt scaling, with which it is compared
        logprobs, correct = labels(3 * n, shift=-1.0)
        episodes = np.arange(3 * n) % n
        weights = 0.5 ** (np.arange(3 * n) // n)
        scores = 0.8 * log_odds(raws(logprobs)) - 1.2
        result = refit(SHIPPED, logprobs, correct, LabelWeights.of(3 * n, episodes), created=TODAY)
        folds = grouped_folds(episodes, n if n <= 50 else 5)
        predicted = np.empty(scores.size)
        for fold in np.unique(folds):
            out = folds == fold
            assert not np.isin(episodes[~out], episodes[out]).any()
            about = {"prior": Prior(1.0, 0.0, SLOPE_SD, INTERCEPT_SD), "targets": "plain"}
            raw = sigmoid(scores)  # by the shipped curve
            fitted = PlattCalibrator.fit(raw[~out], correct[~out], weights=weights[~out], **about)
            predicted[out] = fitted.predict(raw[out])
        assert result.after["logLoss"] == pytest.approx(log_loss(predicted, correct, weights=weights))
        brier = np.average((predicted - correct) ** 2, weights=weights)
        assert result.after["brier"] == pytest.approx(brier)

    def test_labels_of_one_line_alone_are_no_ground_for_a_refit(self):
        """There is nothing to predict them from."""
        logprobs, correct = labels(12, shift=-2.0)
        counting = LabelWeights.of(12, lines=np.zeros(12, dtype=int))
        result = refit(SHIPPED, logprobs, correct, counting, created=TODAY)
        assert (result.promoted, result.before) == (False, None)
        assert result.reason == "all 5 labels are of one line: at least one other is needed"


def test_what_was_rarely_shown_counts_for_more_up_to_a_limit():
    weights = LabelWeights.of(4, shown=[1.0, 0.5, 0.01, 0.0])
    assert weights.weights() == pytest.approx([1, 2, MOST_WEIGHT, MOST_WEIGHT])
    assert weights.visited() == pytest.approx(np.ones(4))


def test_labels_that_contradict_the_raw_confidence_are_not_believed():
    logprobs = [answer(r) for r in np.linspace(0.05, 0.95, 200)]
    result = refit(SHIPPED, logprobs, np.arange(200) < 100, created=TODAY)
    assert not result.promoted
    assert "contradict" in result.reason


def test_the_spread_of_the_prior_is_a_fair_trade():
    """A user like the others loses next to nothing; a different one is half understood by 10 labels or so."""
    x = raws(labels(3000, seed=77)[0])

    def excess(n, shift):
        truth = sigmoid(0.8 * log_odds(x) - 1.2 + shift)
        losses = []
        for seed in range(150):
            logprobs, correct = labels(n, shift, seed)
            counting, folds = LabelWeights.of(n), np.arange(n) % 5
            fitted = refit_curve(SHIPPED.curves[0], USUAL, logprobs, correct, counting, folds).curve
            p = sigmoid(fitted.features[0].weight * log_odds(x) + fitted.intercept)
            losses.append(np.mean(-truth * np.log(p / truth) - (1 - truth) * np.log((1 - p) / (1 - truth))))
        return float(np.mean(losses))

    assert max(excess(n, 0.0) for n in (5, 10, 20, 50)) < 0.015
    unadapted = excess(0, -1.5)
    assert excess(5, -1.5) > 0.4 * unadapted  # five labels alone do not turn everything over
    assert excess(20, -1.5) < 0.35 * unadapted
    assert excess(50, -1.5) < 0.2 * unadapted


FEATURES = Curve(
    "features-2",
    (
        Weighted("total", -1.0, 1.5, 1.6),
        Weighted("broken", 0.1, 0.3, -0.9),
        Weighted("in-word", 0.4, 0.5, 0.2),
    ),
    -0.3,
    offsets=(Offset("mid-word", 0.5),),
)
RICH = make(
    curves=(FEATURES, Curve.of_measure("total", 0.8, -0.2), Curve.of_measure("geometric-mean", 0.8, -1.2)),
    raw_measure="geometric-mean",
)


def rich_labels(n, truth=FEATURES, seed=0):
    """n answers with features, right with the probabilities of `truth`."""
    rng = np.random.default_rng(seed)
    answers = [
        Evidence(
            tuple(-rng.exponential(0.5, 3)),
            {"broken": float(rng.random() < 0.15), "in-word": float(rng.random() < 0.4)},
            "mid-word" if rng.random() < 0.4 else "mid-line",
        )
        for _ in range(n)
    ]
    return answers, rng.random(n) < sigmoid(truth.scores(answers))


LOWER = Shift(slope=1.0, intercept=-2.0, slope_sd=1, intercept_sd=1)


class TestFeatures:
    def test_a_shifted_user_gains_on_answers_never_seen(self):
        truth = FEATURES.shifted(Shift(slope=0.8, intercept=-1.5, slope_sd=1, intercept_sd=1))
        unseen, right = rich_labels(3000, truth, seed=9)
        gains = {}
        for n in (40, 100):
            result = refit(RICH, *rich_labels(n, truth), created=TODAY)
            assert result.promoted
            new = result.calibrator
            before, after = (log_loss(c.probabilities(unseen), right) for c in (RICH, new))
            gains[n] = before - after
        assert 0.0 < gains[40] < gains[100]
        best = log_loss(sigmoid(truth.scores(unseen)), right)
        assert after - best < 0.25 * (before - best)
        (shifted, *_) = new.curves
        slope, intercept = shifted.shift.slope, shifted.shift.intercept
        assert slope * 0.5 == pytest.approx(shifted.offset("mid-word"))
        assert shifted.score(unseen[0]) == pytest.approx(slope * FEATURES.score(unseen[0]) + intercept)

    def test_old_labels_without_features_count_for_the_plain_measures(self):
        """Sixty old labels and none with features: those curves move, the curve over features stays."""
        answers, correct = rich_labels(60, FEATURES.shifted(LOWER))
        old = [Evidence(one.logprobs) for one in answers]
        result = refit(RICH, old, correct, created=TODAY)
        assert result.promoted
        best, of_total, mean = result.calibrator.curves
        assert (best.shift.slope, best.shift.intercept) == (1.0, 0.0)
        assert replace(best, shift=None) == FEATURES
        assert of_total.shift.intercept < -0.5
        assert mean.shift.intercept < -0.5
        assert result.n == result.calibrator.n == 60

        new, fresh = rich_labels(60, FEATURES.shifted(LOWER), seed=5)
        both = refit(RICH, [*old, *new], [*correct, *fresh], created=TODAY)
        assert both.n == 120
        alone = refit(RICH, new, fresh, created=TODAY)
        assert both.calibrator.curves[0] == alone.calibrator.curves[0], "fitted on labels with features only"
        assert both.calibrator.curves[1].shift.intercept != alone.calibrator.curves[1].shift.intercept

    def test_the_promotion_compares_the_confidences_in_force(self):
        """Labels without features are compared by the plain measure of either calibrator."""
        answers, correct = rich_labels(30)
        mixed = [one if i % 2 else Evidence(one.logprobs) for i, one in enumerate(answers)]
        result = refit(RICH, mixed, correct, created=TODAY)
        expected = log_loss(RICH.probabilities(mixed), correct)
        assert result.before["logLoss"] == pytest.approx(expected)

    def test_weights_move_only_with_many_labels_that_want_it(self):
        other = replace(
            FEATURES,
            features=(
                Weighted("total", -1.0, 1.5, 1.6),
                Weighted("broken", 0.1, 0.3, 0.6),  # broken files are this user's habit
                Weighted("in-word", 0.4, 0.5, 1.4),
            ),
        )
        for n, truth, own in ((600, other, True), (200, other, False), (600, FEATURES, False)):
            counting = LabelWeights.of(n), np.arange(n) % 5
            result = refit_curve(FEATURES, USUAL, *rich_labels(n, truth, seed=3), *counting)
            assert (result.curve.spread == WEIGHT_SD) == own, n
            if own:
                assert result.curve.features[1].weight > FEATURES.features[1].weight + 0.5
                assert result.curve.offsets == FEATURES.offsets

    def test_answers_without_valid_probabilities_are_refused(self):
        answers, correct = rich_labels(10)
        answers[3] = Evidence()
        with pytest.raises(DataError, match="log-probabilities"):
            refit(RICH, answers, correct, created=TODAY)
