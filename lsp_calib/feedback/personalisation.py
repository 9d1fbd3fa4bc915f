"""From the store to the next calibrators: the labels of a purpose, refits, and certificates.

Some labels are set aside for certificates, and the one in force is watched. Refits come by command, or by
themselves where enough is new.
"""

from __future__ import annotations

import datetime
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import attrs
import numpy as np
from msgspec.structs import replace

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Wanted, in_order, is_plain
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Held, editing
from lsp_calib.calibration.calibrators.line_curves import PREFIXES
from lsp_calib.calibration.calibrators.promotion import MOST_OF_ONE_LINE, LabelWeights
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import RefitResult, compare, refit, seen_until
from lsp_calib.calibration.certificates import AS_BEFORE, LEAST_CONFIDENCE, Ledger, Promise, Wish
from lsp_calib.calibration.logistic import log_odds, sigmoid
from lsp_calib.edits.offers import shipped_curve
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback.store import FeedbackStore, LabelledRow, is_ahead
from lsp_calib.values import ModelIdentity


def labels_for(
    store: FeedbackStore, purpose: Purpose, *, after: float = 0.0, at_once: bool = False
) -> list[LabelledRow]:
    """The last labels of a purpose, as many as `store.most_labels`, oldest first, where their
    log-probabilities can be believed.

    One line, or one visit, does not fill them: of each only the last ones are taken (`rows.last_of_each`).
    after: only those that settled later (Unix seconds), all of them: a watch reads each once. at_once: only
    those that fits rest on: a calibrator says what is known before anything is typed along, and what came
    later, or was hidden before, was seen only because its first characters agreed. Raises LspCalibError.
    """
    rows = store.labels(
        *(purpose.model, purpose.prompt_version, purpose.task),
        after=after,
        language=purpose.language,
        newest=store.most_labels,
        mixed=not after,
        at_once=at_once,
    )
    return [row for row in rows if believable(row)]


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
    """Bring a ledger up to date with the wish for a promise and with the settled labels in the store.

    A suggestion counts once, with the highest probability that was shown of it: it is above a threshold if
    and only if it was at some moment, and the first of these is the one that the promise is about.
    """
    ledger = held.ledger
    if any(map(is_ahead, (ledger.used_until, ledger.read_until, ledger.tried_until))):
        held.ledger = ledger.clamped_to(time.time())
    promise = held.ledger.promise if wish == "as before" else wish
    if promise is None:
        return
    store.settle_left(time.time())
    if promise.measure == AS_BEFORE:
        before = held.ledger.promise or Promise()
        promise = attrs.evolve(promise, measure=before.measure)
    held.ledger = held.ledger.opened(
        promise, key=store.key_mark(), used_until=_used_until(calibrators, purpose)
    )
    read_until = held.ledger.read_until
    if rows := labels_for(store, purpose, after=read_until):
        # A visit may have had labels before: who stays on a line and saves again and again tells no more.
        known = store.visited_before(purpose, [row.episode for row in rows], read_until)
        seen = visits(row for row in rows if row.episode not in known)
        calibrator = calibrators.choose(purpose).calibrator
        confidence = _confidences(calibrator, seen, promise)
        likely = confidence >= LEAST_CONFIDENCE
        if not held.ledger.holds(calibrator.id):  # a certificate of another says nothing of these
            confidence = np.full(len(seen), np.nan)
        aside = int(np.count_nonzero(likely & set_aside(store, held.ledger, seen)))
        read_until = max(row.settled_at or row.at for row in rows)
        held.ledger = held.ledger.read(aside, confidence, _correct(seen), read_until)


def set_aside(store: FeedbackStore, ledger: Ledger, rows: Sequence[LabelledRow]) -> BoolArray:
    """For each label, whether it is kept for certificates, so that no fit may see it. Shape (n,)."""
    late = [ledger.is_unused(row.at) for row in rows]
    half = store.holdout({row.episode for row in compress(rows, late)})
    return np.array([row.episode in half for row in rows], dtype=np.bool_) & np.array(late, dtype=np.bool_)


