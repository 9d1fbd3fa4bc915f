"""What certificates, intervals and tests promise, against problems whose truth is known in closed form.

Every check is a rate over simulated data sets with its allowance, 3 standard errors of the simulation; each
comes with something that breaks the promise and must fail it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from lsp_calib.calibration.certificates import Certificate, Watch, certify
from lsp_calib.calibration.scores import brier_score
from lsp_calib.calibration.validation import bootstrap_difference, bootstrap_interval
from lsp_calib.evaluation.paper.numbers import adjusted, paired_p_value

pytestmark = pytest.mark.long

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, npt.NDArray[np.bool_]]]

DATA_SETS = 2000
ALPHA = DELTA = 0.1


def allowance(rate: float, count: int) -> float:
    return 3.0 * math.sqrt(rate * (1.0 - rate) / count)


def calibrated(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p


def calibrated_risk(threshold: float) -> float:
    """1 - E[x | x >= t] where x has the density 2x."""
    return 1.0 - (2.0 / 3.0) * (1.0 + threshold + threshold**2) / (1.0 + threshold)


def overconfident(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p**2


def overconfident_risk(threshold: float) -> float:
    """1 - E[x^2 | x >= t] where x has the density 2x."""
    return 0.5 - threshold**2 / 2.0


def rounded(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Calibrated, with ten values only: ties are the rule."""
    p = rng.integers(1, 11, n) / 10 - 0.05
    return p, rng.random(n) < p


def rounded_risk(threshold: float) -> float:
    values = np.arange(1, 11) / 10 - 0.05
    return float(1.0 - values[values >= threshold - 1e-9].mean())


