"""What a GGUF file says of itself, read before native code reads it. It trusts nothing and loads nothing.

Every length and count in the file's metadata is bounded before it is used: a damaged or hostile file ends in
ModelFileError after bounded work, in bounded memory. What follows the metadata, the tensors, is llama.cpp's
to judge, in a process of its own.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from lsp_calib.errors import ModelFileError
from lsp_calib.files import open_file, why
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.sidecar import redownload_hint

_MAGIC = b"GGUF"
_HEADER = struct.Struct("<4sIQQ")
_VERSIONS = (2, 3)

# More than any real model has: a file that claims more is damaged or hostile.
_MOST_PAIRS = 10_000
_MOST_ELEMENTS = 4_000_000  # of arrays of texts, all together
_MOST_TOKENS = 1 << 20
_LONGEST_KEY = 65_535  # the format's own limit
# Real metadata has 1 to 40 MiB, nearly all of it the vocabulary.
_MOST_BYTES = 128 << 20
_MOST_KEPT = 32 << 20
# Texts longer than this are passed over.
_LONGEST_TEXT = 1 << 20

_STRING, _ARRAY = 8, 9
# fmt: off
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}
# general.file_type, as llama.cpp numbers it.
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
    18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
    25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}
# fmt: on
_TOKENS = "tokenizer.ggml.tokens"
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


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file's metadata. Texts are empty and numbers 0 where the file does not state them.

    fim: the texts of the prefix, suffix and middle tokens; empty for a model without fill-in-the-middle.
    vocabulary: number of tokens. context_length: positions it was trained on. kv_bytes: of the key-value
    cache, for one position, at 16 bits a number; 0 where it is unknown.
    """

    architecture: str = ""
    name: str = ""
    quantisation: str = ""
    licence: str = ""
    context_length: int = 0
    chat_template: str = ""
    fim: tuple[str, ...] = ()
    vocabulary: int = 0
    kv_bytes: int = 0


def read_metadata(path: Path) -> Metadata:
    """Read and check the metadata of a model file. Raises ModelFileError, naming file and fault."""
    try:
        with os.fdopen(open_file(path), "rb", buffering=1 << 18) as file:
            return _Reading(file).metadata()
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {why(error)}.") from error
    except _DamagedError as error:
        raise ModelFileError(
            f"The model file {path} cannot be loaded: {error}. {redownload_hint(path)}"
        ) from None


def inspect(path: Path) -> Metadata:
    """As `read_metadata`, remembered for as long as the file is the same."""
    # Written by another version, or damaged: then it is read again.
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(sidecar.recall(path, "header"), Metadata)
    metadata = read_metadata(path)
    sidecar.keep(path, "header", msgspec.to_builtins(metadata))
    return metadata


def check_header(path: Path) -> None:
    """Raise ModelFileError, naming file and fault, unless `path` is a little-endian GGUF file."""
    inspect(path)


def check_size(path: Path, expected: int) -> None:
    """Raise ModelFileError unless `path` has `expected` bytes."""
    try:
        actual = path.stat().st_size
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {why(error)}.") from error
    if actual != expected:
        fault = "truncated" if actual < expected else "longer than it should be"
        raise ModelFileError(
            f"The model file {path} is {fault}: {actual} of {expected} bytes. {redownload_hint(path)}"
        )


class _DamagedError(Exception):
    """Becomes a ModelFileError, with the file's name."""