def visits(rows: Iterable[LabelledRow], *, most_of_a_line: float = math.inf) -> list[LabelledRow]:
    """One label for each visit to a line, in their order.

    A certificate counts independent ones. The first that was shown stands for its visit: a visit ends with
    the first right one, so that any choice by what came later would prefer right ones.
    most_of_a_line: at most so many visits to the same line, the oldest.
    """
    rows = list(rows)
    drawn: dict[str, LabelledRow] = {}
    for row in sorted(rows, key=lambda row: (row.shown_at, row.suggestion_id)):
        drawn.setdefault(row.episode, row)
    counts: Counter[str] = Counter()
    found = []
    for row in rows:
        if drawn[row.episode] is row:
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
        # What is provisional may be revised; a visit waits for all of its labels.
        waiting = {row.episode for row in aside if row.settled_at is None}
        rows = (row for row in aside if row.episode not in waiting)
        drawn = visits(rows, most_of_a_line=MOST_OF_ONE_LINE)
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


def _confidences(calibrator: Calibrator, rows: Sequence[LabelledRow], promise: Promise) -> FloatArray:
    """The highest probabilities of suggestions, as those to come would get them, shape (n,).

    nan for labels that were stored without the features that those have: another curve would judge them.
    """
    measures: dict[str, Wanted] = {"geometric-mean": "geometric-mean", "total": "total"}
    wanted = measures.get(promise.measure, "best")
    found = calibrator.probabilities([row.evidence for row in rows], wanted)
    if not is_plain(in_order(calibrator.curves, wanted)[0].measure):
        found = np.where([bool(row.evidence.features) for row in rows], found, np.nan)
    pairs = zip(found.tolist(), rows, strict=True)
    return np.array([highest(p, row, calibrator.id) for p, row in pairs], dtype=np.float64)


def highest(p: float, row: LabelledRow, calibrator: str) -> float:
    """The highest probability of a suggestion, from its probability by this calibrator when nothing was typed
    along.

    What was typed along moves the log-odds of each calibrator alike, all but exactly (the test has by how
    much). By how much is not known of one that was first shown later: under another calibrator it is nan.
    """
    if row.best is None or row.confidence is None or not math.isfinite(p):
        return p
    if row.typed:
        return row.best if row.calibrator_id == calibrator else math.nan
    if row.best == row.confidence:
        return p
    return float(sigmoid(log_odds(p) + log_odds(row.best) - log_odds(row.confidence)))


def _correct(rows: Sequence[LabelledRow]) -> BoolArray:
    return np.array([row.correct for row in rows], dtype=np.bool_)


def _used_until(calibrators: CalibratorStore, purpose: Purpose) -> float:
    """The last label that any of the user's calibrators for a purpose was fitted on, so far as their files
    tell: refits from before there was a ledger."""
    if calibrators.ledger_path(purpose).exists():
        return 0.0
    return max((settled_until(one) for one in calibrators.fitted_for(purpose)), default=0.0)


EDITS = "next edits"
"""What is said in the place of their language."""


@attrs.frozen
class Refits:
    """The result of a refit for each language with labels, the one with most labels first; at least one. That
    of next edits comes last, under the name EDITS.

    model: the name of the model whose labels the others rest on, if there are any. elsewhere: where it has
    none, a sentence on the labels of other models; empty: it has some, or nobody has. sure: labels by which
    the curve of how far a line can be trusted was moved; 0: it stays.
    """

    results: tuple[tuple[str, RefitResult], ...]
    model: str
    elsewhere: str = ""
    sure: int = 0

    @property
    def leading(self) -> tuple[str, RefitResult]:
        """The language that the answer as a whole is about: the first promoted one, else the first."""
        return next((pair for pair in self.results if pair[1].promoted), self.results[0])

    def sentences(self) -> Iterator[str]:
        """The results in words for the user: a sentence for each language, then the one on other models."""
        for language, result in self.results:
            done = "a new calibrator is in force" if result.promoted else "the calibrator stays"
            promise = "" if result.certificate is None else f" {_in_words(result.certificate)}"
            of = EDITS if language == EDITS else f"{self.model}, {language}"
            yield f"{of}: {done} ({result.n} labels): {result.reason}.{promise}"
        if self.sure:
            yield (
                f"{self.model}: how far a line can be trusted is judged by {self.sure} of your lines as well."
            )
        if self.elsewhere:
            yield self.elsewhere

    def to_wire(self) -> dict[str, Any]:
        """The leading result as `lsp-calib.refit` answers it; where there are several, all in `languages`."""
        language, result = self.leading
        note = {"note": self.elsewhere} if self.elsewhere else {}
        sure = {"sureLabels": self.sure} if self.sure else {}
        wire = {**result.to_wire(), "model": self.model, **note, **sure}
        if len(self.results) == 1:
            return wire
        languages = [{"language": language, **result.to_wire()} for language, result in self.results]
        return {**wire, "reason": f"{language}: {result.reason}", "languages": languages}


