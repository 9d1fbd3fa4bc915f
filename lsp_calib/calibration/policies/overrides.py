"""Stricter tiers in some languages or at some paths. An override never makes a tier milder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from lsp_calib.values import Tier

if TYPE_CHECKING:  # settings are read before numpy is imported
    from lsp_calib.calibration.policies.tiers import Policy


@attrs.frozen(kw_only=True)
class Override:
    """Thresholds for the documents of a language, or at a path, or both.

    language: an identifier; None: all. path: a pattern as in `exclusion`; None: all.
    accept_from: below it nothing is accepted; 0: no more than the policy says. reject_below: below it all is
        rejected. Both in [0, 1].
    """

    language: str | None = None
    path: str | None = None
    accept_from: float = 0.0
    reject_below: float = 0.0


@attrs.frozen
class StricterPolicy:
    """A policy, and beside it thresholds: of the two tiers the more careful one counts."""

    base: Policy
    accept_from: float
    reject_below: float

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def certified(self) -> bool:
        return self.base.certified

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """As `Policy.decide`."""
        tier, reason = self.base.decide(probability, source=source)
        if probability is None:
            return tier, reason
        if probability < self.reject_below and tier is not Tier.REJECT:
            return (
                Tier.REJECT,
                f"{reason}; here rejected below {_percent(self.reject_below)} (tiers.overrides)",
            )
        if probability < self.accept_from and tier is Tier.ACCEPT:
            return (
                Tier.REVIEW,
                f"{reason}; below {_percent(self.accept_from)}, as tiers.overrides has it here",
            )
        return tier, reason

    def for_calibrator(self, identifier: str) -> Self:
        return attrs.evolve(self, base=self.base.for_calibrator(identifier))


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
