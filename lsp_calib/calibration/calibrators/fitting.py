"""Labels and log-probabilities -> a calibrator with its quality on record (`lsp-calib calibrate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Origin, Purpose, Source, State
from lsp_calib.calibration.methods.platt import LOOSE_PRIOR, PlattCalibrator, Prior
from lsp_calib.calibration.validation.cross_validation import CANDIDATES, select_first_t
from lsp_calib.calibration.validation.intervals import summarise
from lsp_calib.confidence import measure_name, raw_confidences


@attrs.frozen(eq=False)
class Fitted:
    """A calibrator, and the predictions by which it is judged.

    confidence: float array of shape (n,): each label predicted with the choice and fit of the other folds.
    """

    calibrator: Calibrator
    confidence: FloatArray


def fit_calibrator(
    purpose: Purpose,
    log_probabilities: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    source: Source,
    state: State,
    created: str,
    candidates: Sequence[int | None] = CANDIDATES,
    prior: Prior = LOOSE_PRIOR,
    strata: Mapping[str, int] | None = None,
    provenance: Sequence[Origin] = (),
    parent: str | None = None,
    seed: int = 0,
) -> Fitted:
    """Choose t, fit Platt scaling on all labels, and measure it honestly out of fold.

    log_probabilities: n sequences of token log-probabilities. correct: bool array of shape (n,).
    groups: array of shape (n,); a group (repository, file) is never split between fitting and testing.
    created: ISO date. prior: it does not trust raw confidences as they stand, because those of code models
        are not probabilities. The other arguments are the calibrator's fields, or those of `select_first_t`.
    The metrics are those of predictions whose t and fit never saw the item's group.
    Raises DataError as `select_first_t` does.
    """
    labels = np.asarray(correct)

    def fit(raw: npt.ArrayLike, correct: npt.ArrayLike) -> PlattCalibrator:
        return PlattCalibrator.fit(raw, correct, prior=prior)

    chosen = select_first_t(log_probabilities, labels, groups, candidates, fit=fit, seed=seed)
    measure = measure_name(chosen.first)
    raw = raw_confidences(measure, log_probabilities)
    calibrator = Calibrator(
        purpose=purpose,
        measure=measure,
        platt=fit(raw, labels),
        prior=prior,
        n=labels.size,
        n_correct=int(np.count_nonzero(labels)),
        metrics=summarise(chosen.confidence, labels, groups, seed=seed),
        strata=dict(strata or {}),
        provenance=tuple(provenance),
        source=source,
        state=state,
        created=created,
        parent=parent,
    )
    return Fitted(calibrator, chosen.confidence)
