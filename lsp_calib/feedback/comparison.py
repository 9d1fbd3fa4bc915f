"""Shares of right labels; the shipped calibrator and the one in force on the same labels. Pure."""

from __future__ import annotations

import math
from typing import Literal

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.binomial import central_range, least_rate
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.reliability import ReliabilityBin
from lsp_calib.calibration.scores import bin_index
from lsp_calib.calibration.validation import Quality

LEVEL = 0.95
Z = 1.959964  # of a normal interval of this level
ENOUGH = 20
"""Visits below which no promise is called kept: the interval of a share is still 20 points to each side."""

Verdict = Literal["notPromised", "tooFew", "asPromised", "more", "less"]


@attrs.frozen
class Share:
    """The share of `n` visits that ended well, with its exact 95 % interval (`low`, `high`).

    The interval takes visits as independent. All three in [0, 1], and None without a visit.
    """

    n: int
    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, right: float, n: float) -> Share:
        """right, n: sums of weights: a visit counts once, by its first suggestion.

        Source: Clopper & Pearson 1934.

        >>> share = Share.of(3, 4)
        >>> share.n, share.value, round(share.low, 3), round(share.high, 3)
        (4, 0.75, 0.194, 0.994)
        """
        visits = round(n)
        if not visits:
            return cls(0, None, None, None)
        # Visits that ended in several ways count in part: rounded away from the claim of each end. Sums of
        # thirds and tenths miss a whole number by a little.
        good = min(int(right + 1e-6), visits)
        bad = min(int(n - right + 1e-6), visits)
        level = 1.0 - (1.0 - LEVEL) / 2.0
        return cls(
            visits,
            min(max(right / n, 0.0), 1.0),
            least_rate(good, visits, level),
            1.0 - least_rate(bad, visits, level),
        )


@attrs.frozen
class Sums:
    """Sums over labels, of which the first of each visit weighs 1, the others nothing.

    labels: how many there are. n: of the weights, so the number of visits. promised: of the confidences.
    right: of the outcomes. loss: of the squared difference of confidence and outcome. loss_squared,
    loss_right: of its square, and of its product with the outcome.
    """

    labels: int
    n: float
    promised: float
    right: float
    loss: float
    loss_squared: float
    loss_right: float


@attrs.frozen
class Accuracy:
    """The predicted and the observed accuracy of some suggestions.

    labels: suggestions with an outcome. share: of visits that were right. promised: the mean probability;
        None where none was shown, as of lines in commits.
    brier, skill: of the probabilities as they were shown. skill_low, skill_high: an approximate 95 %
        interval. None where undefined (one class), and the interval with fewer than `ENOUGH` visits.
    """

    name: str
    labels: int
    share: Share
    promised: float | None
    brier: float | None = None
    skill: float | None = None
    skill_low: float | None = None
    skill_high: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the promise lies in the interval of the observed share: "less" right than promised and
        "more" are outside it, however few the visits. Inside it, few visits say nothing."""
        share = self.share
        if share.n and self.promised is None:
            return "notPromised"
        if self.promised is None or share.low is None or share.high is None:
            return "tooFew"
        if self.promised > share.high:
            return "less"
        if self.promised < share.low:
            return "more"
        return "tooFew" if share.n < ENOUGH else "asPromised"


def outcome_of(name: str, sums: Sums) -> Accuracy:
    """The outcome of labels, from their sums."""
    share = Share.of(sums.right, sums.n)
    rate = sums.right / sums.n
    reference = rate * (1.0 - rate)
    brier = sums.loss / sums.n
    outcome = Accuracy(name, sums.labels, share, sums.promised / sums.n, brier)
    # Sums of thirds and tenths leave a little where nothing should be.
    if reference < 1e-9:
        return outcome
    skill = 1.0 - brier / reference
    if share.n < ENOUGH:
        return attrs.evolve(outcome, skill=skill)
    half = _skill_error(sums, rate, reference, brier / reference)
    return attrs.evolve(outcome, skill=skill, skill_low=skill - half, skill_high=skill + half)


def _skill_error(sums: Sums, rate: float, reference: float, ratio: float) -> float:
    """Half the width of an approximate 95 % interval of the skill score.

    The skill is 1 minus a ratio of means: of the loss, and of the loss of always answering the base rate,
    which is (1 - rate)^2 for what is right and rate^2 for the rest. So the error is that of a ratio estimator
    (Cochran 1977, section 6.4), and five sums suffice for it.
    """
    good, bad = (1.0 - rate) ** 2, rate**2
    crossed = sums.loss_right * good + (sums.loss - sums.loss_right) * bad
    squared = sums.right * good**2 + (sums.n - sums.right) * bad**2
    residual = max(sums.loss_squared - 2.0 * ratio * crossed + ratio**2 * squared, 0.0)
    return Z * math.sqrt(residual) / sums.n / reference


BINS = 10


@attrs.frozen
class Compared:
    """Labels that two calibrators assess: arrays of shape (n,), oldest label first.

    before, after: probabilities by the shipped calibrator and by the one in force. visit: labels that share a
    code come from one visit to a line. seen: the calibrator in force was fitted on labels of this visit.
    survives: by the calibrator in force, nan where it is not known. part: index into `parts`.
    parts: for each model and language the names, and the two calibrators.
    """

    before: FloatArray
    after: FloatArray
    correct: BoolArray
    visit: IntArray
    seen: BoolArray
    survives: FloatArray
    part: IntArray
    parts: tuple[tuple[str, str, Calibrator, Calibrator], ...]


@attrs.frozen
class Judged(Quality):
    """A calibrator on the user's labels. bins: of equal width; n counts visits, and the band is that of a
    calibrated confidence."""

    bins: tuple[ReliabilityBin, ...]


@attrs.frozen
class Scored:
    """A calibrator's id, and its scores on the labels of one model and language; skill None for one class."""

    calibrator: str
    brier: float
    skill: float | None


@attrs.frozen
class PartCompared:
    """The comparison for one model and language."""

    model: str
    language: str
    n: int
    before: Scored
    after: Scored


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
        before=Judged.of(before, y, weights, bins=_bins(before, y, visit)),
        after=Judged.of(after, y, weights, bins=_bins(after, y, visit)),
        gain=gain,
        gain_low=low,
        gain_high=high,
        parts=tuple(
            _part(data.parts[index], before[mine], after[mine], y[mine], visit[mine])
            for index in range(len(data.parts))
            if (mine := part == index).any()
        ),
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
    """Weights of shape (n,): 1 for the first label of each code, in the order in which they were shown, 0 for
    the others (as in `promotion`)."""
    weights = np.zeros(visit.size)
    weights[np.unique(visit, return_index=True)[1]] = 1.0
    return weights


def _gain(
    before: FloatArray, after: FloatArray, y: BoolArray, visit: IntArray
) -> tuple[float, float | None, float | None]:
    """The mean over visits of how much the squared error falls, and its normal 95 % interval."""
    difference = (before - y) ** 2 - (after - y) ** 2
    by_visit = difference[_visit_weights(visit) > 0.0]
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
    model, language, *calibrators = names
    weights = _visit_weights(visit)
    judged = (Quality.of(one, y, weights) for one in (p, q))
    before, after = (
        Scored(calibrator.id, one.brier, one.skill)
        for calibrator, one in zip(calibrators, judged, strict=True)
    )
    return PartCompared(model, language, np.unique(visit).size, before, after)
