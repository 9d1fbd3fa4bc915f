"""Simulated truths: how raw scores are distributed, and how likely each is right."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.logistic import log_odds

Sampler = Callable[[np.random.Generator, int], FloatArray]

LIMIT = float(log_odds(1.0))
_POINTS = 400


@attrs.frozen(eq=False)
class Truth:
    """One world.

    words, heading: for people. scores(rng, n): log-odds of n raw confidences, float array of shape (n,).
    curve: from their log-odds to the true ones. points: log-odds that stand for the distribution of the
    scores, equally likely; float array of shape (k,).
    """

    words: str
    heading: str
    scores: Sampler
    curve: Callable[[FloatArray], FloatArray]
    points: FloatArray


def _beta(a: float, b: float) -> Sampler:
    return lambda rng, n: log_odds(rng.beta(a, b, n))


def _normal(mean: float, sd: float) -> Sampler:
    return lambda rng, n: np.clip(rng.normal(mean, sd, n), -LIMIT, LIMIT)


def _student(freedom: float) -> Sampler:
    return lambda rng, n: np.clip(rng.standard_t(freedom, n), -LIMIT, LIMIT)


def _line(slope: float, intercept: float) -> Callable[[FloatArray], FloatArray]:
    return lambda x: slope * x + intercept


def _bent(x: FloatArray) -> FloatArray:
    """0.5 ln p - 1.5 ln(1 - p) - 1.5: no line, but a beta curve."""
    return np.asarray(-0.5 * np.logaddexp(0.0, -x) + 1.5 * np.logaddexp(0.0, x) - 1.5)


def _fixed(
    words: str, scores: Sampler, curve: Callable[[FloatArray], FloatArray], heading: str = ""
) -> Callable[[np.random.Generator], Truth]:
    sample = scores(np.random.default_rng(5), 200_000)
    points = np.quantile(sample, (np.arange(_POINTS) + 0.5) / _POINTS)
    truth = Truth(words, heading, scores, curve, points)
    return lambda _: truth


_STANDARD_NORMAL = np.quantile(
    np.random.default_rng(5).standard_normal(200_000), (np.arange(_POINTS // 4) + 0.5) / (_POINTS // 4)
)


def _drawn(rng: np.random.Generator) -> Truth:
    mean, sd = rng.normal(0.5, 1.0), 1.5 * np.exp(0.5 * rng.standard_normal())
    slope, intercept = np.exp(0.5 * rng.standard_normal()), rng.normal(-0.5, 1.5)
    return Truth(
        "each data set has its own: log-odds of the scores Gaussian with mean N(0.5, 1) and spread "
        "1.5 exp N(0, 0.5), true log-odds a line with slope exp N(0, 0.5) and intercept N(-0.5, 1.5). "
        "Nothing was chosen on it.",
        "Truths drawn at random, on which nothing was chosen",
        _normal(mean, sd),
        _line(slope, intercept),
        np.clip(mean + sd * _STANDARD_NORMAL, -LIMIT, LIMIT),
    )


# On these the default prior was chosen.
TRUTHS: dict[str, Callable[[np.random.Generator], Truth]] = {
    "calibrated": _fixed("scores Beta(2, 1); the scores are right.", _beta(2, 1), _line(1.0, 0.0)),
    "overconfident": _fixed(
        "scores Beta(5, 1.2), true log-odds 0.7 x - 1.8: a code model's.", _beta(5, 1.2), _line(0.7, -1.8)
    ),
    "extreme": _fixed(
        "log-odds N(1, 2.5), 0.4 x: too near 0 and 1 alike.", _normal(1.0, 2.5), _line(0.4, 0.0)
    ),
    "diffident": _fixed("scores Beta(4, 4), 2 x + 0.5: too near one half.", _beta(4, 4), _line(2.0, 0.5)),
    "narrow": _fixed("log-odds N(1, 0.3), x - 1: scores all alike.", _normal(1.0, 0.3), _line(1.0, -1.0)),
    "wide": _fixed("log-odds N(0, 4), 0.8 x - 0.5.", _normal(0.0, 4.0), _line(0.8, -0.5)),
    "heavy-tailed": _fixed("log-odds Student t with 2 degrees, 0.6 x - 1.", _student(2.0), _line(0.6, -1.0)),
    "rarely right": _fixed("scores Beta(5, 1.2), x - 3.5: few correct.", _beta(5, 1.2), _line(1.0, -3.5)),
    "bent": _fixed("scores Beta(2, 1), 0.5 ln p - 1.5 ln(1 - p) - 1.5: no line fits.", _beta(2, 1), _bent),
}

# Right scores of other shapes: what the default prior costs where nothing need be done.
CALIBRATED: dict[str, Callable[[np.random.Generator], Truth]] = {
    "calibrated, high": _fixed(
        "scores Beta(5, 1.2); right.", _beta(5, 1.2), _line(1.0, 0.0), "Calibrated, scores Beta(5, 1.2)"
    ),
    "calibrated, wide": _fixed(
        "log-odds N(0, 4); right.", _normal(0.0, 4.0), _line(1.0, 0.0), "Calibrated, log-odds N(0, 4)"
    ),
    "calibrated, middling": _fixed(
        "scores Beta(4, 4); right.", _beta(4, 4), _line(1.0, 0.0), "Calibrated, scores Beta(4, 4)"
    ),
}

HELD_OUT: dict[str, Callable[[np.random.Generator], Truth]] = {"drawn at random": _drawn}
