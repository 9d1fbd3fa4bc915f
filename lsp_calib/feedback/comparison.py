"""Two calibrators on the same labels of a user: the shipped one and the one in force. Pure."""

from __future__ import annotations

import math

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.metrics.binomial import central_range
from lsp_calib.calibration.metrics.reliability import ReliabilityBin
from lsp_calib.calibration.metrics.scores import (
    bin_index,
    brier_score,
    expected_calibration_error,
    log_loss,
    skill_score,
)
from lsp_calib.calibration.warnings import quietly
from lsp_calib.feedback.outcomes import ENOUGH, LEVEL, Share, Z

BINS = 10


@attrs.frozen
class Compared:
    """Labels that two calibrators assess: arrays of shape (n,), oldest label first.

    before, after: probabilities by the shipped calibrator and by the one in force. visit: labels that share a
    code come from one visit to a line. seen: the calibrator in force was fitted on labels of this visit.
    part: index into `parts`.
    parts: for each model and language the names, and the two calibrators.
    """

    before: FloatArray
    after: FloatArray
    correct: BoolArray
    visit: IntArray
    seen: BoolArray
    part: IntArray
    parts: tuple[tuple[str, str, Calibrator, Calibrator], ...]


@attrs.frozen
class Judged:
    """A calibrator on the user's labels. bins: of equal width; n counts visits, and the band is that of a
    calibrated confidence. Scores are None where undefined."""

    bins: tuple[ReliabilityBin, ...]
    brier: float
    log_loss: float
    skill: float | None
    ece: float
    mean: float


@attrs.frozen
class PartCompared:
    """The comparison for one model and language; skill None where undefined."""

    model: str
    language: str
    n: int
    before_id: str
    after_id: str
    before_brier: float
    after_brier: float
    before_skill: float | None
    after_skill: float | None


@attrs.frozen
class Comparison:
    """The shipped calibrators (`before`) and those in force (`after`) on the same labels.

    n: visits. labels: suggestions.
    unseen: the calibrators in force were fitted on none of these labels. Where there are too few such labels,
        all are taken, and `after` looks better than it is.
    changed: whether any calibrator in force is not the shipped one.
    gain: by how much the Brier score is lower after, with an approximate 95 % interval over visits (None with
    fewer than 2).
    """

    n: int
    labels: int
    unseen: bool
    changed: bool
    before: Judged
    after: Judged
    gain: float
    gain_low: float | None
    gain_high: float | None
    parts: tuple[PartCompared, ...]


def compare(data: Compared) -> Comparison | None:
    """The two calibrators on the labels that the later one has not seen, or on all if those are too few."""
    if not data.correct.size:
        return None
    unseen = ~data.seen
    learned = np.array([before.id != after.id for _, _, before, after in data.parts])
    # Labels of languages without a calibrator of the user's own show nothing of what was learned.
    telling = unseen & learned[data.part] if learned.any() else unseen
    y = data.correct[telling]
    few = np.unique(data.visit[telling]).size < ENOUGH or y.all() or not y.any()
    chosen: BoolArray = np.ones_like(unseen) if few else unseen
    before, after, y = data.before[chosen], data.after[chosen], data.correct[chosen]
    visit, part = data.visit[chosen], data.part[chosen]
    weights = _visit_weights(visit)
    gain, low, high = _gain(before, after, y, visit)
    return Comparison(
        n=np.unique(visit).size,
        labels=int(y.size),
        unseen=not data.seen[chosen].any(),
        changed=bool(learned.any()),
        before=judge(before, y, visit, weights),
        after=judge(after, y, visit, weights),
        gain=gain,
        gain_low=low,
        gain_high=high,
        parts=tuple(
            _part(data.parts[index], before[mine], after[mine], y[mine], visit[mine])
            for index in range(len(data.parts))
            if (mine := part == index).any()
        ),
    )


def judge(p: FloatArray, y: BoolArray, visit: IntArray, weights: FloatArray) -> Judged:
    """Scores and reliability of probabilities p for outcomes y, of shape (n,). weights: of each label."""
    with quietly():  # one class, or all in one bin, is shown as it is
        return Judged(
            bins=_bins(p, y, visit),
            brier=brier_score(p, y, weights=weights),
            log_loss=log_loss(p, y, weights=weights),
            skill=_finite(skill_score(p, y, weights=weights)),
            ece=expected_calibration_error(p, y, weights=weights),
            mean=float(np.average(p, weights=weights)),
        )


def _bins(p: FloatArray, y: BoolArray, visit: IntArray) -> tuple[ReliabilityBin, ...]:
    """Bins of equal width. In each, the labels of a visit count once together.

    The labels of a visit share an outcome, more or less: the band is that of as many draws as there are
    visits.
    """
    index = bin_index(p, BINS, "width")
    weights = _visit_weights(visit * BINS + index)
    found = []
    for k in range(BINS):
        mine = index == k
        lower, upper = k / BINS, (k + 1) / BINS
        w = weights[mine]
        share = Share.of(float(w @ y[mine]), float(w.sum()))
        if not share.n:
            found.append(ReliabilityBin(lower, upper, 0))
            continue
        mean = min(float(w @ p[mine] / w.sum()), 1.0)
        least, most = central_range(share.n, mean, LEVEL)
        band = least / share.n, most / share.n
        found.append(ReliabilityBin(lower, upper, share.n, mean, share.value, share.low, share.high, *band))
    return tuple(found)


def _visit_weights(visit: IntArray) -> FloatArray:
    """Weights of shape (n,): those of the labels that share a code are equal and sum to 1."""
    _, codes, sizes = np.unique(visit, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / sizes[codes], dtype=np.float64)


def _gain(
    before: FloatArray, after: FloatArray, y: BoolArray, visit: IntArray
) -> tuple[float, float | None, float | None]:
    """The mean over visits of how much the squared error falls, and its normal 95 % interval."""
    difference = (before - y) ** 2 - (after - y) ** 2
    _, codes, sizes = np.unique(visit, return_inverse=True, return_counts=True)
    by_visit = np.bincount(codes, weights=difference) / sizes
    mean = float(by_visit.mean())
    if by_visit.size < 2:
        return mean, None, None
    half = Z * float(by_visit.std(ddof=1)) / math.sqrt(by_visit.size)
    return mean, mean - half, mean + half


def _part(
    names: tuple[str, str, Calibrator, Calibrator],
    p: FloatArray,
    q: FloatArray,
    y: BoolArray,
    visit: IntArray,
) -> PartCompared:
    model, language, before, after = names
    weights = _visit_weights(visit)
    with quietly():
        return PartCompared(
            model,
            language,
            np.unique(visit).size,
            before.id,
            after.id,
            brier_score(p, y, weights=weights),
            brier_score(q, y, weights=weights),
            _finite(skill_score(p, y, weights=weights)),
            _finite(skill_score(q, y, weights=weights)),
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
