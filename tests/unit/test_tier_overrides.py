"""Overrides make tiers stricter somewhere, and never milder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_calibration_calibrator import make, platt

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.certificates import certify
from lsp_calib.calibration.tiers import PRESETS, Policy, RiskPolicy, StricterPolicy
from lsp_calib.values import Evidence, Override, Tier

CERTIFIED = RiskPolicy(certificate=certify([0.9] * 22, [True] * 22))
ORDER = [Tier.REJECT, Tier.REVIEW, Tier.ACCEPT]
SURE = Evidence((-0.05,))
shares = st.floats(0, 1)


policies = st.sampled_from([*PRESETS.values(), RiskPolicy(), CERTIFIED])


@given(policies, shares, shares, st.none() | shares, st.sampled_from(["prior", "personal"]))
def test_a_tier_never_gets_milder(
    base: Policy, accept: float, reject: float, probability: float | None, source: str
) -> None:
    before, words = base.decide(probability, source=source)
    tier, reason = StricterPolicy(base, accept, reject).decide(probability, source=source)
    assert ORDER.index(tier) <= ORDER.index(before)
    assert reason.startswith(words)
    assert (tier is before) == (reason == words)
    if probability is not None and probability < reject:
        assert tier is Tier.REJECT
    if probability is not None and probability < accept:
        assert tier is not Tier.ACCEPT


@pytest.fixture
def estimator(tmp_path: Path) -> ConfidenceEstimator:
    calibrator = make(**platt(1.0, 0.0))
    calibrator.save(tmp_path / "shipped" / "one.json")
    return ConfidenceEstimator(CalibratorStore(tmp_path / "mine", tmp_path / "shipped"))


@pytest.mark.parametrize(
    ("override", "document", "tier"),
    [
        (Override(language="python", accept_from=0.99), "", Tier.REVIEW),
        (Override(language="rust", accept_from=0.99), "", Tier.ACCEPT),
        (Override(path="crypto/**", accept_from=0.99), "file:///a/crypto/keys/b.py", Tier.REVIEW),
        (Override(path="crypto/**", accept_from=0.99), "file:///a/plain/b.py", Tier.ACCEPT),
        (Override(path="crypto/**", accept_from=0.99), "", Tier.ACCEPT),
        (Override(language="rust", path="crypto/**", reject_below=1.0), "file:///crypto/b.py", Tier.ACCEPT),
        (Override(path="*.py", reject_below=0.99), "file:///a/b.py", Tier.REJECT),
    ],
)
def test_it_counts_where_language_and_path_both_fit(
    estimator: ConfidenceEstimator, override: Override, document: str, tier: Tier
) -> None:
    estimator.overrides = (override,)
    purpose = make().purpose
    found = estimator.of(purpose, document).assess(SURE)
    assert found.tier is tier
    assert ("tiers.overrides" in found.reason) == (tier is not Tier.ACCEPT)
    block, _ = estimator.tier(found.calibrated, found, language="python", document=document)
    assert block is tier
    assert found.calibrated is not None
    (other,) = estimator.of(purpose, document).alternatives(0.0, [(found.calibrated, SURE)])
    assert other.tier is (Tier.REJECT if tier is Tier.REJECT else Tier.REVIEW)


def test_of_several_the_strictest_counts(estimator: ConfidenceEstimator) -> None:
    both = Override(language="python", accept_from=0.9), Override(path="a/**", accept_from=0.99)
    estimator.overrides = both
    purpose = make().purpose
    tiers = [estimator.of(purpose, document).assess(SURE).tier for document in ("/b/c.py", "/a/c.py")]
    assert tiers == [Tier.ACCEPT, Tier.REVIEW]
