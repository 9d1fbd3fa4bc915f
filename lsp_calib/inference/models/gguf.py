"""The metadata of a GGUF file, checked before native code reads it. It trusts nothing and loads nothing.

Every length and count in the file's front (header, metadata, tensor table) is compared with the bytes present
before it is used: a damaged or hostile file ends in ModelFileError after bounded work, in bounded memory.
Tensor data is never read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import msgspec

from lsp_calib.errors import ModelFileError
from lsp_calib.files import open_file
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.sidecar import redownload_hint

MAGIC = b"GGUF"
HEADER = struct.Struct("<4sIQQ")
_VERSIONS = (2, 3)

# More than any real model has: a file that claims more is damaged or hostile.
_MOST_TENSORS = 100_000
_MOST_PAIRS = 10_000
_MOST_STRINGS = 4_000_000
_LONGEST_KEY = 65_535  # the format's own limit
_LONGEST_NAME = 64  # ggml's
_MOST_DIMENSIONS = 4
# Metadata and tensor table together. Real ones have 1 to 40 MiB, nearly all of it the vocabulary.
_MOST_BYTES = 128 << 20
# Bytes of the vocabulary's texts.
_MOST_KEPT = 32 << 20
# Texts longer than this are passed over.
_LONGEST_KEPT = 1 << 20
_STEP = 1 << 18

TOKENS = "tokenizer.ggml.tokens"

_STRING, _ARRAY = 8, 9
_SCALARS = {
    kind: struct.Struct(code)
    for kind, code in {
        0: "<B",
        1: "<b",
        2: "<H",
        3: "<h",
        4: "<I",
        5: "<i",
        6: "<f",
        7: "<?",
        10: "<Q",
        11: "<q",
        12: "<d",
    }.items()
}
_LENGTH = struct.Struct("<Q")

# Tensor types: elements and bytes of a block. A type that is not here is newer than this table.
# fmt: off
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110),
    22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8),
    29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}
# fmt: on

Scalar = int | float | bool | str


@attrs.frozen
class Front:
    """The part of the file before its tensors.

    length: its bytes. values: scalars and texts by key. elements: of all tensors.
    token_count, tokens: the vocabulary, each text after its length (64 bits), as in the file.
    """

    length: int
    elements: int
    values: dict[str, Scalar] = attrs.field(repr=False)
    token_count: int = 0
    tokens: bytes = attrs.field(default=b"", repr=False)

    def token(self, index: int) -> str:
        """The text of a token, empty if there is none of that number."""
        if not 0 <= index < self.token_count:
            return ""
        place = 0
        for _ in range(index):
            place += 8 + _LENGTH.unpack_from(self.tokens, place)[0]
        length = _LENGTH.unpack_from(self.tokens, place)[0]
        return self.tokens[place + 8 : place + 8 + length].decode("utf-8", "replace")

    def has_token(self, text: str) -> bool:
        """Whether the vocabulary has that very text."""
        encoded = text.encode()
        return _LENGTH.pack(len(encoded)) + encoded in self.tokens


class _Damaged(Exception):
    """Becomes a ModelFileError, with the file's name."""


class _Truncated(Exception):
    """Likewise."""


