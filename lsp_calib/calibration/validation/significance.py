"""Significance of differences: paired t-test, and the correction for many tests."""

from __future__ import annotations

import math

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, paired, probabilities
from lsp_calib.errors import DataError


@attrs.frozen
class PairedTest:
    """A paired t-test.

    difference: mean squared error of the first minus that of the second: negative where the first is better.
    statistic: Student's t with `n` - 1 degrees of freedom; infinite if every difference is the same.
    p_value: two-sided.
    """

    difference: float
    statistic: float
    p_value: float
    n: int


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike, correct: npt.ArrayLike) -> PairedTest:
    """Whether two confidences of the same items differ in their squared errors.

    first, second: float arrays of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    Against always answering the base rate, `second` is that rate, n times.
    Items count as independent: where they come in groups, `bootstrap_difference` is the honest test.
    Without any difference p is 1.
    Raises DataError on arrays that do not fit together, or fewer than 2 items.
    Source: Student 1908; used so in Virk et al. 2024.

    >>> test = paired_t_test([0.9, 0.2, 0.7, 0.4], [0.5] * 4, [True, False, True, False])
    >>> round(test.difference, 3), round(test.statistic, 2), round(test.p_value, 3)
    (-0.175, -5.34, 0.013)
    """
    a, y = paired(first, correct)
    b, _ = paired(second, correct)
    if y.size < 2:
        raise DataError("A paired test needs at least 2 items.")
    differences = (a - y) ** 2 - (b - y) ** 2
    mean = float(np.mean(differences))
    # Equal differences would otherwise leave a spread of rounding errors.
    spread = float(np.std(differences, ddof=1)) if np.ptp(differences) > 0.0 else 0.0
    if spread > 0.0:
        statistic = mean / (spread / math.sqrt(y.size))
    else:
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    return PairedTest(mean, statistic, student_t_two_sided(statistic, y.size - 1), y.size)


def student_t_two_sided(statistic: float, degrees: int) -> float:
    """Probability that Student's t lies at least as far from 0 as `statistic`, in [0, 1].

    degrees: of freedom, at least 1.
    Raises DataError if the statistic is NaN or the degrees are fewer than 1.
    Source: P(|T| >= t) = I_{d / (d + t^2)}(d / 2, 1 / 2), Abramowitz & Stegun 26.7.1.

    >>> round(student_t_two_sided(2.228, 10), 4), round(student_t_two_sided(1.0, 1), 12)
    (0.05, 0.5)
    """
    if math.isnan(statistic) or degrees < 1:
        raise DataError(f"No t-distribution at {statistic} with {degrees} degrees of freedom.")
    squared = statistic * statistic
    if math.isinf(squared):
        return 0.0
    return _incomplete_beta(degrees / 2.0, degrees / (degrees + squared), squared / (degrees + squared))


def _incomplete_beta(a: float, x: float, one_minus_x: float) -> float:
    """Regularised incomplete beta function I_x(a, 1/2). Source: Abramowitz & Stegun 26.5.8."""
    b = 0.5
    if x <= 0.0 or one_minus_x <= 0.0:
        return float(one_minus_x <= 0.0)
    front = math.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * (math.log(x) if x < 0.5 else math.log1p(-one_minus_x))
        + b * math.log(one_minus_x)
    )
    # The fraction converges fast below the mean; above it the other tail is computed.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, one_minus_x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method as modified by Thompson."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0), tiny)
    value = d
    for m in range(1, 100_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / _away_from_zero(1.0 + numerator * d, tiny)
            c = _away_from_zero(1.0 + numerator / c, tiny)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) >= tiny else tiny


@attrs.frozen(eq=False)
class Discoveries:
    """The tests that remain significant when all are taken together.

    rejected: bool array of shape (k,), at the level asked for.
    adjusted: float array of shape (k,): the lowest level at which each would be rejected.
    """

    rejected: BoolArray
    adjusted: FloatArray


def benjamini_hochberg(p_values: npt.ArrayLike, alpha: float = 0.01) -> Discoveries:
    """Tests rejected so that on average at most a share `alpha` of the rejected ones is rejected by chance.

    p_values: float array of shape (k,) in [0, 1]; k may be 0. alpha: in (0, 1); the studies use 0.01.
    Holds for independent tests and for positively dependent ones, such as of measures of the same items.
    Raises DataError on values outside their ranges.
    Source: Benjamini & Hochberg 1995; adjusted p-values as in Yekutieli & Benjamini 1999.

    >>> benjamini_hochberg([0.001, 0.04, 0.012, 0.9], 0.05).rejected.tolist()
    [True, False, True, False]
    """
    p = probabilities(p_values, "p_values")
    if p.ndim != 1:
        raise DataError(f"p_values must be one-dimensional; their shape is {p.shape}.")
    if not 0.0 < alpha < 1.0:
        raise DataError(f"alpha must lie strictly between 0 and 1, not {alpha}.")
    order = np.argsort(p, kind="stable")
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return Discoveries(adjusted <= alpha, adjusted)
