"""Watching a certificate: the bets by hand, the same however the labels are cut up, and no way back."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.calibration.certificates import RISEN, Watch, certify
from lsp_calib.errors import DataError

RISK = 0.1


def promise(delta=0.1):
    return certify([0.8] * 50, [True] * 50, RISK, delta)


def unstaked(t):
    return 1 / (1 + math.log(1 + t))


def capital_by_hand(wrong):
    """The capital after each label, as defined: every rise, every beginning, every bet since."""
    odds = [RISK / (1 - RISK) * rise for rise in RISEN]
    rates = [o / (1 + o) for o in odds]
    path = []
    for now in range(1, len(wrong) + 1):
        total = unstaked(now)
        for q in rates:
            for begin in range(1, now + 1):
                bet = unstaked(begin - 1) - unstaked(begin)
                for w in wrong[begin - 1 : now]:
                    bet *= q / RISK if w else (1 - q) / (1 - RISK)
                total += bet / len(rates)
        path.append(total)
    return path


@settings(deadline=None, max_examples=50)
@given(wrong=st.lists(st.booleans(), min_size=1, max_size=40), delta=st.sampled_from([0.01, 0.1, 0.5]))
def test_it_revokes_when_the_capital_by_hand_says_so(wrong, delta):
    watch = Watch(promise(delta)).after([0.9] * len(wrong), [not w for w in wrong])
    path = capital_by_hand(wrong)
    over = [at for at, value in enumerate(path, 1) if value >= 1 / delta]
    assert watch.certificate.revoked == bool(over)
    assert watch.seen == (over[0] if over else len(wrong))
    assert watch.errors == sum(wrong[: watch.seen])


@settings(deadline=None, max_examples=50)
@given(
    labels=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_one_by_one_or_all_at_once_is_the_same(labels, cuts):
    whole = Watch(promise()).after([p for p, _ in labels], [y for _, y in labels])
    parts = Watch(promise())
    for start, end in itertools.pairwise([0, *sorted(cuts), 60]):
        parts = parts.after([p for p, _ in labels[start:end]], [y for _, y in labels[start:end]])
    assert (parts.certificate, parts.seen, parts.errors) == (whole.certificate, whole.seen, whole.errors)
    assert parts.log_evidence == pytest.approx(whole.log_evidence)


def test_only_accepted_ones_count():
    watch = Watch(promise()).after([0.79] * 100, [False] * 100)
    assert watch == Watch(promise())
    assert Watch(promise()).after([0.8], [False]).seen == 1


def test_it_says_why_and_stays_revoked():
    watch = Watch(promise()).after([0.9] * 30, [False] * 30)
    assert watch.certificate.threshold is None
    assert watch.certificate.reason == "revoked: 3 of 3 accepted since were wrong, of late more than 10 %"
    assert watch.after([0.9] * 1000, [True] * 1000) == watch


def test_without_a_promise_there_is_nothing_to_watch():
    nothing = Watch(certify([], []))
    assert nothing.after([0.9], [False]) == nothing


def test_very_many_labels_do_not_overflow():
    rng = np.random.default_rng(0)
    watch = Watch(promise()).after(np.full(300_000, 0.9), rng.random(300_000) < 0.97)
    assert not watch.certificate.revoked
    assert all(math.isfinite(value) for value in watch.log_evidence)
    assert watch.after(np.full(200, 0.9), rng.random(200) < 0.6).certificate.revoked


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(DataError):
        Watch(promise()).after([0.9], [])
