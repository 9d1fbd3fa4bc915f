"""Logistic curves from raw confidences to probabilities, fitted by Newton's method under a prior.

Platt scaling: a line over the log-odds of the raw confidence. Logistic regression over several features.
Offsets of groups. Sources: Platt 1999 (the curve and the smoothed targets); Lin, Lin & Weng 2007 (stable
evaluation, Newton with line search).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, overload

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    checked_weights,
    paired,
    probabilities,
)
from lsp_calib.calibration.document import Document, as_floats
from lsp_calib.errors import DataError

# Raw confidences count as no nearer than this to 0 and 1 (log-odds within 13.8). Log-probabilities from
# float32 logits are good to some 2e-7, so beyond 1e-6 the digits of 1 - p are noise, and a noisy log-odds of
# 36 would steer a fit by itself.
CLIP = 1e-6


def log_odds(raw: npt.ArrayLike) -> FloatArray:
    """log(p / (1 - p)) in nats, within +-13.8 (see CLIP), in the shape of `raw`.

    Raises DataError on NaN or values outside [0, 1].
    """
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p / (1.0 - p)))


def sigmoid(z: npt.ArrayLike) -> FloatArray:
    """1 / (1 + exp(-z)), accurate in both tails and without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(z, dtype=np.float64))))


# Designs with more rows are multiplied in parts of so many numbers: for larger ones OpenBLAS starts its
# threads, which beside a model that decodes take twice the processor time that they save.
_MANY, _PART = 5_000, 8_192
# Decrements of Newton's method, by the objective's size, from which steps are not shortened, and after which
# there is none. A step squares the distance.
_CLOSE, _CLOSEST = 1e-10, 1e-16
_MAX_ITERATIONS = 200
_MAX_HALVINGS = 50


