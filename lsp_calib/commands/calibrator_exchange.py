"""`lsp-calib calibrators rollback|export|import`: take back what was learned, or share it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.refit import COMMITS, FEEDBACK
from lsp_calib.calibration.calibrators.rolling_back import RolledBack, find, in_words, roll_back
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.feedback.importing import OTHERS, Imported, Use, import_calibrator, read_foreign
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.files import write_new
from lsp_calib.inference.models.card import as_pulled, load_cards
from lsp_calib.summarization.prompt import AUGMENTED
from lsp_calib.summarization.prompt import VERSION as SUMMARY_VERSION
from lsp_calib.values import ModelIdentity

# What a provenance may name besides projects: kinds of labels, and other calibrators by their ids.
_NO_PROJECT = re.compile(
    rf"{re.escape(FEEDBACK)}|{re.escape(OTHERS)}|{re.escape(COMMITS)}"
    r"|(?:imported )?(?:line|infill|function|summary)-[a-z0-9.-]+-[0-9a-f]{8}"
)


def roll_back_calibrator(wanted: str | None) -> RolledBack:
    """Take a calibrator of the user out of force. Raises CalibratorError if that cannot be done."""
    return roll_back(CalibratorStore.open(), wanted)


def export_calibrator(wanted: str, path: Path) -> Calibrator:
    """Write a calibrator to a new file for others; returns what the file holds.

    The projects that it was fitted on are numbered: their names may be paths, or those of customers.

    Raises SettingsError if there is none of this id or the file exists, DataError if it
    cannot be written.
    """
    entries, _ = CalibratorStore.open().listed()
    calibrator = _without_names(find(entries, wanted).calibrator)
    text = json.dumps(calibrator.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        write_new(path, text.encode("utf-8"))
    except FileExistsError as error:
        raise SettingsError(
            f"{path} exists, and no export overwrites a file. Give another name, or remove it."
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}. Give another place."
        ) from error
    return calibrator


def _without_names(calibrator: Calibrator) -> Calibrator:
    if calibrator.source != "workspace":
        return calibrator
    numbers = count(1)
    named = [
        one if _NO_PROJECT.fullmatch(one.name) else attrs.evolve(one, name=f"project {next(numbers)}")
        for one in calibrator.provenance
    ]
    return attrs.evolve(calibrator, provenance=tuple(named))


def read_calibrator(path: Path) -> Calibrator:
    """A calibrator from elsewhere, for a model that this user works with. Raises CalibratorError."""
    store = FeedbackStore(home.home() / "feedback.db")
    try:
        return read_foreign(path, list(_uses(store)))
    finally:
        store.close()


def try_and_import(foreign: Calibrator, *, install: bool) -> Imported:
    """Try a calibrator on the user's labels, and put it in force if they allow it. Raises LspCalibError."""
    store = FeedbackStore(home.home() / "feedback.db")
    try:
        return import_calibrator(foreign, store, CalibratorStore.open(), install=install)
    finally:
        store.close()


def provenance_words(calibrator: Calibrator) -> Iterator[str]:
    """Where a calibrator comes from, a sentence each: its model, its labels, how good it was, its sources."""
    purpose = calibrator.purpose
    yield (
        f"{calibrator.id}: for {purpose.answers} by {purpose.model.name}, prompt "
        f"{purpose.prompt_version}; made {calibrator.created} ({calibrator.source}) from {calibrator.n} "
        f"labels, {calibrator.n_correct} right."
    )
    skill = calibrator.metrics.get("skill")
    if skill is not None and skill.value is not None:
        yield f"Its skill on the labels of its maker, out of fold: {skill.value:+.2f}."
    sources = [f"{one.name[:80]} ({one.items} items, {one.version[:40]})" for one in calibrator.provenance]
    shown = [*sources[:5], *([f"{len(sources) - 5} more"] if len(sources) > 5 else [])]
    yield f"Sources: {'; '.join(shown) or 'none named'}."


def import_words(imported: Imported) -> str:
    """The result of an import, in words."""
    done = in_words(imported.calibrator)
    if imported.in_force:
        said = f"{done} is in force: {imported.reason}."
        # A shipped one is what is left when all others are taken back.
        own = imported.calibrator.source != "shipped"
        # One's own still names the one that it replaced when it was made.
        other = imported.replaced not in ("", imported.calibrator.parent)
        command = f"lsp-calib calibrators rollback{f' {imported.replaced}' if other else ''}"
        return f"{said} `{command}` takes it back." if own else said
    return (
        f"{done} is kept, not in force: {imported.reason}. "
        f"`lsp-calib calibrators rollback {imported.calibrator.id}` puts it in force nevertheless."
    )


def _uses(store: FeedbackStore) -> Iterator[Use]:
    """The models that this user works with: the installed ones, and those that suggestions came from."""
    models = []
    for card in map(as_pulled, load_cards().values()):
        if card.path.is_file():
            identity = ModelIdentity(card.name, card.quantisation, card.sha256)
            models.append(identity)
            for size in WindowSize:
                yield Use(identity, Layout.of(card, size).version, "line")
    for name, sha256, prompt, kind in store.read(
        "SELECT DISTINCT model, model_sha256, prompt_version, kind FROM suggestions"
    ):
        models.append(ModelIdentity(name, "", sha256))
        if kind != "summary":
            yield Use(models[-1], prompt, "line")
    # Every model is asked for summaries in the same way.
    for model in dict.fromkeys(models):
        for version in (SUMMARY_VERSION, AUGMENTED):
            yield Use(model, version, "summary")
