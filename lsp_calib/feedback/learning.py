"""From the store to the next calibrator: used by the server's command and by the command line alike."""

from __future__ import annotations

from lsp_calib.calibration.calibrator import Purpose
from lsp_calib.calibration.refit import RefitResult, refit
from lsp_calib.calibration.shelf import Shelf
from lsp_calib.feedback.store import FeedbackStore


def refit_from_feedback(store: FeedbackStore, shelf: Shelf, purpose: Purpose, today: str) -> RefitResult:
    """Refit on all labels of a purpose, and put the new calibrator in force if it is no worse.

    today: ISO date. Raises LspCalibError if store or shelf cannot be used.
    """
    rows = [
        row
        for row in store.labels(purpose.model.sha256, purpose.prompt_version, purpose.task)
        if row.language == purpose.language and row.correct is not None and row.logprobs
    ]
    current = shelf.choose(purpose).calibrator
    base = shelf.choose(purpose, personal=False).calibrator
    result = refit(
        current,
        [row.logprobs for row in rows],
        [bool(row.correct) for row in rows],
        created=today,
        base=base,
    )
    if result.calibrator is not None:
        shelf.promote(result.calibrator)
    return result
