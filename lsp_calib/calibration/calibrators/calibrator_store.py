"""The calibrator in force: the user's own, else a shipped one, else one that is pooled or borrowed.

All files are known by an index in memory. What was learned can be taken back (`roll_back`). The ledger of
what was promised is changed by one process at a time (`editing`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import MAX_BYTES, Calibrator, write_document
from lsp_calib.calibration.calibrators.lent import FOLDER as POOLED
from lsp_calib.calibration.calibrators.lent import Pooled, borrowed_curve, carried_from, carry_over
from lsp_calib.calibration.calibrators.line_curves import (
    PREFIXES,
    SECOND,
    SURVIVAL,
    USAGE,
    PrefixCurve,
    SecondOpinion,
    SurvivalCurve,
    Usage,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose, is_same_model
from lsp_calib.calibration.certificates import Ledger
from lsp_calib.calibration.document import parse, read, written
from lsp_calib.characters import in_one_line
from lsp_calib.errors import CalibratorError, SettingsError
from lsp_calib.files import read_file
from lsp_calib.values import ModelIdentity

IMPORTED = "imported "
"""In a provenance, before the id of the calibrator that was imported."""


def rests_on(calibrator: Calibrator, known: Iterable[Calibrator]) -> frozenset[Origin]:
    """Every source of labels of a calibrator: those of its provenance, and of the calibrators named in it.

    known: calibrators that may be named; one that is not among them is a source by itself.
    """
    by_id = {one.id: one for one in known}
    found: set[Origin] = set()
    waiting, followed = [calibrator], {calibrator.id}
    while waiting:
        one = waiting.pop()
        found.update(one.provenance)
        names = {origin.name.removeprefix(IMPORTED) for origin in one.provenance} | {carried_from(one)}
        new = [name for name in names if name in by_id and name not in followed]
        followed.update(new)
        waiting += [by_id[name] for name in new]
    return frozenset(found)


T = TypeVar("T")

P = TypeVar("P", PrefixCurve, SurvivalCurve, Usage, SecondOpinion)

CERTIFICATES = "certificates"
"""The folder with the ledgers, below that of the calibrators."""

_TICK = 50_000_000  # nanoseconds


@attrs.frozen
class CalibratorChoice:
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
class _Seen(Generic[T]):
    """What the files in a folder hold, by name, and a sentence for each file that cannot be used."""

    found: tuple[tuple[Path, T], ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def all(self) -> list[T]:
        return [one for _, one in self.found]


class _Shelf(Generic[T]):
    """A folder of files: each is read when it is seen first, and again when it has changed."""

    def __init__(
        self, folder: Path, load: Callable[[Path], T], what: str = "A calibrator was skipped"
    ) -> None:
        self.folder = folder
        self._load = load
        self._what = what
        self._known: dict[Path, tuple[object, T | None, str]] = {}
        self._seen = _Seen[T]()

    def look(self) -> _Seen[T]:
        """What is there now: the same object as long as nothing has changed."""
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
            files = {path: self._one(path) for path in paths if path.name[0] != "."}
        except FileNotFoundError:
            files = {}
        except NotADirectoryError:
            complaint = f"{self.folder} is a file: no calibrator of yours can be read or kept. Move it away."
            # Below a file there is nothing to read; the file is named where it stands for the folder itself.
            files = {self.folder: (None, None, complaint)} if self.folder.is_file() else {}
        except OSError as error:
            files = {self.folder: (None, None, f"{self.folder} was skipped: {error}.")}
        if files != self._known:
            found = ((path, one) for path, (_, one, _) in files.items() if one is not None)
            skipped = (complaint for _, _, complaint in files.values() if complaint)
            self._known, self._seen = files, _Seen(tuple(found), tuple(skipped))
        return self._seen

    def _one(self, path: Path) -> tuple[object, T | None, str]:
        stamp, known = _identity(path), self._known.get(path)
        if known is not None and known[0] == stamp is not None:
            return known
        # Another change within a tick of the file system's clock would not show.
        if stamp is not None and time.time_ns() - max(stamp[1:3]) < _TICK:
            stamp = None
        try:
            return stamp, self._load(path), ""
        except CalibratorError as error:
            return stamp, None, f"{self._what}: {error}"


@attrs.frozen
class LineCurves:
    """What is known of the lines of a purpose's model and prompt, None where nothing is.

    prefix: how far they can be trusted; shipped_prefix: the same without the user's own. survival: how likely
    they are to survive. usage: how often they are used. second: what an answer to the other window's prompt
    says of them. skipped: a sentence for each file that cannot be used.
    """

    prefix: PrefixCurve | None = None
    shipped_prefix: PrefixCurve | None = None
    survival: SurvivalCurve | None = None
    usage: Usage | None = None
    second: SecondOpinion | None = None
    skipped: tuple[str, ...] = ()


def _fitting(found: Sequence[P], purpose: Purpose) -> P | None:
    """What is for the model and prompt of a purpose. Nothing is for a model whose file is not known."""
    wanted = purpose.model.sha256, purpose.prompt_version
    fitting = (one for one in reversed(found) if (one.model.sha256, one.prompt_version) == wanted)
    return next(fitting, None) if purpose.model.sha256 else None


class CalibratorStore:
    """Two folders of calibrator files.

    personal: of the user (fitted on feedback or on a workspace); earlier ones are kept in its `history/`, and
        in its `certificates/` what was promised of them.
    shipped: of the package; never written.
    """

    def __init__(self, personal: Path, shipped: Path) -> None:
        self.personal, self.shipped = personal, shipped
        self._mine = _Shelf(personal, Calibrator.load)
        self._kept = _Shelf(personal / "history", Calibrator.load)
        self._supplied = _Shelf(shipped, Calibrator.load)
        self._pooled = _Shelf(shipped / POOLED, Pooled.load, "Pooled curves were skipped")
        # What was chosen without the user's own, as long as these files are the same.
        self._from: tuple[_Seen[Calibrator], _Seen[Pooled]] | None = None
        self._without: dict[Purpose, CalibratorChoice] = {}
        both = shipped.parent, personal
        what = "How far a line can be trusted is not known from every file"
        self._prefixes = [_Shelf(one / PREFIXES, PrefixCurve.load, what) for one in both]
        what = "How likely a line is to survive is not known from every file"
        self._survival = [_Shelf(one / SURVIVAL, SurvivalCurve.load, what) for one in both]
        what = "How often lines are used is not known from every file"
        self._usage = _Shelf(shipped.parent / USAGE, Usage.load, what)
        what = "What a second answer says is not known from every file"
        self._second = [_Shelf(one / SECOND, SecondOpinion.load, what) for one in both]

    @classmethod
    def open(cls) -> CalibratorStore:
        """The folders of this user and installation. Raises SettingsError if the state folder is unusable.

        The user's need not be there: where it cannot be made, as on a full disk, the shipped ones count.
        """
        personal = home.state_dir() / "calibrators"
        with contextlib.suppress(SettingsError):
            home.private_folder(personal)
        return cls(personal, home.shipped_models() / "calibrators")

    def choose(self, purpose: Purpose, *, personal: bool = True) -> CalibratorChoice:
        """The calibrator in force for a purpose. There always is one; files that cannot be used are reported.

        personal: whether the user's own calibrators count.
        """
        files = self._supplied.look(), self._pooled.look()
        if files != self._from:
            self._from, self._without = files, {}
        base = self._without.get(purpose)
        if base is None:
            base = self._without[purpose] = self._made_for(purpose, *files)
        return self._with_own(purpose, base) if personal else base

    def _with_own(self, purpose: Purpose, base: CalibratorChoice) -> CalibratorChoice:
        mine, skipped = self._personal(purpose)
        if mine and mine[0].curves[0].readable:
            return CalibratorChoice(mine[0], tuple(skipped))
        earlier = self.earlier(purpose)
        carried = None
        if earlier is not None and earlier.same_model and base.calibrator.curves[0].readable:
            carried = carry_over(base.calibrator, earlier.calibrator)
        chosen = carried or (mine[0] if mine else base.calibrator)
        return CalibratorChoice(chosen, (*skipped, *base.skipped))

    @staticmethod
    def _made_for(purpose: Purpose, shipped: _Seen[Calibrator], pooled: _Seen[Pooled]) -> CalibratorChoice:
        fitting = [one for one in shipped.all if one.purpose.fits(purpose)]
        newest = max(fitting, key=_age, default=None)
        if newest is not None:
            return CalibratorChoice(newest, shipped.skipped)
        lent = next(filter(None, (one.lend(purpose) for one in pooled.all)), None)
        skipped = shipped.skipped + (pooled.skipped if purpose.task == "line" else ())
        return CalibratorChoice(lent or borrowed_curve(purpose, shipped.all), skipped)

    def base(self, purpose: Purpose) -> Calibrator:
        """The calibrator at which a refit begins: the one of the user's own source or commits that is in
        force, or that the one in force began at; without one, the shipped, pooled or borrowed one."""
        current = self.choose(purpose).calibrator
        named = {current.id, *(origin.name for origin in current.provenance)}
        for one in (current, *self.fitted_for(purpose)):
            if one.source == "workspace" and one.id in named and one.curves[0].readable:
                return one
        return self.choose(purpose, personal=False).calibrator

    def all_shipped(self) -> list[Calibrator]:
        """The calibrators that came with the package; files that cannot be used are left out."""
        return self._supplied.look().all

    def known(self, purpose: Purpose) -> list[Calibrator]:
        """All calibrators that one for a purpose may have been made from: the shipped ones, the user's with
        those that are kept, and what is borrowed for the purpose, which no file holds."""
        shelves = (self._kept, self._mine, self._supplied)
        files = [one for shelf in shelves for one in shelf.look().all]
        return [*files, self.choose(purpose, personal=False).calibrator]

    def has_labels(self, model: ModelIdentity, prompt_version: str) -> bool:
        """Whether a calibrator of lines by this model is for this version of the prompt, in any language."""
        wanted = Purpose(model, prompt_version, "line", "")
        every = [*self._supplied.look().all, *self._mine.look().all]
        return any(one.n and one.purpose.asks_like(wanted) for one in every)

    def earlier(self, purpose: Purpose) -> Earlier | None:
        """The user's latest calibrator for another prompt or version of the features, or for another model:
        its shift says something of this user. None without one.

        One of the same model goes first. One that fits the purpose and can be read is not an earlier one.
        """
        others = [
            Earlier(calibrator, is_same_model(calibrator.purpose.model, purpose.model), path)
            for path, calibrator in self._mine.look().found
            if calibrator.source == "personal"
            and (calibrator.purpose.task, calibrator.purpose.language) == (purpose.task, purpose.language)
            and calibrator.curves[0].shift is not None
            and not (calibrator.purpose.fits(purpose) and calibrator.curves[0].readable)
        ]
        return max(others, key=lambda one: (one.same_model, _age(one.calibrator)), default=None)

    def fitted_for(self, purpose: Purpose) -> list[Calibrator]:
        """The user's calibrators for a purpose, the one in force and the kept ones."""
        every = [*self._mine.look().all, *self._kept.look().all]
        return [one for one in every if one.purpose.fits(purpose)]

    def listed(self) -> tuple[list[Listed], list[str]]:
        """All calibrators, and a sentence for each file that cannot be used. Those in force come first, then
        those that are kept; of each the user's own first, the newest first. Shipped ones are in the order of
        model, answers and prompt."""
        found: list[Listed] = []
        skipped: list[str] = []
        chosen: dict[Purpose, str] = {}
        carried: dict[str, Listed] = {}
        for shelf in (self._mine, self._supplied, self._kept):
            seen = shelf.look()
            skipped += seen.skipped
            for path, calibrator in seen.found:
                purpose = calibrator.purpose
                if purpose not in chosen:
                    now = self.choose(purpose).calibrator
                    chosen[purpose] = now.id
                    earlier = self.earlier(purpose) if carried_from(now) else None
                    if earlier is not None:
                        carried[now.id] = Listed(earlier.path, now, True)
                in_force = chosen[purpose] == calibrator.id
                # The history may hold a copy of the one in force.
                if not (in_force and shelf is self._kept):
                    found.append(Listed(path, calibrator, in_force))
        found += carried.values()
        for at, one in enumerate(found):
            if one.in_force:
                calibrator, ledger, complaints = self.standing(one.calibrator, one.calibrator.purpose)
                found[at] = attrs.evolve(one, calibrator=calibrator, ledger=ledger)
                skipped += complaints

        def place(one: Listed) -> tuple[str, ...]:
            if one.calibrator.source != "shipped":
                return ()
            purpose = one.calibrator.purpose
            return purpose.model.name, purpose.task, purpose.language, purpose.prompt_version

        found.sort(key=lambda one: _age(one.calibrator), reverse=True)
        found.sort(key=lambda one: (not one.in_force, place(one)))
        return found, list(dict.fromkeys(skipped))

    def standing(
        self, calibrator: Calibrator, purpose: Purpose
    ) -> tuple[Calibrator, Ledger, tuple[str, ...]]:
        """A calibrator in force for a purpose, in the state "drifted" if its certificate is revoked; the
        ledger; and a sentence if that cannot be read."""
        try:
            ledger = self.ledger(purpose)
        except CalibratorError as error:
            return calibrator, Ledger(), (f"No certificate is in force: {error}",)
        if ledger.is_drifted(calibrator.id):
            calibrator = attrs.evolve(calibrator, state="drifted")
        return calibrator, ledger, ()

    def line_curves(self, purpose: Purpose) -> LineCurves:
        """What is known of the lines of a purpose. The user's own goes first; a curve of how far lines can be
        trusted that was moved counts as long as the shipped one is that from which it was."""
        prefixes = [shelf.look() for shelf in self._prefixes]
        survivals = [shelf.look() for shelf in self._survival]
        seconds = [shelf.look() for shelf in self._second]
        usages = self._usage.look()
        base, own = (_fitting(seen.all, purpose) for seen in prefixes)
        counts = own is not None and (not own.base or (base is not None and own.base == base.id))
        shipped_survival, own_survival = (_fitting(seen.all, purpose) for seen in survivals)
        shipped_second, own_second = (_fitting(seen.all, purpose) for seen in seconds)
        every: tuple[_Seen[Any], ...] = (*prefixes, *survivals, *seconds, usages)
        return LineCurves(
            prefix=own if counts else base,
            shipped_prefix=base,
            survival=own_survival or shipped_survival,
            usage=_fitting(usages.all, purpose),
            second=own_second or shipped_second,
            skipped=tuple(text for seen in every for text in seen.skipped),
        )

    def stamp(self, purpose: Purpose) -> object:
        """A value that differs from an earlier one if another calibrator, certificate, curve of beginnings,
        of survival or of second answers, or count of usage may now be in force for a purpose.

        The folder's time alone is not enough: its clock ticks only a few hundred times a second.
        """
        shelves: tuple[_Shelf[Any], ...] = (*self._prefixes, self._usage, *self._survival, *self._second)
        own = (self.personal, self.personal / purpose.file, self.ledger_path(purpose))
        return tuple(map(_identity, (*own, *(one.folder for one in shelves))))

    def ledger_path(self, purpose: Purpose) -> Path:
        """The file with the ledger of the certificates of a purpose; there may be none yet.

        Labels and calibrators belong to a model's file, whatever it is called, and so does what was promised.
        """
        return self.personal / CERTIFICATES / f"{purpose.task}-{purpose.key}.json"

    def ledger(self, purpose: Purpose) -> Ledger:
        """The ledger of the certificates of a purpose. Raises CalibratorError if its file cannot be read."""
        return read_ledger(self.ledger_path(purpose))

    def promote(self, calibrator: Calibrator) -> Path:
        """Put a calibrator in force for its purpose; returns its file. The one before is kept as history.

        At every moment, even in a crash, one is in force. Raises CalibratorError if it cannot be written.
        """
        slot = self.personal / calibrator.purpose.file
        others = self._archive(calibrator.purpose, slot)
        calibrator.save(slot)
        _remove(others)
        return slot

    def keep(self, calibrator: Calibrator) -> Path:
        """Keep a calibrator that is not put in force where `rollback` finds it; returns its file.

        Raises CalibratorError if it cannot be written.
        """
        path = self._kept.folder / f"{calibrator.id}.json"
        calibrator.save(path)
        return path

    def rollback(self, purpose: Purpose, *, to: str | None = None) -> None:
        """Take the user's calibrator out of force.

        to: id of one in the history, or of the shipped one; None: the one that the present one replaced, or
        the shipped one if that no longer exists. The calibrator taken out of force is kept as history.
        Raises CalibratorError if the user has no calibrator in force, or `to` is not known.
        """
        mine, _ = self._personal(purpose)
        base = self.choose(purpose, personal=False).calibrator
        if not mine and to is None:
            raise CalibratorError(f"There is nothing to roll back: {base.id} ({base.source}) is in force.")
        target = to or mine[0].parent
        for calibrator in self._kept.look().all:
            if calibrator.id == target and calibrator.purpose.fits(purpose):
                self.promote(calibrator)
                return
        if to is not None and to != base.id:
            raise CalibratorError(f"There is no earlier calibrator {to} for {purpose.model.name}.")
        slot = self.personal / purpose.file
        _remove([*self._archive(purpose, slot), slot])

    def _personal(self, purpose: Purpose) -> tuple[list[Calibrator], list[str]]:
        """The user's calibrators for a purpose, the one in the slot first, then by age; and complaints."""
        slot = purpose.file
        seen = self._mine.look()
        skipped = list(seen.skipped)
        fitting = []
        for path, calibrator in seen.found:
            if calibrator.purpose.fits(purpose):
                fitting.append((path.name == slot, _age(calibrator), calibrator))
            elif path.name == slot:
                skipped.append(f"{path} was skipped: it is for {calibrator.purpose}.")
        fitting.sort(key=lambda one: one[:2], reverse=True)
        return [calibrator for *_, calibrator in fitting], skipped

    def _archive(self, purpose: Purpose, slot: Path) -> list[Path]:
        """Copy the user's calibrators into the history; returns the superfluous files beside the slot."""
        # One of several languages stays in force for those that this purpose does not serve.
        mine = [
            (path, calibrator)
            for path, calibrator in self._mine.look().found
            if purpose.fits(calibrator.purpose)
        ]
        for _, calibrator in mine:
            self.keep(calibrator)
        if slot.exists() and slot not in [path for path, _ in mine]:
            # Unreadable or of another purpose: kept for inspection, under a name that is never read.
            try:
                self._kept.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                slot.replace(self._kept.folder / f"{slot.name}.unreadable")
            except OSError as error:
                raise CalibratorError(f"{slot} cannot be moved aside: {error}.") from error
        return [path for path, _ in mine if path != slot]


