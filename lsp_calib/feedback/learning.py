"""From the store to the next calibrators, for the server's command and the command line."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.ledger_file import editing
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import RefitResult, Trial, compare, refit
from lsp_calib.calibration.policies.ledger import Wish
from lsp_calib.feedback.certifying import open_for, set_aside, with_certificate
from lsp_calib.feedback.rows import LabelledRow
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.training_rows import labels_for, line_of, settled_until


@attrs.frozen
class Refits:
    """The result of a refit for each language with labels, the one with most labels first; at least one.

    model: the name of the model whose labels they rest on. elsewhere: where it has none, a sentence on the
    labels of other models; empty: it has some, or nobody has.
    """

    results: tuple[tuple[str, RefitResult], ...]
    model: str
    elsewhere: str = ""

    @property
    def leading(self) -> tuple[str, RefitResult]:
        """The language that the answer as a whole is about: the first promoted one, else the first."""
        return next((pair for pair in self.results if pair[1].promoted), self.results[0])

    def sentences(self) -> Iterator[str]:
        """The results in words for the user: a sentence for each language, then the one on other models."""
        for language, result in self.results:
            done = "a new calibrator is in force" if result.promoted else "the calibrator stays"
            promise = "" if result.certificate is None else f" {_in_words(result.certificate)}"
            yield f"{self.model}, {language}: {done} ({result.n} labels): {result.reason}.{promise}"
        if self.elsewhere:
            yield self.elsewhere

    def to_wire(self) -> dict[str, Any]:
        """The leading result as `lsp-calib.refit` answers it; where there are several, all in `languages`."""
        language, result = self.leading
        note = {"note": self.elsewhere} if self.elsewhere else {}
        wire = {**result.to_wire(), "model": self.model, **note}
        if len(self.results) == 1:
            return wire
        languages = [{"language": language, **result.to_wire()} for language, result in self.results]
        return {**wire, "reason": f"{language}: {result.reason}", "languages": languages}


def refit_languages(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    purpose: Purpose,
    today: str,
    *,
    promise: Wish = "as before",
) -> Refits:
    """`refit_from_feedback` for every language that the model and task of `purpose` have labels in.

    If there is none, the language of `purpose` is used.
    """
    languages = store.languages(purpose.model, purpose.prompt_version, purpose.task)
    return Refits(
        tuple(
            (
                language,
                refit_from_feedback(
                    store, calibrators, attrs.evolve(purpose, language=language), today, promise=promise
                ),
            )
            for language in languages or [purpose.language]
        ),
        purpose.model.name,
    )


def refit_from_feedback(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    purpose: Purpose,
    today: str,
    *,
    promise: Wish = "as before",
) -> RefitResult:
    """Refit on the labels of a purpose, and put the new calibrator in force if there is evidence for it.

    today: ISO date.
    promise: what the tiers are to promise. With one, half of the visits is kept from the fit, and a
        certificate is asked for on these; without, the fit takes all labels, and from then on no certificate
        can rest on any of them.
    Raises LspCalibError if store or calibrators cannot be used.
    """
    with editing(calibrators.ledger_path(purpose)) as held:
        rows = labels_for(store, purpose)
        open_for(held, store, calibrators, purpose, promise)
        if promise is None or held.ledger.promise is None:
            held.ledger = held.ledger.closed(_last(rows))
        aside = set_aside(store, held.ledger, rows)
        fitting = [row for row, is_aside in zip(rows, aside, strict=True) if not is_aside]
        current = calibrators.choose(purpose).calibrator
        earlier = calibrators.earlier(purpose)
        result = refit(
            current,
            [row.evidence for row in fitting],
            [row.correct for row in fitting],
            created=today,
            base=calibrators.base(purpose),
            seen=seen_by(current, fitting),
            until=_until(fitting) if fitting else None,
            earlier=earlier.calibrator if earlier else None,
            same_model=earlier is None or earlier.same_model,
            **_of_rows(fitting),
        )
        result = with_certificate(
            held, current, result, [row for row, is_aside in zip(rows, aside, strict=True) if is_aside]
        )
        held.ledger = attrs.evolve(
            held.ledger, tried_until=_last(rows), tried_n=len({row.episode for row in rows})
        )
        if result.calibrator is not None:
            # On a full disk, or if the process is killed: labels that count as used and were not do no harm.
            held.save()
            calibrators.promote(result.calibrator)
        return result


def try_out(
    store: FeedbackStore, calibrators: CalibratorStore, new: Calibrator, *, own: bool = False
) -> Trial:
    """Compare a calibrator with the one in force, on the user's labels that the latter has not seen and that
    are not set aside.

    own: whether it was fitted on this user's labels: those then count as seen, too.
    Raises LspCalibError if store or calibrators cannot be used.
    """
    with editing(calibrators.ledger_path(new.purpose)) as held:
        every = labels_for(store, new.purpose)
        aside = set_aside(store, held.ledger, every)
        if held.ledger.promise is None:
            held.ledger = held.ledger.closed(_last(every))  # they choose a calibrator: no longer unseen
        rows = [row for row, is_aside in zip(every, aside, strict=True) if not is_aside]
        current = calibrators.choose(new.purpose).calibrator
        return compare(
            new,
            current,
            [row.evidence for row in rows],
            [row.correct for row in rows],
            seen=seen_by(current, rows),
            new_seen=seen_by(new, rows) if own else 0,
            **_of_rows(rows),
        )


def _of_rows(rows: Sequence[LabelledRow]) -> dict[str, list[Any]]:
    """The arguments of `refit` that say how much each label counts."""
    return {
        "episodes": [row.episode for row in rows],
        "lines": [line_of(row) for row in rows],
        "shown": [row.shown_probability for row in rows],
    }


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
