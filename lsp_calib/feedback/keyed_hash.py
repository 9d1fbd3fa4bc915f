"""Hashes of lines and folders that say nothing without this installation's key."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from lsp_calib.files import write_atomically

_BYTES = 32
# 64 bits: among a million lines two share a hash with a probability of 3 in 100 million.
_DIGITS = 16


class KeyedHash:
    """HMAC-SHA256 with a random key in a file that its owner alone can read, made when first needed.

    Whoever has a plain hash of a line can try lines until one fits. With the key in another file, a copy of
    the store alone, or of its export, tells nothing.
    Not for several processes at once: the store calls it inside its transactions that write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""
        self._read_from: tuple[int, ...] | None = None

    def of(self, kind: str, text: str) -> str:
        """16 hexadecimal digits; the same text gives others for another kind. Raises OSError."""
        message = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._current(), message, hashlib.sha256).hexdigest()[:_DIGITS]

    def forget(self) -> None:
        """Remove the key: all hashes made with it are random numbers from now on. Raises OSError."""
        self._path.unlink(missing_ok=True)

    def _current(self) -> bytes:
        # Another process may have removed it with all feedback, and made a new one.
        stamp = self._stamp()
        if stamp is None or stamp != self._read_from:
            self._key = b"" if stamp is None else self._path.read_bytes()
            if len(self._key) != _BYTES:  # none yet, or damaged: hashes made with it cannot be made again
                self._key = secrets.token_bytes(_BYTES)
                write_atomically(self._path, self._key, 0o600)
            self._read_from = self._stamp()
        return self._key

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
