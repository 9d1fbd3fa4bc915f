"""The models on this machine: lists them, removes one, and what pulls of one hold and leave."""

from __future__ import annotations

import contextlib
import glob
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home, lockfile
from lsp_calib.errors import DownloadError, ModelFileError, SettingsError
from lsp_calib.inference.models import converted, demands, sidecar
from lsp_calib.inference.models.cards import (
    EncoderCard,
    ModelCard,
    card_for_file,
    load_cards,
    load_encoders,
    own_card,
)
from lsp_calib.inference.models.demands import Speed, known_speed
from lsp_calib.inference.models.gguf import Metadata, inspect

# As `tempfile` makes them up: a longer ending belongs to a file with a longer name.
_MADE_UP = re.compile("[a-z0-9_]{8}")
# Architectures of files that complete nothing: image encoders, adapters, models of sentences and of speech.
_NO_LANGUAGE = frozenset({"clip", "bert", "nomic-bert", "jina-bert-v2", "wavtokenizer-dec", "t5encoder"})


# Bytes that a pull leaves free: a full disk would stop what else the user does.
_SPARE = 1 << 30


@attrs.frozen
class Entry:
    """A model that is known or lies in the models folder.

    needs: bytes it takes when loaded, an estimate. fits: whether they are free now, None where unknown.
    eight_bit: bytes of its weights converted to 8 bits, 0 if there are none. fault: the fault of its file,
    empty if none is known.
    """

    card: ModelCard | EncoderCard
    installed: bool
    needs: int
    fits: bool | None
    speed: Speed | None
    fault: str = ""
    eight_bit: int = 0

    def to_wire(self) -> dict[str, Any]:
        card, speed = self.card, self.speed
        return {
            "name": card.name,
            "kind": card.kind,
            "title": card.title,
            "licence": card.licence,
            "notice": card.notice,
            "quantisation": card.quantisation,
            "bytes": card.size or None,
            "checksum": ("verified" if card.verified else "unverified") if card.sha256 else "none",
            "installed": self.installed,
            "path": str(card.path),
            "memoryBytes": self.needs,
            "fits": self.fits,
            "speed": speed and {"p50Ms": round(1e3 * speed.p50, 1), "answers": speed.n},
            "eightBitBytes": self.eight_bit or None,
            "fault": self.fault,
        }


def inventory() -> list[Entry]:
    """All cards in the order of preference, then files in the models folder that have none."""
    cards = load_cards()
    entries = [_entry(card) for card in cards.values()]
    known = {card.file for card in cards.values()}
    for path in sorted(sidecar.models_folder().glob("*.gguf")):
        if path.name not in known and path.is_file():
            entries.append(_own(path, cards))
    return entries


def recommended(entries: Iterable[Entry]) -> Entry | None:
    """The first model, in order of preference, that fits in memory, has shipped calibrators, and was not
    measured to be too slow here."""
    calibrated = {path.name for path in (home.shipped_models() / "calibrators").glob("line-*.json")}
    return next(
        (
            one
            for one in entries
            if one.fits is not False
            and f"line-{one.card.name}-large.json" in calibrated
            and (one.speed is None or one.speed.quick_enough)
        ),
        None,
    )


def fitting() -> tuple[ModelCard, str]:
    """The model to get where none was named, and why it is not the recommended one; "" if it is.

    That one where memory and disk allow, else the smallest.
    """
    cards = [*load_cards().values()]
    best, smallest = cards[0], min(cards, key=lambda card: card.parameters)
    needs = demands.needed(best)
    if demands.fits(needs) is False:
        free = (demands.available() or 0) / 1e9
        why = f"needs {needs / 1e9:.1f} GB of memory, and {free:.1f} GB are free"
    elif not best.path.is_file() and (room := _room()) < best.size + _SPARE:
        why = f"needs {(best.size + _SPARE) / 1e9:.1f} GB of disk space, and {room / 1e9:.1f} GB are free"
    else:
        return best, ""
    return smallest, f"{best.name} {why}: {smallest.name} is taken instead."


def _room() -> int:
    """Bytes that are free where models lie."""
    folder = home.state_dir()
    return shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.is_dir())).free


def encoders() -> list[Entry]:
    """All encoders."""
    return [
        Entry(card, card.installed, card.needs, demands.fits(card.needs), None, card.fault)
        for card in load_encoders().values()
    ]


