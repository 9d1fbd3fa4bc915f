"""Checks that load no model. They change nothing, but create missing folders."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from lsp_calib import __version__, home, lockfile
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.commands.engine import wanted_window
from lsp_calib.completion.prompt import LayoutChooser
from lsp_calib.errors import LspCalibError, ModelError
from lsp_calib.feedback.events import EventKind, Source
from lsp_calib.feedback.rows import parsed
from lsp_calib.inference import backends
from lsp_calib.inference.models.cards import explained, locate
from lsp_calib.inference.models.encoders import DEFAULT as ENCODER
from lsp_calib.inference.models.encoders import load_encoders, verify_encoder
from lsp_calib.inference.models.inventory import Entry, inventory
from lsp_calib.settings import Trusted
from lsp_calib.settings.table import TRUSTED
from lsp_calib.tools.doctor.finding import Finding, Level
from lsp_calib.values import ModelIdentity

# With less free space, writing the feedback store and the log may soon fail.
_LEAST_FREE = 200 << 20
_ENGINES = {
    "llama-cpp-python": (
        "the compiled engine: the fastest, with every confidence measure",
        "pip install 'lsp-calib[local]'",
    ),
    "xllamacpp": ("the ready-made engine: no compiler needed", "pip install 'lsp-calib[prebuilt]'"),
}


def package() -> Finding:
    """The package, the Python that runs it, the machine."""
    data = {
        "lspCalib": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
    }
    says = (
        f"lsp-calib {__version__}, Python {data['python']}, {data['system']} on {data['architecture']}, "
        f"{data['processors']} processors."
    )
    return Finding("package", Level.GOOD, says, data=data)


def engine(trusted: Trusted) -> Finding:
    """The engine that would run a model, and the advantages of the others."""
    versions = {name: _version(name) for name in _ENGINES}
    missing = [
        f"{name} is not installed ({what}; `{command}`)"
        for name, (what, command) in _ENGINES.items()
        if versions[name] is None
    ]
    data: dict[str, Any] = {"installed": versions, "chosen": None}
    try:
        factory = backends.find()
    except ModelError as error:
        if trusted.remote_url:
            return Finding(
                "engine",
                Level.NOTE,
                "No engine is installed here; the remote server is used.",
                data=data,
            )
        return Finding(
            "engine", Level.PROBLEM, str(error), "Install one of the engines.", fatal=True, data=data
        )
    chosen = "llama-cpp-python" if factory.__module__.endswith(".llama") else "xllamacpp"
    data["chosen"] = chosen
    says = f"Models run in {chosen} {versions[chosen] or ''}".rstrip() + "."
    if missing:
        says += f" {'; '.join(missing)}."
    return Finding("engine", Level.GOOD, says, data=data)


def state_folder() -> list[Finding]:
    """The state folder: its path, whether it is writable, and whether others can read it. Never raises."""
    try:
        folder = home.state_dir()
    except LspCalibError as error:
        return [
            Finding("state", Level.PROBLEM, str(error), "Set LSP_CALIB_HOME to another folder.", fatal=True)
        ]
    free = shutil.disk_usage(folder).free
    data = {"path": str(folder), "freeBytes": free}
    found = [Finding("state", Level.GOOD, f"State lives in {folder}, readable by you alone.", data=data)]
    if not os.access(folder, os.W_OK):
        found[0] = Finding(
            "state",
            Level.PROBLEM,
            f"{folder} cannot be written, so feedback cannot be kept.",
            "Change its owner to your user, or set LSP_CALIB_HOME to another folder.",
            data=data,
        )
    if free < _LEAST_FREE:
        found.append(
            Finding(
                "state",
                Level.PROBLEM,
                f"The disk with {folder} has {free / 1e6:.0f} MB left.",
                "Free some space.",
            )
        )
    if os.name == "posix" and folder.stat().st_mode & 0o077:
        found.append(
            Finding(
                "state",
                Level.PROBLEM,
                f"Other users can read {folder}; its file system does not support permissions.",
                "Set LSP_CALIB_HOME to a folder on a disk of this machine.",
            )
        )
    return found


def configuration(trusted: Trusted, problems: Sequence[str]) -> list[Finding]:
    """The settings, and their problems."""
    set_ = _shown(trusted)
    listed = ", ".join(f"{key} = {_in_words(value)}" for key, value in set_.items())
    found = [
        Finding(
            "configuration",
            Level.GOOD,
            f"Settings of your own: {listed}." if set_ else "All settings have their defaults.",
            data=set_,
        )
    ]
    advice = (
        "Correct it in config.toml, the environment or the command line; docs/reference.md has all settings."
    )
    return found + [Finding("configuration", Level.PROBLEM, problem, advice) for problem in problems]


def models(trusted: Trusted) -> tuple[list[Finding], list[Entry]]:
    """The findings about installed models, and the usable models."""
    entries = [entry for entry in inventory() if entry.installed]
    usable = [entry for entry in entries if not entry.fault]
    found = [_model(entry) for entry in entries]
    if trusted.model and not trusted.remote_url and (wrong := _misnamed(trusted.model)):
        found.append(Finding("model", Level.PROBLEM, wrong, "Correct `model`, or leave it out.", fatal=True))
    elif not usable and not trusted.remote_url and not trusted.model:
        found.append(
            Finding(
                "model",
                Level.PROBLEM,
                "No usable model is installed.",
                "Run `lsp-calib models pull smollm2-135m` for a small one (98 MB).",
                fatal=True,
            )
        )
    return found, usable


def chosen(trusted: Trusted) -> list[Finding]:
    """The model and the window that the server would use now, why, and how to change both."""
    if trusted.remote_url:
        return []
    try:
        card, _ = locate(trusted.model)
    except LspCalibError:
        return []  # `models` has said so
    identity = ModelIdentity(card.name, card.quantisation, card.sha256)
    layouts = LayoutChooser(CalibratorStore.open().has_labels, lambda: wanted_window(trusted))
    size, window = layouts.explained(card, identity)
    data = {"model": card.name, "window": size.value}
    return [Finding("choice", Level.GOOD, f"{explained(trusted.model, card)} {window}", data=data)]


def encoder() -> Finding:
    """Whether the sentence encoder, which is evidence for the confidence of summaries, can be used."""
    card = load_encoders()[ENCODER]
    extra = all(map(find_spec, ("onnxruntime", "tokenizers")))
    data = {"encoder": card.name, "installed": card.installed, "extra": extra}
    if card.installed and extra:
        try:
            verify_encoder(card)
        except LspCalibError as error:
            advice = f"Run `lsp-calib models remove {card.name}` and `lsp-calib models pull {card.name}`."
            return Finding("encoder", Level.PROBLEM, str(error), advice, data=data)
        says = f"{card.name} is installed: how well a summary fits its code counts for its confidence."
        return Finding("encoder", Level.GOOD, says, data=data)
    missing = [] if extra else ["`pip install 'lsp-calib[similarity]'`"]
    missing += [] if card.installed else [f"`lsp-calib models pull {card.name}` ({card.size / 1e6:.0f} MB)"]
    says = "No sentence encoder: the confidence of summaries rests on less evidence."
    return Finding("encoder", Level.NOTE, says, f"Run {' and '.join(missing)}.", data=data)


def feedback() -> Finding:
    """Whether the feedback store can be read, and how much is in it. It is opened for reading only."""
    path = home.state_dir() / "feedback.db"
    if not path.exists():
        return Finding(
            "feedback", Level.GOOD, "No feedback yet: the store is made with the first suggestion."
        )
    try:
        # With mode=ro SQLite still reads the write-ahead log of another process.
        with contextlib.closing(
            sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)
        ) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            (suggestions,) = connection.execute("SELECT COUNT(*) FROM suggestions").fetchone()
            (labels,) = connection.execute("SELECT COUNT(correct) FROM labels").fetchone()
            (replayed,) = connection.execute(
                "SELECT COUNT(*) FROM suggestions WHERE source = ?", (Source.REPLAY.value,)
            ).fetchone()
            removed = connection.execute(
                "SELECT kind, data, COUNT(*) FROM events WHERE kind IN (?, ?) GROUP BY kind, data",
                (EventKind.WITHHELD.value, EventKind.CUT.value),
            ).fetchall()
    except sqlite3.Error as error:
        return Finding(
            "feedback",
            Level.PROBLEM,
            f"The feedback store {path} cannot be read: {error}.",
            "The server moves a damaged store aside and starts a new one. To do so now, close your editors "
            "and move the file away.",
        )
    counts: dict[str, dict[str, int]] = {EventKind.WITHHELD.value: {}, EventKind.CUT.value: {}}
    for kind, event, n in removed:
        for reason in parsed(event) or ():
            counts[kind][reason] = counts[kind].get(reason, 0) + n
    shown, known = suggestions - replayed, labels - replayed  # each replayed line has its label
    data = {"suggestions": shown, "labels": known, "replayed": replayed, **counts}
    says = f"{shown} suggestions remembered, {known} with a label."
    says += f" {replayed} lines that you typed were replayed." if replayed else ""
    for what, kind in (("Answers withheld", EventKind.WITHHELD), ("Ends of answers cut off", EventKind.CUT)):
        if by_reason := counts[kind.value]:
            ordered = sorted(by_reason.items(), key=lambda pair: -pair[1])
            says += f" {what}: {', '.join(f'{reason} {n}' for reason, n in ordered)}."
    return Finding("feedback", Level.GOOD, says, data=data)


def processes() -> Finding:
    """The running model processes of this user."""
    held = (lockfile.holder(lock) for lock in sorted((home.state_dir() / "run").glob("*.lock")))
    running = [pid for pid in held if pid is not None]
    if not running:
        return Finding(
            "process",
            Level.GOOD,
            "No model process is running; one starts with the editor.",
            data={"pids": []},
        )
    words = ", ".join(str(pid) if pid != lockfile.UNKNOWN else "number not known" for pid in running)
    return Finding("process", Level.GOOD, f"Model process running: {words}.", data={"pids": running})


def _model(entry: Entry) -> Finding:
    card, data = entry.card, entry.to_wire()
    size = f"{card.size / 1e6:.0f} MB, {card.quantisation or 'quantisation not known'}"
    if entry.fault:
        advice = f"Run `lsp-calib models pull {card.name}` again, or `lsp-calib models remove {card.name}`."
        return Finding(
            "model", Level.PROBLEM, f"{card.name} cannot be used: {entry.fault}.", advice, data=data
        )
    if entry.fits is False:
        says = f"{card.name} ({size}) needs about {entry.needs / 1e6:.0f} MB of memory; less is free now."
        return Finding("model", Level.NOTE, says, "Close other programs, or use a smaller model.", data=data)
    return Finding(
        "model", Level.GOOD, f"{card.name} ({size}), about {entry.needs / 1e6:.0f} MB of memory.", data=data
    )


def _misnamed(model: str) -> str:
    """The reason why the server would not find the model in the settings; "" if it would find it."""
    try:
        locate(model)
    except LspCalibError as error:
        return str(error)
    return ""


def _shown(trusted: Trusted) -> dict[str, Any]:
    """The settings that differ from their defaults, by key, as JSON.

    Without the path of a key file, and of lists only how long they are: their patterns may name what is
    nobody's business, and a bundle is sent to others.
    """
    shown: dict[str, Any] = {}
    for key, setting in TRUSTED.items():
        value = getattr(trusted, setting.attribute)
        if value == setting.default:
            continue
        shown[key] = f"({len(value)} set)" if isinstance(value, tuple) else value
        if setting.attribute == "remote_key_file":
            shown[key] = "(set)"
    return shown


def _in_words(value: object) -> str:
    """A value as it stands in a configuration, a text without quotation marks."""
    return value if isinstance(value, str) else json.dumps(value)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