class _Reading:
    """The metadata of an open file, as far as it was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._place = 0
        self._elements = 0
        self._values: dict[str, int | float | bool | str] = {}
        self._tokens: list[bytes] = []

    def metadata(self) -> Metadata:
        head = self._read(_HEADER.size)
        magic, version, _, pairs = _HEADER.unpack(head)
        if magic != _MAGIC:
            raise _DamagedError(f"it is not a GGUF file (it begins with {magic!r}, not {_MAGIC!r})")
        if version not in _VERSIONS:
            raise _DamagedError(f"it has GGUF version {version}, not 2 or 3 in little-endian order")
        if pairs > _MOST_PAIRS:
            raise _DamagedError(f"its header claims {pairs} values")
        for _ in range(pairs):
            length = self._count()
            if length > _LONGEST_KEY:
                raise _DamagedError(f"a key of {length} bytes")
            self._value(self._read(length).decode("utf-8", "replace"), self._kind())
        values = self._values
        architecture = _text(values, "general.architecture")
        return Metadata(
            architecture=architecture,
            name=_text(values, "general.name"),
            quantisation=_FILE_TYPES.get(_number(values, "general.file_type", -1), ""),
            licence=_text(values, "general.license"),
            context_length=_number(values, f"{architecture}.context_length"),
            chat_template=_text(values, "tokenizer.chat_template", longest=_LONGEST_TEXT),
            fim=self._fim(),
            vocabulary=len(self._tokens),
            kv_bytes=_kv_bytes(values, architecture),
        )

    def _value(self, key: str, kind: int) -> None:
        if kind in _SCALARS:
            size = struct.calcsize(_SCALARS[kind])
            (self._values[key],) = struct.unpack(_SCALARS[kind], self._read(size))
        elif kind == _STRING:
            length = self._count()
            if length > _LONGEST_TEXT:
                self._skip(length)
            else:
                self._values[key] = self._read(length).decode("utf-8", "replace")
        elif kind == _ARRAY:
            self._array(key, self._kind(), self._count())
        else:
            raise _DamagedError(f"the value of {key[:80]!r} has type {kind}, which does not exist")

    def _array(self, key: str, kind: int, count: int) -> None:
        if kind in _SCALARS:
            self._skip(count * struct.calcsize(_SCALARS[kind]))
            return
        if kind != _STRING:
            raise _DamagedError(f"the array {key[:80]!r} has elements of type {kind}, which no model needs")
        self._elements += count
        if self._elements > _MOST_ELEMENTS or (key == _TOKENS and count > _MOST_TOKENS):
            raise _DamagedError(f"{key[:80]!r} claims {count} texts")
        kept, tokens = 0, []
        for _ in range(count):
            length = self._count()
            if key != _TOKENS:
                self._skip(length)
                continue
            kept += length
            if kept > _MOST_KEPT:
                raise _DamagedError(f"its vocabulary has more than {_MOST_KEPT >> 20} MB")
            tokens.append(self._read(length))
        if key == _TOKENS:
            self._tokens = tokens

    def _fim(self) -> tuple[str, ...]:
        named = tuple(next(filter(None, map(self._token, keys)), "") for keys in _FIM_KEYS)
        if all(named):
            return named
        known = set(self._tokens)
        return next((texts for texts in _FIM_TEXTS if known.issuperset(map(str.encode, texts))), ())

    def _token(self, key: str) -> str:
        """The text of the token whose number stands at `key`, empty if there is none."""
        number = _number(self._values, key, len(self._tokens))
        return self._tokens[number].decode("utf-8", "replace") if number < len(self._tokens) else ""

    def _kind(self) -> int:
        return int.from_bytes(self._read(4), "little")

    def _count(self) -> int:
        return int.from_bytes(self._read(8), "little")

    def _read(self, count: int) -> bytes:
        self._move(count)
        data = self._file.read(count)
        if len(data) < count:
            raise _DamagedError("it was cut while it was read")
        return data

    def _skip(self, count: int) -> None:
        self._move(count)
        self._file.seek(count, os.SEEK_CUR)

    def _move(self, count: int) -> None:
        self._place += count
        if self._place > self._size:
            raise _DamagedError(f"it is truncated: it has {self._size} bytes and its header describes more")
        if self._place > _MOST_BYTES:
            raise _DamagedError(f"its metadata is longer than {_MOST_BYTES >> 20} MB")


def _text(values: Mapping[str, Any], key: str, longest: int = 200) -> str:
    value = values.get(key, "")
    return value[:longest] if isinstance(value, str) else ""


def _number(values: Mapping[str, Any], key: str, otherwise: int = 0) -> int:
    value = values.get(key, otherwise)
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else otherwise


def _kv_bytes(values: Mapping[str, Any], architecture: str) -> int:
    layers = _number(values, f"{architecture}.block_count")
    heads = _number(values, f"{architecture}.attention.head_count")
    kv_heads = _number(values, f"{architecture}.attention.head_count_kv") or heads
    usual = _number(values, f"{architecture}.embedding_length") // heads if heads else 0
    key = _number(values, f"{architecture}.attention.key_length", usual)
    value = _number(values, f"{architecture}.attention.value_length", usual)
    return 2 * layers * kv_heads * (key + value)
