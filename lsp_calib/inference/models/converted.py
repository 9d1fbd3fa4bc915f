"""Models whose weights llama.cpp multiplies slowly, and the place of faster ones, of 8 bits.

Which kinds are slow depends on the processor: docs/engine.md has the measurements.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from lsp_calib.inference.models import gguf, sidecar

_SLOW = "Q4_1"
# In bytes. Weights of more are read from memory more slowly than they are multiplied, and 8 bits are more.
_MOST = 300 << 20
# With AMX the kinds of 4 bits with this beginning, of any size.
_SLOW_WITH_AMX = "Q4_K"
# Bytes of weights of 8 bits for each byte of those.
_LARGER = 1.75

_ENDING = ".eight-bit"


def slow(path: Path) -> bool:
    """Whether the weights of a model file are worth converting without AMX, and may be.

    The converted ones lie beside the model's file, so nothing but the models folder gets any; where they are
    there, they are used from other state folders too. Raises ModelFileError if the file is no model.
    """
    kind = gguf.inspect(path).quantisation
    return kind == _SLOW and path.stat().st_size <= _MOST and _may_be(path)


def slow_with_amx(path: Path) -> bool:
    """As `slow`, on a processor with AMX. That 8 bits are faster there has to be tried."""
    return gguf.inspect(path).quantisation.startswith(_SLOW_WITH_AMX) and _may_be(path)


def size_with_amx(path: Path) -> int:
    """About how many bytes the converted weights of a model that is `slow_with_amx` have."""
    return int(_LARGER * path.stat().st_size)


def _may_be(path: Path) -> bool:
    return path.parent.resolve() == sidecar.models_folder().resolve() or place(path).is_file()


def place(path: Path) -> Path:
    """The file for the converted weights of a model file; its name tells what they are made of."""
    return path.with_name(f".{path.name}.{sidecar.sha256_of(path)[:16]}{_ENDING}")


def all_of(path: Path) -> list[Path]:
    """The files with converted weights of a model file that is there or was, of all its versions."""
    return [one for one in path.parent.glob(f".{glob.escape(path.name)}.*{_ENDING}") if one.is_file()]


def being_made(target: Path) -> Path:
    """The file in which this process makes converted weights; renamed to `target` when it is whole."""
    return target.with_name(f"{target.name}.{os.getpid()}")


def unfinished(path: Path) -> list[Path]:
    """Converted weights of a model file that are being made, or whose maker was killed."""
    return [one for one in path.parent.glob(f".{glob.escape(path.name)}.*{_ENDING}.[0-9]*") if one.is_file()]


def discard(path: Path, process: int) -> None:
    """Remove the converted weights that a process was making when it was killed."""
    for one in unfinished(path):
        if one.name.endswith(f".{process}"):
            one.unlink(missing_ok=True)


def used(path: Path) -> Path:
    """The file whose weights are multiplied where a model file is used."""
    return place(path) if slow(path) and place(path).is_file() else path
