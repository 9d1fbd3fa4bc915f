"""Certificates: scipy's binomial, the fixed sequence step by step, what is missing; how they are watched."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lsp_calib.calibration.binomial import fewest_labels, least_trials, lower_tail
from lsp_calib.calibration.certificates import RISEN, Watch, certify
from lsp_calib.errors import DataError

levels = st.sampled_from([0.05, 0.1, 0.2, 0.35, 0.45])  # at 0.5 tails equal delta but for rounding
coarse = st.lists(st.tuples(st.integers(0, 12).map(lambda k: k / 12), st.booleans()), max_size=80)
fine = st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from([True] * 9 + [False])), max_size=80)


def split(items):
    return np.array([p for p, _ in items]), np.array([y for _, y in items], dtype=bool)


@settings(deadline=None)
@given(n=st.integers(0, 20_000), share=st.floats(0.0, 1.0), rate=st.floats(0.0, 1.0))
@example(n=10, share=0.5, rate=1.0)
def test_tails_are_scipys(n, share, rate):
    k = int(share * n)
    assert lower_tail(k, n, rate) == pytest.approx(binom.cdf(k, n, rate), rel=1e-8, abs=1e-200)


@settings(deadline=None)
@given(n=st.integers(1, 300), share=st.floats(0.0, 1.0), rate=st.floats(0.001, 0.999))
def test_small_tails_are_exact_where_scipy_is_not(n, share, rate):
    k, p = int(share * n), Fraction(rate)
    exact = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))
    assert lower_tail(k, n, rate) == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize(
    ("rate", "delta"),
    [(0.1, 0.1), (0.05, 0.05), (0.2, 0.2), (0.3, 1e-3), (0.01, 0.1), (0.1, 1e-6), (0.9, 0.9)],
)
def test_the_edge_of_the_rejection_region_is_scipys(rate, delta):
    least = least_trials(rate, delta, 20_000)
    errors = np.arange(least.size)
    assert np.all(np.diff(least) > 0)
    assert np.all(binom.cdf(errors, least, rate) <= delta)
    assert np.all(binom.cdf(errors, least - 1, rate) > delta)
    assert binom.cdf(least.size, 20_000, rate) > delta


def test_the_fewest_labels_follow_from_risk_and_delta():
    for risk in (0.01, 0.05, 0.1, 0.3, 0.7):
        for delta in (0.001, 0.05, 0.1, 0.5, 0.9):
            k = fewest_labels(risk, delta)
            assert (1 - risk) ** k <= delta
            assert k == 1 or (1 - risk) ** (k - 1) > delta
    assert fewest_labels() == 22
    assert certify([0.9], [True], 1e-9).reason == "not enough labels yet: 1 of 2302585092"


def step_by_step(p, y, risk, delta, least_share):
    """The fixed sequence as the source describes it, one test after the other."""
    last = None
    tested = set()
    for k in range(1, p.size + 1):
        errors_that_would_do = np.flatnonzero(binom.cdf(np.arange(k + 1), k, risk) <= delta)
        before = np.flatnonzero(binom.cdf(np.arange(k), k - 1, risk) <= delta)
        if k < p.size and len(errors_that_would_do) == len(before):
            continue  # no further error has become tolerable
        accepted = p >= np.sort(p)[::-1][k - 1]
        count = int(accepted.sum())
        if count in tested or count < least_share * p.size:
            continue
        tested.add(count)
        if binom.cdf(int(np.sum(~y[accepted])), count, risk) > delta:
            break
        last = float(p[accepted].min())
    return last


@settings(deadline=None, max_examples=200)
@given(
    items=st.one_of(coarse, fine),
    risk=levels,
    delta=levels,
    least_share=st.sampled_from([0.0, 0.02, 0.2, 0.9, 1.0]),
)
def test_the_fixed_sequence_step_by_step(items, risk, delta, least_share):
    p, y = split(items)
    found = certify(p, y, risk, delta, least_share=least_share)
    assert found.threshold == step_by_step(p, y, risk, delta, least_share)
    assert (found.n, found.risk, found.delta, found.revoked) == (p.size, risk, delta, False)
    if found.threshold is None:
        assert (found.accepted, found.errors, found.p_value) == (0, 0, None)
    else:
        accepted = p >= found.threshold
        assert found.accepted == accepted.sum() >= fewest_labels(risk, delta)
        assert found.errors == np.sum(~y[accepted])
        assert found.p_value == pytest.approx(binom.cdf(found.errors, found.accepted, risk))
        assert found.p_value <= delta


def test_reasons_say_what_is_missing():
    assert certify([], []).reason == "not enough labels yet: 0 of 22"
    assert certify([0.9] * 21, [True] * 21).reason == "not enough labels yet: 21 of 22"
    descending = np.linspace(1, 0, 100)
    right = np.ones(100, dtype=bool)
    right[:2] = False
    assert certify(descending, right).reason == "2 of the 22 most confident were wrong, where none may be"
    wrong = "31 of the 100 most confident were wrong, where at most 5 may be"
    assert certify(np.ones(100), np.arange(100) > 30).reason == wrong
    right[:2] = True
    right[60:] = False
    found = certify(descending, right)
    assert (found.threshold, found.accepted, found.errors) == (descending[51], 52, 0)
    words = "at most 10 % of those at 0.485 and above are wrong, with 90 % confidence"
    assert found.reason == f"{words}: 0 of 52 labels were"


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_impossible_promises_are_refused(bad):
    for arguments in ({"risk": bad}, {"delta": bad}):
        with pytest.raises(DataError, match="strictly between"):
            certify([0.9], [True], **arguments)
        with pytest.raises(DataError, match="strictly between"):
            fewest_labels(**arguments)
    if not 0.0 <= bad <= 1.0:
        with pytest.raises(DataError, match="least_share"):
            certify([0.9], [True], least_share=bad)


def test_arrays_that_do_not_fit_are_refused():
    for p, y in [([0.5], []), ([math.nan], [True]), ([1.2], [True]), ([[0.5]], [[True]])]:
        with pytest.raises(DataError):
            certify(p, y)


def test_a_revoked_certificate_promises_nothing_and_stays_so():
    found = certify([0.9] * 40, [True] * 40, calibrator="line-x-1")
    assert found.calibrator == "line-x-1"
    gone = found.revoke("because")
    assert (gone.threshold, gone.p_value, gone.revoked, gone.reason) == (None, None, True, "because")
    assert gone.revoke("again") == gone


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
    assert Watch(promise()).after([0.79] * 100, [False] * 100) == Watch(promise())
    assert Watch(promise()).after([0.8], [False]).seen == 1


def test_it_says_why_and_stays_revoked():
    watch = Watch(promise()).after([0.9] * 30, [False] * 30)
    assert watch.certificate.threshold is None
    assert watch.certificate.reason == "revoked: 3 of 3 accepted since were wrong, of late more than 10 %"
    assert watch.after([0.9] * 1000, [True] * 1000) == watch


def test_very_many_labels_do_not_overflow():
    rng = np.random.default_rng(0)
    watch = Watch(promise()).after(np.full(300_000, 0.9), rng.random(300_000) < 0.97)
    assert not watch.certificate.revoked
    assert all(math.isfinite(value) for value in watch.log_evidence)
    assert watch.after(np.full(200, 0.9), rng.random(200) < 0.6).certificate.revoked
