"""A calibrator that somebody else has fitted: checked, tried on the user's own labels, then put in force or
kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator, is_plain
from lsp_calib.calibration.calibrators.calibrator_store import IMPORTED, CalibratorStore
from lsp_calib.calibration.calibrators.purpose import MOST_AGREE, Origin, Purpose, Task, is_same_model
from lsp_calib.calibration.calibrators.refit import FEEDBACK, RefitResult
from lsp_calib.characters import in_one_line
from lsp_calib.confidence.features import FEATURES, SUMMARY_FEATURES, VERSION
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback.personalisation import try_out
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import ModelIdentity

# How the labels of a calibrator's maker are named in the provenance of the imported one: they are not the
# user's own, and none of the user's has been seen by it.
OTHERS = "another user's feedback"

_KNOWN: dict[Task, Collection[str]] = {
    "line": FEATURES.keys(),
    "edit": FEATURES.keys(),
    "summary": {*(name for name, one in FEATURES.items() if one.needs != "text"), *SUMMARY_FEATURES},
}
"""The features that an answer may have, by task."""

_UNTRIED = (
    "only summaries that somebody wanted, or was annoyed by, have labels, and these are no trial of a "
    "calibrator of all summaries"
)


@attrs.frozen
class Imported:
    """The result of an import.

    calibrator: as it is stored here. path: its file. in_force: whether it judges suggestions now.
    trial: it beside the present one on the user's labels; None if it was not tried. replaced: the id of the
    one that it took the place of; "" for none.
    """

    calibrator: Calibrator
    path: Path
    in_force: bool
    reason: str
    trial: RefitResult | None
    replaced: str = ""

    def to_wire(self) -> dict[str, Any]:
        return {
            "id": self.calibrator.id,
            "path": str(self.path),
            "inForce": self.in_force,
            "reason": self.reason,
            "n": self.trial.n if self.trial else 0,
            "before": self.trial.before if self.trial else None,
            "after": self.trial.after if self.trial else None,
        }


def read_foreign(path: Path, uses: Sequence[Purpose]) -> Calibrator:
    """The calibrator in a file, if it says something here.

    uses: the models and prompts that this user works with, whatever the language.
    Raises CalibratorError for a file that is no calibrator, or one for another model, another version of its
    prompt, another criterion, or features that this version does not compute: with what to do.
    """
    if path.exists() and not path.is_file():
        raise CalibratorError(f"{path} is not a file.")
    calibrator = Calibrator.load(path)
    for curve in calibrator.curves:
        if not curve.readable:
            raise CalibratorError(
                f"{calibrator.id} weighs features of another version than this lsp-calib computes "
                f"({curve.measure}; here: version {VERSION}): its numbers would mean something else. Use the "
                "lsp-calib that made it, or ask for one made with this version."
            )
        known = _KNOWN[calibrator.purpose.task]
        unknown = [f.name for f in curve.features if f.name not in known and not is_plain(f.name)]
        if unknown:
            names = ", ".join(in_one_line(name, 40) for name in unknown[:5])
            raise CalibratorError(f"{path} weighs features that are not known: {names}. It was not imported.")
    model = _used(calibrator, uses)
    if calibrator.purpose.criterion not in ("", MOST_AGREE):
        raise CalibratorError(
            f"{calibrator.id} judges summaries by the criterion {calibrator.purpose.criterion}; here they "
            f"are judged by {MOST_AGREE}, so it would never be used. Ask for one by that criterion."
        )
    if model.sha256 != calibrator.purpose.model.sha256:
        # One of the two names the model without a checksum. The labels here are stored under ours.
        return calibrator.shared(purpose=attrs.evolve(calibrator.purpose, model=model))
    return calibrator


def _used(calibrator: Calibrator, uses: Sequence[Purpose]) -> ModelIdentity:
    """The model here that a calibrator is for. Raises CalibratorError without one."""
    purpose = calibrator.purpose
    same_model = [use for use in uses if use.task == purpose.task and _is_of(calibrator, use.model)]
    if not same_model:
        known = ", ".join(dict.fromkeys(in_one_line(use.model.name, 80) for use in uses)) or "none"
        raise CalibratorError(
            f"{calibrator.id} is for the model {in_one_line(purpose.model.name, 80)} "
            f"({in_one_line(purpose.model.quantisation, 40) or 'quantisation unknown'}"
            f"{', sha256 ' + in_one_line(purpose.model.sha256[:12], 12) if purpose.model.sha256 else ''}), "
            "which is not used here: the probabilities of another model, or of other bytes of this one, mean "
            f"something else. Models here: {known}. `lsp-calib models pull` gets others."
        )
    used = next((use.model for use in same_model if use.prompt_version == purpose.prompt_version), None)
    if used is None:
        versions = ", ".join(dict.fromkeys(use.prompt_version for use in same_model))
        raise CalibratorError(
            f"{calibrator.id} is for the prompt {in_one_line(purpose.prompt_version, 40)}; this "
            f"lsp-calib asks {in_one_line(purpose.model.name, 80)} with {versions}. Ask for one made "
            "with the version that you use."
        )
    return used


def _is_of(calibrator: Calibrator, model: ModelIdentity) -> bool:
    mine = calibrator.purpose.model
    # Where only the name is known, such as of a remote model, the quantisation is not.
    if not model.sha256 or not mine.sha256:
        model = attrs.evolve(model, quantisation=mine.quantisation)
    return is_same_model(mine, model)


def import_calibrator(
    foreign: Calibrator, store: FeedbackStore, calibrators: CalibratorStore, *, install: bool = False
) -> Imported:
    """Try a calibrator from elsewhere on the user's labels, and put it in force if it is no worse there.

    foreign: as `read_foreign` gives it. install: put it in force whatever the labels say.
    It is compared with the present one by the rule of `refit.compare`, on the labels that the present one has
    not seen, and must have shown some skill on its maker's. Otherwise it is kept where
    `lsp-calib calibrators rollback` finds it. One that this user's own labels made, which comes back from a
    file, is not judged by these, and stays what it was; so does the shipped one. One of summaries is not
    tried: no refit learns from their labels either.
    Raises LspCalibError if store or calibrators cannot be used.
    """
    current = calibrators.choose(foreign.purpose).calibrator
    # An exported one has other names of its projects than the user's file of it.
    kept = [one for one in calibrators.fitted_for(foreign.purpose) if one.id == foreign.id]
    shipped = calibrators.choose(foreign.purpose, personal=False).calibrator
    mine = next((one for one in (*kept, shipped) if one.id == foreign.id and not _is_imported(one)), None)
    is_tried = foreign.purpose.task != "summary"
    trial = try_out(store, calibrators, mine or foreign, own=mine is not None) if is_tried else None
    found = _UNTRIED if trial is None else trial.reason
    better = trial is not None and trial.promoted
    if mine is None and (unskilled := _without_skill(foreign)):
        found, better = unskilled, False
    calibrator = mine or _imported(foreign, current)
    if current.id == foreign.id or any(one.name == f"{IMPORTED}{foreign.id}" for one in current.provenance):
        path = calibrators.personal if current.source != "shipped" else calibrators.shipped
        return Imported(current, path, True, "it is in force already", trial)
    comes_with_package = calibrator.id == shipped.id
    if install or better:
        reason = "installed as asked, whatever its trial says" if install else found
        if comes_with_package:
            calibrators.rollback(calibrator.purpose, to=calibrator.id)
        path = calibrators.shipped if comes_with_package else calibrators.promote(calibrator)
        return Imported(calibrator, path, True, reason, trial, current.id)
    path = calibrators.shipped if comes_with_package else calibrators.keep(calibrator)
    return Imported(calibrator, path, False, found, trial)


def _without_skill(foreign: Calibrator) -> str:
    """Why the labels of its maker already speak against a calibrator; empty if they do not, or are none."""
    skill = foreign.metrics.get("skill")
    if skill is None or skill.value is None or skill.value > 0.0:
        return ""
    return (
        f"its skill on the labels of its maker is {skill.value:+.2f}: it knew no more there than their share "
        "of right ones"
    )


def _is_imported(calibrator: Calibrator) -> bool:
    return any(one.name.startswith(IMPORTED) for one in calibrator.provenance)


def _imported(foreign: Calibrator, current: Calibrator) -> Calibrator:
    """A calibrator of somebody else, as it is stored here."""
    return foreign.shared(
        source="workspace",
        parent=current.id,
        provenance=(
            Origin(f"{IMPORTED}{foreign.id}", foreign.created, foreign.n),
            *(attrs.evolve(one, name=OTHERS) if one.name == FEEDBACK else one for one in foreign.provenance),
        ),
    )
