"""A partial download: the bytes received so far, kept so that the rest can follow later.

And what belongs to it: the lock that a pull of a file holds, and what pulls that were killed have left.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from lsp_calib import home, lockfile
from lsp_calib.errors import DownloadError
from lsp_calib.files import open_file, read_file
from lsp_calib.json_text import parse_json

# As `tempfile` makes them up: a longer ending belongs to a file with a longer name.
_MADE_UP = re.compile("[a-z0-9_]{8}")


@contextlib.contextmanager
def locked(targets: Iterable[Path], name: str) -> Iterator[None]:
    """Hold the locks of the pulls of these files. name: of the model that they are.

    Raises DownloadError if one of them is being pulled, or removed.
    """
    with contextlib.ExitStack() as stack:
        for target in targets:
            lock = lockfile.take(home.run_folder() / f"pull-{target.name}.lock")
            if lock is None:
                raise DownloadError(
                    f"Another lsp-calib is downloading {name}. Wait until it is done (`lsp-calib models "
                    "list` says so) or end it, then try again."
                )
            stack.callback(lock.release)
        yield


def scratch_folder(target: Path) -> tempfile.TemporaryDirectory[str]:
    """A new folder for the pull of a file, beside it: the last step is then a rename."""
    return tempfile.TemporaryDirectory(prefix=f".pull-{target.name}.", dir=target.parent)


def leftovers(target: Path) -> list[Path]:
    """The scratch folders of a file's pulls: of one that runs, and of those that were killed."""
    start = f".pull-{target.name}."
    found = target.parent.glob(f"{glob.escape(start)}*")
    return [one for one in found if _MADE_UP.fullmatch(one.name.removeprefix(start)) and one.is_dir()]


def remains(target: Path) -> list[Path]:
    """All that unfinished pulls of a file have left."""
    kept = [target.with_name(f".pull-{target.name}.{ending}") for ending in ("part", "json")]
    return [*(one for one in kept if one.exists()), *leftovers(target)]


def delete(paths: Iterable[Path]) -> None:
    """Delete files, and folders with what is in them."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Part:
    """Bytes received so far of one file, and the identity of their source.

    target: the file that it will be. origin: where the bytes come from; those of another origin are dropped.
    validator: the server's ETag or date of the bytes that are here; empty where it gave none.
    """

    def __init__(self, target: Path, origin: str) -> None:
        self.path = target.with_name(f".pull-{target.name}.part")
        self._notes = target.with_name(f".pull-{target.name}.json")
        self._origin = origin
        self.validator = ""
        self.size = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            notes = parse_json(read_file(self._notes))
            validator = notes["validator"] if notes["origin"] == origin else ""
            if isinstance(validator, str) and validator:
                self.size = self.path.stat().st_size
                self.validator = validator
        self.resumed = self.size > 0

    def restart(self, validator: str) -> None:
        """Drop the bytes received so far; those that follow have this validator."""
        self.size, self.resumed = 0, False
        self.validator = validator
        self._write(b"", "wb")
        notes = json.dumps({"origin": self._origin, "validator": validator})
        self._notes.write_text(notes, "utf-8")

    def append(self, chunk: bytes) -> None:
        """Keep some more bytes. Raises DownloadError if there is no room for them."""
        self._write(chunk, "ab")
        self.size += len(chunk)

    def finish(self) -> Path:
        """Flush the complete file to disk; returns it.

        Raises DownloadError if its bytes are not those received: another program has changed the file.
        """
        size = -1
        with (
            contextlib.suppress(FileNotFoundError),
            os.fdopen(open_file(self.path, os.O_RDWR), "rb+") as file,
        ):
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        if size != self.size:
            received = self.size
            self.discard()
            raise DownloadError(
                f"{self.path} was removed or changed by another program during the download: it has "
                f"{max(size, 0)} of the {received} bytes received. It was deleted; pull the model again."
            )
        return self.path

    def forget_source(self) -> None:
        """Delete the notes on the source, which serve a later pull, once the file has been checked."""
        self._notes.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete the bytes received."""
        self.path.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)
        self.size, self.validator, self.resumed = 0, "", False

    def _write(self, chunk: bytes, mode: str) -> None:
        try:
            with open(self.path, mode, opener=_private) as file:
                file.write(chunk)
        except OSError as error:
            raise DownloadError(
                f"{self.path.parent} cannot be written: {error.strerror or error}. Free some space, or set "
                "LSP_CALIB_HOME to another disk; the received part is kept, and the next pull resumes there."
            ) from error


def _private(path: str, flags: int) -> int:
    return open_file(Path(path), flags)