def useless(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Just too many wrong, whatever the score: every certificate is false. The worst case there is."""
    return rng.random(n), rng.random(n) < 1.0 - useless_risk(0.0)


def useless_risk(_: float) -> float:
    return ALPHA + 1e-9


def dipping(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The most confident are the worst: here the derivation of the promise does not apply, and it holds."""
    p = rng.random(n)
    return p, rng.random(n) < np.where(p > 0.97, 0.85, np.where(p > 0.3, 0.92, 0.5))


def dipping_risk(threshold: float) -> float:
    top, middle, low = (max(end - max(threshold, start), 0.0) for start, end in DIPS)
    return (0.15 * top + 0.08 * middle + 0.5 * low) / (top + middle + low)


DIPS = ((0.97, 1.0), (0.3, 0.97), (0.0, 0.3))

TRUTHS: dict[str, tuple[Draw, Callable[[float], float]]] = {
    "calibrated": (calibrated, calibrated_risk),
    "overconfident": (overconfident, overconfident_risk),
    "rounded": (rounded, rounded_risk),
    "useless": (useless, useless_risk),
    "dipping": (dipping, dipping_risk),
}


def false_and_found(
    truth: str, n: int, certifier: Callable[..., Certificate | float | None] = certify
) -> tuple[float, float]:
    """Shares of data sets whose certificate is false, and that have one."""
    draw, risk = TRUTHS[truth]
    rng = np.random.default_rng([n, len(truth)])
    false = found = 0
    for _ in range(DATA_SETS):
        made = certifier(*draw(rng, n), ALPHA, DELTA)
        threshold = made.threshold if isinstance(made, Certificate) else made
        found += threshold is not None
        false += threshold is not None and risk(threshold) > ALPHA
    return false / DATA_SETS, found / DATA_SETS


@pytest.mark.parametrize("n", [200, 400, 1000])
@pytest.mark.parametrize("truth", TRUTHS)
def test_the_certified_risk_holds(truth: str, n: int) -> None:
    false, _ = false_and_found(truth, n)
    assert 1.0 - false >= 1.0 - DELTA - allowance(DELTA, DATA_SETS)


def test_a_certificate_is_found_often_enough_to_be_of_use() -> None:
    """As the documentation of `certify` has it, within the simulation's error."""
    documented = {50: 0.06, 200: 0.54, 400: 0.71, 1000: 0.89, 2000: 0.99}
    for n, share in documented.items():
        _, found = false_and_found("calibrated", n)
        assert found == pytest.approx(share, abs=0.005 + allowance(share, DATA_SETS))
        if n == 400:
            assert found >= 0.5


def by_observed_errors(confidence: Array, correct: Array, risk: float, _: float) -> float | None:
    """What one would do without statistics: the lowest threshold at which the labels look good enough."""
    order = np.argsort(-confidence)
    share = np.cumsum(~correct[order]) / np.arange(1, order.size + 1)
    good = np.flatnonzero(share <= risk)
    return float(confidence[order][good[-1]]) if good.size else None


def by_every_threshold(confidence: Array, correct: Array, risk: float, delta: float) -> float | None:
    """Tests at every threshold, the best one kept: as often as not the luckiest of hundreds."""
    from scipy.stats import binom

    order = np.argsort(-confidence)
    counts = np.arange(1, order.size + 1)
    good = np.flatnonzero(binom.cdf(np.cumsum(~correct[order]), counts, risk) <= delta)
    return float(confidence[order][good[-1]]) if good.size else None


@pytest.mark.parametrize("certifier", [by_observed_errors, by_every_threshold])
def test_the_check_can_fail(certifier: Callable[..., float | None]) -> None:
    false, _ = false_and_found("useless", 400, certifier)
    assert 1.0 - false < 1.0 - DELTA - allowance(DELTA, DATA_SETS)


def promise() -> Certificate:
    return certify([0.9] * 22, [True] * 22, ALPHA, DELTA)


def stream(rng: np.random.Generator, rates: Array) -> Watch:
    return Watch(promise()).after(np.full(rates.size, 0.95), rng.random(rates.size) >= rates)


def test_a_true_promise_is_rarely_revoked_however_long_one_looks() -> None:
    """At the worst rate that keeps the promise, over 3,000 labels with a look after each."""
    rng = np.random.default_rng(1)
    revoked = np.mean([stream(rng, np.full(3000, ALPHA)).certificate.revoked for _ in range(1000)])
    assert revoked <= DELTA + allowance(DELTA, 1000)
    # Looking again and again at a test made for one look is what this guards against.
    naive = 0
    for _ in range(1000):
        wrong = np.cumsum(rng.random(3000) < ALPHA)[49:]
        seen = np.arange(50, 3001)
        naive += bool(np.any(wrong > seen * ALPHA + 1.2816 * np.sqrt(seen * ALPHA * (1 - ALPHA))))
    assert naive / 1000 > DELTA + allowance(DELTA, 1000)


@pytest.mark.parametrize(("before", "within"), [(0, 100), (200, 150), (2000, 200)])
def test_a_promise_that_no_longer_holds_is_revoked_soon(before: int, within: int) -> None:
    """5 % wrong, then 30 %: even after a long good time."""
    rng = np.random.default_rng(2)
    rates = np.r_[np.full(before, 0.05), np.full(within, 0.3)]
    revoked = np.mean([stream(rng, rates).certificate.revoked for _ in range(300)])
    assert revoked >= 0.9


def test_bootstrap_intervals_cover() -> None:
    """Brier score of a calibrated Beta(2, 1) score: E[x (1 - x)] = 1/6; against 1/2 always, 1/12 less."""
    rng = np.random.default_rng(4)
    inside = np.zeros(2)
    for seed in range(400):
        p, y = calibrated(rng, 300)
        score = bootstrap_interval(brier_score, p, y, resamples=200, seed=seed)
        less = bootstrap_difference(brier_score, p, np.full(300, 0.5), y, resamples=200, seed=seed)
        for at, (interval, truth) in enumerate([(score, 1 / 6), (less, -1 / 12)]):
            assert interval.low is not None
            assert interval.high is not None
            inside[at] += interval.low <= truth <= interval.high
    # A percentile interval is a little short: 0.94 at best with 200 resamples.
    assert np.all(inside / 400 >= 0.94 - allowance(0.94, 400))
    assert np.all(inside / 400 <= 0.94 + allowance(0.94, 400))


def test_only_intervals_by_group_cover_where_items_come_in_groups() -> None:
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(80), 5)
    inside = np.zeros(2)
    for seed in range(400):
        y = rng.random(400) < np.repeat(rng.beta(0.5, 0.5, 80), 5)
        for at, by in enumerate([groups, None]):
            interval = bootstrap_interval(brier_score, np.ones(400), y, by, resamples=200, seed=seed)
            assert interval.low is not None
            assert interval.high is not None
            inside[at] += interval.low <= 0.5 <= interval.high
    assert inside[0] / 400 >= 0.93 - allowance(0.93, 400)
    assert inside[1] / 400 < 0.85


def test_paired_tests_find_by_chance_no_more_than_they_say() -> None:
    """Equally noisy readings of a truth are equally good: so it is in 12 of 20 comparisons."""
    rng = np.random.default_rng(7)
    by_chance, false_share, found = 0, [], 0
    for _ in range(150):
        p_values = []
        for comparison in range(20):
            p, y = calibrated(rng, 200)
            first, second = np.clip(p + rng.normal(0, 0.15, (2, 200)), 0, 1)
            if comparison >= 12:
                second = np.clip(p + rng.normal(0, 0.35, 200), 0, 1)
            p_values.append(paired_p_value(first, second, y))
        by_chance += np.count_nonzero(np.array(p_values[:12]) <= 0.05)
        rejected = np.array(adjusted(p_values)) <= 0.05
        false_share.append(rejected[:12].sum() / max(rejected.sum(), 1))
        found += rejected[12:].sum()
    assert by_chance / (150 * 12) == pytest.approx(0.05, abs=allowance(0.05, 150 * 12))
    assert np.mean(false_share) <= 0.05 + 3 * np.std(false_share) / math.sqrt(150)
    assert found / (150 * 8) > 0.5
