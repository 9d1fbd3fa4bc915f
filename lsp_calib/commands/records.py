"""The answers of a model that `calibrate` and `eval` ask, and the files that they are kept in."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsp_calib import __version__, home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.commands.engine import settings_in_force
from lsp_calib.commands.printing import item_progress
from lsp_calib.corpus.asking import AskingOptions, collect
from lsp_calib.corpus.places import Task
from lsp_calib.corpus.records import Header, Record, journal_path
from lsp_calib.errors import CalibratorError, DataError, LspCalibError, SettingsError
from lsp_calib.feedback.removal import CALIBRATING
from lsp_calib.files import read_file
from lsp_calib.inference.models.cards import locate
from lsp_calib.settings import Settings, engine_choice


def collect_records(task: Task, path: Path, asking: AskingOptions) -> tuple[Header, list[Record]]:
    """The records of a task, kept in `path`. Raises as `corpus.asking.collect`."""
    if asking.remote:
        given = Settings(remote_url=asking.remote, remote_model=asking.model)
    else:
        given = Settings(model=asking.model, threads=asking.threads)
    choice = engine_choice(settings_in_force(given, asking.say))
    with item_progress(task.doing, quiet=asking.quiet) as show:
        return collect(task, choice, path, asking, show)


def answers_left(path: Path, items: int) -> int:
    """How many of the answers to so many items are still to be asked for, about. path: their records, which
    are there once all have been asked for: a task may leave items out."""
    if path.exists():
        return 0
    try:
        return max(items - (len(read_file(journal_path(path)).splitlines()) - 1), 1)
    except OSError:
        return items


def make_folder(folder: Path) -> None:
    """Make a folder for records or tables, if it is not there. Raises SettingsError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The folder {folder} cannot be created: {error.strerror or error}.") from error


def check_place(path: Path) -> None:
    """Raises SettingsError if there is no such folder, DataError if no file can be made in it.

    A file without a name is made there: the folder's permissions alone do not say whether it can be.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SettingsError(f"There is no folder {folder} to write {path.name} to.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        # Its text names the file that was tried; the user has not.
        raise DataError(f"{path} cannot be written: {error.strerror}. Give another place.") from error


def check_output(path: Path) -> None:
    """Raises as `check_place`, and SettingsError if a calibrator would overwrite anything but a calibrator or
    an empty file."""
    if path.exists() and not path.is_file():
        raise SettingsError(f"{path} is no ordinary file. Give another name.")
    check_place(path)
    if not path.exists() or not path.stat().st_size:
        return
    try:
        Calibrator.load(path)
    except CalibratorError as error:
        raise SettingsError(
            f"{path} exists and is no calibrator that this version can read. Give another name, or remove it."
        ) from error


def unfinished(question: Sequence[Any], engine: Settings) -> Path:
    """The file that keeps the answers of a calibration without --records: the same one for the same command.

    question: all that says what is asked for, JSON types. engine: the settings in force.
    Such files are in the state folder.
    """
    parts = [__version__, *question, *_asked(engine)]
    digest = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return home.private_folder(home.state_dir() / CALIBRATING) / f"{digest}.jsonl"


def remove_unfinished(path: Path) -> None:
    """Remove such a file with its journal and its times."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)


def _asked(engine: Settings) -> tuple[str | None, ...]:
    """The model that is asked, by name: where none is set, the best installed one may be another tomorrow."""
    choice = engine_choice(engine)
    if choice.remote is not None:
        return choice.remote.url, choice.remote.model
    try:
        card, _ = locate(choice.model)
    except LspCalibError:  # whoever asks it says what is wrong
        return (choice.model,)
    return choice.model, card.name
