"""The rule by which a new calibrator may replace the present one."""

from __future__ import annotations

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.metrics.scores import log_loss


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
    numbers = f"log loss {new_loss:.3f} against {old_loss:.3f} on {compared}"
    if new_loss > old_loss:
        return False, f"the present calibrator is better: {numbers}"
    if slope <= 0.0:
        unit = used.split()[-1]
        return False, f"the {unit} contradict the raw confidence: slope {slope:.2f} on {used}"
    return True, f"the new calibrator is no worse: {numbers}"
