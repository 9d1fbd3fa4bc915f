"""The policy of the tiers that the settings ask for."""

from __future__ import annotations

import attrs

from lsp_calib.calibration.tiers import Policy, TierWishes, TooMild, policy_of
from lsp_calib.settings.sources import not_counted
from lsp_calib.settings.table import DEFAULTS, Settings, Trusted


def tier_policy(trusted: Trusted, settings: Settings = DEFAULTS) -> tuple[Policy, list[str]]:
    """The policy, and a message for each setting of a workspace that would loosen it and does not count."""
    policy, refused = policy_of(_wishes(trusted), _wishes(settings))
    return policy, [_not_counted(one) for one in refused]


def _wishes(settings: Settings | Trusted) -> TierWishes:
    """The settings of the tiers; those of a workspace hold no costs."""
    own = (name for name in attrs.fields_dict(TierWishes) if name != "delta")
    named = {name: getattr(settings, name, None) for name in own}
    return TierWishes(**named, delta=_delta(settings.tiers_confidence))


def _delta(confidence: float | None) -> float | None:
    """The probability that a certificate's limit does not hold."""
    return None if confidence is None else round(1 - confidence, 12)


def _not_counted(refused: TooMild) -> str:
    if refused.key != "delta":
        return not_counted(f"tiers.{refused.key}", refused.wished, refused.held, refused.words)
    wished, held = (1 - float(one) for one in (refused.wished, refused.held))
    return not_counted("tiers.confidence", wished, held, "only raise it")
