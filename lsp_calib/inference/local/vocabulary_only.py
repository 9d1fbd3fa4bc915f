"""Reads the vocabulary of a model file without its weights."""

from __future__ import annotations

import os
from pathlib import Path

import llama_cpp

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.local.native import native_log, pieces_of


def read_pieces(path: Path) -> list[bytes]:
    """The bytes of each token by id, as in `Weights.pieces`; takes about a second.

    Raises ModelFileError, with llama.cpp's own words, if the file cannot be loaded.
    """
    native_log().listen()
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelFileError(
            f"The vocabulary of {path} cannot be read. llama.cpp says: {native_log().last_words()}"
        )
    try:
        vocab = llama_cpp.llama_model_get_vocab(model)
        return pieces_of(vocab, int(llama_cpp.llama_vocab_n_tokens(vocab)))
    finally:
        llama_cpp.llama_model_free(model)
