"""Penalised logistic regression by Newton's method with line search: the optimiser of all methods here.

Source: Lin, Lin & Weng 2007 (stable evaluation, Newton with line search), in any number of dimensions.
"""

from __future__ import annotations

import numpy as np

from lsp_calib.calibration.arrays import FloatArray

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
    transposition model of Copas 1988. The second derivative is negative where a label is more likely wrong
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
