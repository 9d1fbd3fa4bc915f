"""How long the encoder takes: to load, for two sentences, and for a summary and its function.

    python tests/programs/similarity_speed.py

The functions are this package's own. Needs the installed encoder (`lsp-calib models pull minilm-l6-v2`) and
the extra `evaluation`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import lsp_calib
from lsp_calib.evaluation.thresholds import similarities
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.fit import fit_features
from lsp_calib.syntax import Function, functions

SENTENCE = "Return the largest of the sizes that were given."
OTHER = "Gets the maximum of all given sizes"
TIMES = 200
FUNCTIONS = 60


def median_ms(work: Callable[[], object]) -> float:
    """The median of `TIMES` runs, after a first one that does not count."""
    work()
    found = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        work()
        found.append(1000.0 * (time.perf_counter() - begin))
    return statistics.median(found)


def own_functions() -> Iterator[Function]:
    """The functions of this package, in the order of its files."""
    for path in sorted(Path(lsp_calib.__file__).parent.rglob("*.py")):
        yield from functions(path.read_text("utf-8").splitlines(), "python")


def fits_ms(encoder: Encoder) -> list[float]:
    """How long the features of a summary take that need the encoder, for functions drawn at random."""
    every = list(own_functions())
    drawn = np.random.default_rng(0).choice(len(every), FUNCTIONS, replace=False)
    found = []
    for at in drawn:
        begin = time.perf_counter()
        fit_features(encoder, SENTENCE, every[at], ())
        found.append(1000.0 * (time.perf_counter() - begin))
    return found


def main() -> None:
    begin = time.perf_counter()
    encoder = Encoder.open()
    encoder.encode(SENTENCE)
    print(f"loading it, and a first sentence: {time.perf_counter() - begin:.2f} s")
    alone = median_ms(lambda: encoder.encode(SENTENCE))
    print(f"a sentence of {len(SENTENCE.split())} words: {alone:.1f} ms")
    print(f"of {3 * len(SENTENCE.split())} words: {median_ms(lambda: encoder.encode(3 * SENTENCE)):.1f} ms")
    every = median_ms(lambda: similarities(encoder, SENTENCE, OTHER))
    print(f"all similarities of two sentences: {every:.1f} ms")
    fits = fits_ms(encoder)
    print(
        f"a summary and its function: median {statistics.median(fits):.0f} ms, "
        f"p95 {np.quantile(fits, 0.95):.0f} ms ({FUNCTIONS} functions)"
    )


if __name__ == "__main__":
    main()
