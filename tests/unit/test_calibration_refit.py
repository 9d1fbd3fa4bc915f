"""The refit policy: learns from a few dozen labels, and never judges by labels that were seen."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calibration_calibrator import make

from lsp_calib.calibration import Calibrator, PlattCalibrator, Prior, grouped_folds, log_loss, refit
from lsp_calib.calibration.calibrators.refit import INTERCEPT_SD, SLOPE_SD
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.errors import DataError

SHIPPED = make(platt=PlattCalibrator(0.8, -1.2), measure="geometric-mean")
TODAY = "2026-12-01"


def labels(n, shift=0.0, seed=0):
    """The first n labels of a user whose log-odds lie `shift` off the shipped calibrator's."""
    rng = np.random.default_rng(seed)
    raw = rng.beta(5, 1.5, 3000)
    correct = rng.random(3000) < sigmoid(0.8 * log_odds(raw) - 1.2 + shift)
    return [[float(np.log(r))] for r in raw[:n]], correct[:n]


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
    assert (new.source, new.state, new.n, new.parent, new.created) == (
        "personal",
        "ready",
        60,
        SHIPPED.id,
        TODAY,
    )
    assert new.purpose == SHIPPED.purpose
    assert new.platt.intercept < SHIPPED.platt.intercept - 0.5
    assert new.prior == Prior(0.8, -1.2, SLOPE_SD, INTERCEPT_SD)
    assert run(40, shift=-2.0).calibrator.state == "learning"


def test_who_differs_is_found_and_who_does_not_is_mostly_left_alone():
    promoted = {shift: np.mean([run(50, shift, s).promoted for s in range(40)]) for shift in (0.0, -1.5)}
    assert promoted[-1.5] > 0.95
    assert promoted[0.0] < 0.5


def test_labels_that_speak_against_a_change_prevent_it():
    # Leave-one-out on labels the shipped one explains as well as can be: each fit without the item is worse.
    logprobs = [[math.log(0.5)]] * 8
    current = make(platt=PlattCalibrator(1.0, 0.0), measure="geometric-mean")
    result = refit(current, logprobs, [True, False] * 4, created=TODAY)
    assert not result.promoted
    assert result.reason.startswith("the present calibrator is better: log loss 0.")
    assert result.calibrator is None
    assert result.after["logLoss"] > result.before["logLoss"]


def test_one_class_moves_it_the_right_way_and_stays_sane():
    logprobs, _ = labels(12)
    wrong = refit(SHIPPED, logprobs, [False] * 12, created=TODAY)
    assert wrong.promoted
    assert wrong.before["skill"] is None
    assert 0.05 < wrong.calibrator.platt.predict(0.8) < SHIPPED.platt.predict(0.8)
    right = refit(SHIPPED, logprobs, [True] * 12, created=TODAY)
    assert SHIPPED.platt.predict(0.8) < right.calibrator.platt.predict(0.8) < 0.95


def test_what_prior_and_labels_agree_on_is_not_pulled_towards_one_half():
    # Platt's smoothed targets would: 1/7 for five wrong ones that were given 4 %.
    current = make(platt=PlattCalibrator(1.0, -3.2), measure="geometric-mean")
    result = refit(current, [[math.log(0.5)]] * 5, [False] * 5, created=TODAY)
    assert result.calibrator.platt.predict(0.5) < current.platt.predict(0.5)


def test_a_personal_one_is_judged_by_labels_it_has_not_seen():
    first = run(30, shift=-1.0).calibrator
    again = run(30, shift=-1.0, current=first, base=SHIPPED)
    assert not again.promoted
    assert again.reason == f"not enough new labels yet: 0 of 5 since {first.id}"
    more = run(60, shift=-1.0, current=first, base=SHIPPED)
    assert "on 30 labels" in more.reason
    logprobs, correct = labels(60, -1.0)
    p = first.platt.predict(np.array([math.exp(item[0]) for item in logprobs[30:]]))
    assert more.before["brier"] == pytest.approx(np.mean((p - correct[30:]) ** 2))
    explicit = run(60, shift=-1.0, current=first, base=SHIPPED, seen=50)
    assert "on 10 labels" in explicit.reason


