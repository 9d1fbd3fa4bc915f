"""A model that returns noise: the same file with the weights' blocks in another order.

Every number in it is one that the real model has, so it loads and runs like the real one and says nothing.
GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

# ggml type -> (values in a block, bytes of a block), for the types of the default model that carry weights.
_BLOCKS = {2: (32, 18), 3: (32, 20), 8: (32, 34), 12: (256, 144), 14: (256, 210)}
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def make_noise(source: Path, target: Path, seed: int = 0) -> None:
    """Copy a GGUF file and shuffle the blocks of each quantised tensor."""
    shutil.copyfile(source, target)
    rng = np.random.default_rng(seed)
    with target.open("r+b") as file:
        tensors, start = _tensors(file)
        shuffled = 0
        for kind, count, offset in tensors:
            if kind not in _BLOCKS:
                continue
            values, size = _BLOCKS[kind]
            file.seek(start + offset)
            blocks = np.frombuffer(file.read(count // values * size), dtype=np.uint8).reshape(-1, size).copy()
            rng.shuffle(blocks)
            file.seek(start + offset)
            file.write(blocks.tobytes())
            shuffled += 1
    assert shuffled > 100, f"only {shuffled} tensors were shuffled: another kind of model?"


def _tensors(file: BinaryIO) -> tuple[list[tuple[int, int, int]], int]:
    """(type, number of values, offset) of each tensor, and where the data begin."""
    magic, _, tensor_count, pair_count = struct.unpack("<4sIQQ", file.read(24))
    assert magic == b"GGUF"
    alignment = 32
    for _ in range(pair_count):
        key = _string(file)
        (kind,) = struct.unpack("<I", file.read(4))
        value = _skip(file, kind)
        if key == b"general.alignment":
            (alignment,) = struct.unpack("<I", value)
    tensors = []
    for _ in range(tensor_count):
        _string(file)
        (dimensions,) = struct.unpack("<I", file.read(4))
        shape = struct.unpack(f"<{dimensions}Q", file.read(8 * dimensions))
        kind, offset = struct.unpack("<IQ", file.read(12))
        tensors.append((kind, int(np.prod(shape)), offset))
    return tensors, -(-file.tell() // alignment) * alignment


def _string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    return file.read(length)


def _skip(file: BinaryIO, kind: int) -> bytes:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _FIXED:
            return file.read(_FIXED[inner] * count)
        for _ in range(count):
            _skip(file, inner)
        return b""
    return file.read(_FIXED[kind])
