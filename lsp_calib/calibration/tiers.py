"""From a calibrated probability to a recommended action: by threshold, or by risk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import Literal, Self

import attrs

from lsp_calib.calibration.certificates import Certificate, certify
from lsp_calib.errors import DataError
from lsp_calib.values import Tier

Raised = tuple[float, float]
"""The thresholds (reject below, accept from) that a person has set above those of their preset; 0: none. They
hold for summaries too, whose presets are others."""


class Policy(ABC):
    """Turns a calibrated probability into a tier."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def certified(self) -> bool:
        """Whether a certificate in force limits the share of errors among accepted suggestions."""
        return False

    @property
    @abstractmethod
    def thresholds(self) -> tuple[float, float | None]:
        """Reject below the first, accept from the second; None if nothing is accepted."""

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
        """The tier, and its reason in one plain sentence with the numbers.

        probability: calibrated, in [0, 1]; None if there is none (the tier is review).
        source: the calibrator's; one of other languages ("prior") is never trusted beyond review.
        Raises DataError if the probability is NaN or outside [0, 1].
        """
        tier, reason = _by_threshold(probability, source, *self.thresholds)
        return tier, reason if probability is None else reason + self._more(tier)

    def _more(self, tier: Tier) -> str:  # noqa: ARG002 (a threshold says it all)
        """What the reason adds to the thresholds."""
        return ""

    def for_calibrator(self, identifier: str) -> Self:  # noqa: ARG002 (no other policy depends on it)
        """The policy for the probabilities of one calibrator: a certificate of another does not hold."""
        return self


