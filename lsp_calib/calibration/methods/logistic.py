"""One probability from several measures: logistic regression whose penalty is chosen inside the training
data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, checked_weights, group_codes, paired
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.folds import grouped_folds
from lsp_calib.calibration.methods.log_odds import sigmoid
from lsp_calib.calibration.methods.newton import maximise_posterior, sigmoid_and_loss
from lsp_calib.calibration.methods.platt import platt_targets
from lsp_calib.errors import DataError

# Standard deviations of the coefficients (of features scaled to unit spread) to choose from, narrowest first:
# from "only the base rate" to "nearly free". FACTS: 29 features wanted 0.3 (C = 0.1), 7 wanted more.
SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_INTERCEPT_SD = 10.0  # nats; log-odds of base rates hardly matter beyond


def _numbers(_: object, attribute: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]) -> None:
    if not value or not all(abs(item) <= 1e100 for item in value):
        raise DataError(f"{attribute.name} must be finite numbers, at least one.")


@attrs.frozen
class LogisticCalibrator:
    """probability = sigmoid(coefficients . (features - means) / scales + intercept).

    coefficients, means, scales: d numbers each, scales positive. spread: the one that was chosen.
    Raises DataError for anything else.
    """

    kind: ClassVar[str] = "multiple"

    coefficients: tuple[float, ...] = attrs.field(validator=_numbers)
    intercept: float = attrs.field(converter=float)
    means: tuple[float, ...] = attrs.field(validator=_numbers)
    scales: tuple[float, ...] = attrs.field(validator=_numbers)
    spread: float = attrs.field(converter=float)

    def __attrs_post_init__(self) -> None:
        if not len(self.coefficients) == len(self.means) == len(self.scales) or min(self.scales) <= 0.0:
            raise DataError("coefficients, means and scales must have one length, and scales be positive.")
        if not (abs(self.intercept) <= 1e100 and 1e-9 <= self.spread <= 1e9):
            raise DataError("intercept must be a finite number, and spread lie in [1e-9, 1e9].")

    def predict(self, features: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], float array of shape (n,).

        features: float array of shape (n, d), finite. Raises DataError otherwise.
        """
        table = feature_table(features)
        if table.shape[1] != len(self.means):
            raise DataError(f"There must be {len(self.means)} measures, not {table.shape[1]}.")
        scaled = (table - np.array(self.means)) / np.array(self.scales)
        return sigmoid(scaled @ np.array(self.coefficients) + self.intercept)

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        groups: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        spreads: Sequence[float] = SPREADS,
        folds: int = 5,
        seed: int = 0,
    ) -> Self:
        """Fit with the spread of lowest log loss in cross-validation inside these labels.

        features: float array of shape (n, d), finite: several measures of each item, best as log-odds or
            log-probabilities. correct: bool array of shape (n,).
        groups: array of shape (n,); groups are not split in choosing; None: every item is its own group.
        weights: shape (n,), as in `PlattCalibrator.fit`.
        spreads: standard deviations of the coefficients to choose from; among equals the narrowest. With
            fewer than 2 groups the narrowest is taken. Without labels: 0.5 for everything.
        Raises DataError on shapes that do not fit together or numbers that are not finite.
        """
        table = feature_table(features)
        _, labels = paired(np.zeros(table.shape[0]), correct, empty=True)
        w = checked_weights(weights, labels.size)
        if not spreads or not all(1e-9 <= spread <= 1e9 for spread in spreads):
            raise DataError("spreads must be numbers in [1e-9, 1e9], at least one.")
        ordered = sorted(set(spreads))
        codes = np.arange(labels.size) if groups is None else group_codes(groups, labels.size)
        chosen = ordered[0]
        if len(ordered) > 1 and np.unique(codes).size >= 2:
            fold = grouped_folds(codes, folds, seed=seed)
            losses = [_held_out_loss(table, labels, w, fold, spread) for spread in ordered]
            chosen = ordered[int(np.argmin(losses))]
        coefficients, intercept, means, scales = fit_standardised(table, labels, w, chosen)
        return cls(
            tuple(coefficients.tolist()), intercept, tuple(means.tolist()), tuple(scales.tolist()), chosen
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "coefficients": list(self.coefficients),
            "intercept": self.intercept,
            "means": list(self.means),
            "scales": list(self.scales),
            "spread": self.spread,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(
            fields.numbers("coefficients"),
            fields.number("intercept"),
            fields.numbers("means"),
            fields.numbers("scales"),
            fields.number("spread"),
        )


def feature_table(features: npt.ArrayLike) -> FloatArray:
    """Features as a float array of shape (n, d). Raises DataError unless they are finite and d >= 1."""
    try:
        table = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be numbers: {error}.") from error
    if table.ndim != 2 or table.shape[1] == 0 or not np.all(np.isfinite(table)):
        raise DataError(f"features must be finite, of shape (n, d), d >= 1; their shape is {table.shape}.")
    return table


def _held_out_loss(
    table: FloatArray, labels: BoolArray, w: FloatArray, fold: IntArray, spread: float
) -> float:
    loss = 0.0
    for k in range(int(fold.max()) + 1):
        test = fold == k
        coefficients, intercept, means, scales = fit_standardised(
            table[~test], labels[~test], w[~test], spread
        )
        z = (table[test] - means) / scales @ coefficients + intercept
        loss += float(w[test] @ sigmoid_and_loss(z, labels[test].astype(np.float64))[1])
    return loss


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
