"""Taking back what was learned: the calibrator before, and what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Listed
from lsp_calib.calibration.calibrators.carrying_over import carried_from
from lsp_calib.calibration.calibrators.purpose import Purpose
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
    found = _id([entry.calibrator.id for entry in entries], wanted)
    return next(entry for entry in entries if entry.calibrator.id == found)


def _id(known: Sequence[str], wanted: str) -> str:
    """The id that is wanted, or the only one that begins so. Raises SettingsError."""
    begun = [one for one in dict.fromkeys(known) if one.startswith(wanted)]
    if wanted in begun:
        return wanted
    if len(begun) != 1:
        listed = ", ".join(begun or dict.fromkeys(known)) or "none"
        problem = "Several calibrators begin with" if begun else "There is no calibrator"
        raise SettingsError(f"{problem} {wanted!r}. Known: {listed}.")
    return begun[0]


def roll_back(store: CalibratorStore, wanted: str | None = None, *, used: str | None = None) -> RolledBack:
    """Take a calibrator of the user out of force: the one before it, or a named one, takes its place.

    wanted: id of the calibrator to go back to, or the beginning of its id; also of one that no file holds,
        borrowed or carried over, where one of the user has replaced it. None: the one that the user's present
        one replaced, or the shipped one.
    used: without `wanted`, the id of the calibrator to take out of force. None: the only one of the user.
    Raises SettingsError for an unknown name, CalibratorError if there is nothing to go back from or to, or
    several without a name.
    """
    entries, _ = store.listed()
    mine = [
        entry
        for entry in entries
        if entry.in_force and entry.path.parent == store.personal and not carried_from(entry.calibrator)
    ]
    if wanted is not None:
        purpose, to = _named(store, entries, mine, wanted)
    else:
        purpose, to = _used(store, entries, mine, used), None
    before = store.choose(purpose).calibrator
    store.rollback(purpose, to=to)
    # With the own one gone, an earlier one of the user may be carried over again.
    after = store.choose(purpose).calibrator
    if after.id == before.id:
        raise CalibratorError(f"{after.id} stays in force: {_why_it_stays(after)}")
    return RolledBack(before, after)


def _why_it_stays(calibrator: Calibrator) -> str:
    """Why a calibrator is in force although another one was to be: see `CalibratorStore.choose`."""
    if earlier := carried_from(calibrator):
        before = "by the id of the one before it"
        return f"it is carried over from your {earlier}. Take that one out of force, {before}."
    return "the one that you name weighs a single measure, as earlier versions did. A refit uses your labels."


def _named(
    store: CalibratorStore, entries: Sequence[Listed], mine: Sequence[Listed], wanted: str
) -> tuple[Purpose, str | None]:
    """The purpose that `wanted` is for, and its id; without the id where no file holds it: it comes back by
    itself once the user's own one is out of force."""
    files = {entry.calibrator.id: entry for entry in entries}
    replaced = {_before(store, entry): entry.calibrator.purpose for entry in mine}
    found = _id([*files, *replaced], wanted)
    if found not in files:
        return replaced[found], None
    if files[found].in_force:
        raise CalibratorError(f"{found} is in force already.")
    return files[found].calibrator.purpose, found


def _used(
    store: CalibratorStore, entries: Sequence[Listed], mine: Sequence[Listed], used: str | None
) -> Purpose:
    """The purpose of the user's calibrator to take out of force. Raises CalibratorError."""
    # What was carried over goes with the calibrator that it came from.
    carried = [carried_from(one.calibrator) for one in entries if one.calibrator.id == used]
    used = next((earlier for earlier in carried if earlier), used)
    chosen = mine if used is None else [entry for entry in mine if entry.calibrator.id == used]
    if not chosen:
        which = "none of your own calibrators is in force" if used is None else f"{used} is not your own"
        raise CalibratorError(f"There is nothing to roll back: {which}.")
    if len(chosen) > 1:
        targets = ", ".join(
            f"{_before(store, entry)} ({entry.calibrator.purpose.language})" for entry in chosen
        )
        raise CalibratorError(
            f"You have {len(chosen)} calibrators in force. Name the one to go back to: {targets}."
        )
    return chosen[0].calibrator.purpose


def _before(store: CalibratorStore, entry: Listed) -> str:
    """The id of the calibrator that one of the user replaced; a file put there by hand may name none."""
    one = entry.calibrator
    return one.parent or store.choose(one.purpose, personal=False).calibrator.id
