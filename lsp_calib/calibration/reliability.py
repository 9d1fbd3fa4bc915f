"""Reliability diagrams as data: bins, points, and the band of a calibrated score."""

from __future__ import annotations

import math
from statistics import NormalDist

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, caution, paired
from lsp_calib.calibration.scores import Strategy, bin_index, caution_collapse
from lsp_calib.errors import DataError

# Items of nearly equal confidence are drawn as one binomial when a bin holds more than this many.
_DRAWS = 200


@attrs.frozen
class ReliabilityBin:
    """One bar or point of a reliability diagram.

    lower, upper: edges of the bin; of a quantile point, its least and greatest confidence.
    n: items in it; the rest is None if there are none.
    confidence, accuracy: mean confidence and share correct.
    low, high: Wilson interval of the share correct.
    band_low, band_high: the range of the share correct if every confidence were exactly right.
    """

    lower: float
    upper: float
    n: int
    confidence: float | None = None
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    band_low: float | None = None
    band_high: float | None = None


LEVEL = 0.95
"""Of the intervals and of the band, bin by bin, not for all bins at once."""

_POINTS = 5


@attrs.frozen
class ReliabilityData:
    """A reliability diagram, ready to be drawn.

    n, n_correct: items, and how many are correct.
    strategy: of the bins. level: of the intervals and of the band. seed: as given.
    bins: of equal width, as many as asked for, ascending, empty ones included.
    points: the five quantile points: bins of equal mass, without empty ones.
    """

    n: int
    n_correct: int
    strategy: Strategy
    level: float
    seed: int
    bins: tuple[ReliabilityBin, ...]
    points: tuple[ReliabilityBin, ...]


def reliability(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 10,
    resamples: int = 1000,
    seed: int = 0,
) -> ReliabilityData:
    """Counts, mean confidence and share correct by bin, with intervals and the calibrated band.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    bins: as in `expected_calibration_error`, whose value is the mean of |confidence - accuracy| over `bins`,
        weighted by n. Equal confidences share a quantile point, so there may be fewer than five.
    resamples, seed: of the band, simulated with the confidences as the probabilities of being correct.
    The result does not depend on the order of the pairs. Warns if all confidences share a bin or all labels
    are of one class. Raises DataError on empty input, different shapes, NaN, values outside [0, 1], or fewer
    than 1 bin or resample.
    Source: Brocker & Smith 2007 (the band); Wilson 1927; Spiess et al. 2024, fig. 4 (five quantile points).

    >>> data = reliability([0.25, 0.25, 0.75, 0.75], [False, False, True, False], bins=2)
    >>> [(item.n, item.confidence, item.accuracy) for item in data.bins]
    [(2, 0.25, 0.0), (2, 0.75, 0.5)]
    """
    p, y = paired(confidence, correct)
    if resamples < 1:
        raise DataError(f"reliability needs at least 1 resample, not {resamples}.")
    index = bin_index(p, bins, "width")
    caution_collapse(index, "A reliability diagram")
    n_correct = int(np.count_nonzero(y))
    if n_correct in (0, p.size):
        caution(f"The reliability diagram is not informative: all {p.size} labels are of one class.")
    rng = np.random.default_rng(seed)
    order = np.argsort(p, kind="stable")

    def bins_of(index: IntArray, count: int) -> list[tuple[FloatArray, BoolArray]]:
        """The items of each bin, ascending. index: the bin of each item; it ascends with the confidence."""
        starts = np.searchsorted(index[order], np.arange(1, count))
        return list(zip(np.split(p[order], starts), np.split(y[order], starts), strict=True))

    points = tuple(
        _bin(some, right, float(some[0]), float(some[-1]), resamples, rng)
        for some, right in bins_of(bin_index(p, _POINTS, "mass"), _POINTS)
        if some.size
    )
    edges = np.arange(bins + 1) / bins
    return ReliabilityData(
        n=p.size,
        n_correct=n_correct,
        strategy="width",
        level=LEVEL,
        seed=seed,
        bins=tuple(
            _bin(some, right, float(edges[k]), float(edges[k + 1]), resamples, rng)
            for k, (some, right) in enumerate(bins_of(index, bins))
        ),
        points=points,
    )


def wilson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share; (0, 1) if n is 0. Within [0, 1], and never of length 0.

    Raises DataError unless 0 <= successes <= n and 0 < level < 1.
    Source: Wilson 1927; recommended for small n by Brown, Cai & DasGupta 2001.

    >>> [round(bound, 3) for bound in wilson_interval(0, 10)]
    [0.0, 0.278]
    """
    if not 0 <= successes <= n or not 0.0 < level < 1.0:
        raise DataError(f"There is no interval for {successes} of {n} at level {level}.")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # The formula gives exactly 0 and 1 at the ends; floats do not.
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    high = 1.0 if successes == n else min(centre + half, 1.0)
    return low, high


def _bin(
    p: FloatArray, y: BoolArray, lower: float, upper: float, resamples: int, rng: np.random.Generator
) -> ReliabilityBin:
    if p.size == 0:
        return ReliabilityBin(lower, upper, 0)
    hits = int(np.count_nonzero(y))
    low, high = wilson_interval(hits, p.size, LEVEL)
    tail = (1.0 - LEVEL) / 2.0
    # Shares correct, if each item is correct with its confidence.
    starts = np.unique(np.linspace(0, p.size, min(p.size, _DRAWS), endpoint=False).astype(np.intp))
    sizes = np.diff(np.append(starts, p.size))
    means = np.minimum(np.add.reduceat(p, starts) / sizes, 1.0)
    drawn = rng.binomial(sizes, means, size=(resamples, sizes.size)).sum(axis=1)
    band_low, band_high = np.quantile(drawn / p.size, [tail, 1.0 - tail])
    return ReliabilityBin(
        lower=lower,
        upper=upper,
        n=p.size,
        confidence=min(float(np.mean(p)), 1.0),
        accuracy=hits / p.size,
        low=low,
        high=high,
        band_low=float(band_low),
        band_high=float(band_high),
    )
