"""Prompts of remote models: one string in which only the intended control texts act as control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs

from lsp_calib.inference.models.cards import ChatFormat, CompletionFormat, ModelCard
from lsp_calib.values import Prompt, Segment

# Shapes of control tokens: <|im_end|>, DeepSeek's full-width <｜fim▁end｜>, <fim_middle>, CodeLlama's <MID>,
# Mistral's [INST], and those that end a text in one model or another.
_CONTROL = re.compile(
    r"<[|｜][^<>\s|｜]{1,40}[|｜]>"
    r"|</?s>|<(?:unk|pad|mask|bos|eos|cls|sep|eot|eod|eom|end_of_text|endoftext|begin_of_text)>"
    r"|<(?:fim|file|repo|filename|jupyter|issue|commit|reponame|gh)_?[a-z_]{0,20}>"
    r"|<(?:start|end)_of_[a-z]{1,12}>|<(?:PRE|SUF|MID|EOT|EOM)>|<<SYS>>|<</SYS>>"
    r"|\[/?(?:INST|PREFIX|SUFFIX|MIDDLE|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]",
    re.IGNORECASE,
)
# Parts of a model's name that say nothing about its prompt format.
_VARIANT = re.compile(
    r"(?<![a-z0-9])(?:instruct|chat|it|base|gguf|awq|gptq|fp8|bf16|fp16|f16|int[48]|bnb|[48]bit|mlx|latest"
    r"|i?q[2-8](?:_[a-z0-9]{1,2}){0,2}|ud)(?![a-z0-9])"
)
# Of one model, the base weights are others than those that were tuned to follow instructions.
_BASE = re.compile(r"(?<![a-z])base(?![a-z])")
_SIZE = re.compile(r"(?<![a-z0-9.])\d+(?:\.\d+)?[bm](?![a-z0-9])")


def without_line_ends(prompt: Prompt) -> Prompt:
    """The same prompt, but line ends that have to be reproduced are text: servers stop at a line's end.

    >>> without_line_ends(Prompt(((Segment.TEXT, "a:"),), "\\n    b", "")).forced
    '    b'
    """
    ends, newline, forced = prompt.forced.rpartition("\n")
    if not newline:
        return prompt
    return attrs.evolve(prompt, segments=(*prompt.segments, (Segment.TEXT, ends + newline)), forced=forced)


def flatten(prompt: Prompt, card: ModelCard, *, forced: bool = False) -> str:
    """A prompt as the one string that a completion takes; with its forced characters at the end if `forced`.

    A server recognises control tokens anywhere in a prompt. In text from a document they are broken up by a
    space after their first character (`< |im_end|>`): the model reads nearly the same, and no file can end
    its own prompt.
    """
    control = [text for kind, text in prompt.segments if kind is Segment.CONTROL]
    known = {*control, *attrs.astuple(card.completion)[1:], *attrs.astuple(card.chat)}
    words = {word.strip() for text in known for word in re.findall(r"<[^<>]+>|\[[^\[\]]+\]", text)}
    pieces: list[str] = []
    text = ""
    for kind, piece in (*prompt.segments, (Segment.TEXT, prompt.forced if forced else "")):
        if kind is Segment.TEXT:
            # Texts side by side can form a control token together.
            text += piece
            continue
        pieces += [harmless(text, words), piece]
        text = ""
    joined = "".join([*pieces, harmless(text, words)])
    return joined.encode("utf-8", "replace").decode("utf-8")


def harmless(text: str, words: Iterable[str] = ()) -> str:
    """`text` with control tokens broken up: those of a known shape, and `words`.

    >>> harmless("end = '<|im_end|>'")
    "end = '< |im_end|>'"
    """
    exact = [re.escape(word) for word in sorted(words) if word]
    own = re.compile("|".join(exact)) if exact else None
    while True:
        broken = _CONTROL.sub(_break, text)
        if own is not None:
            broken = own.sub(_break, broken)
        if broken == text:
            return text
        text = broken


def _break(match: re.Match[str]) -> str:
    return f"{match.group()[0]} {match.group()[1:]}"


def family(name: str) -> str:
    """The family of a model's name, without size and packing.

    >>> family("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF"), family("qwen2.5-coder:1.5b")
    ('qwen2.5-coder', 'qwen2.5-coder')
    """
    return _squeeze(_SIZE.sub("-", _stem(name)))


def same_model(one: str, other: str) -> bool:
    """Whether two names are of one model, packing aside: the family and the size, and a base model or not.

    >>> same_model("qwen2.5-coder-1.5b", "qwen2.5-coder:1.5b-base")
    False
    """
    return _squeeze(_stem(one)) == _squeeze(_stem(other)) and _is_base(one) == _is_base(other)


def _is_base(name: str) -> bool:
    return _BASE.search(name.lower()) is not None


def find_name(wanted: str, served: Iterable[str]) -> str | None:
    """The server's own name for the model that is wanted; None if it has none, or more than one, like it."""
    names = list(dict.fromkeys(served))
    if wanted in names:
        return wanted
    for alike in (
        [name for name in names if name.lower() in (wanted.lower(), f"{wanted.lower()}:latest")],
        [name for name in names if same_model(name, wanted)],
    ):
        if len(alike) == 1:
            return alike[0]
    return None


def card_for_name(name: str, cards: Mapping[str, ModelCard]) -> ModelCard:
    """The card for a remote model: with the formats of the card of its name or family, else plain ones.

    The card has no file and no checksum: which bytes the server runs is not known.
    """
    shown = name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf") or name
    # The name may be the server's own, and is shown to people.
    shown = "".join(char if char.isprintable() else "?" for char in shown)[:100]
    like = cards.get(name) or next(
        (card for card in cards.values() if family(card.name) == family(name)), None
    )
    base = _is_base(name)
    return ModelCard(
        name=name if name in cards else shown,
        title=shown,
        licence="unknown",
        file="",
        size=0,
        sha256="",
        quantisation="",
        context=like.context if like else 2048,
        window=like.window if like else 1500,
        completion=like.completion if like else CompletionFormat(),
        chat=like.chat if like and not base else ChatFormat(),
        comments=like is not None and like.comments,
    )


def _stem(name: str) -> str:
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".gguf")
    return _VARIANT.sub("-", stem.replace(":", "-").replace("@", "-"))


def _squeeze(name: str) -> str:
    # A run of separators is one; dots alone belong to a number.
    return re.sub(r"[-_. ]+", lambda run: "-" if run[0].strip(".") else run[0], name).strip("-_. ")
