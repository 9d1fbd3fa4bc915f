"""What a prompt costs in steps of several sizes, with llama.cpp alone: the table in docs/engine.md.

    python tests/programs/step_sizes.py MODEL.gguf [--rounds 5] [--behind 300] [--threads 2]

Each round evaluates the same tokens behind the same others once in each size, in turns of alternating order,
flash attention off. Printed are the medians in tokens a second, and the least times relative to steps of 64.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from random import Random
from typing import Any

import llama_cpp

SIZES = (8, 16, 32, 48, 64, 96, 128)
# Tokens that are timed: all sizes but one divide them.
TOTAL = 192


class Prompt:
    """Tokens, and a context to evaluate them in."""

    def __init__(self, model: Path, threads: int) -> None:
        llama_cpp.llama_log_set(_SILENT, None)
        weights: Any = llama_cpp.llama_model_load_from_file(
            str(model).encode(), llama_cpp.llama_model_default_params()
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = 2048
        params.n_batch = params.n_ubatch = max(SIZES)
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context: Any = llama_cpp.llama_init_from_model(weights, params)
        self._batch: Any = llama_cpp.llama_batch_init(max(SIZES), 0, 1)
        self._tokens = Random(0).choices(range(1000, 20_000), k=2048)

    def forget(self, start: int) -> None:
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self._context), 0, start, -1)

    def seconds(self, start: int, total: int, size: int) -> float:
        """To evaluate so many tokens from a place on, in steps of a size."""
        self.forget(start)
        began = time.perf_counter()
        for at in range(start, start + total, size):
            self._step(at, min(size, start + total - at))
        return time.perf_counter() - began

    def _step(self, at: int, count: int) -> None:
        batch = self._batch
        batch.n_tokens = count
        for i in range(count):
            batch.token[i], batch.pos[i] = self._tokens[at + i], at + i
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 0
        assert llama_cpp.llama_decode(self._context, batch) == 0
        llama_cpp.llama_synchronize(self._context)


_SILENT = llama_cpp.llama_log_callback(lambda *_: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--behind", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    prompt = Prompt(given.model, given.threads)
    prompt.seconds(0, given.behind, max(SIZES))
    took: dict[int, list[float]] = {size: [] for size in SIZES}
    for turn in range(given.rounds):
        for size in SIZES[:: 1 if turn % 2 else -1]:
            took[size].append(prompt.seconds(given.behind, TOTAL, size))
    for size, seconds in took.items():
        speed, relative = TOTAL / statistics.median(seconds), min(seconds) / min(took[64])
        print(f"{size:4} tokens a step: {speed:6.1f} tokens a second, {relative:.2f} of the time", flush=True)


if __name__ == "__main__":
    main()
