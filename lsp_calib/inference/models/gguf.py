"""The metadata of a GGUF file, checked before native code reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.models import checksum
from lsp_calib.inference.models.gguf_reader import Front, Scalar, read_front
from lsp_calib.inference.models.sidecar import redownload_hint

# Where a file names its fill-in-the-middle tokens: today's keys and the ones they replaced.
_FIM_KEYS = (
    ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"),
    ("tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"),
    ("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"),
)
# And the texts by which llama.cpp recognises them where a file does not name them: (prefix, suffix, middle).
_FIM_TEXTS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
)
# general.file_type, as llama.cpp numbers it.
# fmt: off
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
    18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
    25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}
# fmt: on
_LONGEST_NAME = 200


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _of(kind: type, default: Any) -> Any:
    return attrs.field(default=default, validator=attrs.validators.instance_of(kind))


@attrs.frozen
class Metadata:
    """A file's metadata. Texts are empty and numbers 0 where the file does not state them.

    fim: the texts of the prefix, suffix and middle tokens; empty for a model without fill-in-the-middle.
    context_length: positions it was trained on. parameters: elements of all tensors.
    kv_bytes: of the key-value cache, for one position, at 16 bits a number; 0 where it is unknown.
    """

    architecture: str = _of(str, "")
    name: str = _of(str, "")
    quantisation: str = _of(str, "")
    licence: str = _of(str, "")
    context_length: int = _of(int, 0)
    chat_template: str = _of(str, "")
    fim: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    parameters: int = _of(int, 0)
    kv_bytes: int = _of(int, 0)


def read_metadata(path: Path) -> Metadata:
    """Read and check the front of a model file. Raises ModelFileError, naming file and fault."""
    front = read_front(path)
    values = front.values
    architecture = _text(values, "general.architecture")
    return Metadata(
        architecture=architecture,
        name=_text(values, "general.name"),
        quantisation=_FILE_TYPES.get(_number(values, "general.file_type", -1), ""),
        licence=_text(values, "general.license"),
        context_length=_number(values, f"{architecture}.context_length"),
        chat_template=_text(values, "tokenizer.chat_template", longest=1 << 20),
        fim=_fim(front),
        parameters=front.elements,
        kv_bytes=_kv_bytes(values, architecture),
    )


def inspect(path: Path) -> Metadata:
    """As `read_metadata`, remembered for as long as the file is the same."""
    known = checksum.recall(path, "header")
    if isinstance(known, dict):
        # Written by another version, or damaged: then it is read again.
        with contextlib.suppress(TypeError):
            return Metadata(**known)
    metadata = read_metadata(path)
    checksum.keep(path, "header", attrs.asdict(metadata))
    return metadata


def check_header(path: Path) -> None:
    """Raise ModelFileError, naming file and fault, unless `path` is a whole, little-endian GGUF file."""
    inspect(path)


def check_size(path: Path, expected: int) -> None:
    """Raise ModelFileError unless `path` has `expected` bytes."""
    try:
        actual = path.stat().st_size
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {error.strerror or error}.") from error
    if actual != expected:
        fault = "truncated" if actual < expected else "longer than it should be"
        raise ModelFileError(
            f"The model file {path} is {fault}: {actual} of {expected} bytes. {redownload_hint(path)}"
        )


def _text(values: dict[str, Scalar], key: str, longest: int = _LONGEST_NAME) -> str:
    value = values.get(key, "")
    return value[:longest] if isinstance(value, str) else ""


def _number(values: dict[str, Scalar], key: str, otherwise: int = 0) -> int:
    value = values.get(key, otherwise)
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else otherwise


def _fim(front: Front) -> tuple[str, ...]:
    named = tuple(next((text for key in keys if (text := _token(front, key))), "") for keys in _FIM_KEYS)
    if all(named):
        return named
    return next((texts for texts in _FIM_TEXTS if all(front.has_token(text) for text in texts)), ())


def _token(front: Front, key: str) -> str:
    """The text of the token whose number stands at `key`, empty if there is none."""
    return front.token(_number(front.values, key, -1))


def _kv_bytes(values: dict[str, Scalar], architecture: str) -> int:
    layers = _number(values, f"{architecture}.block_count")
    heads = _number(values, f"{architecture}.attention.head_count")
    kv_heads = _number(values, f"{architecture}.attention.head_count_kv") or heads
    usual = _number(values, f"{architecture}.embedding_length") // heads if heads else 0
    key = _number(values, f"{architecture}.attention.key_length", usual)
    value = _number(values, f"{architecture}.attention.value_length", usual)
    return 2 * layers * kv_heads * (key + value)
