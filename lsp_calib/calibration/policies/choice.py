"""Which policy makes the tiers, from what a user and a workspace have set: the stricter of the two counts."""

from __future__ import annotations

from typing import Literal

import attrs

from lsp_calib.calibration.policies.certificates import Certificate
from lsp_calib.calibration.policies.tiers import (
    COST_PRESETS,
    PRESETS,
    RISK_PRESETS,
    CostPolicy,
    Policy,
    RiskPolicy,
    TierPolicy,
)
from lsp_calib.errors import DataError

PolicyName = Literal["threshold", "risk", "cost"]

MOST_RISK = MOST_DELTA = 0.1
"""What a promise may be at the loosest, where the user has not allowed more."""


@attrs.frozen(kw_only=True)
class TierWishes:
    """What is set of the tiers; None: nothing.

    policy, risk, delta: by the editor or a workspace. own_policy, own_risk, own_delta, wrong_accepted,
    right_rejected: by the user alone. The numbers are those of `TierPolicy`, `RiskPolicy` and `CostPolicy`.
    """

    policy: PolicyName = "threshold"
    preset: str = "balanced"
    accept_from: float | None = None
    reject_below: float | None = None
    risk: float | None = None
    delta: float | None = None
    own_policy: PolicyName | None = None
    own_risk: float | None = None
    own_delta: float | None = None
    wrong_accepted: float | None = None
    right_rejected: float | None = None


def policy_of(wishes: TierWishes) -> tuple[Policy, list[str]]:
    """The policy, and a sentence for each wish that is not followed.

    A workspace may ask for a certificate where the user does not, never the other way round; its risk and
    delta count where they are not above the user's (0.1 each, unless the user has set another).
    """
    named = "risk" if wishes.policy == "risk" else wishes.own_policy or wishes.policy
    if named == "cost":
        return _by_cost(wishes), []
    if named == "threshold":
        return _by_threshold(wishes), []
    preset = RISK_PRESETS[wishes.preset]
    risk, problem = _stricter("risk", wishes.risk, wishes.own_risk, preset.risk, MOST_RISK)
    delta, other = _stricter("delta", wishes.delta, wishes.own_delta, preset.delta, MOST_DELTA)
    reject = preset.reject_below if wishes.reject_below is None else wishes.reject_below
    uncovered = Certificate(
        threshold=None,
        reason="certificates cover single lines",
        n=0,
        accepted=0,
        errors=0,
        risk=risk,
        delta=delta,
    )
    policy = RiskPolicy(risk, delta, reject, preset.name, uncovered)
    return policy, [sentence for sentence in (problem, other) if sentence]


def _stricter(
    name: str, wished: float | None, own: float | None, preset: float, most: float
) -> tuple[float, str]:
    limit = most if own is None else own
    if wished is None:
        return (min(preset, most) if own is None else own), ""
    if wished <= limit:
        return wished, ""
    return limit, (
        f"lspCalib.tiers.{name} {wished:g} is above {limit:g}, the most that counts from an editor or a "
        f"workspace; {limit:g} is used. To allow more, set tiers.{name} in config.toml or under trusted."
    )


def _by_cost(wishes: TierWishes) -> CostPolicy:
    preset = COST_PRESETS[wishes.preset]
    wrong = preset.wrong_accepted if wishes.wrong_accepted is None else wishes.wrong_accepted
    right = preset.right_rejected if wishes.right_rejected is None else wishes.right_rejected
    return attrs.evolve(preset, wrong_accepted=wrong, right_rejected=right)


def _by_threshold(wishes: TierWishes) -> TierPolicy:
    preset = PRESETS[wishes.preset]
    accept = preset.accept_from if wishes.accept_from is None else wishes.accept_from
    reject = preset.reject_below if wishes.reject_below is None else wishes.reject_below
    try:
        return attrs.evolve(preset, accept_from=accept, reject_below=reject)
    except DataError:
        # Only one threshold is set, and it lies beyond the preset's other one, which follows it.
        both = reject if wishes.accept_from is None else accept
        return attrs.evolve(preset, accept_from=both, reject_below=both)
