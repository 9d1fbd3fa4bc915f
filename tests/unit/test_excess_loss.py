"""The table of excess log-loss: the measure itself, and what the page must say."""

import numpy as np
import pytest
from data_generating_processes import CALIBRATED, HELD_OUT, TRUTHS
from excess_loss import (
    LOOSE,
    OURS,
    RAW,
    Excess,
    excess_log_loss,
    excess_page,
    measure,
    replications,
)
from excess_methods import METHODS

from lsp_calib.calibration.logistic import sigmoid


def test_excess_is_the_divergence_from_the_truth():
    truth = np.array([0.0, 1.0])
    assert excess_log_loss(sigmoid(truth), truth) == pytest.approx(0.0, abs=1e-15)
    half = excess_log_loss(np.array([0.25]), np.array([0.0]))
    assert half == pytest.approx(0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75))
    assert excess_log_loss(np.array([0.0]), np.array([0.0])) < 7.0, "certainty counts as 1e-6"


def test_points_stand_for_the_scores():
    rng = np.random.default_rng(0)
    for make in (*TRUTHS.values(), *CALIBRATED.values(), *HELD_OUT.values()):
        truth = make(rng)
        scores = sigmoid(truth.scores(rng, 20_000))
        assert np.mean(sigmoid(truth.points)) == pytest.approx(np.mean(scores), abs=0.02)
        assert truth.words


def test_the_same_seed_gives_the_same_numbers_and_more_methods_change_none():
    def run(methods):
        return measure(sizes=(0, 5), methods={name: METHODS[name] for name in methods}, most=3, seed=4)

    few, again, more = run([OURS]), run([OURS]), run([OURS, RAW])
    assert np.array_equal(few.mean, again.mean)
    assert np.array_equal(few.mean[:, 0], more.mean[:, 0])
    at = more.truths.index("calibrated")
    assert np.all(more.mean[:, more.methods.index(RAW), at] < 1e-12)


def test_few_data_sets_already_show_what_the_table_is_about():
    """Not the goals (those need the long run): that ours is far below doing nothing and unpenalised fits."""
    excess = measure(sizes=(10,), most=25, seed=1)
    mean = dict(zip(excess.methods, excess.over_truths(tuple(TRUTHS))[0][0], strict=True))
    assert mean[OURS] < 0.5 * mean[RAW]
    assert mean[OURS] < 0.2 * mean["logistic, unpenalised"]
    assert excess.of(OURS, "calibrated", 10) < excess.of(LOOSE, "calibrated", 10)
    assert np.all(np.isfinite(excess.mean))


def test_the_page_says_what_was_measured_and_whether_the_goals_are_met():
    excess = measure(sizes=(0, 10, 200), most=2, seed=0)
    page = excess_page(excess, most=2, seed=0)
    for name in (*METHODS, *TRUTHS, *CALIBRATED, *HELD_OUT):
        assert name in page
    assert page.count("| 10 |") == 3 + len(CALIBRATED) + len(HELD_OUT)
    assert "Lowest mean at every n <= 200" in page
    assert all(line.count("|") != 1 for line in page.splitlines())


def test_worst_is_the_highest_mean_with_its_error():
    excess = Excess(("a", "b"), ("m",), (5,), np.array([[[0.1, 0.3]]]), np.array([[[0.01, 0.02]]]))
    assert excess.worst(("a", "b"))[0][0, 0] == 0.3
    assert excess.worst(("a", "b"))[1][0, 0] == 0.02
    assert excess.over_truths(("a", "b"))[0][0, 0] == pytest.approx(0.2)


def test_large_data_sets_are_repeated_less():
    assert [replications(n) for n in (0, 5, 50, 200, 10_000)] == [1, 1000, 1000, 500, 100]
