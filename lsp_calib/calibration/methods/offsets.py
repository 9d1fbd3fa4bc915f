"""Offsets of groups (language, length, scope) from the global curve, shrunk according to their labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.methods.newton import sigmoid_and_loss
from lsp_calib.errors import DataError

# The spreads among groups (standard deviations, nats) that are averaged over. The labels decide between them:
# an offset of 2 turns 0.5 into 0.88, and no language lies further from the others; 0 says that groups do not
# matter. Averaging over the spread needs no second choice; a point estimate would be 0 for half of all data.
SPREADS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)

_MAX_ITERATIONS = 200


def group_names(groups: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """Groups as strings, in their shape: 3 and "3" are one group. Raises DataError for anything else."""
    array = np.asarray(groups)
    if array.dtype.kind not in "iuUO" or (
        array.dtype.kind == "O" and not all(isinstance(item, str | int) for item in array.flat)
    ):
        if array.size:
            raise DataError("groups must be strings or integers.")
        return np.zeros(array.shape, dtype=np.str_)
    return array.astype(np.str_)


def group_offsets(
    z: FloatArray, labels: BoolArray, weights: FloatArray, names: npt.NDArray[np.str_]
) -> tuple[tuple[str, float], ...]:
    """(group, offset in nats) in the groups' order: `offsets_by_code` for groups with names, shape (n,)."""
    values, codes = np.unique(names, return_inverse=True)
    offsets = offsets_by_code(z, labels, weights, codes, values.size)
    return tuple((str(name), float(offset)) for name, offset in zip(values, offsets, strict=True))


def offsets_by_code(
    z: FloatArray, labels: BoolArray, weights: FloatArray, codes: IntArray, count: int
) -> FloatArray:
    """The offset of each of `count` groups in nats, shape (count,): add it to the global log-odds z of the
    group's items.

    z, labels, weights, codes: arrays of shape (n,); weights as in `PlattCalibrator.fit`, codes from 0.
    Offsets are taken as Gaussian around 0 with one spread for all groups; each of SPREADS has the same
    probability beforehand, and the labels' probability under it (Laplace's approximation) weighs its offsets.
    A group without labels gets 0; a group with many gets its own fit at the global slope.
    Source: empirical Bayes as in Gelman & Hill 2007, ch. 12.
    """
    targets = labels.astype(np.float64)
    offsets = np.zeros(count)
    evidence = np.zeros(len(SPREADS))
    found = np.zeros((len(SPREADS), count))
    _, without = sigmoid_and_loss(z, targets)
    for k, spread in enumerate(SPREADS):
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
