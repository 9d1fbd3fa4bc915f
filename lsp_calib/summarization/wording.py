"""The tier of a summary in one sentence that needs no knowledge of calibration. Pure."""

from __future__ import annotations

from lsp_calib.values import Confidence


def tier_sentence(confidence: Confidence) -> str:
    """What the confidence of a summary means, in numbers that people can picture; no full stop.

    Right is a summary that is like what a person wrote of the function, and the labels are such comparisons.
    """
    probability = confidence.calibrated
    if probability is None:
        return confidence.reason
    n = confidence.calibrator.n
    checked = f"({n:,} checked)" if n else "(a guess, from other languages)"
    return f"{_in_ten(probability)} summaries like this match what a person wrote {checked}"


def _in_ten(probability: float) -> str:
    """A probability in [0, 1] as so many in 10."""
    tenths = round(probability * 10)
    if tenths < 1:
        return "fewer than 1 in 20"
    return "more than 19 in 20" if tenths > 9 else f"about {tenths} in 10"
