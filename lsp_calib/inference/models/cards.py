"""Chooses a model: a card by name, a file by path, or the best one installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.inference.models import gguf
from lsp_calib.inference.models.card import (
    ChatFormat,
    CompletionFormat,
    ModelCard,
    Source,
    as_pulled,
    chat_format,
    completion_format,
    load_cards,
)
from lsp_calib.inference.models.encoders import load_encoders

__all__ = [
    "ChatFormat",
    "CompletionFormat",
    "ModelCard",
    "Source",
    "card_for_file",
    "choose",
    "load_cards",
    "locate",
    "named_file",
    "typed_by_hand",
]

# Positions and characters for a model whose file does not state them.
_CONTEXT = 2048
_WINDOW = 1500


def choose(wanted: str | None) -> tuple[ModelCard, Path]:
    """The card and file of the model `wanted`, else of the best installed one.

    wanted: a card's name, or the absolute path of a GGUF file (`~` may stand for the user's home).

    The best is the first in the cards' order. The file's header has been checked.
    Raises NoModelError if there is none, SettingsError for an unknown name, ModelFileError for a file that is
    no whole model. Each names the command that helps.
    """
    card, path = locate(wanted)
    gguf.check_header(path)
    if card.size:
        gguf.check_size(path, card.size)
    return card, path


def locate(wanted: str | None) -> tuple[ModelCard, Path]:
    """As `choose`, but the header of a file that has a card is not checked."""
    cards = load_cards()
    if wanted:
        if wanted in cards:
            card = as_pulled(cards[wanted])
            if not card.path.is_file():
                raise NoModelError(
                    f"The model {card.name} is not installed. "
                    f"Run `lsp-calib models pull {card.name}` to get it."
                )
            return card, card.path
        path = named_file(wanted)
        if path is not None:
            return card_for_file(path, cards), path
        if wanted in load_encoders():
            raise SettingsError(
                f"{wanted} compares sentences; it can neither complete nor summarise. "
                f"Name one of {', '.join(cards)} as `model` (LSP_CALIB_MODEL, --model)."
            )
        raise SettingsError(_unknown(wanted, cards))
    best = next((card for card in cards.values() if card.path.is_file()), None)
    if best is None:
        raise NoModelError(
            "No model is installed. Run `lsp-calib models pull smollm2-135m` to get a small one (98 MB)."
        )
    card = as_pulled(best)
    return card, card.path


def card_for_file(path: Path, cards: dict[str, ModelCard] | None = None) -> ModelCard:
    """The card of a file named by the user: a shipped one if name and size agree, else one of its own.

    Raises ModelFileError if the file has no card and its header cannot be read.
    """
    size = path.stat().st_size
    for card in (load_cards() if cards is None else cards).values():
        # A card without a size stands for the pulled file only, and for no other file of that name.
        if card.file == path.name and (
            card.size == size or (not card.size and path.absolute() == card.path.absolute())
        ):
            return as_pulled(card)
    return own_card(path, gguf.inspect(path))


def own_card(path: Path, metadata: gguf.Metadata) -> ModelCard:
    """The card of a file that has none, from what it says about itself."""
    return ModelCard(
        name=path.stem,
        title=metadata.name or path.name,
        licence=metadata.licence or "unknown",
        file=path.name,
        size=path.stat().st_size,
        sha256="",
        quantisation=metadata.quantisation,
        context=min(_CONTEXT, metadata.context_length or _CONTEXT),
        window=_WINDOW,
        completion=completion_format(metadata.fim),
        chat=chat_format(metadata.chat_template),
        parameters=metadata.parameters,
        kv_bytes=metadata.kv_bytes,
    )


def _unknown(name: str, cards: Iterable[str]) -> str:
    """What is wrong with a name that is no model's, and what to give instead."""
    begin, known = f"There is no model called {name!r}", f"Known models: {', '.join(cards)}."
    # One that is typed in a terminal comes as an absolute path if its file is there.
    if _is_relative(name) and typed_by_hand(name) != name:
        return (
            f"{begin}. Relative paths are not used here: they would lead into the folder that the server is "
            f"started in, usually the workspace. {known} Give one of these names or the absolute path of a "
            "GGUF file as `model` (LSP_CALIB_MODEL, --model)."
        )
    where = " here" if _is_relative(name) else ""
    return (
        f"{begin}, and there is no file {name}{where}. {known} Give one of these names or the path of a GGUF "
        "file as `model` (LSP_CALIB_MODEL, --model): an absolute path, or a relative one in a command that "
        "you type."
    )


def _is_relative(name: str) -> bool:
    return not name.startswith("~") and not Path(name).is_absolute()


def named_file(name: str) -> Path | None:
    """The file at an absolute path or one that begins with `~`, None if there is none.

    A relative one is not used: the working folder is usually the workspace, and nothing in there is trusted.
    """
    try:
        path = Path(name).expanduser()
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, not a path
        return None


def typed_by_hand(name: str) -> str:
    """A model as typed in a terminal, with the relative path of a file that is there made absolute."""
    try:
        if Path(name).is_file() and name not in load_cards():
            return str(Path(name).absolute())
    except (OSError, ValueError):  # too long, not a path
        pass
    return name
