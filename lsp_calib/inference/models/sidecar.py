"""Small JSON files beside the models, with facts about them; losing one costs only time.

The facts about a file, above all its SHA-256, are remembered by path, size, time and inode.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsp_calib import home
from lsp_calib.errors import LspCalibError, ModelFileError
from lsp_calib.files import open_file, read_file, why, write_atomically
from lsp_calib.json_text import parse_json

logger = logging.getLogger(__name__)

_MEMORY = ".sha256.json"
_FIRST_USE = ".first-use.json"


def models_folder() -> Path:
    """The folder of the models. Raises SettingsError if it cannot be created.

    Where it is a link, as to a larger disk that other programs use too, its permissions are not ours.
    """
    folder = home.state_dir() / "models"
    return folder if folder.is_symlink() and folder.is_dir() else home.private_folder(folder)


def redownload_hint(path: Path) -> str:
    """Advice to the user about a model file whose bytes are wrong; `models remove` takes no other file."""
    try:
        pulled = path.absolute().parent.resolve() == models_folder().resolve()
    except (LspCalibError, OSError):
        pulled = False
    if pulled:
        return (
            f"Remove it (`lsp-calib models remove {path.name}`) and get it again with `lsp-calib models pull "
            "NAME`; `lsp-calib models list` has the names."
        )
    return "It is a file of your own: get it again from where it came from, or name another model."


def read(name: str) -> dict[str, Any]:
    """The object in a side file; empty if it is missing or damaged."""
    try:
        known = parse_json(read_file(home.state_dir() / "models" / name))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def update(name: str, key: str, value: Any, *, stays: Callable[[str], bool] = lambda _: True) -> None:
    """Put one entry into a side file (None removes it), whole or not at all.

    stays: whether another entry does, by its key.
    Never fails: at worst it is measured again, and the log says so.
    """
    known = {kept: old for kept, old in read(name).items() if kept != key and stays(kept)}
    if value is not None:
        known[key] = value
    try:
        target = models_folder() / name
        write_atomically(target, json.dumps(known, indent=1).encode(), 0o600, durable=False)
    except (OSError, LspCalibError) as error:
        logger.warning("%s cannot be written: %s. What it would say is found out again.", name, why(error))


def sha256_of(path: Path, *, fresh: bool = False) -> str:
    """Hexadecimal SHA-256 of a file; from memory if the file has not changed since, unless `fresh`."""
    known = None if fresh else recall(path, "sha256")
    if isinstance(known, str):
        return known
    with os.fdopen(open_file(path), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    remember(path, digest)
    return digest


def remember(path: Path, sha256: str) -> None:
    """Keep a checksum that was just computed. Never fails: at worst it is computed again."""
    keep(path, "sha256", sha256)


def recall(path: Path, what: str) -> Any:
    """The fact kept of a file under the name `what`, None without one or if the file has changed."""
    entry = _entry(path)
    return entry.get(what) if entry else None


def keep(path: Path, what: str, value: Any) -> None:
    """Keep a fact about a file, for as long as the file is unchanged. Facts about files that are gone go.

    Never fails.
    """
    try:
        stamp = _stamp(path)
    except OSError:
        return
    facts = {**(_entry(path) or {}), "stamp": stamp, what: value}
    update(_MEMORY, str(path.absolute()), facts, stays=os.path.lexists)


def verify(path: Path, expected: str, *, fresh: bool = False) -> str:
    """The file's SHA-256. Raises ModelFileError if it is not `expected`, or if it cannot be read."""
    try:
        actual = sha256_of(path, fresh=fresh)
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {why(error)}.") from error
    if expected and actual != expected:
        raise ModelFileError(
            f"The model file {path} has the wrong checksum: SHA-256 {actual}, expected {expected}. "
            f"Its bytes are not the model's. {redownload_hint(path)}"
        )
    return actual


def first_use(file: str) -> str:
    """The SHA-256 that a file without a published one had when it was first pulled; empty if it never was."""
    known = read(_FIRST_USE).get(file)
    return known if isinstance(known, str) else ""


def keep_first_use(file: str, sha256: str) -> None:
    """Expect these bytes of `file` from now on: no checksum of it is published."""
    update(_FIRST_USE, file, sha256)


def forget_first_use(file: str) -> None:
    """Forget the first pull of `file`: the next one counts as the first."""
    if first_use(file):
        update(_FIRST_USE, file, None)


def _entry(path: Path) -> dict[str, Any] | None:
    """The remembered facts about a file that has not changed since."""
    entry = read(_MEMORY).get(str(path.absolute()))
    try:
        current = isinstance(entry, dict) and entry.get("stamp") == _stamp(path)
    except OSError:
        return None
    return entry if current else None


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