def sigmoid_and_loss(z: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """1 / (1 + e^-z) and log(1 + e^z) - targets z, from one exponential, accurate in both tails.

    z, targets: float arrays of one shape; so are the results.
    """
    e = np.exp(-np.abs(z))
    rising = 1.0 / (1.0 + e)
    return np.where(z >= 0.0, rising, e * rising), np.maximum(z, 0.0) + np.log1p(e) - targets * z


def noisy_loss(z: FloatArray, targets: FloatArray, noise: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """-log of the probability of labels of which a share is wrong, with its first and second derivative in z.

    z, targets: float arrays of shape (n,), targets 0 or 1; so are the results. noise: the share, in (0, 0.5).
    The probability is (1 - noise) p + noise (1 - p), where p is that of the label under 1 / (1 + e^-z): the
    transposition model of Copas 1988. The second derivative is negative where a label is more probably wrong
    than not; it is raised to a small part of the one without noise, so that Newton's step goes downhill.
    """
    p, _ = sigmoid_and_loss(z, targets)
    fits = np.where(targets > 0.0, p, 1.0 - p)
    seen = noise + (1.0 - 2.0 * noise) * fits
    genuine = (1.0 - noise) * fits / seen
    believed = np.where(targets > 0.0, genuine, 1.0 - genuine)
    spread = p * (1.0 - p)
    return -np.log(seen), p - believed, np.maximum(spread - believed * (1.0 - believed), 0.05 * spread)


def maximise_posterior(
    design: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    mean: FloatArray,
    precision: FloatArray,
    base: FloatArray | float = 0.0,
    *,
    noise: float = 0.0,
    start: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """The coefficients c that minimise sum w (log(1 + e^z) - t z) + 1/2 (c - mean)' P (c - mean).

    z = design c + base.

    design: float array of shape (n, d). targets, weights: shape (n,), targets in [0, 1].
    mean: shape (d,). precision: shape (d,), the diagonal of P, positive.
    base: fixed log-odds, shape (n,) or one number.
    noise: the share of targets that are expected to be wrong, in [0, 0.5). Above 0 the targets are 0 or 1,
        and the loss is that of `noisy_loss`.
    start: where the search starts, shape (d,); None: at the mean. Near the minimum it takes fewer steps.
    Returns the coefficients, shape (d,), and the minimum. Without noise it is unique, since the objective is
    strictly convex; with noise it is the one that is reached from the start.
    """

    def evaluate(at: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        z = _forward(design, at) + base
        if noise:
            loss, slope, curvature = noisy_loss(z, targets, noise)
        else:
            p, loss = sigmoid_and_loss(z, targets)
            slope, curvature = p - targets, p * (1.0 - p)
        away = at - mean
        lost = sum(weights[part] @ loss[part] for part in parts)
        return float(lost + 0.5 * (precision @ (away * away))), slope, curvature

    parts = _parts(design)
    coefficients = np.array(mean if start is None else start, dtype=np.float64)
    value, slope, curvature = evaluate(coefficients)
    for _ in range(_MAX_ITERATIONS):
        gradient = _backward(design, weights * slope) + precision * (coefficients - mean)
        step = _newton_step(design, weights * curvature, precision, gradient)
        decrement = float(gradient @ step)  # about twice the objective's distance from its minimum
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            trial, *derivatives = evaluate(coefficients - size * step)
            # So close to the minimum the objective's change is lost in its rounding, which must not shorten
            # a step: full steps converge here, whichever way sums are rounded.
            if decrement <= _CLOSE * (1.0 + abs(value)) or trial <= value - 1e-4 * size * decrement:
                break
            size *= 0.5
        else:
            break
        coefficients, value, (slope, curvature) = coefficients - size * step, trial, derivatives
        if decrement <= _CLOSEST * (1.0 + abs(value)):
            break
    return coefficients, value


def _parts(design: FloatArray) -> list[slice]:
    """The rows of a design that are multiplied at once."""
    n, d = design.shape
    if n <= _MANY:
        return [slice(0, n)]
    rows = max(_PART // d, 1)
    return [slice(begin, begin + rows) for begin in range(0, n, rows)]


def _forward(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    """design @ coefficients, shape (n,)."""
    return np.concatenate([design[part] @ coefficients for part in _parts(design)])


def _backward(design: FloatArray, rows: FloatArray) -> FloatArray:
    """design.T @ rows, where rows has the shape (n,) or (n, k)."""
    found: FloatArray = np.sum([design[part].T @ rows[part] for part in _parts(design)], axis=0)
    return found


def _newton_step(
    design: FloatArray, curvature: FloatArray, precision: FloatArray, gradient: FloatArray
) -> FloatArray:
    hessian = _backward(design, design * curvature[:, None])
    scale = np.sqrt(np.diagonal(hessian) + precision)
    hessian = (hessian + np.diag(precision)) / np.outer(scale, scale)  # ones on the diagonal
    if np.linalg.det(hessian) <= 1e-14:  # one score only under a flat prior: rounding hides the prior
        hessian[np.diag_indices_from(hessian)] += 1e-7
    step: FloatArray = np.linalg.solve(hessian, gradient / scale) / scale
    return step


Targets = Literal["platt", "plain"]


def finite(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    """Validates a number of a curve. Raises DataError unless it lies within 1e100."""
    # No fit on log-odds within 13.8 comes near this bound; it keeps slope * log-odds from overflowing.
    if not abs(value) <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not {value}.")


class Prior(Document, frozen=True, omit_defaults=True):
    """Beliefs about the slope and the intercept before any label.

    slope, intercept: means. slope_sd, intercept_sd: standard deviations of independent Gaussians, in
        [1e-9, 1e9] (1e6 is as good as flat).
    Raises DataError for anything else.
    """

    slope: float
    intercept: float
    slope_sd: float
    intercept_sd: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("slope", "intercept"), positive=("slope_sd", "intercept_sd"))


# For raw scores that may be off by several nats, as those of code models are (raw skill is negative).
LOOSE_PRIOR = Prior(1.0, 0.0, slope_sd=0.5, intercept_sd=2.0)


@attrs.frozen
class PlattCalibrator:
    """probability = sigmoid(slope * log-odds(raw) + intercept).

    Monotone in the raw confidence if slope >= 0; only labels that contradict it make the slope negative.
    Raises DataError for numbers that are not finite.
    """

    slope: float = attrs.field(converter=float, validator=finite)
    intercept: float = attrs.field(converter=float, validator=finite)

    @overload
    def predict(self, raw: float) -> float: ...
    @overload
    def predict(self, raw: npt.NDArray[np.floating]) -> FloatArray: ...
    def predict(self, raw: npt.ArrayLike) -> float | FloatArray:
        """Calibrated probabilities in [0, 1], float64, in the shape of `raw` (a float for a float).

        raw: raw confidences in [0, 1]. Raises DataError on NaN or values outside.
        """
        p = sigmoid(self.slope * log_odds(raw) + self.intercept)
        return float(p) if p.ndim == 0 else p

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        prior: Prior,
        weights: npt.ArrayLike | None = None,
        targets: Targets = "platt",
    ) -> Self:
        """The most probable calibrator given labels.

        raw: float array of shape (n,), raw confidences in [0, 1]. correct: bool array of shape (n,).
        weights: float array of shape (n,), not negative; a weight of 2 is the same as giving the pair twice.
        prior: without labels the result is its mean; a flat one and plain targets give maximum likelihood.
        targets: "platt" replaces 1 by (n+ + 1) / (n+ + 2) and 0 by 1 / (n- + 2): the certainty that a few
            labels of one class can support. "plain" keeps 0 and 1: right where the prior itself is
            informative, because smoothed targets would pull a result on which prior and labels agree towards
            one half.
        The posterior is strictly log-concave, so this works, and is unique, for no labels, one class,
        separable data and scores of 0 and 1.
        Raises DataError on different shapes, NaN, or values out of range.
        """
        scores, labels = paired(raw, correct, empty=True)
        w = checked_weights(weights, scores.size, empty=True)
        if targets not in ("platt", "plain"):
            raise DataError(f"Unknown targets {targets!r}; known: platt, plain.")
        x = log_odds(scores)
        if not np.any(w > 0):
            return cls(prior.slope, prior.intercept)
        plain = labels.astype(np.float64)
        fitted, _ = maximise_posterior(
            np.column_stack((x, np.ones_like(x))),
            platt_targets(labels, w) if targets == "platt" else plain,
            w,
            np.array([prior.slope, prior.intercept]),
            np.array([prior.slope_sd**-2, prior.intercept_sd**-2]),
        )
        return cls(float(fitted[0]), float(fitted[1]))


def platt_targets(labels: BoolArray, weights: FloatArray) -> FloatArray:
    """(n+ + 1) / (n+ + 2) for the correct and 1 / (n- + 2) for the others, shape (n,). Source: Platt 1999."""
    positive, negative = float(np.sum(weights[labels])), float(np.sum(weights[~labels]))
    return np.where(labels, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))


# Standard deviations of the coefficients (of features scaled to unit spread) to choose from, narrowest first:
# from "only the base rate" to "nearly free". FACTS: 29 features wanted 0.3 (C = 0.1), 7 wanted more.
WEIGHT_SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_INTERCEPT_SD = 10.0  # nats; log-odds of base rates hardly matter beyond


def fit_standardised(
    table: FloatArray,
    labels: BoolArray,
    w: FloatArray,
    spread: float,
    base: FloatArray | float = 0.0,
    start: FloatArray | None = None,
) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """The coefficients of standardised features, the intercept, the means and the scales: shapes (d,), (),
    (d,), (d,).

    table: finite features, shape (n, d). labels, w (weights, none negative): shape (n,). spread: standard
    deviation of the coefficients' prior. base: fixed log-odds, shape (n,) or one number. start: the
    coefficients and the intercept, shape (d + 1,), at which the search starts: it changes its length alone.
    """
    d = table.shape[1]
    total = float(np.sum(w))
    if total <= 0.0:
        return np.zeros(d), 0.0, np.zeros(d), np.ones(d)
    means = w @ table / total
    scales = np.sqrt(w @ (table - means) ** 2 / total)
    # A constant says nothing, nor does what differs by less than any feature has digits: by rounding.
    scales = np.where(scales > 1e-6 * (1.0 + np.abs(means)), scales, 1.0)
    design = np.column_stack(((table - means) / scales, np.ones(labels.size)))
    precision = np.append(np.full(d, spread**-2), _INTERCEPT_SD**-2)
    targets = platt_targets(labels, w)
    fitted, _ = maximise_posterior(design, targets, w, np.zeros(d + 1), precision, base, start=start)
    return fitted[:d], float(fitted[d]), means, scales


# The spreads among groups (standard deviations, nats) that are averaged over. The labels decide between them:
# an offset of 2 turns 0.5 into 0.88, and no language lies further from the others; 0 says that groups do not
# matter. Averaging over the spread needs no second choice; a point estimate would be 0 for half of all data.
OFFSET_SPREADS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)


def offsets_by_code(
    z: FloatArray,
    labels: BoolArray,
    weights: FloatArray,
    codes: IntArray,
    count: int,
    spreads: Sequence[float] = OFFSET_SPREADS,
) -> FloatArray:
    """The offset of each of `count` groups in nats, shape (count,): add it to the global log-odds z of the
    group's items.

    z, labels, weights, codes: arrays of shape (n,); weights as in `PlattCalibrator.fit`, codes from 0.
    Offsets are taken as Gaussian around 0 with one spread for all groups; each of `spreads` has the same
    probability beforehand, and the labels' probability under it (Laplace's approximation) weighs its offsets.
    A group without labels gets 0; a group with many gets its own fit at the global slope.
    Source: empirical Bayes as in Gelman & Hill 2007, ch. 12.
    """
    targets = labels.astype(np.float64)
    offsets = np.zeros(count)
    evidence = np.zeros(len(spreads))
    found = np.zeros((len(spreads), count))
    _, without = sigmoid_and_loss(z, targets)
    for k, spread in enumerate(spreads):
        if spread == 0.0:
            continue
        offsets, curvature = _most_probable(z, targets, weights, codes, offsets, spread**-2)
        _, loss = sigmoid_and_loss(z + offsets[codes], targets)
        evidence[k] = (
            float(weights @ (without - loss))
            - 0.5 * float(offsets @ offsets) / spread**2
            - 0.5 * float(np.sum(np.log1p(spread**2 * curvature)))
        )
        found[k] = offsets
    belief = np.exp(evidence - evidence.max())
    averaged: FloatArray = belief @ found / belief.sum()
    return averaged


def _most_probable(
    z: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    codes: IntArray,
    start: FloatArray,
    precision: float,
) -> tuple[FloatArray, FloatArray]:
    """Each group's offset by Newton's method from `start`, and its likelihood's curvature there.

    Steps are cut at 1, within which the curvature changes by at most e: each then lowers the objective.
    """
    offsets, curvature = start, np.zeros_like(start)
    for _ in range(_MAX_ITERATIONS):
        p, _ = sigmoid_and_loss(z + offsets[codes], targets)
        gradient = np.bincount(codes, weights * (p - targets), offsets.size) + precision * offsets
        curvature = np.bincount(codes, weights * p * (1.0 - p), offsets.size).astype(np.float64)
        step = np.clip(gradient / (curvature + precision), -1.0, 1.0)
        offsets = offsets - step
        if np.max(np.abs(step)) <= 1e-12:
            break
    return offsets, curvature
