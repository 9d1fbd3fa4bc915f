"""A calibrator for other answers of the same model: another language, or source of one's own.

Hundreds of labels are too few to weigh a dozen features anew. What the features mean is much the same
everywhere, so a calibrator that rests on more labels is moved as far as these support. It predicts better
than a calibrator of these labels alone in each of eight languages (docs/languages.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import group_codes, paired
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import is_plain
from lsp_calib.calibration.calibrators.curve_refit import first_known, refit_curve
from lsp_calib.calibration.calibrators.fitting import Fitted, metrics_by_place
from lsp_calib.calibration.calibrators.label_weights import LabelWeights
from lsp_calib.calibration.calibrators.lineage import by_id, rests_on
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose, Source, State
from lsp_calib.calibration.calibrators.rank_curves import Ranked, fit_ranks
from lsp_calib.calibration.folds import grouped_folds
from lsp_calib.calibration.validation.intervals import summarise
from lsp_calib.values import Evidence

# A calibrator to begin with rests on so many times the labels. Those of Java's summaries, of 445 labels each,
# helped the 288 of Python with one model and harmed them with the other.
TIMES = 3
# The share of the labels that must have a curve's features.
_KNOWN = 0.9


def base_for(
    purpose: Purpose, shipped: Sequence[Calibrator], n: int, projects: Collection[str], *, for_others: bool
) -> Calibrator | None:
    """The calibrator to begin with for n labels; None: these must do alone.

    It is of the same model, prompt and task, rests on `TIMES` as many labels, and neither it nor one that it
    was made from was fitted on any of the projects, given by name: otherwise these would be predicted by
    themselves. One of the language goes first,
    unless the new one is `for_others`: it takes that one's place. One of another language was not made from a
    third. Among several it is the one with the most labels.
    """
    every = by_id(shipped)
    known = [
        one
        for one in shipped
        if _labels(one) >= TIMES * n
        and not purpose.differences(one.purpose.model, one.purpose.prompt_version, one.purpose.task)
        and not {origin.name for origin in rests_on(one, every)} & set(projects)
    ]
    of_language = [one for one in known if one.purpose.language == purpose.language]
    # One that was itself made from another would make the result depend on the order in which they are made.
    others = [
        one for one in known if one.purpose.language != purpose.language and one.curves[0].shift is None
    ]
    chosen = others if for_others or not of_language else of_language
    return max(chosen, key=lambda one: (_labels(one), one.id), default=None)


def _labels(calibrator: Calibrator) -> int:
    """How many labels it rests on, those of the calibrator that it was made from included."""
    return sum(origin.items for origin in calibrator.provenance)


def adapt_calibrator(
    base: Calibrator,
    purpose: Purpose,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    source: Source,
    state: State,
    created: str,
    strata: Mapping[str, int] | None = None,
    provenance: Sequence[Origin] = (),
    ranked: Sequence[Ranked] | None = None,
    seed: int = 0,
) -> Fitted | None:
    """Each curve of `base` moved towards these labels, by slope and intercept or by its weights, as a user's
    labels move it (`curve_refit.refit_curve`).

    The arguments are those of `fitting.fit_calibrator`. Curves with a feature that many answers lack are left
    out; None if that leaves no curve over features where `base` has one, or if the labels are of one group.
    The last of its origins is `base`. Metrics are of predictions by fits without the item's group.
    Raises DataError as `Curve.score` does.
    """
    _, labels = paired(np.zeros(len(evidences)), correct)
    codes = group_codes(groups, labels.size)
    if np.unique(codes).size < 2:
        return None
    fold = grouped_folds(codes, seed=seed)
    counting = LabelWeights.of(labels.size)
    moved = [refit_curve(one, base.source, evidences, labels, counting, fold) for one in base.curves]
    kept = [one for one in moved if np.isfinite(one.predicted).mean() >= _KNOWN]
    if not kept or is_plain(kept[0].curve.measure) > is_plain(base.curves[0].measure):
        return None
    # As an answer gets its probability: by the first curve whose features it has.
    predicted = first_known([one.predicted for one in kept])
    if np.isnan(predicted).any():
        return None
    places = np.array([evidence.place for evidence in evidences], dtype=str)
    calibrator = Calibrator(
        purpose=purpose,
        curves=tuple(one.curve for one in kept),
        raw_measure=base.raw_measure,
        n=labels.size,
        n_correct=int(np.count_nonzero(labels)),
        metrics=summarise(predicted, labels, groups, seed=seed),
        by_place=metrics_by_place(predicted, labels, codes, places, seed),
        strata=dict(strata or {}),
        provenance=(*provenance, Origin(base.id, base.created, base.n)),
        source=source,
        state=state,
        created=created,
        ranks=(fit_ranks(ranked, labels) if ranked is not None else ()) or base.ranks,
    )
    confidences = {one.curve.measure: one.predicted for one in kept}
    return Fitted(calibrator, {**confidences, calibrator.measure: predicted})
