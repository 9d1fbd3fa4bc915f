"""The labels of a purpose, as refits and certificates take them from the store."""

from __future__ import annotations

import datetime
import math

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import seen_until
from lsp_calib.feedback.present import is_ahead
from lsp_calib.feedback.rows import LabelledRow
from lsp_calib.feedback.store import FeedbackStore

# The labels that refits and certificates rest on: the last so many. With these a refit takes seconds, and
# what is fitted is known better than users stay the same (docs/confidence.md): a million labels, of which the
# oldest are years old, are no better.
MOST_LABELS = 20_000


def labels_for(store: FeedbackStore, purpose: Purpose, *, after: float = 0.0) -> list[LabelledRow]:
    """The last MOST_LABELS of a purpose whose log-probabilities can be believed, oldest first.

    One line, or one visit, does not fill them: of each only the last ones are taken (`window.last_of_each`).
    after: only those that settled later (Unix seconds), all of them: a watch reads each once. Raises
    LspCalibError.
    """
    rows = store.labels(
        *(purpose.model, purpose.prompt_version, purpose.task),
        after=after,
        language=purpose.language,
        newest=MOST_LABELS,
        mixed=not after,
    )
    return [row for row in rows if believable(row) and not is_ahead(row.at)]


def line_of(row: LabelledRow) -> str:
    """What tells the line of a label from others: its hash, or its numbers where it was stored without."""
    evidence = row.evidence
    return row.line or f"{evidence.logprobs}{sorted(evidence.features.items())}"


def settled_until(calibrator: Calibrator) -> float:
    """The last label that a calibrator was fitted on, in Unix seconds; 0 if it was not fitted on any.

    0 as well if the clock was ahead then: all labels count as new, and those that were not make the
    calibrator in force look better than it is, never worse.
    """
    until = seen_until(calibrator)
    if until is None:
        return 0.0
    moment = datetime.datetime.fromisoformat(until)
    if moment.tzinfo is None:  # only a date, from an older version: all of that day counts as seen
        moment += datetime.timedelta(days=1)
    found = moment.timestamp()
    return 0.0 if is_ahead(found) else found


def believable(row: LabelledRow) -> bool:
    """Whether there are log-probabilities, all of them possible."""
    logprobs = row.evidence.logprobs
    return bool(logprobs) and all(math.isfinite(value) and value <= 0.0 for value in logprobs)
