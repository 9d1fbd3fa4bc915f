"""Cards of sentence encoders: models that compare texts. None of them can complete or summarise anything.

An encoder is two files, the network and its tokenizer. Both have a checksum, and both or none are used.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import FileCard, source_of

DEFAULT = "minilm-l6-v2"

# Beside the file: weights as the runtime unpacks them, its arena, the vocabulary. 171 MB in all were seen.
_OVERHEAD = 150 << 20


@attrs.frozen(kw_only=True)
class EncoderFile(FileCard):
    """A file of an encoder. role: "model" (ONNX) or "tokenizer" (JSON of the tokenizers library)."""

    role: str


@attrs.frozen
class EncoderCard:
    """An encoder.

    dimensions: of a token's state. most_tokens: positions that it uses of a text. parameters: about how many
    it has.
    """

    name: str
    title: str
    licence: str
    quantisation: str
    parameters: int
    dimensions: int
    most_tokens: int
    files: tuple[EncoderFile, ...]

    kind = "encoder"
    notice = ""
    verified = True

    @property
    def model(self) -> EncoderFile:
        return self._file("model")

    @property
    def tokenizer(self) -> EncoderFile:
        return self._file("tokenizer")

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def needs(self) -> int:
        """Bytes that it takes when loaded, an estimate."""
        return self.size + _OVERHEAD

    @property
    def sha256(self) -> str:
        """The checksum of the network, which stands for the encoder."""
        return self.model.sha256

    @property
    def installed(self) -> bool:
        return all(file.path.is_file() for file in self.files)

    @property
    def fault(self) -> str:
        """What is wrong with the files that are there; empty if nothing is seen at once."""
        there = [file for file in self.files if file.path.is_file()]
        if 0 < len(there) < len(self.files):
            missing = ", ".join(file.file for file in self.files if file not in there)
            return f"{missing} is missing: pull it again"
        wrong = [file for file in there if file.path.stat().st_size != file.size]
        return "; ".join(f"{one.file} has {one.path.stat().st_size} of {one.size} bytes" for one in wrong)

    def _file(self, role: str) -> EncoderFile:
        return next(file for file in self.files if file.role == role)


def load_encoders() -> dict[str, EncoderCard]:
    """All shipped encoder cards by name. Raises SettingsError for a card that cannot be read."""
    cards = [_read(path) for path in sorted((home.shipped_models() / "encoders").glob("*.toml"))]
    return {card.name: card for card in cards}


def locate_encoder(name: str = DEFAULT) -> EncoderCard:
    """The card of an installed encoder, whose files have the right checksums.

    Raises SettingsError for an unknown name, NoModelError if a file is missing, ModelFileError for other
    bytes. Each names the command that helps.
    """
    cards = load_encoders()
    if name not in cards:
        raise SettingsError(f"There is no encoder called {name!r}. Known encoders: {', '.join(cards)}.")
    card = cards[name]
    if not card.installed:
        raise NoModelError(
            f"Similarity needs the encoder {name}, which is not installed. "
            f"Run `lsp-calib models pull {name}` to get it ({card.size / 1e6:.0f} MB)."
        )
    verify_encoder(card)
    return card


def verify_encoder(card: EncoderCard, *, fresh: bool = False) -> None:
    """Compare the checksums of an encoder's files. Raises NoModelError or ModelFileError."""
    for file in card.files:
        if not file.path.is_file():
            raise NoModelError(
                f"{file.path} is missing. Run `lsp-calib models pull {card.name}` to get all of {card.name}."
            )
        sidecar.verify(file.path, file.sha256, fresh=fresh)


def _read(path: Path) -> EncoderCard:
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        files = [
            EncoderFile(name=raw["name"], sources=tuple(map(source_of, one.pop("sources"))), **one)
            for one in raw.pop("files")
        ]
        card = EncoderCard(files=tuple(files), **raw)
        if sorted(file.role for file in files) != ["model", "tokenizer"]:
            raise TypeError("an encoder has a model and a tokenizer")
        return card
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"The encoder card {path} cannot be read: {error}.") from error