def refit_languages(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    model: ModelIdentity,
    prompt_version: str,
    today: str,
    *,
    promise: Wish = "as before",
) -> Refits:
    """`refit_from_feedback` for the lines of every language that a model and prompt have labels in; for
    Python, which says that there is none, if they have none. Then for next edits, if any has a label."""
    lines = _in_languages(store, model, prompt_version) or [Purpose(model, prompt_version, "line", "python")]
    return _refits(store, calibrators, [*lines, *_of_edits(store)], today, promise)


def refit_where_due(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    model: ModelIdentity,
    prompt_version: str,
    today: str,
    promise: Promise | None,
) -> Refits | None:
    """As `refit_languages`, for the languages in which enough is new; None if there is none.

    Raises LspCalibError if store or calibrators cannot be used.
    """
    every = [*_in_languages(store, model, prompt_version), *_of_edits(store)]
    due = (one for one in every if is_due(store, calibrators, one))
    refits = _refits(store, calibrators, due, today, promise)
    return refits if refits.results else None


def _in_languages(store: FeedbackStore, model: ModelIdentity, prompt_version: str) -> list[Purpose]:
    """The lines of every language with labels, the one with most first."""
    languages = store.languages(model, prompt_version, "line")
    return [Purpose(model, prompt_version, "line", language) for language in languages]


def _of_edits(store: FeedbackStore) -> list[Purpose]:
    """Next edits, if any has a label: their curve is the same beside every model."""
    curve = shipped_curve()
    if curve is None:
        return []
    purpose = curve.purpose
    return [purpose] if store.languages(purpose.model, purpose.prompt_version, purpose.task) else []


def _refits(
    store: FeedbackStore, calibrators: CalibratorStore, purposes: Iterable[Purpose], today: str, promise: Wish
) -> Refits:
    """Refit for each purpose in turn: where one fails, those before it are in force."""
    results, last = [], None
    for one in purposes:
        last = one if last is None or one.task == "line" else last
        result = refit_from_feedback(store, calibrators, one, today, promise=promise)
        results.append((EDITS if one.task == "edit" else one.language, result))
    has_lines = last is not None and last.task == "line"
    sure = _move_prefix_curve(store, calibrators, last) if last is not None and has_lines else 0
    return Refits(tuple(results), "" if last is None else last.model.name, sure=sure)


# Visits to a line with a label since the last refit, and their share of those that it had. Fewer change a
# calibrator by less than the comparison of two can show, and each refit under a promise asks for a
# certificate, which has its price.
LEAST_NEW = 30
LEAST_SHARE = 0.2


def is_due(store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose) -> bool:
    """Whether there are LEAST_NEW visits since the last refit, and LEAST_SHARE of those before."""
    ledger, current = calibrators.ledger(purpose), calibrators.choose(purpose).calibrator
    before = max(ledger.tried_n, current.n if settled_until(current) else 0)
    tried_until = 0.0 if is_ahead(ledger.tried_until) else ledger.tried_until
    new = store.visits_after(purpose, max(tried_until, settled_until(current)))
    return new >= max(LEAST_NEW, LEAST_SHARE * before)


def _move_prefix_curve(store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose) -> int:
    """Move the curve of how far a line can be trusted by the labels since the last move, in all languages,
    where they are evidence for it; returns their number, 0 if the curve stays.

    Raises LspCalibError if the store cannot be read or the file cannot be written.
    """
    lines = calibrators.line_curves(purpose)
    curve, shipped = lines.prefix, lines.shipped_prefix
    if curve is None or not (curve.base or curve == shipped):
        return 0  # there is none, or it is a fit of the user's own
    after, newest = 0.0 if is_ahead(curve.until) else curve.until, store.most_labels
    moved = curve.moved(store.sure_parts(purpose.model, purpose.prompt_version, after=after, newest=newest))
    if moved is None:
        return 0
    moved.save(calibrators.personal / PREFIXES)
    return moved.n - curve.n


