"""The calibrator in force: the user's own, else a shipped one, else the mean of other models' calibrators."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.carrying_over import carried_from, carry_over
from lsp_calib.calibration.calibrators.ledger_file import read_ledger
from lsp_calib.calibration.calibrators.lineage import by_id
from lsp_calib.calibration.calibrators.pooled_prior import borrow
from lsp_calib.calibration.calibrators.purpose import Purpose, slug
from lsp_calib.calibration.policies.ledger import Ledger
from lsp_calib.errors import CalibratorError
from lsp_calib.values import ModelIdentity

CERTIFICATES = "certificates"
"""The folder with the ledgers, below that of the calibrators."""


@attrs.frozen
class Choice:
    """The calibrator in force, and a sentence for each file that had to be skipped on the way to it."""

    calibrator: Calibrator
    skipped: tuple[str, ...] = ()


@attrs.frozen
class Earlier:
    """A user's calibrator for another purpose, its file, and whether its model is the same."""

    calibrator: Calibrator
    same_model: bool
    path: Path


@attrs.frozen
class Listed:
    """A calibrator's file. in_force: whether its model's suggestions are judged by it now. ledger: of the
    certificates for its purpose."""

    path: Path
    calibrator: Calibrator
    in_force: bool
    ledger: Ledger = attrs.field(factory=Ledger)


