"""Taking back what was learned: the calibrator before, and what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Listed
from lsp_calib.calibration.calibrators.carrying_over import carried_from
from lsp_calib.errors import CalibratorError, SettingsError


@attrs.frozen
class RolledBack:
    """before: the calibrator that was in force. after: the one that is now."""

    before: Calibrator
    after: Calibrator

    @property
    def sentence(self) -> str:
        """What changed, in words for the user."""
        purpose = self.before.purpose
        again = f"`lsp-calib calibrators rollback {self.before.id}` puts the former in force again."
        return (
            f"{purpose.model.name}, {purpose.language}: {in_words(self.before)} is no longer in force; "
            f"{in_words(self.after)} is. {again}"
        )

    def to_wire(self) -> dict[str, Any]:
        """As `lsp-calib.rollbackCalibrator` answers it."""
        return {
            "calibrator": attrs.asdict(self.after.ref),
            "before": attrs.asdict(self.before.ref),
            "message": self.sentence,
        }


def in_words(calibrator: Calibrator) -> str:
    """A calibrator by its id, and whose labels it was fitted on."""
    if calibrator.source == "prior":
        return "the mean of other models' calibrators (no labels)"
    return f"{calibrator.id} ({calibrator.source}, {calibrator.n} labels)"


def find(entries: Sequence[Listed], wanted: str) -> Listed:
    """The calibrator with an id, or the only one whose id begins so. Raises SettingsError."""
    exact = [entry for entry in entries if entry.calibrator.id == wanted]
    begun = [entry for entry in entries if entry.calibrator.id.startswith(wanted)]
    found = exact[:1] or begun
    if len({entry.calibrator.id for entry in found}) != 1:
        known = ", ".join(dict.fromkeys(entry.calibrator.id for entry in begun or entries)) or "none"
        problem = "Several calibrators begin with" if begun else "There is no calibrator"
        raise SettingsError(f"{problem} {wanted!r}. Known: {known}.")
    return found[0]


def roll_back(store: CalibratorStore, wanted: str | None = None, *, used: str | None = None) -> RolledBack:
    """Take a calibrator of the user out of force: the one before it, or a named one, takes its place.

    wanted: id of the calibrator to go back to, or the beginning of its id. None: the one that the user's
        present one replaced, or the shipped one.
    used: without `wanted`, the id of the calibrator to take out of force. None: the only one of the user.
    Raises SettingsError for an unknown name, CalibratorError if there is nothing to go back from or to, or
    several without a name.
    """
    entries, _ = store.listed()
    if wanted is not None:
        target = find(entries, wanted)
        if target.in_force:
            raise CalibratorError(f"{target.calibrator.id} is in force already.")
        purpose, to = target.calibrator.purpose, target.calibrator.id
    else:
        mine = [
            entry
            for entry in entries
            if entry.in_force and entry.path.parent == store.personal and not carried_from(entry.calibrator)
        ]
        # What was carried over goes with the calibrator that it came from.
        carried = [carried_from(one.calibrator) for one in entries if one.calibrator.id == used]
        used = next((earlier for earlier in carried if earlier), used)
        chosen = mine if used is None else [entry for entry in mine if entry.calibrator.id == used]
        if not chosen:
            which = "none of your own calibrators is in force" if used is None else f"{used} is not your own"
            raise CalibratorError(f"There is nothing to roll back: {which}.")
        if len(chosen) > 1:
            targets = ", ".join(
                f"{entry.calibrator.parent} ({entry.calibrator.purpose.language})" for entry in chosen
            )
            raise CalibratorError(
                f"You have {len(chosen)} calibrators in force. Name the one to go back to: {targets}."
            )
        purpose, to = chosen[0].calibrator.purpose, None
    before = store.choose(purpose).calibrator
    return RolledBack(before, store.rollback(purpose, to=to).calibrator)
