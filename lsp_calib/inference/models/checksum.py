"""Facts about model files, above all their SHA-256, remembered by path, size, time and inode."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from lsp_calib.errors import ModelFileError
from lsp_calib.files import open_file
from lsp_calib.inference.models import sidecar

_CHUNK = 1 << 20
_MEMORY = ".sha256.json"
_FIRST_USE = ".first-use.json"


def sha256_of(path: Path, *, fresh: bool = False) -> str:
    """Hexadecimal SHA-256 of a file; from memory if the file has not changed since, unless `fresh`."""
    known = None if fresh else recall(path, "sha256")
    if isinstance(known, str):
        return known
    digest = hashlib.sha256()
    with os.fdopen(open_file(path), "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    remember(path, digest.hexdigest())
    return digest.hexdigest()


def remember(path: Path, sha256: str) -> None:
    """Keep a checksum that was just computed. Never fails: at worst it is computed again."""
    keep(path, "sha256", sha256)


def recall(path: Path, what: str) -> Any:
    """The fact kept of a file under the name `what`, None without one or if the file has changed."""
    entry = _entry(path)
    return entry.get(what) if entry else None


def keep(path: Path, what: str, value: Any) -> None:
    """Keep a fact about a file, for as long as the file is unchanged. Never fails."""
    try:
        stamp = _stamp(path)
    except OSError:
        return
    sidecar.update(_MEMORY, str(path.absolute()), {**(_entry(path) or {}), "stamp": stamp, what: value})


def verify(path: Path, expected: str, *, fresh: bool = False) -> str:
    """The file's SHA-256. Raises ModelFileError if `expected` is given and differs."""
    actual = sha256_of(path, fresh=fresh)
    if expected and actual != expected:
        raise ModelFileError(
            f"The model file {path} has the wrong checksum: SHA-256 {actual}, expected {expected}. "
            f"Its bytes are not the model's. {sidecar.redownload_hint(path)}"
        )
    return actual


def first_use(file: str) -> str:
    """The SHA-256 that a file without a published one had when it was first pulled; empty if it never was."""
    known = sidecar.read(_FIRST_USE).get(file)
    return known if isinstance(known, str) else ""


def keep_first_use(file: str, sha256: str) -> None:
    """Expect these bytes of `file` from now on: no checksum of it is published."""
    sidecar.update(_FIRST_USE, file, sha256)


def forget_first_use(file: str) -> None:
    """Forget the first pull of `file`: the next one counts as the first."""
    sidecar.update(_FIRST_USE, file, None)


def _entry(path: Path) -> dict[str, Any] | None:
    """The remembered facts about a file that has not changed since."""
    entry = sidecar.read(_MEMORY).get(str(path.absolute()))
    try:
        current = isinstance(entry, dict) and entry.get("stamp") == _stamp(path)
    except OSError:
        return None
    return entry if current else None


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