@attrs.frozen
class CalibratorStore:
    """Two folders of calibrator files.

    personal: of the user (fitted on feedback or on a workspace); earlier ones are kept in its `history/`, and
        in its `certificates/` what was promised of them.
    shipped: of the package; never written.
    """

    personal: Path
    shipped: Path

    @classmethod
    def open(cls) -> CalibratorStore:
        """The folders of this user and installation. Raises SettingsError if the state folder is unusable."""
        personal = home.private_folder(home.home() / "calibrators")
        _without_names(personal / CERTIFICATES)
        return cls(personal, home.shipped_models() / "calibrators")

    def choose(self, purpose: Purpose, *, personal: bool = True) -> Choice:
        """The calibrator in force for a purpose. There always is one; files that cannot be used are reported.

        personal: whether the user's own calibrators count.
        """
        mine, skipped = self._personal(purpose) if personal else ([], [])
        if mine and mine[0][1].schema > 1 and mine[0][1].curves[0].readable:
            return Choice(mine[0][1], tuple(skipped))
        shipped, more = _read(self.shipped)
        skipped += more
        fitting = [calibrator for _, calibrator in shipped if _fits(calibrator, purpose)]
        newest = max(fitting, key=lambda found: (found.created, found.n, found.id), default=None)
        base = newest or borrow(purpose, [calibrator for _, calibrator in shipped])
        earlier = self.earlier(purpose) if personal else None
        if earlier is not None and earlier.same_model and base.curves[0].readable:
            carried = carry_over(base, earlier.calibrator)
            if carried is not None:
                return Choice(carried, tuple(skipped))
        if mine and mine[0][1].schema > 1:
            return Choice(mine[0][1], tuple(skipped))
        # A user's calibrator of schema 1 weighs one measure. One that weighs features tells right from wrong
        # far better; the next refit brings it the user's labels.
        if mine and (newest is None or newest.schema == 1):
            return Choice(mine[0][1], tuple(skipped))
        return Choice(base, tuple(skipped))

    def base(self, purpose: Purpose) -> Calibrator:
        """The calibrator at which a refit begins: the one of the user's own source or commits that is in
        force, or that the one in force began at; without one, the shipped or borrowed one."""
        current = self.choose(purpose).calibrator
        named = {current.id, *(origin.name for origin in current.provenance)}
        for one in (current, *self.fitted_for(purpose)):
            if one.source == "workspace" and one.id in named and one.schema > 1 and one.curves[0].readable:
                return one
        return self.choose(purpose, personal=False).calibrator

    def all_shipped(self) -> list[Calibrator]:
        """The calibrators that came with the package; files that cannot be used are left out."""
        return [calibrator for _, calibrator in _read(self.shipped)[0]]

    def known(self, purpose: Purpose) -> dict[str, Calibrator]:
        """By their ids, all calibrators that one for a purpose may have been made from: the shipped ones, the
        user's with those that are kept, and what is borrowed for the purpose, which no file holds."""
        folders = (self._history, self.personal, self.shipped)
        files = [calibrator for folder in folders for _, calibrator in _read(folder)[0]]
        return by_id([*files, self.choose(purpose, personal=False).calibrator])

    def has_labels(self, model: ModelIdentity, prompt_version: str) -> bool:
        """Whether a calibrator of lines by this model is for this version of the prompt, in any language."""
        for folder in (self.shipped, self.personal):
            for _, calibrator in _read(folder)[0]:
                purpose = Purpose(model, prompt_version, "line", calibrator.purpose.language)
                if calibrator.n and _fits(calibrator, purpose):
                    return True
        return False

    def earlier(self, purpose: Purpose) -> Earlier | None:
        """The user's latest calibrator for another prompt or version of the features, or for another model:
        its shift says something of this user. None without one.

        One of the same model goes first. One that fits the purpose and can be read is not an earlier one.
        """
        found, _ = _read(self.personal)
        others = [
            Earlier(calibrator, _same_model(calibrator.purpose, purpose), path)
            for path, calibrator in found
            if calibrator.source == "personal"
            and (calibrator.purpose.task, calibrator.purpose.language) == (purpose.task, purpose.language)
            and calibrator.curves[0].shift is not None
            and not (_fits(calibrator, purpose) and calibrator.curves[0].readable)
        ]
        return max(
            others,
            key=lambda one: (one.same_model, one.calibrator.created, one.calibrator.n, one.calibrator.id),
            default=None,
        )

    def fitted_for(self, purpose: Purpose) -> list[Calibrator]:
        """The user's calibrators for a purpose, the one in force and the kept ones."""
        pairs = [*_read(self.personal)[0], *_read(self._history)[0]]
        return [calibrator for _, calibrator in pairs if _fits(calibrator, purpose)]

    def listed(self) -> tuple[list[Listed], list[str]]:
        """All calibrators, and a sentence for each file that cannot be used. Those in force come first, then
        those that are kept; of each the user's own first, the newest first. Shipped ones are in the order of
        model, answers and prompt."""
        found: list[Listed] = []
        skipped: list[str] = []
        chosen: dict[Purpose, str] = {}
        carried: dict[str, Listed] = {}
        for folder in (self.personal, self.shipped, self._history):
            pairs, more = _read(folder)
            skipped += more
            for path, calibrator in pairs:
                purpose = calibrator.purpose
                if purpose not in chosen:
                    now = self.choose(purpose).calibrator
                    chosen[purpose] = now.id
                    earlier = self.earlier(purpose) if carried_from(now) else None
                    if earlier is not None:
                        carried[now.id] = Listed(earlier.path, now, True)
                in_force = chosen[purpose] == calibrator.id
                # The history may hold a copy of the one in force.
                if not (in_force and folder == self._history):
                    found.append(Listed(path, calibrator, in_force))
        found += carried.values()
        found = [self._with_ledger(one, skipped) for one in found]

        def age(one: Listed) -> tuple[str, int, str]:
            # They have dates only. Of one day, a later refit has seen more labels.
            return one.calibrator.created, one.calibrator.n, one.calibrator.id

        def place(one: Listed) -> tuple[str, ...]:
            if one.calibrator.source != "shipped":
                return ()
            purpose = one.calibrator.purpose
            return purpose.model.name, purpose.task, purpose.language, purpose.prompt_version

        found.sort(key=age, reverse=True)
        found.sort(key=lambda one: (not one.in_force, place(one)))
        return found, skipped

    def _with_ledger(self, one: Listed, skipped: list[str]) -> Listed:
        """With the ledger, and with the state "drifted" if its certificate is revoked."""
        if not one.in_force:
            return one
        try:
            ledger = self.ledger(one.calibrator.purpose)
        except CalibratorError as error:
            skipped.append(f"No certificate is in force: {error}")
            return one
        if ledger.is_drifted(one.calibrator.id):
            one = attrs.evolve(one, calibrator=attrs.evolve(one.calibrator, state="drifted"))
        return attrs.evolve(one, ledger=ledger)

    def stamp(self, purpose: Purpose) -> object:
        """A value that differs from an earlier one if another calibrator, or certificate, may now be in force
        for a purpose.

        The folder's time alone is not enough: its clock ticks only a few hundred times a second.
        """
        return (
            _identity(self.personal),
            _identity(self.personal / _slot(purpose)),
            _identity(self.ledger_path(purpose)),
        )

    def ledger_path(self, purpose: Purpose) -> Path:
        """The file with the ledger of the certificates of a purpose; there may be none yet.

        Labels and calibrators belong to a model's file, whatever it is called, and so does what was promised.
        """
        return self.personal / CERTIFICATES / f"{purpose.task}-{_key(purpose)}.json"

    def ledger(self, purpose: Purpose) -> Ledger:
        """The ledger of the certificates of a purpose. Raises CalibratorError if its file cannot be read."""
        return read_ledger(self.ledger_path(purpose))

    def promote(self, calibrator: Calibrator) -> Path:
        """Put a calibrator in force for its purpose; returns its file. The one before is kept as history.

        At every moment, even in a crash, one is in force. Raises CalibratorError if it cannot be written.
        """
        slot = self.personal / _slot(calibrator.purpose)
        others = self._archive(calibrator.purpose, slot)
        calibrator.save(slot)
        _remove(others)
        return slot

    def keep(self, calibrator: Calibrator) -> Path:
        """Keep a calibrator that is not put in force where `rollback` finds it; returns its file.

        Raises CalibratorError if it cannot be written.
        """
        path = self._history / f"{calibrator.id}.json"
        calibrator.save(path)
        return path

    def rollback(self, purpose: Purpose, *, to: str | None = None) -> Choice:
        """Take the user's calibrator out of force; returns the one that is in force afterwards.

        to: id of one in the history, or of the shipped one; None: the one that the present one replaced, or
        the shipped one if that no longer exists. The calibrator taken out of force is kept as history.
        Raises CalibratorError if the user has no calibrator in force, or `to` is not known.
        """
        mine, skipped = self._personal(purpose)
        base = self.choose(purpose, personal=False)
        if not mine and to is None:
            raise CalibratorError(
                f"There is nothing to roll back: {base.calibrator.id} ({base.calibrator.source}) is in force."
            )
        target = to or mine[0][1].parent
        earlier, _ = _read(self._history)
        for _, calibrator in earlier:
            if calibrator.id == target and _fits(calibrator, purpose):
                self.promote(calibrator)
                return Choice(calibrator, tuple(skipped))
        if to is not None and to != base.calibrator.id:
            raise CalibratorError(f"There is no earlier calibrator {to} for {purpose.model.name}.")
        slot = self.personal / _slot(purpose)
        _remove([*self._archive(purpose, slot), slot])
        return base

    @property
    def _history(self) -> Path:
        return self.personal / "history"

    def _personal(self, purpose: Purpose) -> tuple[list[tuple[Path, Calibrator]], list[str]]:
        """The user's calibrators for a purpose, the one in the slot first, then by age; and complaints."""
        slot = _slot(purpose)
        found, skipped = _read(self.personal)
        for path, calibrator in found:
            if path.name == slot and not _fits(calibrator, purpose):
                skipped.append(f"{path} was skipped: it is for {calibrator.purpose}.")
        fitting = [(path, calibrator) for path, calibrator in found if _fits(calibrator, purpose)]
        fitting.sort(key=lambda pair: (pair[1].created, pair[1].n, pair[1].id), reverse=True)
        fitting.sort(key=lambda pair: pair[0].name != slot)
        return fitting, skipped

    def _archive(self, purpose: Purpose, slot: Path) -> list[Path]:
        """Copy the user's calibrators into the history; returns the superfluous files beside the slot."""
        mine, _ = self._personal(purpose)
        for _, calibrator in mine:
            self.keep(calibrator)
        if slot.exists() and slot not in [path for path, _ in mine]:
            # Unreadable or of another purpose: kept for inspection, under a name that is never read.
            try:
                self._history.mkdir(parents=True, exist_ok=True, mode=0o700)
                slot.replace(self._history / f"{slot.name}.unreadable")
            except OSError as error:
                raise CalibratorError(f"{slot} cannot be moved aside: {error}.") from error
        return [path for path, _ in mine if path != slot]


