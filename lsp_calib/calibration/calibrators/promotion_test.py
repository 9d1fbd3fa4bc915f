"""Whether a user's labels say that a calibrator is wrong for them: a test to be repeated at every label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.curve import Shift
from lsp_calib.calibration.calibrators.label_weights import MOST_OF_ONE_LINE, LabelWeights
from lsp_calib.calibration.methods.online import OnlinePlatt
from lsp_calib.calibration.methods.platt import Prior

# The probability that a calibrator which is right for a user is ever replaced, however often a refit asks. No
# smaller: what replaces it then lies close to it, while those who differ pay for each label they wait.
ERROR = 0.2
ENOUGH = 1.0 / ERROR

# How far another user may be, whom the labels would fit better: wider than `curve_refit` expects, so that one
# who differs much shows soon.
_SLOPE_SD, _INTERCEPT_SD = 0.25, 1.0


def odds_against(
    present: FloatArray,
    correct: BoolArray,
    counting: LabelWeights,
    *,
    noise: float,
    expected: Shift | None = None,
) -> float:
    """How many times likelier the labels became under forecasts that learn from them than under `present`.

    The largest such ratio at any label, or the first that is ENOUGH. Each label is forecast by online Platt
    scaling of `present`, from the labels before it alone. If `present` is right, the ratio is a martingale
    that begins at 1, so the probability that it ever reaches k is at most 1 / k (Ville's inequality):
    looking again after each label adds no error.

    present: confidences of n labels, oldest first, none nan; correct: their outcomes. Both have shape (n,).
    counting: of them. A visit to a line counts once, by its last label, and a line MOST_OF_ONE_LINE times.
    noise: the share of labels that are expected to be wrong, in [0, 0.5), whichever is right.
    expected: where the user is expected already, from another prompt or model.
    Sources: Ville 1939; Wald 1947 (sequential probability ratio); Robbins & Siegmund 1974 (the alternative
    is learned); Gupta & Ramdas 2023 (online Platt scaling).
    """
    prior = Prior(1.0, 0.0, _SLOPE_SD, _INTERCEPT_SD)
    if expected is not None:
        prior = Prior(expected.slope, expected.intercept, _SLOPE_SD, _INTERCEPT_SD)
    forecaster = OnlinePlatt.start(prior)
    ratio = largest = 0.0
    for at in _last_of_visits(counting):
        raw, outcome = float(present[at]), bool(correct[at])
        one, other = (noise + (1.0 - 2.0 * noise) * p for p in (float(forecaster.predict(raw)), raw))
        ratio += np.log(one / other) if outcome else np.log((1.0 - one) / (1.0 - other))
        largest = max(largest, ratio)
        if largest >= np.log(ENOUGH):
            break
        forecaster = forecaster.update(raw, outcome)
    return float(np.exp(largest))


def _last_of_visits(counting: LabelWeights) -> Iterator[int]:
    """The positions of the labels that count, in order."""
    last = {int(visit): at for at, visit in enumerate(counting.visits)}
    of_line: Counter[int] = Counter()
    for at in sorted(last.values()):
        line = int(counting.lines[at])
        of_line[line] += 1
        if of_line[line] <= MOST_OF_ONE_LINE:
            yield at
