"""Unpacks the sources of an archive, and nothing else of it: no path outside, no link, no bomb.

An archive is a zip file, a tar file, or a Debian package: an ar file whose last member is a tar file.
"""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from lsp_calib.errors import DownloadError

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
