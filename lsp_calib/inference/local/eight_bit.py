"""Weights converted to 8 bits, by llama.cpp itself. Only the model process imports this."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import llama_cpp

from lsp_calib import home, lockfile
from lsp_calib.errors import ModelFileError, SettingsError
from lsp_calib.inference.local.native import native_log
from lsp_calib.inference.models import converted, gguf


def convert(path: Path) -> Path:
    """The file with the weights of `path` in 8 bits; made, in a second for 100 MB, if there is no whole one.

    Raises OSError or ModelFileError if it cannot be made; then nothing is left of it.
    """
    target = converted.place(path)
    with contextlib.suppress(ModelFileError, OSError):
        gguf.check_header(target)  # it ends where its last tensor does
        return target
    unfinished = converted.being_made(target)
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    parameters.allow_requantize = True
    lock = _lock(path)
    try:
        if lock is not None:
            # No other process makes any: those that are there are left from one that was killed.
            for left in converted.unfinished(path):
                left.unlink(missing_ok=True)
        failed = llama_cpp.llama_model_quantize(
            os.fsencode(path), os.fsencode(unfinished), ctypes.byref(parameters)
        )
        if failed:
            raise ModelFileError(f"llama.cpp says: {native_log().last_words()}")
        gguf.read_metadata(unfinished)  # on a full disk it may be cut short
        unfinished.chmod(0o600)
        for old in converted.all_of(path):
            old.unlink(missing_ok=True)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)
    return target


def _lock(path: Path) -> int | None:
    """The lock of a model's conversion, None if another process converts it or there can be no lock."""
    with contextlib.suppress(SettingsError, OSError):
        return lockfile.take(home.run_folder() / f"convert-{path.name}.lock")
    return None
