"""From a calibrated probability to what a user should do."""

from __future__ import annotations

from types import MappingProxyType

import attrs

from lsp_calib.errors import DataError
from lsp_calib.values import Tier


@attrs.frozen
class TierPolicy:
    """Tiers by threshold: accept from `accept_from`, reject below `reject_below`, review between.

    Both in [0, 1], reject_below <= accept_from; raises DataError otherwise. A threshold promises nothing
    about the share of errors among accepted ones, so its tiers are never certified.
    """

    accept_from: float = 0.8
    reject_below: float = 0.3
    name: str = "balanced"

    def __attrs_post_init__(self) -> None:
        if not 0.0 <= self.reject_below <= self.accept_from <= 1.0:
            raise DataError(
                f"Tier thresholds must be in order in [0, 1]: reject below {self.reject_below}, "
                f"accept from {self.accept_from}."
            )

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """The tier, and why, in one plain sentence with the numbers.

        probability: calibrated, in [0, 1]; None if there is none (the tier is review).
        source: the calibrator's; one without labels ("prior") is never trusted beyond review.
        Raises DataError if the probability is NaN or outside [0, 1].
        """
        if probability is None:
            return Tier.REVIEW, "the model gave no probabilities"
        if not 0.0 <= probability <= 1.0:
            raise DataError(f"A probability must lie in [0, 1], not {probability}.")
        thresholds = (self.reject_below, self.accept_from)
        likely = f"{_percent(probability, thresholds)} likely to be right"
        accept, reject = f"{self.accept_from * 100:g} %", f"{self.reject_below * 100:g} %"
        if source == "prior":
            likely += ", as a borrowed calibrator has it: no labels of its own yet"
        if probability < self.reject_below:
            return Tier.REJECT, f"{likely}; below {reject}"
        if probability < self.accept_from:
            return Tier.REVIEW, f"{likely}; between {reject} and {accept}"
        if source == "prior":
            return Tier.REVIEW, f"{likely}; without labels never better than review"
        return Tier.ACCEPT, f"{likely}; at least {accept}"


# Spiess et al. 2024 sketch actions at 90 %, 70 %, 30 % and 10 %; for the cautious, "more likely wrong than
# right" is reason enough to reject.
PRESETS: MappingProxyType[str, TierPolicy] = MappingProxyType(
    {
        "cautious": TierPolicy(accept_from=0.9, reject_below=0.5, name="cautious"),
        "balanced": TierPolicy(),
        "lenient": TierPolicy(accept_from=0.7, reject_below=0.1, name="lenient"),
    }
)


def _percent(probability: float, thresholds: tuple[float, ...]) -> str:
    """The probability in words, with as many decimals as it takes not to contradict its tier."""
    if probability < 0.01:
        return "less than 1 %"
    if probability > 0.99:
        return "more than 99 %"
    for decimals in range(6):
        shown = round(probability * 100, decimals) / 100
        if all((shown < t) == (probability < t) for t in thresholds):
            break
    return f"about {probability * 100:.{decimals}f} %"
