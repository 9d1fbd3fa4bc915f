"""The answers of a model that `calibrate` and `eval` ask, and the files that they are kept in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsp_calib import __version__, home
from lsp_calib.badges import counted
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.commands.engine import forecast, settings_in_force
from lsp_calib.commands.printing import item_progress
from lsp_calib.completion.prompt import SIZES, Layout, WindowSize
from lsp_calib.errors import CalibratorError, DataError, LspCalibError, SettingsError
from lsp_calib.evaluation.collect import AskingOptions, collect
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.journal import journal_path
from lsp_calib.evaluation.records import Record, contradiction, read_records
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.tasks import REPAIR, SYNTHESIS, Task
from lsp_calib.feedback.removal import CALIBRATING
from lsp_calib.files import read_file
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.models.cards import load_cards, locate
from lsp_calib.settings import Trusted, engine_choice

_DOING = {SUMMARY: "Summarising functions", SYNTHESIS: "Writing functions", REPAIR: "Repairing lines"}


def collect_records(task: Task, path: Path, asking: AskingOptions) -> tuple[Header, list[Record]]:
    """The records of a task, kept in `path`. Raises as `evaluation.collect.collect`."""
    if asking.workers.remotes:
        given = Trusted(remote_url=asking.workers.remotes[0], remote_model=asking.model)
    else:
        given = Trusted(model=asking.model, threads=asking.threads)
    choice = engine_choice(settings_in_force(given, asking.say))
    doing = _DOING.get(task.name, "Completing lines")
    if not asking.quiet and not asking.lines and choice.remote is None:
        # The model's absence and damaged records are reported by `collect`.
        with contextlib.suppress(LspCalibError):
            if left := _missing(task, path):
                asking.say(_forecast(task, left, choice, asking.window))
    with item_progress(doing, quiet=asking.quiet, lines=asking.lines) as show:
        return collect(task, choice, path, asking, show)


# Tokens of the prompt and of the answer, on average; those of lines follow from the window.
_TOKENS = {SUMMARY: (900, 20), SYNTHESIS: (100, 80), REPAIR: (250, 20)}
_OF_LINE = 12
# Characters of source: SmolLM2 takes 4.3 for a token and Qwen2.5-Coder 4.0, over a hundred prompts.
_OF_TOKEN = 4.0


def _missing(task: Task, path: Path) -> int:
    """How many answers to a task are still to be asked for, about. path: the records, of other items too.

    Raises DataError for records that cannot be read.
    """
    if not path.exists():
        return answers_left(path, len(task.items))
    known = {record.item for record in read_records(path)[1]}
    return sum(item not in known for item, _ in task.items)


def _forecast(task: Task, left: int, choice: EngineChoice, window: WindowSize | None) -> str:
    """How long so many answers take here, told before the model is loaded.

    Raises NoModelError if there is no model.
    """
    card, _ = locate(choice.model)
    layout = Layout.of(card, window or WindowSize.LARGE)
    of_line = (layout.window + layout.related) / _OF_TOKEN, _OF_LINE
    prompt, answer = _TOKENS.get(task.name, of_line)
    time = forecast(card, left * prompt, left * answer)
    return f"To be asked for: {counted(left, 'answer')} of {card.name}, {time}."


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


def unfinished(question: Sequence[Any], engine: Trusted) -> Path:
    """The file that keeps the answers of a calibration without --records: the same one for the same command.

    question: all that says what is asked for, JSON types. engine: the settings in force.
    Such files are in the state folder, with those of calibrations that an editor begins.
    """
    parts = [__version__, *question, *_asked(engine)]
    digest = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return home.private_folder(home.state_dir() / CALIBRATING) / f"{digest}.jsonl"


def remove_unfinished(path: Path) -> None:
    """Remove such a file with its journal and its times."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)


def _asked(engine: Trusted) -> tuple[str | None, ...]:
    """The model that is asked, by name: where none is set, the best installed one may be another tomorrow."""
    choice = engine_choice(engine)
    if choice.remote is not None:
        return choice.remote.url, choice.remote.model
    try:
        card, _ = locate(choice.model)
    except LspCalibError:  # whoever asks it says what is wrong
        return (choice.model,)
    return choice.model, card.name


def check_question(path: Path, header: Header, model: str | None, window: WindowSize | None) -> None:
    """Raises DataError if records are of another model or window than these, as far as they are said.

    model: a name, or the path of a file.
    """
    found, wanted = header.model.name, model or header.model.name
    cards = load_cards()
    names = {wanted, Path(wanted).stem} | {c.name for c in cards.values() if c.file == Path(wanted).name}
    if found not in names:
        raise contradiction(path, "model", found, wanted)
    size = SIZES.get(header.prompt_version)
    if window is None or size is None or window is size:
        return
    # A large window that a model's context cannot hold is small: the same option has made these records.
    card = cards.get(found)
    if card is None or Layout.of(card, window).version != header.prompt_version:
        raise contradiction(path, "window", size.value, window.value)