@attrs.frozen
class TierPolicy(Policy):
    """Tiers by threshold: accept from `accept_from`, reject below `reject_below`, review between.

    Both in [0, 1], reject_below <= accept_from; raises DataError otherwise. A threshold promises nothing
    about the share of errors among accepted ones, so its tiers are never certified.
    """

    accept_from: float = 0.8
    reject_below: float = 0.3
    name: str = "balanced"
    raised: Raised = attrs.field(default=(0.0, 0.0), kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 0.0 <= self.reject_below <= self.accept_from <= 1.0:
            raise DataError(
                f"Tier thresholds must be in order in [0, 1]: reject below {self.reject_below}, "
                f"accept from {self.accept_from}."
            )

    @property
    def thresholds(self) -> tuple[float, float]:
        return self.reject_below, self.accept_from


@attrs.frozen
class RiskPolicy(Policy):
    """Tiers by risk: at most `risk` of those accepted are wrong, with confidence 1 - `delta`, or none is
    accepted.

    certificate: made by `certify` from the confidences of the calibrator in force. Without one that holds
        nothing is accepted, and the reason says what is missing.
    reject_below, accept_from: in [0, 1]; a probability below either is never accepted, certified or not (see
        `TierPolicy`).
    Raises DataError on numbers outside their ranges, or a certificate that promises less.
    """

    risk: float = 0.1
    delta: float = 0.1
    reject_below: float = 0.3
    name: str = "balanced"
    certificate: Certificate = attrs.field(
        default=attrs.Factory(lambda self: certify([], [], self.risk, self.delta), takes_self=True)
    )
    accept_from: float = attrs.field(default=0.0, kw_only=True)
    raised: Raised = attrs.field(default=(0.0, 0.0), kw_only=True)

    def __attrs_post_init__(self) -> None:
        certify([], [], self.risk, self.delta)  # checks the two
        for name in ("accept_from", "reject_below"):
            if not 0.0 <= (share := getattr(self, name)) <= 1.0:
                raise DataError(f"{name} must lie in [0, 1], not {share}.")
        given = self.certificate
        if given.risk > self.risk or given.delta > self.delta:
            raise DataError(
                f"The certificate promises less (risk {given.risk:g}, delta {given.delta:g}) than the policy "
                f"does (risk {self.risk:g}, delta {self.delta:g})."
            )

    @property
    def certified(self) -> bool:
        return self.certificate.threshold is not None

    @property
    def thresholds(self) -> tuple[float, float | None]:
        threshold, least = self.certificate.threshold, max(self.reject_below, self.accept_from)
        return self.reject_below, None if threshold is None else max(threshold, least)

    def _more(self, tier: Tier) -> str:
        if tier is Tier.REVIEW and not self.certified:
            return f"; nothing is certified to be accepted: {self.certificate.reason}"
        if tier is not Tier.ACCEPT:
            return ""
        labels = f"certified on {self.certificate.accepted} labels"
        return f", where at most {self.risk * 100:g} % are wrong ({labels})"

    def for_calibrator(self, identifier: str) -> Self:
        """The policy, without its certificate if that was made for another calibrator."""
        if not self.certified or self.certificate.calibrator in ("", identifier):
            return self
        withheld = self.certificate.revoke(
            f"the promise was made for calibrator {self.certificate.calibrator}"
        )
        return attrs.evolve(self, certificate=withheld)


# Each suits a use: `cautious` critical code, `balanced` accepting at a glance, `lenient` lines that are read
# anyway. A threshold t is best where a wrong unread line costs 1 / (1 - t) readings: 10, 4.5 and 3.
# Of what is accepted about 95, 91 and 85 % or more are right, out of fold (docs/confidence.md); of what is
# rejected at most 13, 9 and 3 %.
PRESETS: MappingProxyType[str, TierPolicy] = MappingProxyType(
    {
        "cautious": TierPolicy(accept_from=0.9, reject_below=0.4, name="cautious"),
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


# Of summaries, by the probability that most people agree (models/records/summaries): they are read, not run,
# so a wrong one costs less than a wrong line, and few are surely right.
SUMMARY_PRESETS: MappingProxyType[str, TierPolicy] = MappingProxyType(
    {
        "cautious": TierPolicy(accept_from=0.7, reject_below=0.3, name="cautious"),
        "balanced": TierPolicy(accept_from=0.6, reject_below=0.2),
        "lenient": TierPolicy(accept_from=0.6, reject_below=0.2, name="lenient"),
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
        likely += ", by this model's labels in other languages"
    if probability < reject_below:
        return Tier.REJECT, f"{likely}; below {bounds[0]}"
    if accept_from is None:
        return Tier.REVIEW, f"{likely}; at least {bounds[0]}"
    if probability < accept_from:
        return Tier.REVIEW, f"{likely}; between {bounds[0]} and {bounds[1]}"
    if source == "prior":
        return Tier.REVIEW, f"{likely}; review at most until it has labels of its own"
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


@attrs.frozen
class StricterPolicy(Policy):
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

    @property
    def thresholds(self) -> tuple[float, float | None]:
        reject, accept = self.base.thresholds
        reject = max(reject, self.reject_below)
        return reject, None if accept is None else max(accept, self.accept_from, reject)

    def decide(self, probability: float | None, *, source: str) -> tuple[Tier, str]:
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


def policy_of(
    policy: Literal["threshold", "risk"] | None = None,
    preset: str | None = None,
    accept_from: float | None = None,
    reject_below: float | None = None,
) -> Policy:
    """The policy that the user's settings of these names ask for; None: not set.

    A threshold beyond the preset's other one takes that along. By risk, the certificate says from where on
    something is accepted; a threshold of the user's only raises that.
    """
    preset = preset or "balanced"
    usual, by_risk = PRESETS[preset], policy == "risk"
    usual_accept = 0.0 if by_risk else usual.accept_from
    accept = usual_accept if accept_from is None else accept_from
    reject = usual.reject_below if reject_below is None else reject_below
    if accept_from is not None and reject_below is None and not by_risk:
        reject = min(reject, accept)
    raised = (_above(reject, usual.reject_below), _above(accept, usual_accept))
    accept = max(accept, reject)
    if not by_risk:
        return TierPolicy(accept_from=accept, reject_below=reject, name=preset, raised=raised)
    base = RISK_PRESETS[preset]
    uncovered = Certificate(reason="certificates cover single lines", n=0, risk=base.risk, delta=base.delta)
    return attrs.evolve(base, certificate=uncovered, accept_from=accept, reject_below=reject, raised=raised)


def _above(threshold: float, usual: float) -> float:
    """A threshold that lies above the usual one; 0 for another."""
    return threshold if threshold > usual else 0.0


def summary_policy(policy: Policy) -> Policy:
    """The policy of summaries beside one of lines: thresholds of their own, made stricter by the user's.

    A preset never makes them milder; a threshold that the user has raised above the preset's
    holds for summaries too. By risk no summary is accepted: certificates cover single lines.
    """
    if not isinstance(policy, TierPolicy | RiskPolicy):
        return policy
    base = SUMMARY_PRESETS.get(policy.name, SUMMARY_PRESETS["balanced"])
    reject_below, accept_from = map(max, base.thresholds, policy.raised)
    if isinstance(policy, RiskPolicy):
        return attrs.evolve(policy, reject_below=reject_below)
    return attrs.evolve(base, accept_from=max(accept_from, reject_below), reject_below=reject_below)
