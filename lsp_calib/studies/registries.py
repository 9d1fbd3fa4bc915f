"""Downloads a release of a project through the registry's own client. No code of the project is run."""

from __future__ import annotations

import importlib.util
import lzma
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import attrs

from lsp_calib.errors import DownloadError


@attrs.frozen
class Project:
    """A release of a project. sha256: checksum of the archive that holds it."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> str:
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}"


Download = Callable[[Project, Path], Path]
"""Downloads the archive of a project to a folder, which may be missing, and returns its path.

Raises DownloadError.
"""

# Projects with compiled wheels; the checksum is that of the wheel for one Python and platform.
COMPILED = {"aiohttp", "hypothesis", "tornado"}
_PURE_TAGS = ("--platform=any", "--implementation=py", "--abi=none", "--python-version=3.13")
_COMPILED_TAGS = (
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux_2_17_x86_64",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux1_x86_64",
    "--implementation=cp",
    "--abi=cp311",
    "--abi=abi3",
    "--python-version=3.11",
)


def pip_download(folder: Path, *options: str) -> list[str]:
    """The words by which the running Python's pip downloads to a folder, without what a project needs."""
    # -P: ignore a module named pip in the working folder.
    words = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    return [*words, "--no-deps", *options, "--dest", str(folder)]


def python_index(_: Path) -> Download:
    """The user's Python package index, through pip: wheels alone."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            "The projects come from a package index, and pip is not installed beside lsp-calib. "
            "Install it: `python -m ensurepip`."
        )

    def download(project: Project, folder: Path) -> Path:
        command = pip_download(folder, "--only-binary=:all:", "--ignore-requires-python")
        command += _COMPILED_TAGS if project.name in COMPILED else _PURE_TAGS
        command.append(f"{project.name}=={project.version}")
        return _downloaded(command, project, folder, "*.whl", client="pip")

    return download


def python_sources(scratch: Path) -> Download:
    """The user's Python package index, through pip: source distributions, which hold tests.

    pip asks the archive's build system for its metadata, which may run code of the project: that of the
    pinned archive alone, for pip verifies the checksum before.
    """
    python_index(scratch)

    def download(project: Project, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{project.name}=={project.version} --hash=sha256:{project.sha256}\n")
        options = f"--no-binary={project.name}", "--require-hashes", "--ignore-requires-python"
        command = [*pip_download(folder, *options), "--requirement", str(wanted)]
        return _downloaded(command, project, folder, "*.tar.gz", client="pip")

    return download


def npm_registry(_: Path) -> Download:
    """The user's npm registry, through npm."""
    if shutil.which("npm") is None:
        raise DownloadError(
            "The projects come from an npm registry, and npm is not installed. Install Node.js."
        )

    def download(project: Project, folder: Path) -> Path:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{project.name}@{project.version}"]
        return _downloaded(command, project, folder, "*.tgz", client="npm")

    return download


_SUITE = "bookworm"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR = "http://deb.debian.org/debian/"


def debian_sources(scratch: Path) -> Download:
    """Source packages of one release of Debian: the archives that the projects released."""
    options = _own_apt(scratch, "deb-src")

    def download(project: Project, folder: Path) -> Path:
        # The last number of Debian's version changes with each security fix; the archive of the project does
        # not, so the package is asked for by name.
        command = ["apt-get", *options, "-q", "--only-source", "--download-only", "--tar-only", "source"]
        name = f"{project.name}_{project.version}.orig.tar.*"
        return _downloaded([*command, project.name], project, folder, name, client="apt-get")

    return download


def debian_packages(scratch: Path) -> Download:
    """Packages of one release of Debian that hold source, for one architecture."""
    options = _own_apt(scratch, "deb")

    def download(project: Project, folder: Path) -> Path:
        command = ["apt-get", *options, "-q", "download", f"{project.name}={project.version}"]
        return _downloaded(command, project, folder, f"{project.name}_*.deb", client="apt-get")

    return download


