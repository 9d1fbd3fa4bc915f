"""What the metrics claim to cover, they cover; on data whose truth is known."""

import math

import numpy as np
import pytest

from lsp_calib.calibration.reliability import reliability, wilson_interval
from lsp_calib.calibration.scores import expected_calibration_error
from lsp_calib.calibration.validation import calibrated_band

pytestmark = pytest.mark.long


def simulated(n, rng, power=1.0):
    """Beta(2, 1) confidences; calibrated for power 1, overconfident above."""
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p**power


def at_least(share, trials, level=0.95):
    """Whether a share is not below the level by more than 3 standard errors."""
    return share > level - 3 * math.sqrt(level * (1 - level) / trials)


# Calibrated Beta(2, 1): E p = 2/3, E p^2 = 1/2. So Brier is E p (1 - p) = 1/6, the reference 2/9, skill 1/4.


def test_the_calibrated_band_of_ece_covers_calibrated_scores_and_those_alone():
    rng = np.random.default_rng(1)

    def above(power):
        bands = [
            calibrated_band(expected_calibration_error, *simulated(300, rng, power), resamples=200, seed=s)
            for s in range(200)
        ]
        assert all(0.0 < band.low < band.high for band in bands)
        return np.mean([not band.low <= band.value <= band.high for band in bands])

    assert at_least(1 - above(1.0), 200, 0.94)
    assert above(2.0) > 0.95


def test_the_band_of_each_bin_covers_a_calibrated_score_and_not_an_overconfident_one():
    rng = np.random.default_rng(2)

    def inside(power):
        bars = [
            bar
            for s in range(100)
            for bar in reliability(*simulated(400, rng, power), resamples=200, seed=s).points
        ]
        return np.mean([bar.band_low <= bar.accuracy <= bar.band_high for bar in bars])

    assert at_least(inside(1.0), 500)
    assert inside(3.0) < 0.4


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
def test_wilson_intervals_cover(share):
    # Exactly, over the binomial distribution: not each share at 95 %, but none far below.
    n = 40
    covered = 0.0
    for k in range(n + 1):
        low, high = wilson_interval(k, n)
        if low <= share <= high:
            covered += math.comb(n, k) * share**k * (1 - share) ** (n - k)
    assert 0.92 < covered <= 1.0
