"""From a calibrated probability to a recommended action: by threshold, by risk, or by cost.

Which policy it is follows from what a user and a workspace have set; the stricter of the two counts.
"""

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
        _check_shares(self)
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


@attrs.frozen
class CostPolicy(Policy):
    """Tiers by cost: the action that is cheapest on average, with costs in reviews.

    wrong_accepted: the cost of accepting a wrong suggestion. right_rejected: the cost of rejecting a right
        one. Both at least 0 and not both 0, where reading a suggestion with care costs 1.
    With probability p accepting costs (1 - p) wrong_accepted, rejecting p right_rejected, reviewing 1. Equal
    costs go to the milder tier. The tiers are best if the probabilities are right, but nothing is certified.
    accept_from, reject_below: in [0, 1]; nothing below the first is accepted and all below the second is
        rejected, whatever it costs.
    Raises DataError on other costs or numbers. Source: Elkan 2001; Chow 1970 (the reject option).
    """

    wrong_accepted: float = 5.0
    right_rejected: float = 3.0
    name: str = "balanced"
    accept_from: float = attrs.field(default=0.0, kw_only=True)
    reject_below: float = attrs.field(default=0.0, kw_only=True)
    raised: Raised = attrs.field(default=(0.0, 0.0), kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check_shares(self)
        costs = (self.wrong_accepted, self.right_rejected)
        if not all(0.0 <= cost < float("inf") for cost in costs) or sum(costs) == 0.0:
            raise DataError(f"Costs must be finite, at least 0, and not both 0; they are {costs}.")

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
        reject = max(reject, self.reject_below)
        return reject, max(accept, self.accept_from, reject)

    def _more(self, tier: Tier) -> str:  # noqa: ARG002 (whatever it is)
        return (
            f" (a wrong one accepted costs {self.wrong_accepted:g} reviews, "
            f"a right one rejected {self.right_rejected:g})"
        )


def _check_shares(policy: RiskPolicy | CostPolicy) -> None:
    for name in ("accept_from", "reject_below"):
        if not 0.0 <= (share := getattr(policy, name)) <= 1.0:
            raise DataError(f"{name} must lie in [0, 1], not {share}.")


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

# Near the thresholds above: accept from 90, 78 and 67 %, reject below 40, 25 and 10 %.
COST_PRESETS: MappingProxyType[str, CostPolicy] = MappingProxyType(
    {
        "cautious": CostPolicy(wrong_accepted=10.0, right_rejected=2.5, name="cautious"),
        "balanced": CostPolicy(wrong_accepted=4.5, right_rejected=4.0),
        "lenient": CostPolicy(wrong_accepted=3.0, right_rejected=10.0, name="lenient"),
    }
)


# Of summaries, by the probability that most people agree (docs/summaries.md): they are read, not run, so a
# wrong one costs less than a wrong line, and few are surely right.
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


PolicyName = Literal["threshold", "risk", "cost"]

# From the mildest on.
_STRICTNESS = ("lenient", "balanced", "cautious")


@attrs.frozen(kw_only=True)
class TierWishes:
    """The settings of the tiers from one place; None: not set. The numbers are those of `TierPolicy`,
    `RiskPolicy` and `CostPolicy`."""

    policy: PolicyName | None = None
    preset: str | None = None
    accept_from: float | None = None
    reject_below: float | None = None
    risk: float | None = None
    delta: float | None = None
    wrong_accepted: float | None = None
    right_rejected: float | None = None


@attrs.frozen
class TooMild:
    """A wish of a workspace that does not count.

    key: without `tiers.`. held: the value that holds instead. words: the wishes that count, to follow "can".
    """

    key: str
    wished: str | float
    held: str | float
    words: str


def policy_of(own: TierWishes, wished: TierWishes = TierWishes()) -> tuple[Policy, list[TooMild]]:
    """The policy, and the wishes that are not followed.

    own: the user's settings. wished: those that may come from a workspace; no probability gets a milder tier
    than by the user's alone. A workspace may ask for a certificate where the user does not, never the other
    way round.
    """
    refused: list[TooMild] = []
    name, preset = own.policy or "threshold", own.preset or "balanced"
    if wished.policy not in (None, "risk", name):
        refused.append(TooMild("policy", wished.policy, name, 'only choose "risk"'))
    by_risk = "risk" in (wished.policy, name)
    wished_preset = wished.preset
    if wished_preset is not None and _STRICTNESS.index(wished_preset) < _STRICTNESS.index(preset):
        refused.append(TooMild("preset", wished_preset, preset, "only choose a stricter one"))
        wished_preset = None

    accept, reject = _thresholds(name, preset, own)
    usual_accept, usual_reject = _thresholds(name, preset, TierWishes())
    stricter = wished_preset or preset
    stricter_accept, stricter_reject = _thresholds(name, stricter, TierWishes())
    raised = (
        max(_above(reject, usual_reject), _above(wished.reject_below or 0.0, stricter_reject)),
        max(_above(accept, usual_accept), _above(wished.accept_from or 0.0, stricter_accept)),
    )
    floors = None
    if wished_preset is not None:
        floors = _thresholds("cost" if name == "cost" else "threshold", wished_preset, TierWishes())
    if wished.accept_from is not None:
        accept = _raised("acceptFrom", wished.accept_from, own.accept_from, accept, refused)
    elif floors is not None and not by_risk:
        accept = max(accept, floors[0])
    if wished.reject_below is not None:
        reject = _raised("rejectBelow", wished.reject_below, own.reject_below, reject, refused)
    elif floors is not None:
        # As with the user's own: a lower `acceptFrom` takes the preset's other threshold along.
        reject = max(reject, min(floors[1], 1.0 if wished.accept_from is None else wished.accept_from))
    accept = max(accept, reject)

    policy: TierPolicy | RiskPolicy | CostPolicy
    if by_risk:
        policy = _by_risk(own, wished, (preset, stricter), (accept, reject), refused)
    elif name == "cost":
        policy = attrs.evolve(_by_cost(own, preset), accept_from=accept, reject_below=reject, name=stricter)
    else:
        policy = TierPolicy(accept_from=accept, reject_below=reject, name=stricter)
    return attrs.evolve(policy, raised=raised), refused


def _above(threshold: float, usual: float) -> float:
    """A threshold that lies above the usual one; 0 for another."""
    return threshold if threshold > usual else 0.0


def summary_policy(policy: Policy) -> Policy:
    """The policy of summaries beside one of lines: thresholds of their own, made stricter by the user's.

    A preset never makes them milder; a threshold that the user or a workspace has raised above the preset's
    holds for summaries too. By risk no summary is accepted: certificates cover single lines.
    """
    if not isinstance(policy, TierPolicy | RiskPolicy | CostPolicy):
        return policy
    base = SUMMARY_PRESETS.get(policy.name, SUMMARY_PRESETS["balanced"])
    reject_below, accept_from = map(max, base.thresholds, policy.raised)
    if isinstance(policy, RiskPolicy):
        return attrs.evolve(policy, reject_below=reject_below)
    return attrs.evolve(base, accept_from=max(accept_from, reject_below), reject_below=reject_below)


def _thresholds(name: PolicyName, preset: str, own: TierWishes) -> tuple[float, float]:
    """The probabilities from which the user's own settings accept, and below which they reject."""
    if name == "cost":
        reject, accept = _by_cost(own, preset).thresholds
        return max(accept, own.accept_from or 0.0), max(reject, own.reject_below or 0.0)
    accept = PRESETS[preset].accept_from if own.accept_from is None else own.accept_from
    reject = PRESETS[preset].reject_below if own.reject_below is None else own.reject_below
    if name == "risk":
        # The certificate says from where on.
        return own.accept_from or 0.0, reject
    # A threshold beyond the preset's other one takes that along.
    if own.accept_from is not None and own.reject_below is None:
        reject = min(reject, accept)
    return max(accept, reject), reject


def _by_cost(own: TierWishes, preset: str) -> CostPolicy:
    costs = COST_PRESETS[preset]
    return attrs.evolve(
        costs,
        wrong_accepted=costs.wrong_accepted if own.wrong_accepted is None else own.wrong_accepted,
        right_rejected=costs.right_rejected if own.right_rejected is None else own.right_rejected,
    )


def _by_risk(
    own: TierWishes,
    wished: TierWishes,
    presets: tuple[str, str],
    thresholds: tuple[float, float],
    refused: list[TooMild],
) -> RiskPolicy:
    """presets: the user's and the stricter of the two. thresholds: accept from, reject below."""
    mine, stricter = (RISK_PRESETS[preset] for preset in presets)
    risk = _lowered("risk", wished.risk, own.risk, mine.risk, stricter.risk, refused)
    delta = _lowered("delta", wished.delta, own.delta, mine.delta, stricter.delta, refused)
    uncovered = Certificate(reason="certificates cover single lines", n=0, risk=risk, delta=delta)
    accept, reject = thresholds
    return RiskPolicy(risk, delta, reject, stricter.name, uncovered, accept_from=accept)


def _raised(key: str, wished: float, own: float | None, held: float, refused: list[TooMild]) -> float:
    """own: the user's value of this setting. held: the threshold by all of the user's settings."""
    if wished < held and wished != own:
        refused.append(TooMild(key, wished, held, "only raise it"))
    return max(wished, held)


def _lowered(
    key: str, wished: float | None, own: float | None, preset: float, stricter: float, refused: list[TooMild]
) -> float:
    """preset, stricter: the values of the user's preset, and of the stricter one of the two."""
    limit = preset if own is None else own
    if wished is None:
        return min(limit, stricter) if stricter != preset else limit
    if wished > limit:
        refused.append(TooMild(key, wished, limit, "only lower it"))
    return min(wished, limit)
