"""Downloads a release of a project through the registry's own client. No code of the project is run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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


class Download(Protocol):
    """Downloads the archive of a project to a folder, which may be missing, and returns its path.

    Raises DownloadError.
    """

    def __call__(self, project: Project, folder: Path) -> Path: ...


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


@contextmanager
def python_index(_: Path) -> Iterator[Download]:
    """The user's Python package index, through pip: wheels alone."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            "The projects come from a package index, and pip is not installed beside lsp-calib. "
            "Install it: `python -m ensurepip`."
        )

    def download(project: Project, folder: Path) -> Path:
        # -P: ignore a module named pip in the working folder.
        command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder)]
        command += _COMPILED_TAGS if project.name in COMPILED else _PURE_TAGS
        return _downloaded(
            [*command, f"{project.name}=={project.version}"], project, folder, "*.whl", client="pip"
        )

    yield download


@contextmanager
def python_sources(scratch: Path) -> Iterator[Download]:
    """The user's Python package index, through pip: source distributions, which hold tests.

    pip asks the archive's build system for its metadata, which may run code of the project: that of the
    pinned archive alone, for pip verifies the checksum before.
    """
    with python_index(scratch):
        pass

    def download(project: Project, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{project.name}=={project.version} --hash=sha256:{project.sha256}\n")
        command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += [
            "--no-deps",
            f"--no-binary={project.name}",
            "--require-hashes",
            "--ignore-requires-python",
        ]
        command += ["--dest", str(folder), "--requirement", str(wanted)]
        return _downloaded(command, project, folder, "*.tar.gz", client="pip")

    yield download


@contextmanager
def npm_registry(_: Path) -> Iterator[Download]:
    """The user's npm registry, through npm."""
    if shutil.which("npm") is None:
        raise DownloadError(
            "The projects come from an npm registry, and npm is not installed. Install Node.js."
        )

    def download(project: Project, folder: Path) -> Path:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{project.name}@{project.version}"]
        return _downloaded(command, project, folder, "*.tgz", client="npm")

    yield download


_SUITE = "bookworm"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR = "http://deb.debian.org/debian/"


@contextmanager
def debian_sources(scratch: Path) -> Iterator[Download]:
    """Source packages of one release of Debian: the archives that the projects released."""
    options = _own_apt(scratch, "deb-src")

    def download(project: Project, folder: Path) -> Path:
        # The last number of Debian's version changes with each security fix; the archive of the project does
        # not, so the package is asked for by name.
        command = ["apt-get", *options, "-q", "--only-source", "--download-only", "--tar-only", "source"]
        name = f"{project.name}_{project.version}.orig.tar.*"
        return _downloaded([*command, project.name], project, folder, name, client="apt-get")

    yield download


@contextmanager
def debian_packages(scratch: Path) -> Iterator[Download]:
    """Packages of one release of Debian that hold source, for one architecture."""
    options = _own_apt(scratch, "deb")

    def download(project: Project, folder: Path) -> Path:
        command = ["apt-get", *options, "-q", "download", f"{project.name}={project.version}"]
        return _downloaded(command, project, folder, f"{project.name}_*.deb", client="apt-get")

    yield download


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
    updated = _run(["apt-get", *options, "-q", "update"], apt)
    if updated.returncode:
        raise DownloadError(f"apt-get could not read the index of {_SUITE}; it said: {_last(updated)}")
    return options


def _mirror() -> str:
    """The address of Debian's archive that this machine uses, else the public one."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"]
    found = (line.split() for line in _run(command, Path.cwd()).stdout.splitlines())
    return next((line[2] for line in found if line[:2] == ["Debian", _SUITE]), _MIRROR)


def _downloaded(command: Sequence[str], project: Project, folder: Path, pattern: str, *, client: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    result = _run(command, folder)
    found = [path for path in sorted(folder.glob(pattern)) if path.suffix != ".asc"]
    if result.returncode or not found:
        raise DownloadError(f"{client} could not download {project.folder}; it said: {_last(result)}")
    return found[0]


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def _last(result: subprocess.CompletedProcess[str]) -> str:
    said = result.stderr.strip() or result.stdout.strip()
    return (said.splitlines() or ["nothing"])[-1]
