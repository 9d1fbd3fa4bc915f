"""Refits without being asked, where enough is new since the last one."""

from __future__ import annotations

import attrs

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.policies.ledger import Promise
from lsp_calib.feedback.learning import Refits, refit_from_feedback
from lsp_calib.feedback.present import is_ahead, latest
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.training_rows import settled_until

# Visits to a line with a label since the last refit, and their share of those that it had. Fewer change a
# calibrator by less than the comparison of two can show, and each refit under a promise asks for a
# certificate, which has its price.
LEAST_NEW = 30
LEAST_SHARE = 0.2


def refit_where_due(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    purpose: Purpose,
    today: str,
    promise: Promise | None,
) -> Refits | None:
    """Refit each language in which enough is new, as `refit_from_feedback` does; None if there is none.

    Raises LspCalibError if store or calibrators cannot be used.
    """
    results = []
    for language in store.languages(purpose.model, purpose.prompt_version, purpose.task):
        one = attrs.evolve(purpose, language=language)
        if is_due(store, calibrators, one):
            results.append((language, refit_from_feedback(store, calibrators, one, today, promise=promise)))
    return Refits(tuple(results), purpose.model.name) if results else None


def is_due(store: FeedbackStore, calibrators: CalibratorStore, purpose: Purpose) -> bool:
    """Whether there are LEAST_NEW visits since the last refit, and LEAST_SHARE of those before."""
    ledger, current = calibrators.ledger(purpose), calibrators.choose(purpose).calibrator
    before = max(ledger.tried_n, current.n if settled_until(current) else 0)
    tried_until = 0.0 if is_ahead(ledger.tried_until) else ledger.tried_until
    new = store.visits_after(purpose, max(tried_until, settled_until(current)), until=latest())
    return new >= max(LEAST_NEW, LEAST_SHARE * before)