def _own_apt(scratch: Path, kind: str) -> list[str]:
    """Options that give apt an index of its own in `scratch`, which it has read then.

    kind: "deb" or "deb-src". The mirror is that of the machine, if it has one. Neither the machine's own
    settings of apt are touched, nor is root needed. Raises DownloadError.
    """
    missing = [name for name in ("apt-get", "apt-cache") if shutil.which(name) is None]
    if missing or not _KEYS.is_file():
        raise DownloadError(
            f"The projects are packages of Debian, and {missing[0] if missing else _KEYS} is missing. "
            "On Debian and what is made from it: `apt install apt debian-archive-keyring`."
        )
    apt = scratch / "apt"
    for part in ("lists/partial", "archives/partial", "parts"):
        (apt / part).mkdir(parents=True)
    (apt / "parts" / "sources.sources").write_text(
        f"Types: {kind}\nURIs: {_mirror()}\nSuites: {_SUITE}\nComponents: main\nSigned-By: {_KEYS}\n"
    )
    (apt / "status").touch()
    values = {
        "Dir::Etc::sourcelist": os.devnull,
        "Dir::Etc::sourceparts": apt / "parts",
        "Dir::State": apt,
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt,
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in values.items() for word in ("-o", f"{name}={value}")]
    updated = run_client(["apt-get", *options, "-q", "update"], apt)
    if updated.returncode:
        raise DownloadError(f"apt-get could not read the index of {_SUITE}; it said: {last_words(updated)}")
    return options


def _mirror() -> str:
    """The address of Debian's archive that this machine uses, else the public one."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"]
    found = (line.split() for line in run_client(command, Path.cwd()).stdout.splitlines())
    return next((line[2] for line in found if line[:2] == ["Debian", _SUITE]), _MIRROR)


def _downloaded(command: Sequence[str], project: Project, folder: Path, pattern: str, *, client: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    result = run_client(command, folder)
    found = [path for path in sorted(folder.glob(pattern)) if path.suffix != ".asc"]
    if result.returncode or not found:
        raise DownloadError(f"{client} could not download {project.folder}; it said: {last_words(result)}")
    return found[0]


def run_client(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def last_words(result: subprocess.CompletedProcess[str]) -> str:
    said = result.stderr.strip() or result.stdout.strip()
    return (said.splitlines() or ["nothing"])[-1]


# Of all that an archive holds, in bytes; the largest one here has a third of it.
MOST_BYTES = 256 << 20
_MOST_MEMBERS = 100_000
_CHUNK = 1 << 20

# https://manpages.debian.org/bookworm/dpkg-dev/deb.5.en.html
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60

Keeps = Callable[[PurePosixPath], bool]
"""Whether a member is kept, by its path in the archive."""


def unpack(archive: Path, target: Path, keeps: Keeps) -> None:
    """Extract the regular files that `keeps` wants from a zip or tar archive to `target`, which is made.

    Raises DownloadError for an archive that is damaged, is too large, or would write outside `target`.
    """
    target.mkdir()
    left = MOST_BYTES
    try:
        for path, size, chunks in _members(archive, keeps):
            # Of a compressed tar, what is not kept is read as well.
            left -= 0 if chunks else size
            if chunks is not None:
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as out:
                    while chunk := chunks.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            break
                        out.write(chunk)
            if left < 0:
                raise DownloadError(f"{archive.name} holds more than {MOST_BYTES >> 20} MB of sources.")
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise DownloadError(f"{archive.name} cannot be unpacked: {error}.") from error


def _members(archive: Path, keeps: Keeps) -> Iterator[tuple[PurePosixPath, int, IO[bytes] | None]]:
    """Path, size and content of each regular file; no content if it is not kept."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                path = _checked(info.filename, archive)
                regular = not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16)
                if regular and keeps(path):
                    with zipped.open(info) as content:
                        yield path, info.file_size, content
        return
    with archive.open("rb") as file, tarfile.open(fileobj=_tar_in(file), mode="r|*") as tar:
        for number, member in enumerate(tar):
            if number >= _MOST_MEMBERS:
                raise DownloadError(f"{archive.name} holds more than {_MOST_MEMBERS} files.")
            path = _checked(member.name, archive)
            kept = member.isreg() and keeps(path)
            yield path, member.size, tar.extractfile(member) if kept else None


def _tar_in(file: IO[bytes]) -> IO[bytes]:
    """The file, at the beginning of its tar file. Raises EOFError for a Debian package without one."""
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        file.seek(0)
        return file
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        if header.startswith(b"data.tar"):
            return file
        size = int(header[48:58])
        file.seek(size + size % 2, 1)
    raise EOFError("it has no data")


def _checked(name: str, archive: Path) -> PurePosixPath:
    """The path of a member. Raises DownloadError if it lies outside the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise DownloadError(
            f"{archive.name} would write to {name!r}, outside its folder. Nothing was unpacked."
        )
    return path