def _age(calibrator: Calibrator) -> tuple[str, int, str]:
    """The larger, the newer. There are dates only; of one day, a later refit has seen more labels."""
    return calibrator.created, calibrator.n, calibrator.id


def _identity(path: Path) -> tuple[int, ...] | None:
    """The identity of a file or folder and the time of its last change; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CalibratorError(f"{path} cannot be removed: {error}.") from error


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
            f"{in_one_line(purpose.model.name, 80)}, {purpose.language}: "
            f"{in_words(self.before)} is no longer in force; "
            f"{in_words(self.after)} is. {again}"
        )

    def to_wire(self) -> dict[str, Any]:
        """As `lsp-calib.rollbackCalibrator` answers it."""
        return {
            "calibrator": self.after.ref.to_wire(),
            "before": self.before.ref.to_wire(),
            "message": self.sentence,
        }


def in_words(calibrator: Calibrator) -> str:
    """A calibrator by its id, and whose labels it was fitted on."""
    if calibrator.source == "prior":
        return "no calibrator (not calibrated)"
    if calibrator.source == "pooled":
        return f"the pooled calibrator ({calibrator.n} labels of other languages and windows)"
    return f"{calibrator.id} ({calibrator.source}, {calibrator.n} labels)"


def find(entries: Sequence[Listed], wanted: str) -> Listed:
    """The calibrator with an id, or the only one whose id begins so. Raises SettingsError."""
    by_id = {entry.calibrator.id: entry for entry in reversed(entries)}
    return by_id[_id(list(by_id)[::-1], wanted)]


def _id(known: Sequence[str], wanted: str) -> str:
    """The id that is wanted, or the only one that begins so. Raises SettingsError."""
    begun = [one for one in known if one.startswith(wanted)]
    if wanted in begun:
        return wanted
    if len(begun) != 1:
        problem = "Several calibrators begin with" if begun else "There is no calibrator"
        raise SettingsError(f"{problem} {wanted!r}. Known: {', '.join(begun or known) or 'none'}.")
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
    entries = {entry.calibrator.id: entry for entry in store.listed()[0]}
    own = [one.calibrator for one in entries.values() if one.in_force and one.path.parent == store.personal]
    # What was carried over goes with the calibrator that it came from.
    mine = [one for one in own if not carried_from(one)]
    # A file that was put there by hand may name none.
    replaced = [
        (one.parent or store.choose(one.purpose, personal=False).calibrator.id, one.purpose) for one in mine
    ]
    to: str | None = None
    if wanted is None:
        used = next((carried_from(one) for one in own if one.id == used and carried_from(one)), used)
        purposes = [one.purpose for one in mine if used in (None, one.id)]
        if not purposes:
            which = "none of your own calibrators is in force" if used is None else f"{used} is not your own"
            raise CalibratorError(f"There is nothing to roll back: {which}.")
        if len(purposes) > 1:
            targets = ", ".join(f"{one} ({of.language})" for one, of in replaced)
            raise CalibratorError(
                f"You have {len(purposes)} calibrators in force. Name the one to go back to: {targets}."
            )
        purpose = purposes[0]
    elif (to := _id(list({**entries, **dict(replaced)}), wanted)) not in entries:
        # It comes back by itself once the user's own one is out of force.
        purpose, to = dict(replaced)[to], None
    elif entries[to].in_force:
        raise CalibratorError(f"{to} is in force already.")
    else:
        purpose = entries[to].calibrator.purpose
    before = store.choose(purpose).calibrator
    store.rollback(purpose, to=to)
    after = store.choose(purpose).calibrator
    if after.id == before.id:
        earlier = carried_from(after)
        why = (
            f"it is carried over from your {earlier}. Take that one out of force, by the id of the one "
            "before it."
            if earlier
            else "the one that you name weighs features of another version. A refit uses your labels."
        )
        raise CalibratorError(f"{after.id} stays in force: {why}")
    return RolledBack(before, after)


# Seconds to wait for another process; a refit that holds the lock takes seconds at most.
_PATIENCE = 60.0


class DamagedLedgerError(CalibratorError):
    """The file of a ledger does not hold one."""


@attrs.define
class Held:
    """A ledger that this process alone may change now: set `ledger`."""

    ledger: Ledger
    _path: Path
    _on_disk: Ledger

    def remove(self) -> None:
        """Remove the file: nothing of it is to stay. Raises CalibratorError if it cannot be removed."""
        try:
            remove_ledger(self._path)
        except OSError as error:
            raise CalibratorError(f"{self._path} cannot be removed: {error}.") from error
        self.ledger = self._on_disk = Ledger()

    def save(self) -> None:
        """Write it now if it was changed, before something that must not happen without it.

        Raises CalibratorError if it cannot be written.
        """
        if self.ledger == self._on_disk:
            return
        write_document(self._path, written(self.ledger))
        self._on_disk = self.ledger


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file; an empty one if there is no file.

    After a damaged one was removed, no label counts that was there when the damage was last seen.
    Raises CalibratorError, naming it, if it cannot be read: without it nobody knows how many certificates
    were asked for, and so what another one is worth.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        seen = _damage_seen(path)
        return Ledger(used_until=seen, read_until=seen, tried_until=seen)
    except NotADirectoryError as error:
        file = next(folder for folder in path.parents if folder.exists())
        raise CalibratorError(f"{file} is a file: certificates of yours cannot be read.") from error
    except OSError as error:
        raise CalibratorError(f"{path} cannot be read: {error}.") from error
    try:
        return read(parse(data, str(path)), Ledger, str(path))
    except CalibratorError as error:
        raise DamagedLedgerError(
            f"{error} It records which certificates were requested. Delete this file to re-enable "
            "certificates; they will then rest on later labels alone."
        ) from error


def remove_ledger(path: Path) -> None:
    """Remove a file, damaged or not, and what is known of its damage. Raises OSError."""
    for one in (path, _mark_of(path)):
        one.unlink(missing_ok=True)


def _mark_of(path: Path) -> Path:
    """A file whose time is when damage was seen in another."""
    return path.with_suffix(".damaged")


def _damage_seen(path: Path) -> float:
    """When damage was last seen in a file, in Unix seconds; 0: never."""
    try:
        return _mark_of(path).stat().st_mtime
    except OSError:
        return 0.0


@contextlib.contextmanager
def editing(path: Path) -> Iterator[Held]:
    """The ledger, locked; written when the block ends without an error, if it was changed.

    Raises CalibratorError if it cannot be read, locked or written.
    """
    from filelock import FileLock, Timeout  # takes 40 ms

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_suffix(".lock"), timeout=_PATIENCE, mode=0o600).acquire(poll_interval=0.02)
    except Timeout:
        raise CalibratorError(
            f"{path} is in use by another lsp-calib, perhaps by a refit: try again later."
        ) from None
    except OSError as error:
        raise CalibratorError(f"{path} cannot be written: {error}.") from error
    with lock:
        try:
            ledger = read_ledger(path)
        except DamagedLedgerError:
            with contextlib.suppress(OSError):
                _mark_of(path).touch(0o600)
            raise
        held = Held(ledger, path, ledger)
        yield held
        held.save()
