"""Reads the front of a GGUF file: header, metadata, tensor table. It trusts nothing and loads nothing.

Every length and count that the file claims is compared with the bytes present before it is used, so a damaged
or hostile file ends in ModelFileError after bounded work, in bounded memory. Tensor data is never read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from lsp_calib.errors import ModelFileError
from lsp_calib.files import open_file
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
# Bytes of these kept at once: the vocabulary's texts, or the bytes fetched last.
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
_KIND = struct.Struct("<I")

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

    version: int
    tensors: int
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
    """The file's beginning, fetched as it is needed, forgotten when it has been read.

    place: the offset of the next byte. buffer: the bytes in memory, from `base` on; all stay while `held`.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self.buffer = bytearray()
        self.base = 0
        self.place = 0
        self.held = False

    def need(self, count: int) -> int:
        """Read `count` bytes from `place` on and move past them; returns their place in `buffer`."""
        end = self._end(count)
        if end > self.base + len(self.buffer):
            self._fetch(end)
        start = self.place - self.base
        self.place = end
        return start

    def skip(self, count: int) -> None:
        """Skip `count` bytes, without reading them where nothing is held."""
        end = self._end(count)
        if self.held or end <= self.base + len(self.buffer):
            self.need(count)
            return
        self.buffer.clear()
        self.base = self.place = end
        self._file.seek(end)

    def _end(self, count: int) -> int:
        end = self.place + count
        if end > self._size:
            raise _Truncated
        if end > _MOST_BYTES:
            raise _Damaged(f"what stands before its tensors is longer than {_MOST_BYTES >> 20} MB")
        return end

    def _fetch(self, end: int) -> None:
        if not self.held:
            del self.buffer[: self.place - self.base]
            self.base = self.place
        if end - self.base > _MOST_KEPT:
            raise _Damaged(f"it wants more than {_MOST_KEPT >> 20} MB to be kept")
        here = self.base + len(self.buffer)
        self.buffer += self._file.read(min(max(end - here, _STEP), self._size - here))
        if end > self.base + len(self.buffer):
            raise _Truncated  # it shrank while it was read

    def number(self, layout: struct.Struct) -> Scalar:
        start = self.need(layout.size)
        value: Scalar = layout.unpack_from(self.buffer, start)[0]
        return value

    def count(self) -> int:
        start = self.need(8)
        value: int = _LENGTH.unpack_from(self.buffer, start)[0]
        return value

    def kind(self) -> int:
        start = self.need(4)
        value: int = _KIND.unpack_from(self.buffer, start)[0]
        return value

    def text(self, longest: int, what: str) -> str:
        length = self.count()
        if length > longest:
            raise _Damaged(f"{what} of {length} bytes")
        start = self.need(length)
        return self.buffer[start : start + length].decode("utf-8", "replace")


def read_front(path: Path) -> Front:
    """Read the part of `path` before its tensors, and check that its tensors lie within the file.

    Raises ModelFileError, naming file and fault. At most 32 MiB are kept at once; tensor data is never read.
    """
    try:
        with os.fdopen(open_file(path), "rb") as file:
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
        tensors, pairs, version = self._header()
        seen: set[str] = set()
        for _ in range(pairs):
            key = self._source.text(_LONGEST_KEY, "a key")
            if key in seen:
                raise _Damaged(f"the key {key[:80]!r} is there twice")
            seen.add(key)
            self._value(key, self._source.kind())
        elements = self._tensors(tensors)
        return Front(
            version, tensors, self._source.place, elements, self._values, self._token_count, self._tokens
        )

    def _header(self) -> tuple[int, int, int]:
        """Counts of tensors and of pairs, and the version."""
        if self._size < HEADER.size:
            raise ModelFileError(
                f"The model file {self._path} is truncated: {self._size} bytes are no GGUF header."
                f" {redownload_hint(self._path)}"
            )
        start = self._source.need(HEADER.size)
        magic, version, tensors, pairs = HEADER.unpack_from(self._source.buffer, start)
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
        return tensors, pairs, version

    def _value(self, key: str, kind: int) -> None:
        source = self._source
        if kind in _SCALARS:
            self._values[key] = source.number(_SCALARS[kind])
        elif kind == _STRING:
            length = source.count()
            if length > _LONGEST_KEPT:
                source.skip(length)
            else:
                start = source.need(length)
                self._values[key] = source.buffer[start : start + length].decode("utf-8", "replace")
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
                self._walk(count)
        elif kind == _ARRAY:
            raise _Damaged(f"{key[:80]!r} is an array of arrays, which no model needs")
        else:
            raise _Damaged(f"the array {key[:80]!r} has elements of type {kind}, which does not exist")

    def _keep_tokens(self, count: int) -> None:
        source = self._source
        start = source.need(0)
        source.held = True
        self._walk(count)
        source.held = False
        self._token_count = count
        self._tokens = bytes(source.buffer[start : source.place - source.base])

    def _walk(self, count: int) -> None:
        """Skip `count` texts. The inner loop of the whole reading: a vocabulary has 300,000 of them."""
        source = self._source
        unpack = _LENGTH.unpack_from
        while count:
            buffer = source.buffer
            place = source.place - source.base
            last = len(buffer) - 8
            while count and place <= last:
                end = place + 8 + unpack(buffer, place)[0]
                if end > last + 8:
                    break
                place = end
                count -= 1
            source.place = source.base + place
            if count:
                # The next one is not wholly in the buffer.
                source.skip(source.count())
                count -= 1

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
            number = 1
            for dimension in dimensions:
                number *= dimension
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
