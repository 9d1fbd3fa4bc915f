"""What certificates, tiers, intervals and tests promise, against problems whose truth is known.

Every check is a rate over simulated data sets with its allowance, 3 standard errors of the simulation; each
comes with something that breaks the promise and must fail it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from lsp_calib.calibration.certificates import Certificate, Ledger, Promise, Watch, certify
from lsp_calib.calibration.scores import brier_score
from lsp_calib.calibration.validation import bootstrap_difference, bootstrap_interval
from lsp_calib.studies.score import adjusted, paired_p_value

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


PROMISE = Promise()
OPEN = Ledger().opened(PROMISE, key="k", used_until=0.0)
USERS = 400
# Labels set aside at each refit: a fifth more than at the one before.
REFITS = [math.ceil(40 * 1.2**number) for number in range(16)]


def ever_false(rng: np.random.Generator, *, forgetful: bool) -> bool:
    """Whether a user ever gets a certificate that is false: just too many are wrong, however sure the
    calibrator, which is another one after each refit.

    forgetful: each is asked for as if it were the first.
    """
    confidence = rng.uniform(0.97, 1.0, REFITS[-1])
    correct = rng.random(REFITS[-1]) >= PROMISE.risk + 1e-9
    ledger = OPEN
    for number, n in enumerate(REFITS):
        if forgetful:
            ledger = replace(ledger, asked=0)
        ledger = ledger.asking(f"calibrator {number}", confidence[:n], correct[:n])
        if ledger.holds(f"calibrator {number}"):
            return True
    return False


def test_however_often_one_refits_a_false_certificate_is_as_rare_as_promised() -> None:
    rng = np.random.default_rng(1)
    assert np.mean([ever_false(rng, forgetful=False) for _ in range(USERS)]) <= PROMISE.delta


def test_the_check_of_refits_can_fail() -> None:
    """Without the account of what was spent the refits find the lucky moment."""
    rng = np.random.default_rng(1)
    rate = np.mean([ever_false(rng, forgetful=True) for _ in range(USERS)])
    assert rate > PROMISE.delta + allowance(PROMISE.delta, USERS)


def certified(rng: np.random.Generator) -> Ledger | None:
    """The ledger of a user of whose sure suggestions 3 % are wrong, after 400 labels set aside; None if no
    certificate came of them."""
    confidence = np.where(rng.random(400) < 0.4, 0.97, 0.5)
    ledger = OPEN.asking("c", confidence, rng.random(400) < confidence)
    return ledger if ledger.holds("c") else None


def lives(rng: np.random.Generator, wrong: float, labels: int) -> list[int | None]:
    """For each of many users with a certificate, after how many accepted labels it is revoked, if it is."""
    found: list[int | None] = []
    while len(found) < USERS:
        ledger = certified(rng)
        if ledger is None:
            continue
        after: int | None = None
        for begin in range(0, labels, 10):
            ledger = ledger.read(5, np.full(10, 0.97), rng.random(10) >= wrong, until=float(begin))
            if ledger.is_drifted("c"):
                after = begin + 10
                break
        found.append(after)
    return found


def test_a_true_promise_is_revoked_more_rarely_than_delta() -> None:
    """At the worst rate that keeps it, over 1,000 accepted labels."""
    revoked = [after is not None for after in lives(np.random.default_rng(2), PROMISE.risk, 1000)]
    assert np.mean(revoked) <= PROMISE.delta


def test_drift_revokes_within_the_documented_number_of_labels() -> None:
    """30 % wrong instead of 3 %: half of the users are told after 30 accepted labels, nearly all after 80."""
    waits = [math.inf if after is None else after for after in lives(np.random.default_rng(3), 0.3, 400)]
    assert np.quantile(waits, 0.5) <= 30
    assert np.quantile(waits, 0.95) <= 80


def test_a_good_calibrator_gets_its_certificate() -> None:
    rng = np.random.default_rng(4)
    assert np.mean([certified(rng) is not None for _ in range(USERS)]) >= 0.7
