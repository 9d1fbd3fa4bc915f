"""What tiers by risk promise over a whole life of refits and labels, where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from lsp_calib.calibration.certificates import Ledger, Promise

pytestmark = pytest.mark.long

PROMISE = Promise()
OPEN = Ledger().opened(PROMISE, key="k", used_until=0.0)
USERS = 400
# Labels set aside at each refit: a fifth more than at the one before.
REFITS = [math.ceil(40 * 1.2**number) for number in range(16)]
DELTA = PROMISE.delta


def allowance(rate: float, count: int) -> float:
    return 3.0 * math.sqrt(rate * (1.0 - rate) / count)


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
    assert np.mean([ever_false(rng, forgetful=False) for _ in range(USERS)]) <= DELTA


def test_the_check_can_fail() -> None:
    """Without the account of what was spent the refits find the lucky moment."""
    rng = np.random.default_rng(1)
    rate = np.mean([ever_false(rng, forgetful=True) for _ in range(USERS)])
    assert rate > DELTA + allowance(DELTA, USERS)


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
    assert np.mean(revoked) <= DELTA


def test_drift_revokes_within_the_documented_number_of_labels() -> None:
    """30 % wrong instead of 3 %: half of the users are told after 30 accepted labels, nearly all after 80."""
    waits = [math.inf if after is None else after for after in lives(np.random.default_rng(3), 0.3, 400)]
    assert np.quantile(waits, 0.5) <= 30
    assert np.quantile(waits, 0.95) <= 80


def test_a_good_calibrator_gets_its_certificate() -> None:
    rng = np.random.default_rng(4)
    assert np.mean([certified(rng) is not None for _ in range(USERS)]) >= 0.7
