"""The policy of the tiers that the settings ask for."""

from __future__ import annotations

from lsp_calib.calibration.policies.choice import TierWishes, policy_of
from lsp_calib.calibration.policies.tiers import Policy
from lsp_calib.settings.table import DEFAULTS, Settings, Trusted


def tier_policy(trusted: Trusted, settings: Settings = DEFAULTS) -> tuple[Policy, list[str]]:
    """The policy, and a sentence for each setting of a workspace that would loosen it and does not count."""
    return policy_of(
        TierWishes(
            policy=settings.policy,
            preset=settings.preset,
            accept_from=settings.accept_from,
            reject_below=settings.reject_below,
            risk=settings.risk,
            delta=settings.delta,
            own_policy=trusted.policy,
            own_risk=trusted.risk,
            own_delta=trusted.delta,
            wrong_accepted=trusted.wrong_accepted,
            right_rejected=trusted.right_rejected,
        )
    )
