"""Which policy makes the tiers: the user may loosen it, a workspace may only be stricter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lsp_calib.calibration.certificates import AS_BEFORE, Promise
from lsp_calib.calibration.tiers import (
    PRESETS,
    SUMMARY_PRESETS,
    CostPolicy,
    RiskPolicy,
    TierPolicy,
    TierWishes,
    policy_of,
    summary_policy,
)
from lsp_calib.commands.calibrators import wish_of
from lsp_calib.commands.engine import estimator_for, settings_in_force
from lsp_calib.settings import Settings, Trusted, parse, parse_trusted, resolve_trusted
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.values import Tier

shares = st.none() | st.floats(0.001, 0.999)
names = st.sampled_from(["threshold", "risk", "cost"])
presets = st.sampled_from(["cautious", "balanced", "lenient"])


numbers = st.none() | st.floats(0.0, 1.0)
wishes = st.builds(
    TierWishes,
    policy=st.none() | names,
    preset=st.none() | presets,
    accept_from=numbers,
    reject_below=numbers,
    risk=shares,
    delta=shares,
)
costs = st.none() | st.floats(1.0, 1000.0)
MILD = ("reject", "review", "accept")


@given(wishes, wishes, costs, costs, st.floats(0.0, 1.0))
def test_settings_only_make_the_tiers_of_summaries_stricter(
    own: TierWishes, wished: TierWishes, wrong: float | None, right: float | None, p: float
) -> None:
    """Whatever is wanted of lines, no summary gets a milder tier than by the default."""
    own = attrs.evolve(own, wrong_accepted=wrong, right_rejected=right)
    policy, _ = policy_of(own, wished)
    tier, _ = summary_policy(policy).decide(p, source="shipped")
    usual, _ = SUMMARY_PRESETS["balanced"].decide(p, source="shipped")
    assert MILD.index(tier.value) <= MILD.index(usual.value)


def test_the_tiers_of_summaries_are_their_own() -> None:
    """What a preset says of lines is not said of summaries; what a user has raised is."""

    def tiers(own: TierWishes, preset: str | None = None) -> list[str]:
        policy = summary_policy(policy_of(own, TierWishes(preset=preset))[0])
        return [policy.decide(p, source="shipped")[0].value for p in (0.19, 0.21, 0.59, 0.61, 0.9)]

    usual = ["reject", "review", "review", "accept", "accept"]
    assert tiers(TierWishes()) == usual
    assert tiers(TierWishes(preset="lenient")) == usual
    assert tiers(TierWishes(policy="cost")) == usual
    cautious = ["reject", "reject", "review", "review", "accept"]
    for policy in ("threshold", "cost"):
        assert tiers(TierWishes(policy=policy), "cautious") == cautious
    assert tiers(TierWishes(accept_from=0.3, reject_below=0.0)) == usual
    assert tiers(TierWishes(preset="cautious")) == ["reject", "reject", "review", "review", "accept"]
    assert tiers(TierWishes(accept_from=0.8)) == ["reject", "review", "review", "review", "accept"]
    assert tiers(TierWishes(policy="risk")) == ["reject", "review", "review", "review", "review"]


@pytest.mark.parametrize(
    ("own", "workspace", "kind", "refused"),
    [
        (None, "threshold", TierPolicy, None),
        (None, "risk", RiskPolicy, None),
        (None, "cost", TierPolicy, "threshold"),
        ("risk", "threshold", RiskPolicy, "risk"),
        ("risk", "cost", RiskPolicy, "risk"),
        ("cost", "threshold", CostPolicy, "cost"),
        ("cost", "risk", RiskPolicy, None),
        ("threshold", "cost", TierPolicy, "threshold"),
    ],
)
def test_a_workspace_may_only_ask_for_a_promise(own: Any, workspace: Any, kind: type, refused: Any) -> None:
    policy, problems = tier_policy(Trusted(policy=own), Settings(policy=workspace))
    assert isinstance(policy, kind)
    assert [f'"{refused}" does:' in problem for problem in problems] == [True] * (refused is not None)


@example(TierWishes(accept_from=0.9), None, None, TierWishes(preset="cautious"), 0.75, 0.8)
@given(wishes, costs, costs, wishes, st.floats(0.0, 1.0), st.floats(0.5, 0.9))
def test_no_probability_gets_a_milder_tier_by_what_a_workspace_says(
    own: TierWishes, wrong: float | None, right: float | None, wished: TierWishes, p: float, certified: float
) -> None:
    """Whatever both say: by threshold, by cost, and with the same certificate by risk."""
    own = attrs.evolve(own, wrong_accepted=wrong, right_rejected=right)
    alone, both = policy_of(own)[0], policy_of(own, wished)[0]
    tiers = []
    for policy in (alone, both):
        if isinstance(policy, RiskPolicy):
            promised = attrs.evolve(
                policy.certificate, threshold=certified, risk=policy.risk, delta=policy.delta, accepted=99
            )
            policy = attrs.evolve(policy, certificate=promised)
        tiers.append(policy.decide(p, source="personal")[0].value)
    assert MILD.index(tiers[1]) <= MILD.index(tiers[0])
    of_summaries = [summary_policy(one).decide(p, source="personal")[0].value for one in (alone, both)]
    assert MILD.index(of_summaries[1]) <= MILD.index(of_summaries[0])
    if isinstance(alone, RiskPolicy):
        assert isinstance(both, RiskPolicy)
        assert (both.risk <= alone.risk, both.delta <= alone.delta) == (True, True)


@given(wishes)
def test_a_workspace_that_repeats_what_the_user_says_changes_nothing(own: TierWishes) -> None:
    """VS Code merges the user's settings into what it calls the workspace's."""
    assume(own.accept_from is None or own.accept_from >= (own.reject_below or 0.0))
    assert policy_of(own, own) == policy_of(own)
    assert policy_of(own)[1] == []


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


@pytest.mark.parametrize(
    ("tiers", "refused"),
    [
        ({"acceptFrom": 0.0}, {"acceptFrom": "0.78"}),
        ({"preset": "lenient"}, {"preset": '"balanced"'}),
        ({"rejectBelow": 0.0}, {"rejectBelow": "0.25"}),
        ({"policy": "cost"}, {"policy": '"threshold"'}),
        ({"policy": "risk", "risk": 0.3, "confidence": 0.5}, {"risk": "0.1", "confidence": "0.9"}),
        (
            {"preset": "lenient", "acceptFrom": 0.9, "rejectBelow": 0.01},
            {"preset": '"balanced"', "rejectBelow": "0.25"},
        ),
    ],
)
def test_what_does_not_count_of_a_workspace_is_named_with_what_holds_and_where_to_set_it(
    tiers: dict[str, Any], refused: dict[str, str]
) -> None:
    settings, wrong = parse({"tiers": tiers})
    assert wrong == []
    policy, problems = tier_policy(Trusted(), settings)
    for problem, (key, held) in zip(problems, refused.items(), strict=True):
        assert problem.startswith(f"lspCalib.tiers.{key} ")
        assert f" does not count, {held} does: " in problem
        assert f"set tiers.{key} in config.toml or in VS Code's user settings" in problem
    assert policy.decide(0.77, source="personal")[0] is Tier.REVIEW
    assert policy.decide(0.24, source="personal")[0] is Tier.REJECT


@pytest.mark.usefixtures("home")
def test_the_user_may_have_milder_tiers_and_a_workspace_stricter_ones(home: Path) -> None:
    (home / "config.toml").write_text('tiers.preset = "lenient"\n')
    trusted, problems = resolve_trusted(Trusted(), Trusted())
    assert problems == []
    assert tier_policy(trusted) == (PRESETS["lenient"], [])
    assert tier_policy(trusted, Settings(preset="lenient")) == (PRESETS["lenient"], [])
    assert tier_policy(trusted, Settings(preset="cautious")) == (PRESETS["cautious"], [])
    (home / "config.toml").write_text("tiers = { acceptFrom = 0.5, rejectBelow = 0.05 }\n")
    trusted, _ = resolve_trusted(Trusted(), Trusted())
    policy, problems = tier_policy(trusted, Settings(accept_from=0.6))
    assert isinstance(policy, TierPolicy)
    assert (policy.accept_from, policy.reject_below, problems) == (0.6, 0.05, [])
    assert "0.4 does not count, 0.5 does" in tier_policy(trusted, Settings(accept_from=0.4))[1][0]


def test_thresholds_of_the_user_that_contradict_each_other_are_named(home: Path) -> None:
    (home / "config.toml").write_text("tiers = { acceptFrom = 0.2, rejectBelow = 0.6 }\n")
    trusted, (problem,) = resolve_trusted(Trusted(), Trusted())
    assert problem.startswith("config.toml: tiers: rejectBelow 0.6 is above acceptFrom 0.2")
    assert tier_policy(trusted) == (PRESETS["balanced"], [])


def test_the_costs_are_the_users() -> None:
    trusted, problems = parse_trusted({"tiers": {"policy": "cost", "costs": {"wrongAccepted": 10}}})
    assert problems == []
    policy, _ = tier_policy(trusted, Settings())
    assert isinstance(policy, CostPolicy)
    assert (policy.wrong_accepted, policy.right_rejected) == (10.0, 4.0)
    assert policy.decide(0.89, source="personal")[0] is Tier.REVIEW
    assert policy.decide(0.91, source="personal")[0] is Tier.ACCEPT
    _, problems = parse({"tiers": {"costs": {"wrongAccepted": 1}}})
    assert problems == ["lspCalib.tiers.costs is not a setting; it is ignored."]


def test_commands_follow_the_users_own_policy(home: Path) -> None:
    """Without one, a refit goes on as the editor last asked, and tiers are by threshold."""
    assert wish_of(Trusted()) == "as before"
    assert isinstance(estimator_for(settings_in_force()).policy, TierPolicy)
    (home / "config.toml").write_text('[tiers]\npolicy = "risk"\nrisk = 0.2\n')
    trusted = settings_in_force(Trusted(), pytest.fail)
    assert wish_of(trusted) == Promise(risk=0.2, measure=AS_BEFORE)
    policy = estimator_for(trusted).policy
    assert isinstance(policy, RiskPolicy)
    assert policy.risk == 0.2
    assert wish_of(Trusted(policy="cost")) is None
