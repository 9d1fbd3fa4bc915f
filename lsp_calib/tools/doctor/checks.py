"""Checks that load no model. They change nothing, but create missing folders."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import platform
import shlex
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import attrs

from lsp_calib import __version__, home, lockfile
from lsp_calib.badges import counted
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import LENT, Purpose, is_same_model
from lsp_calib.commands.engine import layouts_for
from lsp_calib.errors import LspCalibError, ModelError
from lsp_calib.inference import processor
from lsp_calib.inference.backend import EIGHT_BIT, Hardware
from lsp_calib.inference.local import compiler
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import DEFAULT_ENCODER as ENCODER
from lsp_calib.inference.models.cards import (
    ModelCard,
    how_to_get_one,
    load_encoders,
    locate,
    verify_encoder,
)
from lsp_calib.inference.models.demands import slow_here
from lsp_calib.inference.models.inventory import Entry, inventory
from lsp_calib.inference.process import acceleration
from lsp_calib.inference.process.acceleration import AccelerationChoice
from lsp_calib.installation import how_to_install, pip_install
from lsp_calib.settings import SETTINGS, Settings
from lsp_calib.syntax.languages import LANGUAGES

DEFAULTS = Settings()
OTHER = "other"
"""A language that nothing is known of, see `languages.bounded`."""
# With less free space, writing the feedback store and the log may soon fail.
_LEAST_FREE = 200 << 20
_ENGINES = {
    "llama-cpp-python": ("the compiled engine: the fastest, with every confidence measure", "local"),
    "xllamacpp": ("the ready-made engine: no compiler needed", "prebuilt"),
}
_REBUILD = f"{pip_install()} --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
_PREPARE = f'eval "$({shlex.quote(sys.executable)} -m lsp_calib.inference.local.compiler)"; '
_NEWER = f"CC=gcc-14 CXX=g++-14 {_REBUILD}"


class Level(enum.StrEnum):
    """good: it works. note: worth knowing. problem: it does not work, or not as it should."""

    GOOD = "good"
    NOTE = "note"
    PROBLEM = "problem"


@attrs.frozen
class Finding:
    """The result of one check, good unless said otherwise.

    about: the subject, such as "engine" or "model". says: the result as a sentence. advice: next steps for
    the user, empty if none. fatal: whether completions cannot work before that is done.
    data: the same for programs, JSON types only.
    """

    about: str
    level: Level = attrs.field(default=Level.GOOD, kw_only=True)
    says: str
    advice: str = ""
    fatal: bool = False
    data: dict[str, Any] = attrs.field(factory=dict)


note = partial(Finding, level=Level.NOTE)
problem = partial(Finding, level=Level.PROBLEM)


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
    return Finding("package", says, data=data)


def engine(trusted: Settings) -> Finding:
    """The engine that would run a model, and the advantages of the others."""
    versions = {name: _version(name) for name in _ENGINES}
    missing = [
        f"{name} is not installed ({what}; {how_to_install(extra)})"
        for name, (what, extra) in _ENGINES.items()
        if versions[name] is None
    ]
    data: dict[str, Any] = {"installed": versions, "chosen": None}
    try:
        factory = acceleration.find_library()
    except ModelError as error:
        if trusted.remote_url:
            return note("engine", "No engine is installed here; the remote server is used.", data=data)
        return problem("engine", str(error), "Install one of the engines.", fatal=True, data=data)
    chosen = "llama-cpp-python" if factory.__module__.endswith(".llama") else "xllamacpp"
    data["chosen"] = chosen
    says = f"Models run in {chosen} {versions[chosen] or ''}".rstrip() + "."
    if missing:
        says += f" {'; '.join(missing)}."
    return Finding("engine", says, data=data)


def acceleration_used() -> list[Finding]:
    """How the library that runs models uses this machine; none if there is no such library."""
    try:
        hardware = acceleration.find_library().hardware()
    except ModelError:
        return []
    return [described(hardware, acceleration.remembered(acceleration.machine(hardware)))]


def described(hardware: Hardware, choices: Sequence[AccelerationChoice]) -> Finding:
    """What llama.cpp uses, and whether a place gives the same probability however it is evaluated.

    choices: the results of trials on this machine with this build.
    """
    on_gpu = any(choice.acceleration.gpu_layers for choice in choices)
    data = {
        "build": hardware.build,
        "processor": processor.name(),
        "amx": hardware.amx,
        "gpu": hardware.gpu,
        "exact": hardware.exact and not on_gpu,
        "chosen": sorted({choice.acceleration.name for choice in choices}),
        "failed": sorted({f"{one.name}: {one.how}" for choice in choices for one in choice.failed}),
    }
    failed = next((choice for choice in choices if choice.failed), None)
    if failed is not None:
        return note("acceleration", acceleration.failure(failed), _advice(hardware, failed), data=data)
    names = {choice.acceleration.name for choice in choices}
    if "gpu" in names:
        says = "llama.cpp uses the GPU, which was faster than the processor."
    elif hardware.gpu and choices:
        says = "llama.cpp uses the processor, which was faster than the GPU."
    elif hardware.amx and names == {"cpu-without-amx"}:
        says = "llama.cpp runs without AMX, because it was slower with it."
    elif hardware.amx and EIGHT_BIT in names:
        says = "llama.cpp uses AMX, with weights of 8 bits where they were faster."
    elif processor.has_amx() and not hardware.amx:
        says = "This processor has AMX, but llama.cpp was compiled without it."
        if compiler.flags() != compiler.WITHOUT_AMX:
            return note("acceleration", says, f"Build it with AMX: `{_PREPARE}{_REBUILD}`.", data=data)
        says += " The installed compiler generates AMX code that crashes, so this is its fastest build."
        advice = f"Try a build with AMX and a newer compiler (GCC 14, Clang): `{_NEWER}`."
        return Finding("acceleration", says, advice, data=data)
    else:
        says = "llama.cpp uses all instructions of this processor."
    says += (
        " The same text gives the same probability, to the last bit."
        if data["exact"]
        else " Probabilities depend a little on what is evaluated together."
    )
    return Finding("acceleration", says, data=data)


def _advice(hardware: Hardware, choice: AccelerationChoice) -> str:
    if "gpu" in {one.name for one in choice.failed}:
        return "Update the GPU's driver or the library, or set `gpuLayers = 0` in config.toml."
    without_amx = hardware.amx and choice.acceleration.amx is False and choice.acceleration.repack
    if without_amx and compiler.flags() != compiler.MENDED:
        return f"A newer compiler (GCC 14, Clang) makes AMX code that works and may be faster: `{_NEWER}`."
    prepare = _PREPARE if hardware.amx else ""
    return f"Build the library again, for this processor: `{prepare}{_REBUILD}`."


def state_folder() -> list[Finding]:
    """The state folder: its path, whether it is writable, and whether others can read it. Never raises."""
    try:
        folder = home.state_dir()
        sidecar.models_folder()
    except LspCalibError as error:
        return [problem("state", str(error), "Set LSP_CALIB_HOME to another folder.", fatal=True)]
    free = shutil.disk_usage(folder).free
    data = {"path": str(folder), "freeBytes": free}
    move = "Set LSP_CALIB_HOME to a folder of yours on a disk of this machine."
    wrong = []
    if not os.access(folder, os.W_OK):
        wrong.append(problem("state", f"{folder} cannot be written, so feedback cannot be kept.", move))
    if free < _LEAST_FREE:
        says = f"The disk with {folder} has {free / 1e6:.0f} MB left."
        wrong.append(problem("state", says, "Free some space."))
    if os.name == "posix" and folder.stat().st_mode & 0o077:
        says = f"Other users can read {folder}; its file system does not support permissions."
        wrong.append(problem("state", says, move))
    return wrong or [Finding("state", f"State lives in {folder}, readable by you alone.", data=data)]


def configuration(trusted: Settings, problems: Sequence[str]) -> list[Finding]:
    """The settings, and their problems."""
    set_ = _shown(trusted)
    listed = ", ".join(f"{key} = {_in_words(value)}" for key, value in set_.items())
    says = f"Settings of your own: {listed}." if set_ else "All settings have their defaults."
    advice = (
        "Correct it in config.toml, the environment or the command line; docs/reference.md has all settings."
    )
    wrong = [problem("configuration", one, advice) for one in problems]
    return [Finding("configuration", says, data=set_), *wrong]


def models(trusted: Settings) -> tuple[list[Finding], list[Entry]]:
    """The findings about installed models, and the usable models."""
    entries = [entry for entry in inventory() if entry.installed]
    usable = [entry for entry in entries if not entry.fault]
    found = [_model(entry) for entry in entries]
    if trusted.remote_url:
        return found, usable
    if trusted.model:
        try:
            locate(trusted.model)
        except LspCalibError as error:
            advice = "Correct `model`, or leave it out."
            found.append(problem("model", str(error), advice, fatal=True))
    elif not usable:
        found.append(problem("model", "No usable model is installed.", how_to_get_one(), fatal=True))
    return found, usable


def chosen(trusted: Settings) -> list[Finding]:
    """The model and the window that the server would use now, and whether the model is slow here."""
    if trusted.remote_url:
        return []
    try:
        card, _ = locate(trusted.model)
    except LspCalibError:
        return []  # `models` has said so
    size = layouts_for(trusted, CalibratorStore.open()).size(card, card.identity)
    says = f"Completions come from {card.name} with the {size.value} window."
    data = {"model": card.name, "window": size.value}
    if slow := slow_here(card):
        return [note("choice", f"{says} {slow}", "Set `model` in config.toml to use another one.", data=data)]
    return [Finding("choice", says, data=data)]


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
            return problem("encoder", str(error), advice, data=data)
        says = f"{card.name} is installed: how well a summary fits its code counts for its confidence."
        return Finding("encoder", says, data=data)
    missing = [] if extra else [f"{how_to_install('similarity')}"]
    missing += [] if card.installed else [f"`lsp-calib models pull {card.name}` ({card.size / 1e6:.0f} MB)"]
    says = "No sentence encoder: the confidence of summaries rests on less evidence."
    return note("encoder", says, f"Run {' and '.join(missing)}.", data=data)


def feedback() -> Finding:
    """Whether the feedback store can be read, and how much is in it. It is opened for reading only."""
    path = home.feedback_file()
    if not path.exists():
        return Finding("feedback", "No feedback yet: the store is made with the first suggestion.")
    try:
        # With mode=ro SQLite still reads the write-ahead log of another process.
        with contextlib.closing(
            sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)
        ) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            shown, known = connection.execute(
                "SELECT COUNT(*), (SELECT COUNT(correct) FROM labels) FROM suggestions"
            ).fetchone()
    except sqlite3.Error as error:
        return problem(
            "feedback",
            f"The feedback store {path} cannot be read: {error}.",
            "The server moves a damaged store aside and starts a new one. To do so now, close your editors "
            "and move the file away.",
        )
    says = f"{counted(shown, 'suggestion')} remembered, {known:,} with a label."
    return Finding("feedback", says, data={"suggestions": shown, "labels": known})


def processes() -> Finding:
    """The running model processes of this user."""
    held = (lockfile.holder(lock) for lock in sorted((home.state_dir() / "run").glob("*.lock")))
    running = [pid for pid in held if pid is not None]
    words = ", ".join(str(pid) if pid != lockfile.UNKNOWN else "number not known" for pid in running)
    none = "No model process is running; one starts with the editor."
    return Finding("process", f"Model process running: {words}." if running else none, data={"pids": running})


def _model(entry: Entry) -> Finding:
    card, data = entry.card, entry.to_wire()
    size = f"{card.size / 1e6:.0f} MB, {card.quantisation or 'quantisation not known'}"
    if entry.fault:
        advice = f"Run `lsp-calib models pull {card.name}` again, or `lsp-calib models remove {card.name}`."
        return problem("model", f"{card.name} cannot be used: {entry.fault}.", advice, data=data)
    if entry.fits is False:
        says = f"{card.name} ({size}) needs about {entry.needs / 1e6:.0f} MB of memory; less is free now."
        return note("model", says, "Close other programs, or use a smaller model.", data=data)
    return Finding("model", f"{card.name} ({size}), about {entry.needs / 1e6:.0f} MB of memory.", data=data)


def _shown(trusted: Settings) -> dict[str, Any]:
    """The settings that differ from their defaults, by key, as JSON.

    Without the path of a key file, and of lists only how long they are: their patterns may name what is
    nobody's business, and a bundle is sent to others.
    """
    shown: dict[str, Any] = {}
    for key, setting in SETTINGS.items():
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


def calibrators(usable: Sequence[Entry], trusted: Settings = DEFAULTS) -> list[Finding]:
    """The calibrators in force for each model, with the prompts that it gets on this machine, and files that
    had to be skipped."""
    store = CalibratorStore.open()
    listed, skipped = store.listed()
    in_force = [one.calibrator for one in listed if one.in_force]
    layouts = layouts_for(trusted, store)
    found: list[Finding] = []
    for entry in usable:
        card = entry.card
        assert isinstance(card, ModelCard), "an inventory is of language models"
        version = layouts.of_card(card, card.identity).version
        own = [one for one in in_force if is_same_model(one.purpose.model, card.identity)]
        python = Purpose(card.identity, version, "line", "python")
        own = [one for one in own if one.purpose.task == "summary" or one.purpose.asks_like(python)]
        # A language without a grammar stands for all of these.
        served = {
            language: store.choose(attrs.evolve(python, language=language)).calibrator
            for language in (*LANGUAGES, OTHER)
        }
        found.append(_of_model(card.name, version, own, served))
        # Where nothing is in force, something may be promised all the same.
        for purpose in dict.fromkeys([python, *(one.purpose for one in own)]):
            found += certificate(store, purpose, store.choose(purpose).calibrator)
    advice = "Remove or replace the file. Until then another calibrator is used."
    return found + [problem("calibrator", text, advice) for text in skipped]


def _of_model(
    name: str, version: str, own: Sequence[Calibrator], served: Mapping[str, Calibrator]
) -> Finding:
    """own: its calibrators in force. served: the calibrator of lines that each language gets."""
    lines = [one for one in own if one.purpose.task == "line"]
    summaries = [one for one in own if one.purpose.task == "summary"]
    data = {
        "model": name,
        "prompt": version,
        "calibrators": [
            {"id": one.id, "task": one.purpose.task, "language": one.purpose.language, **_origin(one)}
            for one in (*lines, *summaries)
        ],
        "languages": {language: _origin(one) for language, one in served.items()},
    }
    if not lines:
        says = f"{name} is not calibrated: its lines have no probability, and their tier is review."
        says += f" It has calibrators for {_words('summaries', summaries)}." if summaries else ""
        advice = f"Run `lsp-calib calibrate PATH --model {name}`, or refit after using it for a while."
        return note("calibrator", says, advice, data=data)
    known = " and ".join(
        _words(task, found) for task, found in (("lines", lines), ("summaries", summaries)) if found
    )
    rest = {language: one for language, one in served.items() if one.source in LENT}
    named = sorted(one.purpose.language_name for language, one in rest.items() if language != OTHER)
    how = f"pooled, {rest[OTHER].n:,} labels of other languages and windows"
    how = how if rest[OTHER].source == "pooled" else "not calibrated, always marked review"
    others = ", ".join([*named, "languages without a grammar"])
    return Finding("calibrator", f"{name}: calibrators for {known}. Lines of {others}: {how}.", data=data)


def _origin(one: Calibrator) -> dict[str, object]:
    return {"source": one.source, "state": one.state, "n": one.n}


def _words(task: str, found: Sequence[Calibrator]) -> str:
    """Calibrators of one task, those that came about in the same way together."""
    together: dict[str, list[Calibrator]] = defaultdict(list)
    for one in found:
        together[one.source_and_state].append(one)
    parts = []
    for origin, some in together.items():
        names = sorted(one.purpose.language_name for one in some)
        least, most = min(one.n for one in some), max(one.n for one in some)
        labels = f"{most} labels" if least == most else f"{least} to {most} labels"
        parts.append(f"{', '.join(names)} ({origin}, {labels})")
    return f"{task} of {'; '.join(parts)}"


def certificate(store: CalibratorStore, purpose: Purpose, calibrator: Calibrator) -> list[Finding]:
    """What is promised of the tiers, where the policy is or was `risk`."""
    try:
        ledger = store.ledger(purpose)
    except LspCalibError as error:
        advice = "Remove the file: certificates then begin anew, with later labels."
        return [problem("certificate", str(error), advice)]
    if ledger.promise is None:
        return []
    data = ledger.to_wire(calibrator.id, ledger.promise)
    name = f"{purpose.model.name}, {purpose.language}"
    if data["certified"]:
        return [Finding("certificate", f"{name}: certified: {data['reason']}.", data=data)]
    says = f"{name}: nothing is certified to be accepted: {data['reason']}."
    advice = "Labels come with use; `lsp-calib refit` asks for a certificate when there are enough."
    return [note("certificate", says, advice, data=data)]