def test_an_episode_of_which_one_label_was_seen_is_not_fresh():
    first = run(30, shift=-1.0).calibrator
    episodes = [*range(30), *range(25, 30), *range(30, 55)]  # the 31st to 35th label: of visits begun before
    result = run(60, shift=-1.0, current=first, base=SHIPPED, episodes=episodes)
    assert result.n == 55
    assert "on 25 labels" in result.reason


class TestEpisodes:
    """Labels of one visit to one line are one label, whatever is counted, fitted or held out."""

    @pytest.mark.parametrize("size", [2, 7, 40])
    def test_many_keystrokes_do_not_count_towards_the_minimum(self, size):
        logprobs, correct = labels(4)
        result = refit(
            SHIPPED, logprobs * size, list(correct) * size, created=TODAY, episodes=[*"abcd"] * size
        )
        assert not result.promoted
        assert result.reason == "not enough labels yet: 4 of 5"

    @pytest.mark.parametrize("n", [20, 60])
    def test_what_is_repeated_changes_nothing(self, n):
        """Each label once, or each up to nine times: the same calibrator, the same proof."""
        logprobs, correct = labels(n, shift=-2.0)
        times = np.arange(n) % 9 + 1
        once = refit(SHIPPED, logprobs, correct, created=TODAY)
        often = refit(
            SHIPPED,
            [logprobs[i] for i in np.repeat(np.arange(n), times)],
            np.repeat(correct, times),
            created=TODAY,
            episodes=np.repeat(np.arange(n), times),
        )
        assert once.promoted
        assert often.promoted
        assert (often.n, often.calibrator.n, often.calibrator.n_correct) == (n, n, once.calibrator.n_correct)
        assert often.calibrator.platt.slope == pytest.approx(once.calibrator.platt.slope, abs=1e-6)
        assert often.calibrator.platt.intercept == pytest.approx(once.calibrator.platt.intercept, abs=1e-6)
        assert often.before == pytest.approx(once.before)
        if n <= 50:  # leave-one-out has no choice of folds
            assert often.after == pytest.approx(once.after, abs=1e-6)

    @pytest.mark.parametrize("n", [12, 60])
    def test_no_prediction_has_seen_a_label_of_its_own_episode(self, n):
        """The quality on record is that of fits without the whole episode."""
        logprobs, correct = labels(3 * n, shift=-1.0)
        episodes = np.arange(3 * n) % n
        raw = np.array([math.exp(item[0]) for item in logprobs])
        result = refit(SHIPPED, logprobs, correct, created=TODAY, episodes=episodes)
        folds = grouped_folds(episodes, n if n <= 50 else 5)
        predicted = np.empty(raw.size)
        for fold in np.unique(folds):
            out = folds == fold
            assert not np.isin(episodes[~out], episodes[out]).any()
            fitted = PlattCalibrator.fit(
                raw[~out],
                correct[~out],
                weights=np.full((~out).sum(), 1 / 3),
                prior=Prior(0.8, -1.2, SLOPE_SD, INTERCEPT_SD),
                targets="plain",
            )
            predicted[out] = fitted.predict(raw[out])
        assert result.after["logLoss"] == pytest.approx(log_loss(predicted, correct))
        assert result.after["brier"] == pytest.approx(np.mean((predicted - correct) ** 2))

    def test_one_slow_line_does_not_outvote_the_others(self):
        """Forty keystrokes on a line that was wrong, and twenty lines that were right."""
        logprobs = [[math.log(0.8)]] * 60
        correct = [False] * 40 + [True] * 20
        result = refit(SHIPPED, logprobs, correct, created=TODAY, episodes=[0] * 40 + [*range(1, 21)])
        assert result.promoted
        assert result.n == 21
        assert result.calibrator.n_correct == 20
        assert result.calibrator.platt.predict(0.8) > SHIPPED.platt.predict(0.8)