def refit_from_feedback(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    purpose: Purpose,
    today: str,
    *,
    promise: Wish = "as before",
) -> RefitResult:
    """Refit on the labels of a purpose, and put the new calibrator in force if there is evidence for it.

    `calibrators.refit` weighs the evidence, and the certificate in force may still forbid it
    (`with_certificate`). Running servers find the calibrator at their next request
    (`ConfidenceEstimator.reload`).
    today: ISO date.
    promise: what the tiers are to promise. With one, half of the visits is kept from the fit, and a
        certificate is asked for on these; without, the fit takes all labels, and from then on no certificate
        can rest on any of them.
    Raises LspCalibError if store or calibrators cannot be used.
    """
    with editing(calibrators.ledger_path(purpose)) as held:
        rows = labels_for(store, purpose, at_once=True)
        open_for(held, store, calibrators, purpose, promise)
        if promise is None or held.ledger.promise is None:
            held.ledger = held.ledger.closed(_last(rows))
        fitting = list(compress(rows, ~set_aside(store, held.ledger, rows)))
        current = calibrators.choose(purpose).calibrator
        earlier = calibrators.earlier(purpose)
        result = refit(
            current,
            [row.evidence for row in fitting],
            [row.correct for row in fitting],
            _weights_of(fitting),
            created=today,
            base=calibrators.base(purpose),
            seen=seen_by(current, fitting),
            until=_until(fitting) if fitting else None,
            earlier=earlier.calibrator if earlier else None,
            same_model=earlier is None or earlier.same_model,
        )
        if held.ledger.promise is not None:
            every = labels_for(store, purpose)
            aside = list(compress(every, set_aside(store, held.ledger, every)))
            result = with_certificate(held, current, result, aside)
        held.ledger = replace(
            held.ledger, tried_until=_last(rows), tried_n=len({row.episode for row in rows})
        )
        if result.calibrator is not None:
            if store.lacks([row.suggestion_id for row in rows]):
                raise CalibratorError("The labels were deleted during the refit: nothing was made of them.")
            # On a full disk, or if the process is killed: labels that count as used and were not do no harm.
            held.save()
            calibrators.promote(result.calibrator)
        return result


def try_out(
    store: FeedbackStore, calibrators: CalibratorStore, new: Calibrator, *, own: bool = False
) -> RefitResult:
    """Compare a calibrator with the one in force, on the user's labels that the latter has not seen and that
    are not set aside.

    own: whether it was fitted on this user's labels: those then count as seen, too. Any other one needs more
        evidence, as for `compare`.
    Raises LspCalibError if store or calibrators cannot be used.
    """
    with editing(calibrators.ledger_path(new.purpose)) as held:
        every = labels_for(store, new.purpose, at_once=True)
        aside = set_aside(store, held.ledger, every)
        if held.ledger.promise is None:
            held.ledger = held.ledger.closed(_last(every))  # they choose a calibrator: no longer unseen
        rows = list(compress(every, ~aside))
        current = calibrators.choose(new.purpose).calibrator
        return compare(
            new,
            current,
            [row.evidence for row in rows],
            [row.correct for row in rows],
            _weights_of(rows),
            seen=seen_by(current, rows),
            new_seen=seen_by(new, rows) if own else None,
        )


def _weights_of(rows: Sequence[LabelledRow]) -> LabelWeights:
    """How much each label counts."""
    return LabelWeights.of(
        len(rows),
        episodes=[row.episode for row in rows],
        lines=[line_of(row) for row in rows],
        shown=[row.shown_probability for row in rows],
        times=[row.shown_at for row in rows],
    )


def seen_by(current: Calibrator, rows: Sequence[LabelledRow]) -> int:
    """How many of the rows, oldest first, `current` was fitted on.

    Decided by their times: a number would be wrong once old rows have been deleted.
    """
    until = settled_until(current)
    return sum(row.at <= until for row in rows)


def _in_words(certificate: dict[str, Any]) -> str:
    what = "Certified" if certificate["certified"] else "Nothing is certified to be accepted"
    return f"{what}: {certificate['reason']}."


def _last(rows: Sequence[LabelledRow]) -> float:
    """When the last label settled, in Unix seconds; 0 without one."""
    return max((row.at for row in rows), default=0.0)


def _until(rows: Sequence[LabelledRow]) -> str:
    """The moment of the last label, not rounded down: ISO, with time zone."""
    last = math.ceil(max(row.at for row in rows) * 1e3) / 1e3
    return datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat(timespec="milliseconds")
