"""Tiers: the thresholds as written, and reasons that never contradict them."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.certificates import certify
from lsp_calib.calibration.tiers import PRESETS, RiskPolicy, TierPolicy
from lsp_calib.errors import DataError
from lsp_calib.values import Tier


@pytest.mark.parametrize(
    ("probability", "tier", "reason"),
    [
        (0.12, Tier.REJECT, "about 12 % likely to be right; below 30 %"),
        (0.3, Tier.REVIEW, "about 30 % likely to be right; between 30 % and 80 %"),
        (0.8, Tier.ACCEPT, "about 80 % likely to be right; at least 80 %"),
        (0.7996, Tier.REVIEW, "about 79.96 % likely to be right; between 30 % and 80 %"),
        (0.2999, Tier.REJECT, "about 29.99 % likely to be right; below 30 %"),
        (1.0, Tier.ACCEPT, "more than 99 % likely to be right; at least 80 %"),
        (0.0, Tier.REJECT, "less than 1 % likely to be right; below 30 %"),
        (None, Tier.REVIEW, "the model gave no probabilities"),
    ],
)
def test_the_balanced_policy_in_numbers_and_words(probability, tier, reason):
    assert TierPolicy().decide(probability, source="shipped") == (tier, reason)


@given(probability=st.floats(0.0, 1.0), preset=st.sampled_from(sorted(PRESETS)), source=st.sampled_from("ps"))
def test_tiers_follow_the_thresholds(probability, preset, source):
    policy = PRESETS[preset]
    tier, reason = policy.decide(probability, source={"p": "prior", "s": "shipped"}[source])
    if probability < policy.reject_below:
        assert tier is Tier.REJECT
    elif probability < policy.accept_from or source == "p":
        assert tier is Tier.REVIEW
    else:
        assert tier is Tier.ACCEPT
    shown = re.match(r"about ([\d.]+) %", reason)
    thresholds = (policy.accept_from, policy.reject_below)
    if shown and all(abs(probability - one) > 1e-6 for one in thresholds):
        for one in thresholds:
            assert (float(shown[1]) / 100 < one) == (probability < one)


def test_presets_get_stricter():
    cautious, balanced, lenient = (PRESETS[name] for name in ("cautious", "balanced", "lenient"))
    assert (balanced.accept_from, balanced.reject_below) == (0.78, 0.25)
    assert cautious.accept_from > balanced.accept_from > lenient.accept_from
    # The best thresholds where a wrong unread line costs 4.5 and 10 readings.
    costs = [1.0 / (1.0 - policy.accept_from) for policy in (balanced, cautious)]
    assert costs == pytest.approx([4.5, 10.0], rel=0.02)
    assert cautious.reject_below > balanced.reject_below > lenient.reject_below
    assert all(policy.name == name for name, policy in PRESETS.items())


@pytest.mark.parametrize(("accept", "reject"), [(0.3, 0.8), (1.1, 0.3), (0.8, -0.1), (math.nan, 0.3)])
def test_thresholds_out_of_order_are_refused(accept, reject):
    with pytest.raises(DataError, match="thresholds"):
        TierPolicy(accept, reject)


def test_what_is_no_probability_is_refused():
    for bad in (math.nan, -0.1, 1.1):
        with pytest.raises(DataError):
            TierPolicy().decide(bad, source="shipped")


def certified(confidence=0.85, n=60, risk=0.1, delta=0.1, calibrator=""):
    return certify(np.full(n, confidence), np.ones(n, dtype=bool), risk, delta, calibrator=calibrator)


@pytest.mark.parametrize(
    ("probability", "tier", "reason"),
    [
        (0.9, Tier.ACCEPT, "about 90 % likely to be right; at least 85 %, where at most 10 % are wrong "
                           "(certified on 60 labels)"),
        (0.84, Tier.REVIEW, "about 84 % likely to be right; between 30 % and 85 %"),
        (0.1, Tier.REJECT, "about 10 % likely to be right; below 30 %"),
        (None, Tier.REVIEW, "the model gave no probabilities"),
    ],
)  # fmt: skip
def test_by_risk_with_a_certificate(probability, tier, reason):
    policy = RiskPolicy(certificate=certified())
    assert policy.certified
    assert policy.decide(probability, source="workspace") == (tier, reason)


def test_by_risk_nothing_is_accepted_without_a_certificate_and_the_reason_says_why():
    policy = RiskPolicy(certificate=certify(np.full(17, 0.9), np.ones(17)))
    assert not policy.certified
    assert policy.decide(0.99, source="personal") == (
        Tier.REVIEW,
        "about 99 % likely to be right; at least 30 %; nothing is certified to be accepted: "
        "not enough labels yet: 17 of 22",
    )
    assert policy.decide(0.1, source="personal")[0] is Tier.REJECT
    assert "0 of 22" in RiskPolicy().decide(0.99, source="personal")[1]
    assert policy.decide(None, source="personal") == (Tier.REVIEW, "the model gave no probabilities")


def test_a_revoked_promise_accepts_nothing():
    policy = RiskPolicy(certificate=certified().revoke("revoked: 9 of 12 accepted since were wrong"))
    assert not policy.certified
    tier, reason = policy.decide(0.99, source="personal")
    assert tier is Tier.REVIEW
    assert reason.endswith("revoked: 9 of 12 accepted since were wrong")


def test_a_promise_holds_for_the_calibrator_it_was_made_for():
    policy = RiskPolicy(certificate=certified(calibrator="line-a"))
    assert policy.for_calibrator("line-a") == policy
    other = policy.for_calibrator("line-b")
    assert not other.certified
    assert other.decide(0.99, source="shipped")[1].endswith("the promise was made for calibrator line-a")
    assert RiskPolicy(certificate=certified()).for_calibrator("line-b").certified


def test_a_prior_is_not_accepted_whatever_was_promised():
    policy = RiskPolicy(certificate=certified())
    assert policy.decide(0.99, source="prior")[0] is Tier.REVIEW


def test_what_is_to_be_rejected_is_never_accepted():
    policy = RiskPolicy(reject_below=0.5, certificate=certified(0.4))
    assert policy.decide(0.45, source="personal")[0] is Tier.REJECT
    assert policy.decide(0.5, source="personal")[0] is Tier.ACCEPT


def test_a_risk_policy_refuses_what_it_cannot_promise():
    for name in ("risk", "delta"):
        with pytest.raises(DataError, match="promises less"):
            RiskPolicy(**{name: 0.05}, certificate=certified(**{name: 0.1}))
    assert RiskPolicy(risk=0.2, certificate=certified(risk=0.1)).certified
    for wrong in ({"risk": 0.0}, {"delta": 1.0}, {"reject_below": math.nan}):
        with pytest.raises(DataError):
            RiskPolicy(**wrong)


@given(threshold=st.floats(0.3, 1.0), near=st.sampled_from([0, 1, -1]), gap=st.floats(0.0, 1e-4))
def test_a_computed_threshold_is_never_contradicted_in_words(threshold, near, gap):
    policy = RiskPolicy(certificate=certified(threshold))
    probability = min(max(threshold + near * gap, 0.3), 1.0)
    tier, reason = policy.decide(probability, source="personal")
    assert (tier is Tier.ACCEPT) == (probability >= threshold)
    shown = re.match(r"about ([\d.]+) %.*(?:at least|and) ([\d.]+) %", reason.split(", where")[0])
    if shown and abs(probability - threshold) > 1e-12:
        assert (float(shown[1]) < float(shown[2])) == (probability < threshold)
