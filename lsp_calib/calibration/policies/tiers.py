"""From a calibrated probability to a recommended action: by threshold, by risk, or by cost."""

from __future__ import annotations

from types import MappingProxyType
from typing import Protocol, Self

import attrs

from lsp_calib.calibration.policies.certificates import Certificate, certify
from lsp_calib.errors import DataError
from lsp_calib.values import Tier

# What a reason says of a calibrator without labels.
NO_LABELS = "this model has no labels for it yet"


class Policy(Protocol):
    """Turns a calibrated probability into a tier."""

    @property
    def name(self) -> str: ...

    @property
    def certified(self) -> bool:
        """Whether a certificate in force limits the share of errors among accepted suggestions."""
        ...

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """The tier, and its reason in one plain sentence with the numbers.

        probability: calibrated, in [0, 1]; None if there is none (the tier is review).
        source: the calibrator's; one without labels ("prior") is never trusted beyond review.
        Raises DataError if the probability is NaN or outside [0, 1].
        """
        ...

    def for_calibrator(self, identifier: str) -> Self:
        """The policy for the probabilities of one calibrator: a certificate of another does not hold."""
        ...


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

    @property
    def certified(self) -> bool:
        return False

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """As `Policy.decide`."""
        return _by_threshold(probability, source, self.reject_below, self.accept_from)

    def for_calibrator(self, identifier: str) -> Self:  # noqa: ARG002 (a threshold is a threshold)
        return self