class _Bytes:
    """The file's beginning. place: the offset of the next byte."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self.place = 0

    def read(self, count: int) -> bytes:
        self._move(count)
        data = self._file.read(count)
        if len(data) < count:
            raise _Truncated  # it shrank while it was read
        return data

    def skip(self, count: int) -> None:
        self._move(count)
        self._file.seek(count, os.SEEK_CUR)

    def _move(self, count: int) -> None:
        self.place += count
        if self.place > self._size:
            raise _Truncated
        if self.place > _MOST_BYTES:
            raise _Damaged(f"its metadata is longer than {_MOST_BYTES >> 20} MB")

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.read(layout.size))[0]

    def count(self) -> int:
        return int.from_bytes(self.read(8), "little")

    def kind(self) -> int:
        return int.from_bytes(self.read(4), "little")

    def text(self, longest: int, what: str) -> str:
        length = self.count()
        if length > longest:
            raise _Damaged(f"{what} of {length} bytes")
        return self.read(length).decode("utf-8", "replace")


def read_front(path: Path) -> Front:
    """Read the part of `path` before its tensors, and check that its tensors lie within the file.

    Raises ModelFileError, naming file and fault. At most 32 MiB are kept at once; tensor data is never read.
    """
    try:
        with os.fdopen(open_file(path), "rb", buffering=_STEP) as file:
            size = file.seek(0, 2)
            file.seek(0)
            return _Reading(path, _Bytes(file, size), size).front()
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {error.strerror or error}.") from error
    except _Truncated:
        raise ModelFileError(
            f"The model file {path} is truncated and cannot be loaded: it has {size} bytes and its header "
            f"describes more. {redownload_hint(path)}"
        ) from None
    except _Damaged as error:
        raise ModelFileError(
            f"The model file {path} is damaged and cannot be loaded: {error}. {redownload_hint(path)}"
        ) from None


class _Reading:
    def __init__(self, path: Path, source: _Bytes, size: int) -> None:
        self._path = path
        self._source = source
        self._size = size
        self._values: dict[str, Scalar] = {}
        self._strings = 0
        self._token_count = 0
        self._tokens = b""

    def front(self) -> Front:
        tensors, pairs = self._header()
        seen: set[str] = set()
        for _ in range(pairs):
            key = self._source.text(_LONGEST_KEY, "a key")
            if key in seen:
                raise _Damaged(f"the key {key[:80]!r} is there twice")
            seen.add(key)
            self._value(key, self._source.kind())
        elements = self._tensors(tensors)
        return Front(self._source.place, elements, self._values, self._token_count, self._tokens)

    def _header(self) -> tuple[int, int]:
        """Counts of tensors and of pairs."""
        if self._size < HEADER.size:
            raise ModelFileError(
                f"The model file {self._path} is truncated: {self._size} bytes are no GGUF header."
                f" {redownload_hint(self._path)}"
            )
        magic, version, tensors, pairs = HEADER.unpack(self._source.read(HEADER.size))
        if magic != MAGIC:
            raise ModelFileError(
                f"The model file {self._path} is not a GGUF file (it begins with {magic!r}, not {MAGIC!r})."
                f" {redownload_hint(self._path)}"
            )
        if version not in _VERSIONS:
            why = (
                "its version is that of a file for big-endian machines"
                if version and version & 0xFFFF == 0
                else f"it has GGUF version {version}"
            )
            raise ModelFileError(
                f"The model file {self._path} cannot be loaded: {why}. Versions 2 and 3, little-endian, "
                "can be read; get the model in one of those."
            )
        if tensors > _MOST_TENSORS or pairs > _MOST_PAIRS:
            raise _Damaged(f"its header claims {tensors} tensors and {pairs} values")
        return tensors, pairs

    def _value(self, key: str, kind: int) -> None:
        source = self._source
        if kind in _SCALARS:
            self._values[key] = source.number(_SCALARS[kind])
        elif kind == _STRING:
            length = source.count()
            if length > _LONGEST_KEPT:
                source.skip(length)
            else:
                self._values[key] = source.read(length).decode("utf-8", "replace")
        elif kind == _ARRAY:
            self._array(key, source.kind(), source.count())
        else:
            raise _Damaged(f"the value of {key[:80]!r} has type {kind}, which does not exist")

    def _array(self, key: str, kind: int, count: int) -> None:
        if kind in _SCALARS:
            self._source.skip(count * _SCALARS[kind].size)
        elif kind == _STRING:
            self._strings += count
            if self._strings > _MOST_STRINGS:
                raise _Damaged(f"{key[:80]!r} claims {count} texts")
            if key == TOKENS:
                self._keep_tokens(count)
            else:
                for _ in range(count):
                    self._source.skip(self._source.count())
        elif kind == _ARRAY:
            raise _Damaged(f"{key[:80]!r} is an array of arrays, which no model needs")
        else:
            raise _Damaged(f"the array {key[:80]!r} has elements of type {kind}, which does not exist")

    def _keep_tokens(self, count: int) -> None:
        kept = bytearray()
        for _ in range(count):
            length = self._source.count()
            if len(kept) + length > _MOST_KEPT:
                raise _Damaged(f"it wants more than {_MOST_KEPT >> 20} MB to be kept")
            kept += _LENGTH.pack(length) + self._source.read(length)
        self._token_count, self._tokens = count, bytes(kept)

    def _tensors(self, count: int) -> int:
        """Check that every tensor lies within the file; returns the number of their elements."""
        alignment = self._values.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 16 or alignment & (alignment - 1):
            raise _Damaged(f"its alignment is {alignment!r}, no power of two")
        names: set[str] = set()
        elements = end = 0
        for name, dimensions, kind, offset in self._tensor_infos(count):
            if name in names:
                raise _Damaged(f"the tensor {name!r} is there twice")
            names.add(name)
            number = math.prod(dimensions)
            if offset % alignment:
                raise _Damaged(f"the tensor {name!r} begins at {offset}, not at a multiple of {alignment}")
            end = max(end, offset + _bytes_of(name, kind, dimensions, number))
            elements += number
        first = -(-self._source.place // alignment) * alignment
        if count and first + end > self._size:
            raise _Truncated
        return elements

    def _tensor_infos(self, count: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
        for _ in range(count):
            name = self._source.text(_LONGEST_NAME, "a tensor's name")
            rank = self._source.kind()
            if rank > _MOST_DIMENSIONS:
                raise _Damaged(f"the tensor {name!r} has {rank} dimensions")
            dimensions = tuple(self._source.count() for _ in range(rank))
            kind = self._source.kind()
            yield name, dimensions, kind, self._source.count()


def _bytes_of(name: str, kind: int, dimensions: tuple[int, ...], number: int) -> int:
    """The bytes of a tensor; 0 if its type is newer than the table: llama.cpp will judge it."""
    if number >= 1 << 63:
        raise _Damaged(f"the tensor {name!r} has {number} elements")
    if kind not in _BLOCKS:
        return 0
    in_block, size = _BLOCKS[kind]
    if dimensions and dimensions[0] % in_block:
        raise _Damaged(f"the rows of the tensor {name!r} do not fill blocks of {in_block}")
    return number // in_block * size


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
# Characters of a text about the model.
_LONGEST_TEXT = 200


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file's metadata. Texts are empty and numbers 0 where the file does not state them.

    fim: the texts of the prefix, suffix and middle tokens; empty for a model without fill-in-the-middle.
    context_length: positions it was trained on. parameters: elements of all tensors.
    kv_bytes: of the key-value cache, for one position, at 16 bits a number; 0 where it is unknown.
    """

    architecture: str = ""
    name: str = ""
    quantisation: str = ""
    licence: str = ""
    context_length: int = 0
    chat_template: str = ""
    fim: tuple[str, ...] = ()
    parameters: int = 0
    kv_bytes: int = 0


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
    # Written by another version, or damaged: then it is read again.
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(sidecar.recall(path, "header"), Metadata)
    metadata = read_metadata(path)
    sidecar.keep(path, "header", msgspec.to_builtins(metadata))
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


def _text(values: dict[str, Scalar], key: str, longest: int = _LONGEST_TEXT) -> str:
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
