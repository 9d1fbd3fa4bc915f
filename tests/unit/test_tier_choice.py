"""Which policy makes the tiers: the user may loosen it, a workspace may only be stricter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration import CostPolicy, RiskPolicy, TierPolicy
from lsp_calib.calibration.policies.choice import TierWishes, policy_of
from lsp_calib.calibration.policies.ledger import AS_BEFORE, Promise
from lsp_calib.commands.engine import estimator_for, settings_in_force
from lsp_calib.commands.refit import wish_of
from lsp_calib.settings import Settings, Trusted, parse, parse_trusted
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.values import Tier

shares = st.none() | st.floats(0.001, 0.999)
names = st.sampled_from(["threshold", "risk", "cost"])
presets = st.sampled_from(["cautious", "balanced", "lenient"])


@pytest.mark.parametrize(
    ("own", "workspace", "kind"),
    [
        (None, "threshold", TierPolicy),
        (None, "risk", RiskPolicy),
        (None, "cost", CostPolicy),
        ("risk", "threshold", RiskPolicy),
        ("risk", "cost", RiskPolicy),
        ("cost", "threshold", CostPolicy),
        ("cost", "risk", RiskPolicy),
        ("threshold", "cost", TierPolicy),
    ],
)
def test_a_workspace_cannot_take_the_users_promise_away(own: Any, workspace: Any, kind: type) -> None:
    policy, problems = tier_policy(Trusted(policy=own), Settings(policy=workspace))
    assert isinstance(policy, kind)
    assert problems == []


@given(presets, shares, shares, shares, shares)
def test_the_numbers_of_a_workspace_never_exceed_the_users(
    preset: str, risk: float | None, delta: float | None, own_risk: float | None, own_delta: float | None
) -> None:
    policy, problems = policy_of(
        TierWishes(
            policy="risk", preset=preset, risk=risk, delta=delta, own_risk=own_risk, own_delta=own_delta
        )
    )
    assert isinstance(policy, RiskPolicy)
    assert policy.risk <= (0.1 if own_risk is None else own_risk)
    assert policy.delta <= (0.1 if own_delta is None else own_delta)
    refused = (risk or 0.0) > policy.risk, (delta or 0.0) > policy.delta
    assert len(problems) == sum(refused)


@given(
    threshold=st.floats(0.01, 0.99), preset=presets, which=st.sampled_from(["accept_from", "reject_below"])
)
def test_a_threshold_beyond_the_presets_other_one_takes_that_along(
    threshold: float, preset: str, which: str
) -> None:
    policy, problems = policy_of(TierWishes(preset=preset, **{which: threshold}))
    assert isinstance(policy, TierPolicy)
    assert problems == []
    assert getattr(policy, which) == threshold
    assert policy.reject_below <= policy.accept_from


def test_what_does_not_count_is_said_and_how_to_set_it() -> None:
    settings, _ = parse({"tiers": {"policy": "risk", "risk": 0.3}})
    policy, (problem,) = tier_policy(Trusted(), settings)
    assert isinstance(policy, RiskPolicy)
    assert policy.risk == 0.1
    assert problem == (
        "lspCalib.tiers.risk 0.3 is above 0.1, the most that counts from an editor or a workspace; 0.1 is "
        "used. To allow more, set tiers.risk in config.toml or under trusted."
    )
    trusted, _ = parse_trusted({"tiers": {"risk": 0.3}})
    policy, problems = tier_policy(trusted, settings)
    assert isinstance(policy, RiskPolicy)
    assert (policy.risk, problems) == (0.3, [])


def test_the_costs_are_the_users() -> None:
    trusted, problems = parse_trusted({"tiers": {"policy": "cost", "costs": {"wrongAccepted": 10}}})
    assert problems == []
    policy, _ = tier_policy(trusted, Settings())
    assert policy == CostPolicy(wrong_accepted=10.0, right_rejected=4.0)
    assert policy.decide(0.89, source="personal")[0] is Tier.REVIEW
    assert policy.decide(0.91, source="personal")[0] is Tier.ACCEPT
    _, problems = parse({"tiers": {"costs": {"wrongAccepted": 1}}})
    assert problems == ["lspCalib.tiers.costs is not a setting; it is ignored."]


def test_by_risk_nothing_is_accepted_without_a_certificate() -> None:
    policy, _ = tier_policy(Trusted(), Settings(policy="risk"))
    assert policy.decide(0.999, source="personal")[0] is Tier.REVIEW
    assert not policy.certified


def test_commands_follow_the_users_own_policy(home: Path) -> None:
    """Without one, a refit goes on as the editor last asked, and tiers are by threshold."""
    assert wish_of(Trusted()) == "as before"
    assert isinstance(estimator_for(Trusted()).policy, TierPolicy)
    (home / "config.toml").write_text('[tiers]\npolicy = "risk"\nrisk = 0.2\n')
    trusted = settings_in_force(Trusted(), pytest.fail)
    assert wish_of(trusted) == Promise(risk=0.2, measure=AS_BEFORE)
    policy = estimator_for(Trusted()).policy
    assert isinstance(policy, RiskPolicy)
    assert policy.risk == 0.2
    assert wish_of(Trusted(policy="cost")) is None
