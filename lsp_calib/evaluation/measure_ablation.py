"""Compares every combination of measure and token selection on the same items."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired
from lsp_calib.calibration.methods.platt import PlattCalibrator
from lsp_calib.calibration.metrics.scores import auc, skill_score
from lsp_calib.calibration.validation.cross_validation import Fit, out_of_fold
from lsp_calib.confidence import SELECTIONS, TokenSelection, by_name
from lsp_calib.errors import DataError

MEASURES = ("total", "arithmetic-mean", "geometric-mean", "minimum", "geometric-mean-lowest-3")


@attrs.frozen(eq=False)
class Choice:
    """How good a measure over a selection of tokens is.

    n: number of items, the same for all choices. skill: of the rescaled confidences, pooled and out-of-fold.
    auc: of the raw confidences. Both are nan if all labels are of one class.
    confidence: float array of shape (n,), rescaled and out-of-fold: for a paired test against another choice.
    """

    measure: str
    selection: TokenSelection
    n: int
    skill: float
    auc: float
    confidence: FloatArray


def compare_choices(
    texts: Sequence[Sequence[str]],
    logprobs: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    measures: Sequence[str] = MEASURES,
    selections: Sequence[TokenSelection] = SELECTIONS,
    fit: Fit = PlattCalibrator.fit,
    folds: int = 5,
    seed: int = 0,
) -> tuple[Choice, ...]:
    """Each measure over each selection, in that order.

    texts: the text of each token of each of the n generations; logprobs: its log-probability.
    correct: bool array of shape (n,). groups: array of shape (n,); whole groups are left out of a fit.
    Items for which some selection has no tokens are left out for all choices, so that all are compared on the
    same items. The best of many choices looks better here than on new data: to publish a number, choose
    inside the training folds.
    Raises DataError for inconsistent input, for an unknown measure, or if no items are left.
    """
    if len(texts) != len(logprobs):
        raise DataError(f"{len(texts)} generations of texts do not belong to {len(logprobs)} of logprobs.")
    _, labels = paired(np.zeros(len(texts)), correct)
    kept = [at for at, text in enumerate(texts) if all(selection.indices(text) for selection in selections)]
    if not kept:
        raise DataError("Every generation is without tokens under some selection: nothing can be compared.")
    names = np.asarray(groups)
    if names.shape != labels.shape:
        raise DataError(f"groups must hold one value for each of the {labels.size} items.")
    return tuple(
        _choice(
            measure,
            selection,
            [selection.select(texts[at], logprobs[at]) for at in kept],
            labels[kept],
            names[kept],
            fit,
            folds,
            seed,
        )
        for measure in measures
        for selection in selections
    )


def _choice(
    measure: str,
    selection: TokenSelection,
    logprobs: Sequence[Sequence[float]],
    labels: npt.NDArray[np.bool_],
    groups: npt.NDArray[np.generic],
    fit: Fit,
    folds: int,
    seed: int,
) -> Choice:
    function = by_name(measure)
    raw = np.array([function(item) for item in logprobs])
    confidence = out_of_fold(raw, labels, groups, fit, folds=folds, seed=seed)
    return Choice(
        measure=measure,
        selection=selection,
        n=labels.size,
        skill=skill_score(confidence, labels),
        auc=auc(raw, labels),
        confidence=confidence,
    )
