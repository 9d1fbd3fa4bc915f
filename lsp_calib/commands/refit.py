"""`lsp-calib refit`: new calibrators from the feedback store."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.commands.engine import Say, with_engine
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.feedback.learning import Refits, refit_languages
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.engine import Engine
from lsp_calib.settings import Trusted


def refit_now(given: Trusted, say: Say) -> Refits:
    """Refit from the feedback store, as `lsp-calib.refit` does. given, say: as for `with_engine`."""

    async def ask(engine: Engine) -> Refits:
        # Only the model's identity is asked for: labels of other models say nothing about it.
        loaded, calibrators = await engine.ready(), CalibratorStore.open()
        purpose = line_purpose(loaded, Layouts(calibrators.has_labels).of(loaded), "python")
        store = FeedbackStore(home.home() / "feedback.db")
        try:
            today = datetime.date.today().isoformat()
            return refit_languages(store, calibrators, purpose, today)
        finally:
            store.close()

    return with_engine(ask, given, say)


def sentences(refits: Refits) -> Iterator[str]:
    """The results of a refit, a sentence for each language."""
    for language, result in refits.results:
        done = "a new calibrator is in force" if result.promoted else "the calibrator stays"
        yield f"{language}: {done} ({result.n} labels): {result.reason}."
