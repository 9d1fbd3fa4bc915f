"""Platt scaling: a logistic curve over the log-odds of the raw confidence.

The fit is the most probable (slope, intercept) given the labels, under a prior. Sources: Platt 1999 (the
curve and the smoothed targets); Lin, Lin & Weng 2007 (stable evaluation, Newton with line search).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, cast, overload

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, probabilities, weighted
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.log_odds import CLIP, log_odds, sigmoid
from lsp_calib.calibration.methods.newton import maximise_posterior, sigmoid_and_loss
from lsp_calib.calibration.methods.offsets import group_names, group_offsets
from lsp_calib.errors import DataError

# The input of the straight line. Log-odds are our choice: only with them can the curve be the identity.
# Spiess et al. 2024 fit on ln p, Virk et al. 2024 on p itself; both by plain maximum likelihood.
Input = Literal["log-odds", "log-p", "p"]
INPUTS: tuple[Input, ...] = ("log-odds", "log-p", "p")
Targets = Literal["platt", "plain"]


def _finite(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    # No fit on log-odds within 13.8 comes near this bound; it keeps slope * log-odds from overflowing.
    if not abs(value) <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not {value}.")


def _positive(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 1e-9 <= value <= 1e9:
        raise DataError(f"{attribute.name} must be a number in [1e-9, 1e9], not {value}.")


def _odds(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1e9:
        raise DataError(f"{attribute.name} must be a number in [0, 1e9], not {value}.")


FADE = 12.0  # labels; see DEFAULT_PRIOR


@attrs.frozen
class Prior:
    """Beliefs about the slope and the intercept before any label.

    slope, intercept: means. slope_sd, intercept_sd: standard deviations of independent Gaussians, in
        [1e-9, 1e9] (1e6 is as good as flat).
    trust: odds, before any label, that the means are right as they stand (0: only the Gaussians count). The
        result is the average of the means and of the fit under the Gaussians, with odds
            trust * exp(-n / fade) * likelihood of the means / likelihood of the fit.
    fade: labels, in [1e-9, 1e9]. Without it a fit that is slightly off the means would be drawn to them
        longest where that costs most: as n grows, the best method at the means and the best one everywhere
        else differ (Yang 2005, on AIC and BIC).
    Raises DataError for anything else.
    """

    slope: float = attrs.field(converter=float, validator=_finite)
    intercept: float = attrs.field(converter=float, validator=_finite)
    slope_sd: float = attrs.field(converter=float, validator=_positive)
    intercept_sd: float = attrs.field(converter=float, validator=_positive)
    trust: float = attrs.field(default=0.0, converter=float, validator=_odds)
    fade: float = attrs.field(default=FADE, converter=float, validator=_positive)

    def to_json(self) -> dict[str, float]:
        """The prior as JSON types; trust and fade only if they are not the defaults."""
        document = {
            "slope": self.slope,
            "intercept": self.intercept,
            "slopeSd": self.slope_sd,
            "interceptSd": self.intercept_sd,
        }
        if (self.trust, self.fade) != (0.0, FADE):
            document |= {"trust": self.trust, "fade": self.fade}
        return document

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """The prior that `to_json` wrote. Raises CalibratorError or DataError for anything else."""
        fields.only({"slope", "intercept", "slopeSd", "interceptSd", "trust", "fade"})
        names = ["slope", "intercept", "slopeSd", "interceptSd"]
        if "trust" in fields.values:
            names += ["trust", "fade"]
        return cls(*(fields.number(name) for name in names))


# The raw score is right as it stands, at odds of 9 to 1, or else nearly any curve is. Chosen in simulation on
# nine truths and three more shapes of right scores (docs/excess-loss.md has the numbers) such that where the
# raw score is right it costs at most 0.015 nats at n = 10, and that for n = 5 to 200 both mean and worst
# excess log-loss lie below those of every other method. Without trust those Gaussians cost 0.03 nats at n =
# 10 where the raw score is right; with trust that does not fade the worst case at n = 50 lies above that of
# Platt's targets alone.
DEFAULT_PRIOR = Prior(1.0, 0.0, slope_sd=0.7, intercept_sd=2.5, trust=9.0, fade=FADE)

# For raw scores known to be off, as those of code models are by several nats (raw skill is negative): at n =
# 5 less than half the excess of DEFAULT_PRIOR there, but 0.03 instead of 0.012 nats at n = 10 where the raw
# score is right.
LOOSE_PRIOR = Prior(1.0, 0.0, slope_sd=0.5, intercept_sd=2.0)

# With targets="plain": maximum likelihood.
FLAT_PRIOR = Prior(0.0, 0.0, slope_sd=1e6, intercept_sd=1e6)


# Rounds in which the line and the offsets are fitted in turn. Groups that differ flatten a line fitted
# without them: on four groups one nat apart the slope is 0.553, 0.690, 0.701, 0.702 after 0, 1, 2, 3 rounds,
# and 0.702 in the end (truth 0.7).
_ROUNDS = 3


def _known_input(_: object, attribute: attrs.Attribute[Input], value: Input) -> None:
    if value not in INPUTS:
        raise DataError(f"Unknown {attribute.name} {value!r}; known: {', '.join(INPUTS)}.")


def _known_offsets(
    _: object, attribute: attrs.Attribute[tuple[tuple[str, float], ...]], value: tuple[tuple[str, float], ...]
) -> None:
    if len(dict(value)) != len(value) or not all(abs(offset) <= 1e100 for _, offset in value):
        raise DataError(f"{attribute.name} must hold one finite number for each group.")


@attrs.frozen
class PlattCalibrator:
    """probability = sigmoid(slope * log-odds(raw) + intercept + offset of the group).

    input: the quantity used in place of the log-odds. offsets: (group, nats) in the groups' order; a group
    that is not among them has 0. Monotone in the raw confidence if slope >= 0; only labels that contradict it
    make the slope negative.
    Raises DataError for unknown inputs and numbers that are not finite.
    """

    kind: ClassVar[str] = "platt"

    slope: float = attrs.field(converter=float, validator=_finite)
    intercept: float = attrs.field(converter=float, validator=_finite)
    input: Input = attrs.field(default="log-odds", validator=_known_input)
    offsets: tuple[tuple[str, float], ...] = attrs.field(default=(), validator=_known_offsets)

    @overload
    def predict(self, raw: float, groups: str | int | None = None) -> float: ...
    @overload
    def predict(self, raw: npt.NDArray[np.floating], groups: npt.ArrayLike | None = None) -> FloatArray: ...
    def predict(self, raw: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> float | FloatArray:
        """Calibrated probabilities in [0, 1], float64, in the shape of `raw` (a float for a float).

        raw: raw confidences in [0, 1]. groups: strings or integers in the shape of `raw`, or one for all;
        without them, and for groups never seen, the global curve is used.
        Raises DataError on NaN, values outside, or groups of another shape.
        """
        z = self.slope * _inputs(raw, self.input) + self.intercept
        if groups is not None and self.offsets:
            z = z + self._offset(groups, z.shape)
        p = sigmoid(z)
        return float(p) if p.ndim == 0 else p

    def _offset(self, groups: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
        names = group_names(groups)
        if names.shape not in (shape, ()):
            raise DataError(f"groups must have the shape of raw, {shape}, not {names.shape}.")
        known = dict(self.offsets)
        values, codes = np.unique(names, return_inverse=True)
        found = np.array([known.get(str(value), 0.0) for value in values])
        offset: FloatArray = found[codes].reshape(names.shape)
        return offset

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        prior: Prior = DEFAULT_PRIOR,
        targets: Targets = "platt",
        groups: npt.ArrayLike | None = None,
        input: Input = "log-odds",
    ) -> Self:
        """The most probable calibrator given labels.

        raw: float array of shape (n,), raw confidences in [0, 1]. correct: bool array of shape (n,).
        weights: float array of shape (n,), not negative; a weight of 2 is the same as giving the pair twice.
        prior: without labels the result is its mean; a flat one and plain targets give maximum likelihood.
        targets: "platt" replaces 1 by (n+ + 1) / (n+ + 2) and 0 by 1 / (n- + 2): the certainty that a few
            labels of one class can support. "plain" keeps 0 and 1: right where the prior itself is
            informative, because smoothed targets would pull a result on which prior and labels agree towards
            one half.
        groups: array of shape (n,) of strings or integers (language, length, scope). Slope and intercept are
            shared by all; each group gets an offset, drawn to 0 as far as its own labels and the spread among
            the groups say (`offsets.group_offsets`).
        input: see INPUTS; the prior is about the line over it.
        The posterior is strictly log-concave, so this works, and is unique, for no labels, one class,
        separable data and scores of 0 and 1.
        Raises DataError on different shapes, NaN, or values out of range.
        """
        scores, labels, w = weighted(raw, correct, weights)
        if targets not in ("platt", "plain"):
            raise DataError(f"Unknown targets {targets!r}; known: platt, plain.")
        names = group_names([] if groups is None else groups)
        if groups is not None and names.shape != scores.shape:
            raise DataError(f"groups must hold one value for each of the {scores.size} labels.")
        x = _inputs(scores, input)
        if not np.any(w > 0):
            return cls(prior.slope, prior.intercept, input)
        fitted = cls(*_fit_line(x, labels, w, prior, targets), input)
        for _ in range(0 if groups is None else _ROUNDS):
            offsets = group_offsets(fitted.slope * x + fitted.intercept, labels, w, names)
            base = cls(0.0, 0.0, input, offsets)._offset(names, x.shape)
            fitted = cls(*_fit_line(x, labels, w, prior, targets, base), input, offsets)
        return fitted

    @classmethod
    def maximum_likelihood(
        cls, raw: npt.ArrayLike, correct: npt.ArrayLike, *, input: Input = "log-odds"
    ) -> Self:
        """The papers' rows: plain targets, no prior. Separable labels give a step; one class gives 0 or 1.

        input: "log-p" is Spiess et al.'s row, "p" Virk et al.'s. The arguments are those of `fit`.
        """
        return cls.fit(raw, correct, prior=FLAT_PRIOR, targets="plain", input=input)

    def to_json(self) -> dict[str, Any]:
        """Slope and intercept; input and offsets only if they are not the defaults."""
        document: dict[str, Any] = {"slope": self.slope, "intercept": self.intercept}
        if self.input != "log-odds":
            document["input"] = self.input
        if self.offsets:
            document["offsets"] = [{"group": group, "offset": offset} for group, offset in self.offsets]
        return document

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        offsets = []
        for item in fields.objects("offsets") if "offsets" in fields.values else []:
            item.only({"group", "offset"})
            offsets.append((item.text("group", empty=True), item.number("offset")))
        kind = fields.choice("input", INPUTS) if "input" in fields.values else "log-odds"
        return cls(fields.number("slope"), fields.number("intercept"), cast(Input, kind), tuple(offsets))


def platt_targets(labels: BoolArray, weights: FloatArray) -> FloatArray:
    """(n+ + 1) / (n+ + 2) for the correct and 1 / (n- + 2) for the others, shape (n,). Source: Platt 1999."""
    positive, negative = float(np.sum(weights[labels])), float(np.sum(weights[~labels]))
    return np.where(labels, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))


def _inputs(raw: npt.ArrayLike, input: Input) -> FloatArray:
    if input == "log-odds":
        return log_odds(raw)
    p = probabilities(raw, "raw confidence")
    return p if input == "p" else np.asarray(np.log(np.clip(p, CLIP, 1.0)))


def _fit_line(
    x: FloatArray,
    labels: BoolArray,
    w: FloatArray,
    prior: Prior,
    targets: Targets,
    base: FloatArray | float = 0.0,
) -> tuple[float, float]:
    plain = labels.astype(np.float64)
    fitted, _ = maximise_posterior(
        np.column_stack((x, np.ones_like(x))),
        platt_targets(labels, w) if targets == "platt" else plain,
        w,
        np.array([prior.slope, prior.intercept]),
        np.array([prior.slope_sd**-2, prior.intercept_sd**-2]),
        base,
    )
    slope, intercept = float(fitted[0]), float(fitted[1])
    if prior.trust > 0.0:
        _, loss_of_means = sigmoid_and_loss(prior.slope * x + prior.intercept + base, plain)
        _, loss_of_fit = sigmoid_and_loss(slope * x + intercept + base, plain)
        log_odds_of_means = (
            math.log(prior.trust) - float(np.sum(w)) / prior.fade - float(w @ (loss_of_means - loss_of_fit))
        )
        kept = float(sigmoid(log_odds_of_means))
        slope += kept * (prior.slope - slope)
        intercept += kept * (prior.intercept - intercept)
    return slope, intercept