def test_old_labels_are_not_counted_twice():
    # The second refit starts from the shipped prior again, so two steps end where one would.
    first = run(8, shift=-2.0).calibrator
    second = run(80, shift=-2.0, current=first, base=SHIPPED)
    assert second.promoted
    assert second.calibrator.platt == run(80, shift=-2.0).calibrator.platt
    assert second.calibrator.parent == first.id
    with pytest.raises(DataError, match="base"):
        run(60, current=first)


def test_a_borrowed_prior_knows_that_it_knows_little():
    wide = make(
        platt=PlattCalibrator(0.8, -1.2),
        prior=Prior(0.8, -1.2, 0.5, 2.0),
        measure="geometric-mean",
        source="prior",
        n=0,
        n_correct=0,
        metrics={},
    )
    moved = [abs(run(20, -2.0, 1, current).calibrator.platt.intercept + 1.2) for current in (SHIPPED, wide)]
    assert moved[1] > 1.3 * moved[0]


def test_labels_that_contradict_the_raw_confidence_are_not_believed():
    current = make(platt=PlattCalibrator(0.3, 0.0), measure="geometric-mean")
    logprobs = [[math.log(r)] for r in np.linspace(0.05, 0.95, 40)]
    result = refit(current, logprobs, np.arange(40) < 20, created=TODAY)
    assert not result.promoted
    assert "contradict" in result.reason


def test_the_measure_of_the_new_one_is_that_of_its_base():
    logprobs = [[math.log(0.9), math.log(0.2)]] * 10
    base = make(platt=PlattCalibrator(0.8, -1.2), measure="geometric-mean-first-1")
    current = make(platt=PlattCalibrator(0.8, -1.2), measure="minimum", source="personal", n=0, n_correct=0)
    result = refit(current, logprobs, [False] * 9 + [True], created=TODAY, base=base)
    assert result.before["meanConfidence"] == pytest.approx(SHIPPED.platt.predict(0.2))
    if result.promoted:
        assert result.calibrator.measure == "geometric-mean-first-1"


@settings(deadline=None, max_examples=40)
@given(
    items=st.lists(st.tuples(st.floats(-20.0, 0.0), st.booleans()), max_size=25),
)
def test_whatever_the_labels_the_wire_holds_json_without_nan(items):
    result = refit(SHIPPED, [[lp] for lp, _ in items], [y for _, y in items], created=TODAY)
    wire = json.loads(json.dumps(result.to_wire(), allow_nan=False))
    assert set(wire) == {"promoted", "reason", "n", "before", "after", "calibrator"}
    assert wire["promoted"] == (wire["calibrator"] is not None)
    if result.calibrator:
        document = json.loads(json.dumps(result.calibrator.to_json(), allow_nan=False))
        assert Calibrator.from_json(document) == result.calibrator


def test_the_spread_of_the_prior_is_a_fair_trade():
    """A user like the others loses next to nothing; a different one is half understood by 10 labels or so."""
    raw, _ = labels(3000, seed=77)
    x = np.array([math.exp(item[0]) for item in raw])

    def excess(n, shift):
        truth = sigmoid(0.8 * log_odds(x) - 1.2 + shift)
        losses = []
        for seed in range(150):
            logprobs, correct = labels(n, shift, seed)
            seen = np.array([math.exp(item[0]) for item in logprobs])
            prior = Prior(0.8, -1.2, SLOPE_SD, INTERCEPT_SD)
            p = PlattCalibrator.fit(seen, correct, prior=prior, targets="plain").predict(x)
            losses.append(np.mean(-truth * np.log(p / truth) - (1 - truth) * np.log((1 - p) / (1 - truth))))
        return float(np.mean(losses))

    assert max(excess(n, 0.0) for n in (5, 10, 20, 50)) < 0.015
    unadapted = excess(0, -1.5)
    assert excess(5, -1.5) > 0.4 * unadapted  # five labels alone do not turn everything over
    assert excess(20, -1.5) < 0.35 * unadapted
    assert excess(50, -1.5) < 0.2 * unadapted