def remove(name: str) -> Path:
    """Remove a model, by its name, its file's name or its path, or an encoder; returns its (first) file.

    Its converted weights and the remains of an unfinished pull are removed as well. Raises SettingsError for
    anything that does not lie in the models folder itself, DownloadError while the model is being pulled.
    """
    cards = load_cards().values()
    named = load_encoders().get(name) or next((one for one in cards if name in (one.name, one.file)), None)
    if isinstance(named, EncoderCard):
        paths = [file.path for file in named.files]
    else:
        paths = [named.path if named else _inside(sidecar.models_folder(), name)]
    if not any(map(_there, paths)):
        raise SettingsError(f"{named.name if named else paths[0]} is not installed.")
    with locked(paths, named.name if named else paths[0].name):
        for path in paths:
            delete(_there(path))
            sidecar.forget_first_use(path.name)
    return paths[0]


def _there(path: Path) -> list[Path]:
    """All that there is of a model's file."""
    itself = [path] if path.is_symlink() or path.is_file() else []
    return [*itself, *remains(path), *converted.all_of(path), *converted.unfinished(path)]


def _inside(folder: Path, name: str) -> Path:
    if "\0" not in name:
        path = folder / name
        if path.suffix == ".gguf" and path.parent.resolve() == folder.resolve():
            return folder / path.name
    raise SettingsError(
        f"There is no model called {name!r} among those that lsp-calib manages, which lie in {folder}. "
        "Delete a file of your own yourself."
    )


def _entry(card: ModelCard, fault: str = "") -> Entry:
    installed, needs = card.path.is_file(), demands.needed(card)
    if installed:
        actual = card.path.stat().st_size
        if card.size not in (0, actual):
            fault = f"it has {actual} of {card.size} bytes"
        fault = fault or _fault(card)
        card = attrs.evolve(card, size=card.size or actual)
    eight_bit = max((one.stat().st_size for one in converted.all_of(card.path)), default=0)
    return Entry(card, installed, needs, demands.fits(needs), known_speed(card), fault, eight_bit)


def _fault(card: ModelCard) -> str:
    """The fault that a file's front shows, or its checksum where it is known; "" without one."""
    try:
        front = inspect(card.path)
    except ModelFileError as error:
        return str(error).rstrip(".")
    if front.architecture in _NO_LANGUAGE:
        return f"a file of the architecture {front.architecture} generates no text"
    known = sidecar.recall(card.path, "sha256")
    return (
        "its bytes are not the model's (SHA-256)" if card.sha256 and known not in (None, card.sha256) else ""
    )


def _own(path: Path, cards: dict[str, ModelCard]) -> Entry:
    try:
        return _entry(card_for_file(path, cards))
    except ModelFileError as error:
        return _entry(own_card(path, Metadata()), str(error))


@contextlib.contextmanager
def locked(targets: Iterable[Path], name: str) -> Iterator[None]:
    """Hold the locks of the pulls of these files. name: of the model that they are.

    Raises DownloadError if one of them is being pulled, or removed.
    """
    with contextlib.ExitStack() as stack:
        for target in targets:
            lock = lockfile.take(home.run_folder() / f"pull-{target.name}.lock")
            if lock is None:
                raise DownloadError(
                    f"Another lsp-calib is downloading {name}. Wait until it is done (`lsp-calib models "
                    "list` says so) or end it, then try again."
                )
            stack.callback(lock.release)
        yield


def scratch_folder(target: Path) -> tempfile.TemporaryDirectory[str]:
    """A new folder for the pull of a file, beside it: the last step is then a rename."""
    return tempfile.TemporaryDirectory(prefix=f".pull-{target.name}.", dir=target.parent)


def part_of(target: Path) -> Path:
    """Where the bytes of a file that is being pulled lie, and stay until the rest comes."""
    return target.with_name(f".pull-{target.name}.part")


def leftovers(target: Path) -> list[Path]:
    """The scratch folders of a file's pulls: of one that runs, and of those that were killed."""
    start = f".pull-{target.name}."
    found = target.parent.glob(f"{glob.escape(start)}*")
    return [one for one in found if _MADE_UP.fullmatch(one.name.removeprefix(start)) and one.is_dir()]


def remains(target: Path) -> list[Path]:
    """All that unfinished pulls of a file have left."""
    part = part_of(target)
    return [*([part] if part.exists() else []), *leftovers(target)]


def delete(paths: Iterable[Path]) -> None:
    """Delete files, and folders with what is in them."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
