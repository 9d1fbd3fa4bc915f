"""From the store to the next calibrators, for the server's command and the command line."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Purpose
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.refit import RefitResult, Trial, compare, refit, seen_until
from lsp_calib.feedback.rows import LabelledRow
from lsp_calib.feedback.store import FeedbackStore


@attrs.frozen
class Refits:
    """The result of a refit for each language with labels, the one with most labels first; at least one."""

    results: tuple[tuple[str, RefitResult], ...]

    @property
    def leading(self) -> tuple[str, RefitResult]:
        """The language that the answer as a whole is about: the first promoted one, else the first."""
        return next((pair for pair in self.results if pair[1].promoted), self.results[0])

    def to_wire(self) -> dict[str, Any]:
        """The leading result as `lsp-calib.refit` answers it; where there are several, all in `languages`."""
        language, result = self.leading
        wire = result.to_wire()
        if len(self.results) == 1:
            return wire
        languages = [{"language": language, **result.to_wire()} for language, result in self.results]
        return {**wire, "reason": f"{language}: {result.reason}", "languages": languages}


def refit_languages(
    store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose, today: str
) -> Refits:
    """`refit_from_feedback` for every language that the model and task of `purpose` have labels in.

    If there is none, the language of `purpose` is used.
    """
    languages = store.languages(purpose.model.sha256, purpose.prompt_version, purpose.task)
    return Refits(
        tuple(
            (
                language,
                refit_from_feedback(store, calibrators, attrs.evolve(purpose, language=language), today),
            )
            for language in languages or [purpose.language]
        )
    )


def refit_from_feedback(
    store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose, today: str
) -> RefitResult:
    """Refit on all labels of a purpose, and put the new calibrator in force if it is no worse.

    today: ISO date. Raises LspCalibError if store or calibrators cannot be used.
    """
    rows = labels_for(store, purpose)
    current = calibrators.choose(purpose).calibrator
    earlier = calibrators.earlier(purpose)
    result = refit(
        current,
        [row.evidence for row in rows],
        [row.correct for row in rows],
        created=today,
        base=calibrators.choose(purpose, personal=False).calibrator,
        seen=seen_by(current, rows),
        until=_until(rows) if rows else None,
        earlier=earlier.calibrator if earlier else None,
        same_model=earlier is None or earlier.same_model,
        **_of_rows(rows),
    )
    if result.calibrator is not None:
        calibrators.promote(result.calibrator)
    return result


def try_out(store: FeedbackStore, calibrators: CalibratorStore, new: Calibrator) -> Trial:
    """Compare a calibrator from elsewhere with the one in force, on the user's labels that the latter has not
    seen. Raises LspCalibError if store or calibrators cannot be used."""
    rows = labels_for(store, new.purpose)
    current = calibrators.choose(new.purpose).calibrator
    return compare(
        new,
        current,
        [row.evidence for row in rows],
        [row.correct for row in rows],
        seen=seen_by(current, rows),
        **_of_rows(rows),
    )


def labels_for(store: FeedbackStore, purpose: Purpose) -> list[LabelledRow]:
    """The labels of a purpose whose log-probabilities can be believed, oldest first. Raises LspCalibError."""
    return [
        row
        for row in store.labels(purpose.model.sha256, purpose.prompt_version, purpose.task)
        if row.language == purpose.language and believable(row)
    ]


def believable(row: LabelledRow) -> bool:
    """Whether there are log-probabilities, all of them possible."""
    logprobs = row.evidence.logprobs
    return bool(logprobs) and all(math.isfinite(value) and value <= 0.0 for value in logprobs)


def _of_rows(rows: Sequence[LabelledRow]) -> dict[str, list[Any]]:
    """The arguments of `refit` that say how much each label counts."""
    return {
        "episodes": [row.episode for row in rows],
        "lines": [line_of(row) for row in rows],
        "shown": [row.shown_probability for row in rows],
    }


def line_of(row: LabelledRow) -> str:
    """What tells the line of a label from others: its hash, or its numbers where it was stored without."""
    evidence = row.evidence
    return row.line or f"{evidence.logprobs}{sorted(evidence.features.items())}"


def seen_by(current: Calibrator, rows: Sequence[LabelledRow]) -> int:
    """How many of the rows, oldest first, `current` was fitted on.

    Decided by their times: a number would be wrong once old rows have been deleted.
    """
    until = seen_until(current)
    if until is None:
        return 0
    moment = datetime.datetime.fromisoformat(until)
    if moment.tzinfo is None:  # only a date, from an older version: all of that day counts as seen
        moment += datetime.timedelta(days=1)
    last = moment.timestamp()
    return sum(row.at <= last for row in rows)


def _until(rows: Sequence[LabelledRow]) -> str:
    """The moment of the last label, not rounded down: ISO, with time zone."""
    last = math.ceil(max(row.at for row in rows) * 1e3) / 1e3
    return datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat(timespec="milliseconds")
