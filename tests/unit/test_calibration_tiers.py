"""Tiers: the thresholds as written, and reasons that never contradict them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration import PRESETS, TierPolicy
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
    if (
        shown
        and abs(probability - policy.accept_from) > 1e-6
        and abs(probability - policy.reject_below) > 1e-6
    ):
        number = float(shown[1]) / 100
        assert (number < policy.accept_from) == (probability < policy.accept_from)
        assert (number < policy.reject_below) == (probability < policy.reject_below)


def test_a_guess_from_other_models_is_never_accepted_and_says_so():
    tier, reason = TierPolicy().decide(0.95, source="prior")
    assert tier is Tier.REVIEW
    assert "no labels" in reason
    assert "never better than review" in reason
    assert TierPolicy().decide(0.1, source="prior")[0] is Tier.REJECT


def test_presets_get_stricter():
    cautious, balanced, lenient = (PRESETS[name] for name in ("cautious", "balanced", "lenient"))
    assert (balanced.accept_from, balanced.reject_below) == (0.8, 0.3)
    assert cautious.accept_from > balanced.accept_from > lenient.accept_from
    assert cautious.reject_below > balanced.reject_below > lenient.reject_below
    assert all(policy.name == name for name, policy in PRESETS.items())


@pytest.mark.parametrize(("accept", "reject"), [(0.3, 0.8), (1.1, 0.3), (0.8, -0.1), (math.nan, 0.3)])
def test_thresholds_out_of_order_are_refused(accept, reject):
    with pytest.raises(DataError, match="thresholds"):
        TierPolicy(accept, reject)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_what_is_no_probability_is_refused(bad):
    with pytest.raises(DataError):
        TierPolicy().decide(bad, source="shipped")
