"""llama.cpp in a bare loop: measures the cost of the same tokens without a server (see `against.py`).

`python raw_child.py MODEL CONTEXT THREADS`; each line on standard input, [name, arguments], calls a method of
`Bare`, and a line on standard output is its result:

    ["prompt", {"segments": [[kind, text], ...]}]           -> [int, ...]
    ["tokens", {"text": str}]                               -> [int, ...]
    ["replay", {"prompt": [int, ...], "keep": int, "then": [int, ...], "generated": int, "threads": int}]
                                                            -> {"ms": float, "evaluated": int}

`replay` fills the cache with a prompt: at most `keep` equal tokens at its beginning are kept, and the rest is
evaluated in one batch. Then `generated` - 1 tokens are evaluated one at a time (the token that ends an answer
is never evaluated): first those in `then`, afterwards the most likely ones. All parameters are llama.cpp's
defaults, except the threads and the context size.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np

from lsp_calib.inference.generation.prefix import common_prefix


class Bare:
    """One model, one context, one sequence."""

    def __init__(self, path: str, context: int, threads: int) -> None:
        self._silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), options)
        if not self._model:
            raise SystemExit(f"{path} cannot be loaded.")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._cached: list[int] = []
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_threads = params.n_threads_batch = threads
        self._batch = int(params.n_batch)
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        self._memory = llama_cpp.llama_get_memory(self._context)

    def prompt(self, segments: Sequence[tuple[str, str]]) -> list[int]:
        """The tokens of a prompt, tokenised as the engine does it: piece by piece."""
        first = llama_cpp.llama_vocab_get_add_bos(self._vocab)
        tokens = [llama_cpp.llama_vocab_bos(self._vocab)] if first else []
        for kind, text in segments:
            tokens += self.tokens(text, control=kind == "control")
        return tokens

    def tokens(self, text: str, *, control: bool = False) -> list[int]:
        data = text.encode("utf-8", "replace")
        array = (llama_cpp.llama_token * (len(data) + 8))()
        n = llama_cpp.llama_tokenize(self._vocab, data, len(data), array, len(array), False, control)
        return list(array[:n])

    def replay(
        self, prompt: list[int], keep: int, then: list[int], generated: int, threads: int
    ) -> dict[str, Any]:
        llama_cpp.llama_set_n_threads(self._context, threads, threads)
        began = time.perf_counter()
        kept = min(common_prefix(self._cached, prompt), keep, len(prompt) - 1)
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, kept, -1):
            llama_cpp.llama_memory_clear(self._memory, True)
            kept = 0
        self._cached = prompt[:kept]
        for at in range(kept, len(prompt), self._batch):
            self._decode(prompt[at : at + self._batch])
        for at in range(generated - 1):
            likely = self._most_likely()
            self._decode([then[at] if at < len(then) else likely])
        self._most_likely()
        ms = 1e3 * (time.perf_counter() - began)
        return {"ms": ms, "evaluated": len(prompt) - kept}

    def _decode(self, tokens: list[int]) -> None:
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code:
            raise SystemExit(f"llama.cpp could not evaluate {len(tokens)} tokens (code {code}).")
        self._cached += tokens

    def _most_likely(self) -> int:
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return int(np.argmax(np.ctypeslib.as_array(pointer, shape=(self._size,))))


def answer(message: object) -> None:
    print(json.dumps(message), flush=True)


def main(path: str, context: str, threads: str) -> None:
    bare = Bare(path, int(context), int(threads))
    answer({})
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answer(getattr(bare, name)(**arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
