"""How long the similarity of two sentences takes: `python tests/programs/similarity_speed.py`.

Needs the installed encoder (`lsp-calib models pull minilm-l6-v2`) and the extra `evaluation`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from lsp_calib.evaluation.similarity import similarities
from lsp_calib.summarization.encoder import Encoder

SENTENCE = "Return the largest of the sizes that were given."
OTHER = "Gets the maximum of all given sizes"
TIMES = 200


def median_ms(work: Callable[[], object]) -> float:
    """The median of `TIMES` runs, after a first one that does not count."""
    work()
    found = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        work()
        found.append(1000.0 * (time.perf_counter() - begin))
    return statistics.median(found)


def main() -> None:
    encoder = Encoder.open()
    alone = median_ms(lambda: encoder.encode(SENTENCE))
    print(f"a sentence of {len(SENTENCE.split())} words: {alone:.1f} ms")
    print(f"of {3 * len(SENTENCE.split())} words: {median_ms(lambda: encoder.encode(3 * SENTENCE)):.1f} ms")
    every = median_ms(lambda: similarities(encoder, SENTENCE, OTHER))
    print(f"all similarities of two sentences: {every:.1f} ms")


if __name__ == "__main__":
    main()
