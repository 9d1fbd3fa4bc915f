"""A partial download: the bytes received so far, kept so that the rest can follow later."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from lsp_calib.errors import DownloadError

_CHUNK = 1 << 20


class Part:
    """Bytes received so far of one file, their running SHA-256, and the identity of their source.

    target: the file that it will be. origin: where the bytes come from; those of another origin are dropped.
    validator: the server's ETag or date of the bytes that are here; empty where it gave none.
    """

    def __init__(self, target: Path, origin: str) -> None:
        self.path = target.with_name(f".pull-{target.name}.part")
        self._notes = target.with_name(f".pull-{target.name}.json")
        self._origin = origin
        self.validator = ""
        self.size = 0
        self._digest = hashlib.sha256()
        self._load()
        self.resumed = self.size > 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def _load(self) -> None:
        try:
            notes = json.loads(self._notes.read_text("utf-8"))
            validator = notes["validator"] if notes["origin"] == self._origin else ""
            if not isinstance(validator, str) or not validator:
                return
            with self.path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    self._digest.update(chunk)
                    self.size += len(chunk)
            self.validator = validator
        except (OSError, ValueError, KeyError, TypeError):
            self.size, self._digest = 0, hashlib.sha256()

    def restart(self, validator: str) -> None:
        """Drop the bytes received so far; those that follow have this validator."""
        self.size, self._digest, self.resumed = 0, hashlib.sha256(), False
        self.validator = validator
        self._write(b"", "wb")
        notes = json.dumps({"origin": self._origin, "validator": validator})
        self._notes.write_text(notes, "utf-8")

    def append(self, chunk: bytes) -> None:
        """Keep some more bytes. Raises DownloadError if there is no room for them."""
        self._write(chunk, "ab")
        self._digest.update(chunk)
        self.size += len(chunk)

    def finish(self) -> Path:
        """Flush the complete file to disk; returns it."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        self._notes.unlink(missing_ok=True)
        return self.path

    def discard(self) -> None:
        """Delete the bytes received."""
        self.path.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)
        self.size, self._digest, self.validator, self.resumed = 0, hashlib.sha256(), "", False

    def _write(self, chunk: bytes, mode: str) -> None:
        try:
            with open(self.path, mode, opener=_private) as file:
                file.write(chunk)
        except OSError as error:
            raise DownloadError(
                f"{self.path.parent} cannot be written: {error.strerror or error}. Free some space, or set "
                "LSP_CALIB_HOME to another disk; what was received is kept, and the next pull resumes there."
            ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
