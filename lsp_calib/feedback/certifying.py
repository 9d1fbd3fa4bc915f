"""Labels set aside for certificates, and the watch over the one in force."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.curve import Wanted, in_order, is_plain
from lsp_calib.calibration.calibrators.label_weights import MOST_OF_ONE_LINE
from lsp_calib.calibration.calibrators.ledger_file import Held, editing
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import RefitResult
from lsp_calib.calibration.policies.ledger import AS_BEFORE, LEAST_CONFIDENCE, Ledger, Promise, Wish
from lsp_calib.feedback.events import Source
from lsp_calib.feedback.present import is_ahead
from lsp_calib.feedback.rows import LabelledRow
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.training_rows import labels_for, line_of, settled_until


def watch_labels(
    store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose, promise: Promise
) -> tuple[Ledger, Ledger]:
    """Count and watch the labels that have come since the last time; the ledger before and after.

    promise: what the tiers promise now. Raises LspCalibError if store, calibrators or ledger cannot be used.
    """
    with editing(calibrators.ledger_path(purpose)) as held:
        before = held.ledger
        open_for(held, store, calibrators, purpose, promise)
        return before, held.ledger


def open_for(
    held: Held, store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose, wish: Wish
) -> None:
    """Bring a ledger up to date with the wish for a promise and with the labels in the store."""
    if any(map(is_ahead, held.ledger.moments)):
        held.ledger = held.ledger.not_beyond(time.time())
    promise = held.ledger.promise if wish == "as before" else wish
    if promise is None:
        return
    if promise.measure == AS_BEFORE:
        before = held.ledger.promise or Promise()
        promise = attrs.evolve(promise, measure=before.measure)
    held.ledger = held.ledger.opened(
        promise, key=store.key_mark(), used_until=_used_until(calibrators, purpose)
    )
    # The promise is of what is shown: replayed lines neither count for it nor break it.
    read_until = held.ledger.read_until
    rows = [row for row in labels_for(store, purpose, after=read_until) if is_shown(row)]
    if rows:
        # A visit may have had labels before: who stays on a line and saves again and again tells no more.
        known = store.visited_before(purpose, [row.episode for row in rows], read_until)
        seen = visits(row for row in rows if row.episode not in known)
        calibrator = calibrators.choose(purpose).calibrator
        confidence = _confidences(calibrator, seen, promise)
        likely = confidence >= LEAST_CONFIDENCE
        if not held.ledger.holds(calibrator.id):  # a certificate of another says nothing of these
            confidence = np.full(len(seen), np.nan)
        aside = int(np.count_nonzero(likely & np.array(set_aside(store, held.ledger, seen), dtype=np.bool_)))
        held.ledger = held.ledger.read(aside, confidence, _correct(seen), max(row.at for row in rows))


def set_aside(store: FeedbackStore, ledger: Ledger, rows: Sequence[LabelledRow]) -> list[bool]:
    """For each label, whether it is kept for certificates, so that no fit may see it.

    Labels of replayed lines never are: they are other lines than those with labels of what was shown.
    """
    if ledger.promise is None:
        return [False] * len(rows)
    late = [is_shown(row) and row.at > ledger.used_until for row in rows]
    names = list(dict.fromkeys(row.episode for row, is_late in zip(rows, late, strict=True) if is_late))
    half = dict(zip(names, store.halves(names), strict=True)) if names else {}
    return [ledger.is_aside(half.get(row.episode, False), row.at) for row in rows]


def is_shown(row: LabelledRow) -> bool:
    """Whether the label is of a suggestion that was shown."""
    return row.source is Source.SHOWN


def visits(rows: Iterable[LabelledRow], *, most_of_a_line: int | None = None) -> list[LabelledRow]:
    """One label for each visit to a line, in their order.

    The labels of a visit share an outcome, more or less; a certificate counts independent ones. Which one
    stands for its visit is left to the suggestions' random ids.
    most_of_a_line: at most so many visits to the same line, the oldest.
    """
    rows = list(rows)
    drawn: dict[str, LabelledRow] = {}
    for row in rows:
        other = drawn.get(row.episode)
        if other is None or row.suggestion_id < other.suggestion_id:
            drawn[row.episode] = row
    kept = [row for row in rows if drawn[row.episode] is row]
    if most_of_a_line is None:
        return kept
    counts: Counter[str] = Counter()
    found = []
    for row in kept:
        line = line_of(row)
        counts[line] += 1
        if counts[line] <= most_of_a_line:
            found.append(row)
    return found


def with_certificate(
    held: Held, current: Calibrator, result: RefitResult, aside: Sequence[LabelledRow]
) -> RefitResult:
    """The result of a refit, and in the ledger the certificate that could be given after it.

    aside: the labels that no fit has seen. A calibrator without a certificate does not replace one that has
    one: the user, who wants a promise, would lose it.
    """
    promise = held.ledger.promise
    if promise is None:
        return result
    chosen = result.calibrator or current
    if chosen.source != "prior":  # its tiers never exceed review
        drawn = visits(aside, most_of_a_line=MOST_OF_ONE_LINE)
        confidence = _confidences(chosen, drawn, promise)
        known = np.isfinite(confidence)
        held.ledger = held.ledger.asking(chosen.id, confidence[known], _correct(drawn)[known])
    if chosen is not current and held.ledger.keeps(current.id):
        why = held.ledger.certificate(chosen.id, promise).reason
        result = attrs.evolve(
            result,
            promoted=False,
            calibrator=None,
            reason=f"the present calibrator has a certificate, the new one has none: {why}",
        )
        chosen = current
    return attrs.evolve(result, certificate=held.ledger.to_wire(chosen.id, promise))


def wanted_of(promise: Promise) -> Wanted:
    """The preferred measure of a promise."""
    measures: dict[str, Wanted] = {"geometric-mean": "geometric-mean", "total": "total"}
    return measures.get(promise.measure, "best")


def _confidences(calibrator: Calibrator, rows: Sequence[LabelledRow], promise: Promise) -> FloatArray:
    """As suggestions to come would get them, shape (n,).

    nan for labels that were stored without the features that those have: another curve would judge them.
    """
    wanted = wanted_of(promise)
    found = calibrator.probabilities([row.evidence for row in rows], wanted)
    if is_plain(in_order(calibrator.curves, wanted)[0].measure):
        return found
    return np.where([bool(row.evidence.features) for row in rows], found, np.nan)


def _correct(rows: Sequence[LabelledRow]) -> BoolArray:
    return np.array([row.correct for row in rows], dtype=np.bool_)


def _used_until(calibrators: CalibratorStore, purpose: Purpose) -> float:
    """The last label that any of the user's calibrators for a purpose was fitted on, so far as their files
    tell: refits from before there was a ledger."""
    if calibrators.ledger_path(purpose).exists():
        return 0.0
    return max((settled_until(one) for one in calibrators.fitted_for(purpose)), default=0.0)
