"""What it costs to evaluate without llama.cpp's flash attention, by positions and by size of a step.

    python tests/programs/flash_attention.py [--model NAME] [--threads 2] [--rounds 5]

Two copies of the model, one of them with flash attention as llama.cpp chooses it, take the same steps by
turns behind 300 and 900 cached tokens. Prints the median time of a step without it, and the median of the
ratios to the step with it. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import llama_cpp

from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import Priority
from lsp_calib.inference.local.llama import LlamaModel
from lsp_calib.inference.models.cards import locate

POSITIONS, STEPS = (300, 900), (1, 2, 4, 8, 16, 32, 64, 128)
# So many tokens at least are timed together.
_TOGETHER = 8


def loaded(path: Path, threads: int, *, flash: bool) -> LlamaModel:
    chosen = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO if flash else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    with mock.patch.object(llama_cpp, "LLAMA_FLASH_ATTN_TYPE_DISABLED", chosen):
        return LlamaModel(LoadOptions(path, 2048, threads=threads))


class Timed:
    """A model with so many tokens in its cache."""

    def __init__(self, model: LlamaModel, tokens: list[int]) -> None:
        self._decoder: Any = model._decoder
        self._tokens = tokens
        self._sequence = self._decoder.sequence(Priority.INTERACTIVE, tokens)
        model._machine.evaluate(self._sequence, tokens, 1, None)

    def seconds(self, size: int) -> float:
        """Of a step of so many tokens."""
        steps = max(_TOGETHER // size, 1)
        start = time.perf_counter()
        for _ in range(steps):
            self._decoder.decode(self._sequence, self._tokens[:size], 1)
        spent = time.perf_counter() - start
        self._decoder.reuse(self._sequence, self._tokens, len(self._tokens), len(self._tokens))
        return spent / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    path = locate(options.model)[1]
    models = [loaded(path, options.threads, flash=flash) for flash in (False, True)]
    print("| positions | tokens in a step | ms without | without / with |\n|---:|---:|---:|---:|")
    for positions in POSITIONS:
        without, with_it = (Timed(model, [5 + at % 3000 for at in range(positions)]) for model in models)
        for size in STEPS:
            pairs = []
            for turn in range(options.rounds):
                order = (without, with_it) if turn % 2 else (with_it, without)
                spent = {id(one): one.seconds(size) for one in order}
                pairs.append((spent[id(without)], spent[id(with_it)]))
            ratio = median(one / other for one, other in pairs)
            print(f"| {positions} | {size} | {1e3 * median(one for one, _ in pairs):.1f} | {ratio:.2f} |")
    for model in models:
        model.close()


if __name__ == "__main__":
    main()
