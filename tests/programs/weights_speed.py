"""How fast llama.cpp is with weights converted to other kinds, and how far these agree.

    python tests/programs/weights_speed.py MODEL.gguf SOURCE... [--kinds Q8_0,Q4_0,BF16] [--threads 2]

Tokens a second of a prompt of 744 tokens and of ten generated ones, three times each; then, on the text of
the source files, by how much the log-probability of a token and the most likely token differ between kinds.
The bare binding is used. Time it on a quiet machine.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

_PROMPT, _GENERATED, _RUNS = 744, 10, 3
# Characters of each file that are scored: not its beginning, which is imports.
_FROM, _TO = 1500, 2600


def converted(model: Path, kind: str, folder: Path) -> Path:
    target = folder / f"{kind}.gguf"
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    parameters.allow_requantize = True
    if llama_cpp.llama_model_quantize(os.fsencode(model), os.fsencode(target), ctypes.byref(parameters)):
        raise SystemExit(f"{model} cannot be converted to {kind}.")
    return target


def opened(path: Path, threads: int, *, every: bool) -> Any:
    return llama_cpp.Llama(
        str(path),
        n_ctx=2048,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=every,
        verbose=False,
    )


def speed(path: Path, threads: int) -> str:
    model = opened(path, threads, every=False)
    prompt, generation = [], []
    for _ in range(_RUNS):
        model.reset()
        begin = time.perf_counter()
        model.eval([5 + at % 3000 for at in range(_PROMPT)])
        between = time.perf_counter()
        for _ in range(_GENERATED):
            model.eval([7])
        prompt.append(_PROMPT / (between - begin))
        generation.append(_GENERATED / (time.perf_counter() - between))
    return " | ".join(", ".join(f"{value:.0f}" for value in one) for one in (prompt, generation))


def scored(
    path: Path, texts: list[str], threads: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The log-probability of each token of the texts, and the most likely token at each place."""
    model, given, best = opened(path, threads, every=True), [], []
    for text in texts:
        tokens = model.tokenize(text.encode(), add_bos=False)
        model.reset()
        model.eval(tokens)
        logits = np.array(model.scores[: len(tokens)], dtype=np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        given.append(logits[np.arange(len(tokens) - 1), tokens[1:]])
        best.append(logits.argmax(axis=-1))
    return np.concatenate(given), np.concatenate(best)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path, nargs="*")
    parser.add_argument("--kinds", default="Q8_0,Q4_0,BF16")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))
    texts = [path.read_text("utf-8", "replace")[_FROM:_TO] for path in given.source]
    with tempfile.TemporaryDirectory() as folder:
        files = {"as it is": given.model}
        files |= {kind: converted(given.model, kind, Path(folder)) for kind in given.kinds.split(",")}
        print("| weights | prompt | generation |\n|---|---|---|")
        for kind, path in files.items():
            print(f"| {kind} | {speed(path, given.threads)} |", flush=True)
        if not texts:
            return
        known = {kind: scored(path, texts, given.threads) for kind, path in files.items()}
    print("\n| weights | mean difference, absolute | with its sign | another token is likeliest |")
    print("|---|---|---|---|")
    for (one, (p, top)), (other, (q, likeliest)) in itertools.combinations(known.items(), 2):
        off = p - q
        cells = (f"{np.abs(off).mean():.3f}", f"{off.mean():+.4f}", f"{np.mean(top != likeliest):.1%}")
        print(f"| {one}, {other} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
