"""How much each label counts, and the rule by which a new calibrator may replace the present one.

A visit to a line ends with the first right suggestion, so that its last one is right more often than what was
shown. How much a label counts is therefore settled when its suggestion is shown: the first of a visit counts
in full, each later one half of the one before. One line counts a few times.

Whether a user's labels say that a calibrator is wrong for them, or that another one is better, is a test that
may be repeated at every label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes
from lsp_calib.calibration.calibrators.calibrator import Shift
from lsp_calib.calibration.logistic import LOOSE_PRIOR, Prior, log_odds, sigmoid
from lsp_calib.calibration.scores import log_loss

# A line that is written again and again ("return None", or one label that got into the store ten thousand
# times) is one fact about the user: so many of its visits count, however many there are.
MOST_OF_ONE_LINE = 5

# A suggestion that was shown with a probability of 1 % stands for a hundred. In full that weight would let
# one such label outvote all others of a beginner. Cut off here, the correction keeps its direction.
MOST_WEIGHT = 10.0


@attrs.frozen(eq=False, slots=False)
class LabelWeights:
    """What decides how much each of n labels counts.

    visits, lines: codes from 0, int arrays of shape (n,); labels of one visit, or of one line, share one.
    factors: float array of shape (n,), see `of`. times: when each was shown, shape (n,), in any unit.
    """

    visits: IntArray
    lines: IntArray
    factors: FloatArray
    times: FloatArray

    @classmethod
    def of(
        cls,
        n: int,
        episodes: npt.ArrayLike | None = None,
        lines: npt.ArrayLike | None = None,
        shown: npt.ArrayLike | None = None,
        times: npt.ArrayLike | None = None,
    ) -> Self:
        """The weights of n labels.

        episodes, lines: of shape (n,), texts or integers; labels that share one come from one visit, or are
            of the same line. None: all differ.
        shown: the probability with which each was shown, in (0, 1], shape (n,); None: 1. Dividing by it makes
            the labels stand for all that was suggested (Horvitz & Thompson 1952).
        times: when each was shown, shape (n,); None: in this order.
        Raises DataError unless there are n of each.
        """
        every = np.arange(n)
        visits = group_codes(every if episodes is None else episodes, n)
        chances = np.ones(n) if shown is None else np.asarray(shown, dtype=np.float64)
        return cls(
            visits,
            visits if lines is None else group_codes(lines, n),
            np.minimum(1.0 / np.maximum(chances, 1e-9), MOST_WEIGHT),
            every.astype(np.float64) if times is None else np.asarray(times, dtype=np.float64),
        )

    def only(self, chosen: BoolArray) -> LabelWeights:
        """Those of some of the labels. chosen: bool array of shape (n,)."""
        return LabelWeights(self.visits[chosen], self.lines[chosen], self.factors[chosen], self.times[chosen])

    @cached_property
    def groups(self) -> IntArray:
        """The group of each label, codes of shape (n,). Folds do not divide a group: it has all visits whose
        first suggestion is for the same line."""
        first = np.flatnonzero(self._places() == 0)
        line = np.zeros(self.visits.max(initial=-1) + 1, dtype=np.intp)
        line[self.visits[first]] = self.lines[first]
        return line[self.visits]

    def _first_of_visits(self, known: BoolArray | bool = True) -> BoolArray:
        """Whether each label is the first of its visit, of those that count, shape (n,)."""
        first: BoolArray = known & (self._places(known) == 0)
        return first

    def _places(self, known: BoolArray | bool = True) -> IntArray:
        """The place of each label in its visit, from 0, in the order in which they were shown, shape (n,).
        Those that do not count take none."""
        order = np.lexsort((np.arange(self.visits.size), self.times, self.visits))
        counted = np.broadcast_to(known, order.shape)[order].astype(np.intp)
        before = np.cumsum(counted) - counted
        begins = np.searchsorted(self.visits[order], self.visits[order], side="left")
        places = np.empty_like(order)
        places[order] = before - before[begins]
        return places

    def visited(self, known: BoolArray | bool = True) -> FloatArray:
        """The weight of each label as a part of a visit, shape (n,).

        known: the labels that count at all, bool array of shape (n,) or True; the others have weight 0.
        The first label of a visit weighs 1, the next 1/2, and so on: together less than 2, so that ten
        requests on a line that was typed slowly do not outvote nine lines. They are not divided by their
        number, nor is the last one taken: both depend on when the visit found its end, which a right one is.
        Those of a line weigh at most MOST_OF_ONE_LINE.
        """
        weights = known * 0.5 ** self._places(known)
        of_line = np.bincount(self.lines, weights=weights)
        found: FloatArray = weights * (MOST_OF_ONE_LINE / np.maximum(of_line, MOST_OF_ONE_LINE))[self.lines]
        return found

    def counted(self, known: BoolArray | bool = True) -> FloatArray:
        """As `visited`, of the first label of each visit alone: the sum is how many visits count."""
        return self.visited(known) * self._first_of_visits(known)

    def counted_once(self) -> Iterator[int]:
        """The positions of the labels that are evidence, in order: of each visit the first, and one of each
        line."""
        lines = set[int]()
        for at in np.flatnonzero(self._first_of_visits()):
            line = int(self.lines[at])
            if line not in lines:
                lines.add(line)
                yield int(at)

    def weights(self, known: BoolArray | bool = True) -> FloatArray:
        """The weight of each label in a fit or a comparison, shape (n,). known: as for `visited`."""
        return self.visited(known) * self.factors


def of_one_kind(correct: BoolArray, counted: str) -> str:
    """Why labels that are all right, or all wrong, decide nothing; empty if there are both, or none.

    correct: the labels, shape (n,). counted: how many of what, in words, such as "17 labels".
    """
    if not correct.size or (correct.any() and not correct.all()):
        return ""
    # Any shift in their direction fits them: they say how often, but not where, it is right.
    outcome = "right" if correct.all() else "wrong"
    return f"all {counted} are {outcome}: at least one other is needed"


def may_replace(
    slope: float,
    new: FloatArray,
    present: FloatArray,
    correct: BoolArray,
    weights: FloatArray | None = None,
    *,
    compared: str,
    used: str,
) -> tuple[bool, str]:
    """Whether a calibrator may replace the present one, and why, in words.

    slope: of its curve over the number it was fitted on (a score, or log-odds); it must be positive.
    new, present: confidences of the same items by both, unseen by both; their log losses decide. These,
        correct and weights have the shape (n,).
    compared, used: the items compared and the items fitted on, in words, such as "17 labels".
    """
    old_loss = log_loss(present, correct, weights=weights)
    new_loss = log_loss(new, correct, weights=weights)
    if new_loss > old_loss:
        numbers = f"log loss {old_loss:.3f} against {new_loss:.3f} of the new one on {compared}"
        return False, f"the present calibrator is better: {numbers}"
    if slope <= 0.0:
        unit = used.split()[-1]
        return False, f"the {unit} contradict the raw confidence: slope {slope:.2f} on {used}"
    numbers = f"log loss {new_loss:.3f} against {old_loss:.3f} of the present one on {compared}"
    return True, f"the new calibrator is no worse: {numbers}"


# The probability that a calibrator which is right for a user is ever replaced, however often a refit asks. No
# smaller: what replaces it then lies close to it, while those who differ pay for each label they wait.
ERROR = 0.2
ENOUGH = 1.0 / ERROR

# How far another user may be, whom the labels would fit better: wider than `refit` expects, so that one
# who differs much shows soon.
_SLOPE_SD, _INTERCEPT_SD = 0.25, 1.0


def odds_against(
    present: FloatArray,
    correct: BoolArray,
    counting: LabelWeights,
    *,
    noise: float,
    expected: Shift,
) -> float:
    """How many times likelier the labels became under forecasts that learn from them than under `present`.

    The largest such ratio at any label, or the first that is ENOUGH. Each label is forecast by online Platt
    scaling of `present`, from the labels before it alone. If `present` is right and `noise` is the share of
    wrong labels, the ratio is a martingale that begins at 1, so the probability that it ever reaches k is at
    most 1 / k (Ville's inequality): looking again after each label adds no error.

    present: confidences of n labels, oldest first, none nan; correct: their outcomes. Both have shape (n,).
    counting: of them. A visit to a line counts once, by its first label, and each line once: further visits
        to it tell little more, and the ratio would take them for as much as the first.
    noise: the share of labels that are expected to be wrong, in [0, 0.5), whichever is right.
    expected: where the user is expected: at slope 1 and intercept 0, or as for another prompt or model.
    Sources: Ville 1939; Wald 1947 (sequential probability ratio); Robbins & Siegmund 1974 (the alternative
    is learned); Gupta & Ramdas 2023 (online Platt scaling).
    """
    prior = Prior(expected.slope, expected.intercept, _SLOPE_SD, _INTERCEPT_SD)

    def forecasts() -> Iterator[tuple[int, float]]:
        forecaster = OnlinePlatt.start(prior)
        for at in counting.counted_once():
            yield at, float(forecaster.predict(float(present[at])))
            forecaster = forecaster.update(float(present[at]), bool(correct[at]))

    return _largest_odds(forecasts(), present, correct, noise)


def odds_for(
    new: FloatArray, present: FloatArray, correct: BoolArray, counting: LabelWeights, *, noise: float
) -> float:
    """As `odds_against`, of a calibrator that was fitted without these labels: how many times likelier they
    became under `new` than under `present`. If `present` is right, this reaches k with a probability of at
    most 1 / k. new: its confidences of the labels, shape (n,).
    """
    forecasts = ((at, float(new[at])) for at in counting.counted_once())
    return _largest_odds(forecasts, present, correct, noise)


def _largest_odds(
    forecasts: Iterable[tuple[int, float]], present: FloatArray, correct: BoolArray, noise: float
) -> float:
    """forecasts: the positions of the labels that count, in order, and the other probability of each."""
    ratio = largest = 0.0
    for at, forecast in forecasts:
        one, other = (noise + (1.0 - 2.0 * noise) * p for p in (forecast, float(present[at])))
        ratio += np.log(one / other) if correct[at] else np.log((1.0 - one) / (1.0 - other))
        largest = max(largest, ratio)
        if largest >= np.log(ENOUGH):
            break
    return float(np.exp(largest))


# How many of the latest labels count, in effect. In simulation (tests/validity/test_online.py) a memory
# of 100 costs 0.004 nats where nothing changes, 200 costs 0.002, 1,000 costs 0.001. While the log-odds fall
# by 3 over 500 labels and for 500 more they lose 0.009, 0.021 and 0.116; without forgetting the loss is
# 0.193.
MEMORY = 200.0

_NEWTON_STEPS = 200


@attrs.frozen
class OnlinePlatt:
    """Platt scaling as a Gaussian belief about (slope, intercept), updated label by label.

    slope, intercept: its mean. precision: the entries (slope slope, slope intercept, intercept intercept) of
        its inverse covariance. Together the state: `start` makes the first, `update` the next.
    prior: the belief that forgetting returns to. memory: after that many further labels a label counts 1/e;
        above 1.
    """

    slope: float
    intercept: float
    precision: tuple[float, float, float]
    prior: Prior
    memory: float = MEMORY

    @classmethod
    def start(cls, prior: Prior = LOOSE_PRIOR, memory: float = MEMORY) -> Self:
        """The prior's Gaussian, without labels. A curve that drifts is not the
        identity."""
        precision = (prior.slope_sd**-2, 0.0, prior.intercept_sd**-2)
        return cls(prior.slope, prior.intercept, precision, prior, memory)

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        return sigmoid(self.slope * log_odds(raw) + self.intercept)

    def update(self, raw: float, correct: bool) -> Self:
        """The belief after one more label.

        First it forgets: precision and mean move 1 / memory of the way back to the prior's (in natural
        parameters, so that the labels' information fades and the prior's stays). Then it takes the mode of
        belief times likelihood, exactly, and the curvature there.
        Raises DataError on NaN or values outside [0, 1].
        Source: Kulhavy & Zarrop 1993 (forgetting towards an alternative); Gupta & Ramdas 2023 (online Platt).
        """
        x, y = float(log_odds(raw)), float(bool(correct))
        keep = 1.0 - 1.0 / self.memory
        prior00, prior11 = self.prior.slope_sd**-2, self.prior.intercept_sd**-2
        h00 = keep * self.precision[0] + (1.0 - keep) * prior00
        h01 = keep * self.precision[1]
        h11 = keep * self.precision[2] + (1.0 - keep) * prior11
        # Natural parameters of the mean: precision times mean.
        m0 = keep * (self.precision[0] * self.slope + self.precision[1] * self.intercept)
        m1 = keep * (self.precision[1] * self.slope + self.precision[2] * self.intercept)
        m0 += (1.0 - keep) * prior00 * self.prior.slope
        m1 += (1.0 - keep) * prior11 * self.prior.intercept
        determinant = h00 * h11 - h01 * h01
        slope = (h11 * m0 - h01 * m1) / determinant
        intercept = (h00 * m1 - h01 * m0) / determinant
        # The mode lies on the line mean + covariance (x, 1) (y - p): one equation in z remains.
        d0, d1 = (h11 * x - h01) / determinant, (h00 - h01 * x) / determinant
        z = _solve(slope * x + intercept, d0 * x + d1, y)
        p = float(sigmoid(z))
        curvature = p * (1.0 - p)
        return attrs.evolve(
            self,
            slope=slope + d0 * (y - p),
            intercept=intercept + d1 * (y - p),
            precision=(h00 + curvature * x * x, h01 + curvature * x, h11 + curvature),
        )


def _solve(z: float, variance: float, y: float) -> float:
    """The z' with z' = z + variance (y - sigmoid(z')): Newton inside a shrinking bracket.

    Where the sigmoid is flat Newton's step may lead from one end to the other and back, inside the bracket:
    one that does not halve the excess is replaced by half the bracket.
    """
    low, high = z + variance * (y - 1.0), z + variance * y
    at, before = min(max(z, low), high), math.inf
    for _ in range(_NEWTON_STEPS):
        p = float(sigmoid(at))
        excess = at - z - variance * (y - p)
        if excess > 0.0:
            high = at
        else:
            low = at
        following = at - excess / (1.0 + variance * p * (1.0 - p))
        if not low <= following <= high or abs(excess) > 0.5 * before:
            following = 0.5 * (low + high)
        before = abs(excess)
        if abs(following - at) <= 1e-13 * (1.0 + abs(at)):
            return following
        at = following
    return at