@attrs.frozen
class RiskPolicy:
    """Tiers by risk: at most `risk` of those accepted are wrong, with confidence 1 - `delta`, or none is
    accepted.

    certificate: made by `certify` from the confidences of the calibrator in force. Without one that holds
        nothing is accepted, and the reason says what is missing.
    reject_below: in [0, 1]; a probability below it is never accepted, certified or not (see `TierPolicy`).
    Raises DataError on numbers outside their ranges, or a certificate that promises less.
    """

    risk: float = 0.1
    delta: float = 0.1
    reject_below: float = 0.3
    name: str = "balanced"
    certificate: Certificate = attrs.field(
        default=attrs.Factory(lambda self: certify([], [], self.risk, self.delta), takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        certify([], [], self.risk, self.delta)  # checks the two
        if not 0.0 <= self.reject_below <= 1.0:
            raise DataError(f"reject_below must lie in [0, 1], not {self.reject_below}.")
        given = self.certificate
        if given.risk > self.risk or given.delta > self.delta:
            raise DataError(
                f"The certificate promises less (risk {given.risk:g}, delta {given.delta:g}) than the policy "
                f"does (risk {self.risk:g}, delta {self.delta:g})."
            )

    @property
    def certified(self) -> bool:
        return self.certificate.threshold is not None

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """As `Policy.decide`."""
        threshold = self.certificate.threshold
        if threshold is None:
            tier, reason = _by_threshold(probability, source, self.reject_below, None)
            if tier is Tier.REVIEW and probability is not None:
                reason += f"; nothing is certified to be accepted: {self.certificate.reason}"
            return tier, reason
        tier, reason = _by_threshold(
            probability, source, self.reject_below, max(threshold, self.reject_below)
        )
        if tier is Tier.ACCEPT:
            reason += (
                f", where at most {self.risk * 100:g} % are wrong "
                f"(certified on {self.certificate.accepted} labels)"
            )
        return tier, reason

    def for_calibrator(self, identifier: str) -> Self:
        """The policy, without its certificate if that was made for another calibrator."""
        if not self.certified or self.certificate.calibrator in ("", identifier):
            return self
        withheld = self.certificate.revoke(
            f"the promise was made for calibrator {self.certificate.calibrator}"
        )
        return attrs.evolve(self, certificate=withheld)


@attrs.frozen
class CostPolicy:
    """Tiers by cost: the action that is cheapest on average, with costs in reviews.

    wrong_accepted: the cost of accepting a wrong suggestion. right_rejected: the cost of rejecting a right
        one. Both at least 0 and not both 0, where reading a suggestion with care costs 1.
    With probability p accepting costs (1 - p) wrong_accepted, rejecting p right_rejected, reviewing 1. Equal
    costs go to the milder tier. The tiers are best if the probabilities are right, but nothing is certified.
    Raises DataError on other costs. Source: Elkan 2001; Chow 1970 (the reject option).
    """

    wrong_accepted: float = 5.0
    right_rejected: float = 3.0
    name: str = "balanced"

    def __attrs_post_init__(self) -> None:
        costs = (self.wrong_accepted, self.right_rejected)
        if not all(0.0 <= cost < float("inf") for cost in costs) or sum(costs) == 0.0:
            raise DataError(f"Costs must be finite, at least 0, and not both 0; they are {costs}.")

    @property
    def certified(self) -> bool:
        return False

    @property
    def thresholds(self) -> tuple[float, float]:
        """Reject below the first, accept from the second; equal where reviewing never pays.

        >>> CostPolicy(5.0, 4.0).thresholds
        (0.25, 0.8)
        """
        reject = 1.0 / self.right_rejected if self.right_rejected > 1.0 else 1.0
        accept = 1.0 - 1.0 / self.wrong_accepted if self.wrong_accepted > 1.0 else 0.0
        if reject >= accept:
            reject = accept = self.wrong_accepted / (self.wrong_accepted + self.right_rejected)
        return reject, accept

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """As `Policy.decide`."""
        reject_below, accept_from = self.thresholds
        tier, reason = _by_threshold(probability, source, reject_below, accept_from)
        if probability is not None:
            reason += (
                f" (a wrong one accepted costs {self.wrong_accepted:g} reviews, "
                f"a right one rejected {self.right_rejected:g})"
            )
        return tier, reason

    def for_calibrator(self, identifier: str) -> Self:  # noqa: ARG002 (costs are not a calibrator's)
        return self


# Chosen on the out-of-fold predictions of both shipped calibrators (docs/confidence.md): of what is accepted
# 95, 90 and 85 % or more are right, with a margin of one or two points, because a threshold that was chosen
# on some labels falls short on others. Of what is rejected at most 10, 7 and 3 % are right.
PRESETS: MappingProxyType[str, TierPolicy] = MappingProxyType(
    {
        "cautious": TierPolicy(accept_from=0.87, reject_below=0.4, name="cautious"),
        "balanced": TierPolicy(accept_from=0.78, reject_below=0.25, name="balanced"),
        "lenient": TierPolicy(accept_from=0.66, reject_below=0.1, name="lenient"),
    }
)

# A certificate takes 59, 22 and 8 accepted labels without an error.
RISK_PRESETS: MappingProxyType[str, RiskPolicy] = MappingProxyType(
    {
        "cautious": RiskPolicy(risk=0.05, delta=0.05, reject_below=0.4, name="cautious"),
        "balanced": RiskPolicy(reject_below=0.25),
        "lenient": RiskPolicy(risk=0.2, delta=0.2, reject_below=0.1, name="lenient"),
    }
)

# Near the thresholds above: accept from 88, 78 and 67 %, reject below 40, 25 and 10 %.
COST_PRESETS: MappingProxyType[str, CostPolicy] = MappingProxyType(
    {
        "cautious": CostPolicy(wrong_accepted=8.0, right_rejected=2.5, name="cautious"),
        "balanced": CostPolicy(wrong_accepted=4.5, right_rejected=4.0),
        "lenient": CostPolicy(wrong_accepted=3.0, right_rejected=10.0, name="lenient"),
    }
)


def _by_threshold(
    probability: float | None, source: str, reject_below: float, accept_from: float | None
) -> tuple[Tier, str]:
    """The tier and its reason; accept_from None: nothing is accepted."""
    if probability is None:
        return Tier.REVIEW, "the model gave no probabilities"
    if not 0.0 <= probability <= 1.0:
        raise DataError(f"A probability must lie in [0, 1], not {probability}.")
    thresholds = (reject_below,) if accept_from is None else (reject_below, accept_from)
    shown, *bounds = in_percent(probability, thresholds)
    likely = f"{shown} likely to be right"
    if source == "prior":
        likely += f" at a guess, as {NO_LABELS}"
    if probability < reject_below:
        return Tier.REJECT, f"{likely}; below {bounds[0]}"
    if accept_from is None:
        return Tier.REVIEW, f"{likely}; at least {bounds[0]}"
    if probability < accept_from:
        return Tier.REVIEW, f"{likely}; between {bounds[0]} and {bounds[1]}"
    if source == "prior":
        return Tier.REVIEW, f"{likely}; review at most until it has labels"
    return Tier.ACCEPT, f"{likely}; at least {bounds[1]}"


def in_percent(probability: float, thresholds: tuple[float, ...]) -> list[str]:
    """Probability and thresholds in words, with enough decimals not to contradict the tier."""
    for decimals in range(16):
        shown = round(probability * 100, decimals)
        # Thresholds that a person chose are short; computed ones are rounded if that is enough.
        bounds = [round(t * 100, max(decimals, 2)) for t in thresholds]
        if all((shown < b) == (probability < t) for b, t in zip(bounds, thresholds, strict=True)):
            break
    words = [f"{bound:.{max(decimals, 2)}f}".rstrip("0").rstrip(".") + " %" for bound in bounds]
    if probability < 0.01:
        return ["less than 1 %", *words]
    if probability > 0.99:
        return ["more than 99 %", *words]
    return [f"about {shown:.{decimals}f} %", *words]
