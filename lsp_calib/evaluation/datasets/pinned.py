"""Real projects at pinned versions, from package registries: the same lines to complete for everybody."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.errors import DataError, DownloadError
from lsp_calib.evaluation.datasets import project_lists as lists
from lsp_calib.evaluation.datasets.registries import (
    Download,
    Project,
    debian_packages,
    debian_sources,
    npm_registry,
    python_index,
    python_sources,
    unpack,
)
from lsp_calib.languages import name_of

# Files that state licence and authors.
_ABOUT = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "AUTHORS")

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what); done and all count projects."""


@attrs.frozen
class ProjectSet:
    """Projects in one language, with a folder of the set's name below the data folder.

    registry: gives the download of a project, with a scratch folder.
    kept: endings of the files that are unpacked, beside those about licence and authors; "" for all. inner:
    whether the archive holds one folder, which is the project.
    """

    name: str
    language: str
    projects: tuple[Project, ...]
    origin: str
    registry: Callable[[Path], Download]
    kept: tuple[str, ...]
    inner: bool = False

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


def _listed(text: str) -> tuple[Project, ...]:
    return tuple(Project(*line.split()) for line in text.split("\n") if line)


_PYPI, _NPM = ("https://pypi.org", python_index), ("https://www.npmjs.com", npm_registry)
_DEBIAN = "https://packages.debian.org"
_SOURCES, _PACKAGES = (_DEBIAN, debian_sources), (_DEBIAN, debian_packages)
_JAVASCRIPT = (".cjs", ".js", ".mjs")
_CPP = (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx")
BLIND_SET = "projects-blind"

_ALL = (
    ProjectSet("projects", "python", _listed(lists.PYTHON), *_PYPI, (".py", ".pyi")),
    ProjectSet(BLIND_SET, "python", _listed(lists.PYTHON_BLIND), *_PYPI, (".py", ".pyi")),
    ProjectSet(
        *("projects-tested", "python", _listed(lists.PYTHON_TESTED)),
        *(_PYPI[0], python_sources, ("",)),
        inner=True,
    ),
    ProjectSet("projects-c", "c", _listed(lists.C), *_SOURCES, (".c", ".h")),
    ProjectSet("projects-cpp", "cpp", _listed(lists.CPP), *_SOURCES, _CPP),
    ProjectSet("projects-go", "go", _listed(lists.GO), *_SOURCES, (".go",)),
    ProjectSet("projects-java", "java", _listed(lists.JAVA), *_SOURCES, (".java",)),
    ProjectSet("projects-javascript", "javascript", _listed(lists.JAVASCRIPT), *_NPM, _JAVASCRIPT),
    ProjectSet("projects-rust", "rust", _listed(lists.RUST), *_PACKAGES, (".rs",)),
    ProjectSet(
        *("projects-typescript", "typescript", _listed(lists.TYPESCRIPT)),
        *(*_NPM, (".cts", ".mts", ".ts", ".tsx")),
    ),
    ProjectSet(
        *("projects-typescriptreact", "typescriptreact", _listed(lists.TYPESCRIPT_REACT)),
        *(*_NPM, (".tsx",)),
    ),
)

SETS = {one.name: one for one in _ALL}


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
