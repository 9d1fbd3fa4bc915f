"""llama.cpp's library: its log, the flag that stops it, its models. Only the model process imports this."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import Acceleration

Tokenize = Callable[[bytes, bool], tuple[int, ...]]

# Between a letter or digit and the end of its line the patterns by which a text is split into words before
# the merges (byte-pair encoding) all have a boundary. SentencePiece's merges may cross it.
_BOUNDARY = re.compile(rb"(?<=[A-Za-z0-9])(?=\r?\n)")
# Pieces are this long at least, in bytes: only the last one changes as the text grows at its end.
_PIECE = 512
_KEPT = 128
# Longer texts do not come from an editor's window, and are not worth keeping.
_LONGEST_KEPT = 1 << 16
# Every kind of word before a line's end, and every kind of text that may follow it.
_SAMPLE = (
    b"class Alpha:\n    def beta(self, x1):\n        return x1\n\n\n    gamma = 12\n\tdelta = 3.14e10\r\n\r\n"
    b"import os\nfrom a import b\n\n\nvalue = 0x1F\n# A comment's end\n    self.items = THE_END9\n  \n"
    b"else\n\xc3\xa9t\xc3\xa9 = x\n'''text\n...\nanother\n\n    @decorator\nend\r\n\t\tnested\nlast\n"
)


class Tokenizer:
    """A model's tokeniser with a memory.

    tokenize: token ids of UTF-8 bytes; with True, control tokens are recognised. The tokens of a text are the
    same as without the memory: it is cut only where a sample shows that this model's tokeniser allows it.
    """

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._remembered = functools.lru_cache(_KEPT)(tokenize)
        self.cuts = _may_be_cut(tokenize)

    def __call__(self, text: bytes, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of UTF-8 bytes; control tokens are recognised only where `control` is set."""
        if len(text) > _LONGEST_KEPT:
            return self._tokenize(text, control)
        if control or not self.cuts:
            return self._remembered(text, control)
        tokens: list[int] = []
        start = 0
        while (cut := _BOUNDARY.search(text, start + _PIECE)) is not None:
            tokens += self._remembered(text[start : cut.start()], False)
            start = cut.start()
        return (*tokens, *self._remembered(text[start:], False))


def _may_be_cut(tokenize: Tokenize) -> bool:
    whole = tokenize(_SAMPLE, False)
    return all(
        tokenize(_SAMPLE[: cut.start()], False) + tokenize(_SAMPLE[cut.start() :], False) == whole
        for cut in _BOUNDARY.finditer(_SAMPLE)
    )


_WARNING = 3  # GGML_LOG_LEVEL_WARN; errors are 4


class AbortFlag:
    """A flag that stops a running decode, read by native code without the interpreter's lock.

    llama.cpp asks a callback at every graph node. A Python callback would take the lock each time; libc's
    `strlen` has the right shape instead: over this buffer it is 0 until the first byte is set.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self._lock = threading.Lock()
        self._wanted = False
        libc = ctypes.cdll.msvcrt if os.name == "nt" else ctypes.CDLL(None)
        self.callback = ctypes.cast(libc.strlen, llama_cpp.llama_cpp.ggml_abort_callback)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self, *, after_step: bool = False) -> None:
        """Stop this decode and those to come, until `clear`. after_step: only those to come."""
        with self._lock:
            self._wanted = True
            if not after_step:
                self._buffer[0] = b"\x01"

    def clear(self) -> None:
        with self._lock:
            self._wanted = False
            self._buffer[0] = b"\x00"

    def is_set(self) -> bool:
        return self._wanted

    def stop_step(self) -> None:
        """Stop this decode, which is repeated after `allow_step`."""
        self._buffer[0] = b"\x01"

    def allow_step(self) -> None:
        """Undo `stop_step`, but not `set`."""
        with self._lock:
            if not self._wanted:
                self._buffer[0] = b"\x00"


class NativeLog:
    """The warnings and errors llama.cpp logs, instead of printing them."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=8)
        self._callback = llama_cpp.llama_log_callback(self._keep)

    def listen(self) -> None:
        """Forget the messages so far, and record llama.cpp's messages from now on."""
        self._lines.clear()
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def last_words(self) -> str:
        return " ".join(line for line in self._lines if line) or "nothing"

    def _keep(self, level: int, text: bytes, _: ctypes.c_void_p) -> None:
        if level >= _WARNING:
            self._lines.append(text.decode("utf-8", "replace").strip())


@functools.cache
def native_log() -> NativeLog:
    """The log of this process. llama.cpp has one for all models, and calls it for good: it is never freed."""
    return NativeLog()


class Weights:
    """A model file in memory, and its vocabulary. kv_bytes: of the KV cache for one position, estimated.
    width: numbers in a state of the model.

    on_progress: called with the loaded fraction in [0, 1]. Raises
    ModelFileError, with llama.cpp's own words, if it cannot be loaded.
    """

    def __init__(
        self, path: Path, *, acceleration: Acceleration, on_progress: Callable[[float], None]
    ) -> None:
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = acceleration.gpu_layers
        params.use_extra_bufts = acceleration.repack
        params.use_mmap = True

        def progress(fraction: float, _: ctypes.c_void_p) -> bool:
            on_progress(fraction)
            return True

        callback = llama_cpp.llama_progress_callback(progress)
        params.progress_callback = callback
        self.model: Any = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not self.model:
            raise ModelFileError(
                f"The model file {path} cannot be loaded. llama.cpp says: {native_log().last_words()}"
            )
        self.vocab: Any = llama_cpp.llama_model_get_vocab(self.model)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self.vocab))
        self.trained_context = int(llama_cpp.llama_model_n_ctx_train(self.model))
        bos = int(llama_cpp.llama_vocab_bos(self.vocab))
        self.bos = bos if bos >= 0 else None
        layers, heads = llama_cpp.llama_model_n_layer(self.model), llama_cpp.llama_model_n_head(self.model)
        width = int(llama_cpp.llama_model_n_embd(self.model)) // max(heads, 1)
        self.kv_bytes = 2 * 2 * layers * width * int(llama_cpp.llama_model_n_head_kv(self.model))
        self.begins_with_bos = bool(llama_cpp.llama_vocab_get_add_bos(self.vocab))
        self.tokenize = Tokenizer(self._tokenize)

    def _tokenize(self, text: bytes, control: bool) -> tuple[int, ...]:
        room = len(text) + 8
        tokens = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, text, len(text), tokens, room, False, control)
        if count < 0:
            raise EngineError("llama.cpp could not tokenise a text. Try another text.")
        return tuple(tokens[:count])

    def pieces(self) -> list[bytes]:
        """The bytes of each token by id; empty for control tokens."""
        return pieces_of(self.vocab, self.size)

    def ends_text(self, token: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_eog(self.vocab, token))

    def close(self) -> None:
        llama_cpp.llama_model_free(self.model)


def pieces_of(vocab: Any, size: int) -> list[bytes]:
    """The bytes of each of the `size` tokens of llama.cpp's vocabulary by id; empty for control tokens."""
    buffer = ctypes.create_string_buffer(64)
    to_piece, is_control = llama_cpp.llama_token_to_piece, llama_cpp.llama_vocab_is_control
    pieces: list[bytes] = []
    for token in range(size):
        count = 0 if is_control(vocab, token) else to_piece(vocab, token, buffer, len(buffer), 0, False)
        if count < 0:
            buffer = ctypes.create_string_buffer(-count)
            count = to_piece(vocab, token, buffer, len(buffer), 0, False)
        pieces.append(buffer.raw[:count])
    return pieces


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
