"""The real model in this process, and the same model evaluated from scratch to compare it with."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs
import numpy as np

from lsp_calib.inference.backend import Interrupted, Run
from lsp_calib.inference.engine import Request
from lsp_calib.studies.full_ece import Reader
from lsp_calib.values import Generation, Prompt, Segment

SOURCE = '''import json


def read_settings(path):
    """Read settings from a JSON file."""
    with open(path, encoding="utf-8") as file:
        return json'''

LONG = "".join(f"value_{n} = compute({n}, other={n * 7 % 13})\n" for n in range(12))


def prompt(text: str, forced: str = "", control: str = "") -> Prompt:
    segments = [(Segment.TEXT, text)]
    if control:
        segments.append((Segment.CONTROL, control))
    return Prompt(tuple(segments), forced, "test")


def request(text: str, forced: str = "", most: int = 12, **options: Any) -> Request:
    return Request(prompt(text, forced), most, **options)


def generate(model: Any, request: Request) -> Generation:
    generation: Generation = model.begin(request).advance()
    return generation


@attrs.frozen
class Scored:
    """A token of a text: its log-probability, its logit, the logarithm of the softmax's denominator at each
    of some temperatures."""

    id: int
    logprob: float
    logit: float
    log_sum_exps: tuple[float, ...]


def score(model: Any, text: str, after: str, *temperatures: float) -> list[Scored]:
    """The tokens of a text behind another one."""
    distribution = model.evaluator.normaliser.distribution
    found = []
    for id, logits in Reader(model).rows(prompt(after), text):
        logit = float(logits[id])
        one, *others = (distribution(logits, t).log_sum_exp for t in (1.0, *temperatures))
        found.append(Scored(id, min(logit - one, 0.0), logit, tuple(others)))
    return found


@contextmanager
def interruptions(model: Any, random: Random, longest: float) -> Iterator[None]:
    """Somebody interrupts at random moments, from a millisecond to `longest` seconds apart."""
    over = threading.Event()

    def interrupt() -> None:
        while not over.wait(0.001 * (1000 * longest) ** random.random()):
            model.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        model.resume()


def step_seconds(model: Any) -> float:
    """About how long 64 tokens of a prompt take at present: what an interruption throws away at most."""
    timing = generate(model, request("y = [" + "1, 2, " * 32, most=1, reuse=False)).timing
    return 64 * timing.prompt_ms / 1e3 / timing.prompt_tokens


def persist(model: Any, run: Run) -> tuple[Generation | None, int]:
    """Resume a run until it ends; also how often it was interrupted."""
    for interrupted in range(10_000):
        try:
            return run.advance(), interrupted
        except Interrupted:
            model.resume()
    raise AssertionError("it never ends")


class Reference:
    """The model evaluated from scratch, the shortest way: one sequence, no cache, no healing, float64."""

    def __init__(self, path: Path) -> None:
        import llama_cpp

        from lsp_calib.inference.local.native import native_log

        self.lib = llama_cpp
        native_log().listen()
        self.model = llama_cpp.llama_model_load_from_file(
            os.fsencode(path), llama_cpp.llama_model_default_params()
        )
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self.vocab))

    def tokens(self, text: str) -> list[int]:
        data = text.encode()
        array = (self.lib.llama_token * (len(data) + 8))()
        count = self.lib.llama_tokenize(self.vocab, data, len(data), array, len(array), False, False)
        return list(array[:count])

    def logits(
        self,
        tokens: list[int],
        *,
        first: int,
        splits: Sequence[int] = (),
    ) -> np.ndarray:
        """Logits after each of `tokens` from the one at `first` on, float64, (len(tokens) - first, size).

        splits: the numbers of tokens that are decoded at once; what is left after these is, too.
        """
        lib = self.lib
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 1024
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.n_threads = params.n_threads_batch = 1
        context = lib.llama_init_from_model(self.model, params)
        batch = lib.llama_batch_init(1024, 0, 1)
        rows = []
        start = 0
        for step in (*splits, len(tokens)):
            chunk = tokens[start : start + step]
            if not chunk:
                break
            batch.n_tokens = len(chunk)
            for n, token in enumerate(chunk):
                batch.token[n], batch.pos[n] = token, start + n
                batch.n_seq_id[n], batch.seq_id[n][0] = 1, 0
                batch.logits[n] = start + n >= first
            assert lib.llama_decode(context, batch) == 0
            for n in range(max(first - start, 0), len(chunk)):
                pointer = lib.llama_get_logits_ith(context, n)
                row = (ctypes.c_float * self.size).from_address(ctypes.addressof(pointer.contents))
                rows.append(np.frombuffer(row, np.float32).astype(np.float64))
            start += len(chunk)
        lib.llama_batch_free(batch)
        lib.llama_free(context)
        return np.array(rows)

    def log_probabilities(self, tokens: list[int], given: int, **how: Any) -> np.ndarray:
        """Of each of `tokens` after the first `given`, in nats; shape (len(tokens) - given,)."""
        logits = self.logits(tokens[:-1], first=given - 1, **how)
        peak = logits.max(axis=1, keepdims=True)
        whole = np.log(np.exp(logits - peak).sum(axis=1)) + peak[:, 0]
        return np.asarray(logits[np.arange(len(logits)), tokens[given:]] - whole)

    def close(self) -> None:
        self.lib.llama_model_free(self.model)


def one_by_one(given: int, answer: int) -> list[int]:
    """The splits of a generation: its prompt, then each token of the answer but the last."""
    return [given, *[1] * (answer - 1)]
