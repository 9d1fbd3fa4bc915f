"""The SHA-256 of a model file, remembered by path, size, time and inode so that it is computed once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from pathlib import Path

from lsp_calib import home
from lsp_calib.errors import ModelFileError

_CHUNK = 1 << 20


def sha256_of(path: Path, *, fresh: bool = False) -> str:
    """Hexadecimal SHA-256 of a file; from memory if the file has not changed since, unless `fresh`."""
    known = _remembered()
    stamp = _stamp(path)
    entry = known.get(str(path))
    if not fresh and entry is not None and entry[:-1] == stamp:
        return str(entry[-1])
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    remember(path, digest.hexdigest())
    return digest.hexdigest()


def remember(path: Path, sha256: str) -> None:
    """Keep a checksum that was just computed. Never fails: at worst it is computed again."""
    known = _remembered()
    target = _memory()
    with contextlib.suppress(OSError):
        known[str(path)] = [*_stamp(path), sha256]
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
            scratch = Path(file.name)
            json.dump(known, file, indent=1)
        try:
            scratch.replace(target)
        except OSError:
            scratch.unlink()


def verify(path: Path, expected: str, *, fresh: bool = False) -> str:
    """The file's SHA-256. Raises ModelFileError if `expected` is given and is another."""
    actual = sha256_of(path, fresh=fresh)
    if expected and actual != expected:
        raise ModelFileError(
            f"The model file {path} has the wrong checksum: SHA-256 {actual}, expected {expected}. "
            "Its bytes are not the model's. "
            f"Remove it (`lsp-calib models remove {path.name}`) and get it again with "
            "`lsp-calib models pull NAME`; `lsp-calib models list` has the names."
        )
    return actual


def _memory() -> Path:
    return home.private_folder(home.home() / "models") / ".sha256.json"


def _remembered() -> dict[str, list[int | str]]:
    try:
        known = json.loads(_memory().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {path: entry for path, entry in known.items() if isinstance(entry, list)}


def _stamp(path: Path) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
