"""Is this a whole GGUF file? A bounded look at its header, before native code sees it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from pathlib import Path

from lsp_calib.errors import ModelFileError

_MAGIC = b"GGUF"
_VERSIONS = range(2, 4)
# More than any real model has: a header that claims more is damaged or hostile.
_MOST_TENSORS = 1_000_000
_MOST_PAIRS = 100_000


def check_header(path: Path) -> None:
    """Raise ModelFileError, naming file and fault, unless `path` begins like a little-endian GGUF file."""
    try:
        with path.open("rb") as file:
            head = file.read(24)
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read: {error.strerror or error}.") from error
    if len(head) < 24:
        raise ModelFileError(
            f"The model file {path} is truncated: {len(head)} bytes are no GGUF header.{_again(path)}"
        )
    magic, version, tensors, pairs = struct.unpack("<4sIQQ", head)
    if magic != _MAGIC:
        raise ModelFileError(
            f"The model file {path} is not a GGUF file (it begins with {magic!r}, not {_MAGIC!r})."
            f"{_again(path)}"
        )
    if version not in _VERSIONS:
        raise ModelFileError(
            f"The model file {path} has GGUF version {version}; versions 2 and 3 can be read."
        )
    if tensors > _MOST_TENSORS or pairs > _MOST_PAIRS:
        raise ModelFileError(
            f"The model file {path} is damaged: its header claims {tensors} tensors and {pairs} values."
            f"{_again(path)}"
        )


def check_size(path: Path, expected: int) -> None:
    """Raise ModelFileError unless `path` has `expected` bytes."""
    actual = path.stat().st_size
    if actual != expected:
        fault = "truncated" if actual < expected else "longer than it should be"
        raise ModelFileError(f"The model file {path} is {fault}: {actual} of {expected} bytes.{_again(path)}")


def _again(path: Path) -> str:
    return (
        f" Remove it (`lsp-calib models remove {path.name}`) and get it again with `lsp-calib models pull "
        "NAME`; `lsp-calib models list` has the names."
    )
