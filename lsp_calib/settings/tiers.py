"""The policy of the tiers that the settings ask for."""

from __future__ import annotations

from lsp_calib.calibration.tiers import Policy, TierWishes, policy_of
from lsp_calib.settings.parsing import not_counted
from lsp_calib.settings.table import DEFAULTS, Settings, Trusted


def tier_policy(trusted: Trusted, settings: Settings = DEFAULTS) -> tuple[Policy, list[str]]:
    """The policy, and a message for each setting of a workspace that would loosen it and does not count."""
    own = TierWishes(
        policy=trusted.policy,
        preset=trusted.preset,
        accept_from=trusted.accept_from,
        reject_below=trusted.reject_below,
        risk=trusted.risk,
        delta=trusted.delta,
        wrong_accepted=trusted.wrong_accepted,
        right_rejected=trusted.right_rejected,
    )
    wished = TierWishes(
        policy=settings.policy,
        preset=settings.preset,
        accept_from=settings.accept_from,
        reject_below=settings.reject_below,
        risk=settings.risk,
        delta=settings.delta,
    )
    policy, refused = policy_of(own, wished)
    return policy, [not_counted(f"tiers.{one.key}", one.wished, one.held, one.words) for one in refused]