def _identity(path: Path) -> tuple[int, int, int] | None:
    """The identity of a file or folder and the time of its last change; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _slot(purpose: Purpose) -> str:
    """File name of the user's calibrator for a purpose."""
    return f"{purpose.task}-{slug(purpose.model.name)}-{slug(purpose.language)}-{_key(purpose)}.json"


def _key(purpose: Purpose) -> str:
    model = purpose.model.sha256 or f"{purpose.model.name} {purpose.model.quantisation}"
    return hashlib.sha256(f"{model}\n{purpose.prompt_version}\n{purpose.language}".encode()).hexdigest()[:8]


def _without_names(certificates: Path) -> None:
    """Rename ledgers of earlier versions, which had the names of models and languages in their own."""
    for path in certificates.glob("*.json"):
        found = re.fullmatch(r"([a-z]+)-.+-([0-9a-f]{8})\.json", path.name)
        new = certificates / f"{found[1]}-{found[2]}.json" if found else path
        if not new.exists():
            with contextlib.suppress(OSError):
                path.replace(new)


def _same_model(one: Purpose, other: Purpose) -> bool:
    if one.model.sha256 and other.model.sha256:
        return one.model.sha256 == other.model.sha256
    return (one.model.name, one.model.quantisation) == (other.model.name, other.model.quantisation)


def _fits(calibrator: Calibrator, purpose: Purpose) -> bool:
    try:
        calibrator.check_fits(purpose.model, purpose.prompt_version, purpose.task)
    except CalibratorError:
        return False
    return calibrator.purpose.language == purpose.language


def _read(folder: Path) -> tuple[list[tuple[Path, Calibrator]], list[str]]:
    """Every calibrator in a folder, by file name, and a sentence for each file that is not one."""
    found, skipped = [], []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder} was skipped: {error}."]
    for path in paths:
        try:
            found.append((path, Calibrator.load(path)))
        except CalibratorError as error:
            skipped.append(f"A calibrator was skipped: {error}")
    return found, skipped


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CalibratorError(f"{path} cannot be removed: {error}.") from error
