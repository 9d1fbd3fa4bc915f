"""llama.cpp's context: decoding, and a KV cache of several sequences. Only the model process imports this."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import Counters, Interrupted
from lsp_calib.inference.engine import Priority
from lsp_calib.inference.generation.kv_cache import CachedSequence, reusable, sequence_for
from lsp_calib.inference.local.native import AbortFlag, Weights, native_log
from lsp_calib.inference.local.steps import Alarm, StepSizer, ThreadRule
from lsp_calib.inference.models.demands import count_sequences
from lsp_calib.inference.processor import default_threads

_ABORTED = 2  # llama_decode's answer when the abort callback stopped it


# Tokens evaluated at once, at most. Larger steps gain nothing on a CPU; a GPU wants them large.
_ON_CPU, _ON_GPU = 128, 512


class Decoder:
    """Evaluates tokens in one of several KV-cache sequences, and gives the logits after them.

    context: positions of each sequence, at most as many as the model was trained on. Each sequence has a
    stream of its own, so that tokens cached in one do not slow down attention in the others.
    threads: 0 takes `default_threads`. Raises ModelFileError if there is no memory for it.
    """

    def __init__(self, weights: Weights, *, context: int, threads: int, on_gpu: bool) -> None:
        self.abort = AbortFlag()
        self._can_drop_part = False
        self.counters = Counters()
        self._largest = _ON_GPU if on_gpu else _ON_CPU
        self._steps = StepSizer(self._largest)
        self.positions = min(context, weights.trained_context) if weights.trained_context > 0 else context
        self.threads = threads or default_threads()
        self._rule = ThreadRule(self.threads)
        self._stalled = False
        self._alarm = Alarm(self._stop_step) if self.threads > 1 else None

        sequences = count_sequences(weights.kv_bytes * self.positions)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = self.positions * sequences
        params.n_seq_max = sequences
        params.kv_unified = False
        if not on_gpu:
            # On processors its results depend on the number of threads and on the size of a step.
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.n_batch = params.n_ubatch = self._largest
        params.n_threads = params.n_threads_batch = self.threads
        params.no_perf = True
        self._context: Any = llama_cpp.llama_init_from_model(weights.model, params)
        if not self._context:
            raise ModelFileError(
                f"There is not enough memory to run the model. llama.cpp says: {native_log().last_words()}"
            )
        llama_cpp.llama_set_abort_callback(self._context, self.abort.callback, self.abort.data)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._row = ctypes.c_float * weights.size
        self._set_up_batch()
        self._sequences = [CachedSequence(id) for id in range(sequences)]
        self._uses = itertools.count(1)
        try:
            self._can_drop_part = self._warm_up()
        except EngineError as error:
            self.close()
            raise ModelFileError(f"The model loads, but does not run. {error}") from error

    def sequence(self, priority: Priority, tokens: Sequence[int], document: str = "") -> CachedSequence:
        """The sequence to evaluate `tokens` in, and to generate the answer.

        document: the one they belong to, if known. An idle answer for a document is the beginning of an
        interactive one; any other, such as a summary, is no more for who types than background work.
        """
        background, *interactive = self._sequences
        is_apart = priority is Priority.BACKGROUND or (priority is Priority.IDLE and not document)
        chosen = background if is_apart else sequence_for(interactive, tokens, document)
        if priority is not Priority.IDLE:  # otherwise it would outlive the prompts of real requests
            chosen.used = next(self._uses)
        chosen.document = document
        return chosen

    def sequence_ahead(self, tokens: Sequence[int]) -> CachedSequence | None:
        """The sequence to evaluate a prompt in that an interactive request may have later: one of theirs.

        None where they have one alone, which the latest of them uses.
        """
        if len(self._sequences) < 3:
            return None
        chosen = sequence_for(self._sequences[1:], tokens)
        chosen.document = ""
        return chosen

    def resume(self) -> None:
        """A run begins or resumes: take the interruption back."""
        self.abort.clear()
        self._steps.begins(time.perf_counter())

    def reuse(self, sequence: CachedSequence, tokens: Sequence[int], together: int, most: int) -> int:
        """Keep the cached tokens that are `reusable` for `tokens`; returns their number."""
        self._drop(sequence, reusable(sequence, tokens, together, most))
        return len(sequence.tokens)

    def evaluate(
        self, sequence: CachedSequence, tokens: Sequence[int], outputs: int, *, urgent: bool
    ) -> None:
        """Evaluate `tokens` in `sequence`, none alone, reusing those it already holds.

        outputs: 1 if the logits after the last are wanted, which is then evaluated in any case, else 0.
        urgent: a user waits for it.
        """
        at = self.reuse(sequence, tokens, len(tokens), len(tokens) - outputs)
        while at < len(tokens):
            chunk = self.chunk(tokens[at:], self._steps.size(time.perf_counter(), urgent=urgent))
            at += len(chunk)
            self.decode(sequence, chunk, outputs if at == len(tokens) else 0)
            self.counters.prompt_tokens += len(chunk)

    @staticmethod
    def chunk(tokens: Sequence[int], size: int) -> Sequence[int]:
        """The tokens that a step of `size` (above 2) takes, so that none is left alone."""
        return tokens[: size - 1 if len(tokens) == size + 1 else size]

    def decode(
        self,
        sequence: CachedSequence,
        tokens: Sequence[int],
        outputs: int,
    ) -> None:
        """Evaluate `tokens` (at most a step) after those in `sequence`.

        outputs: the number of last tokens whose logits are wanted.
        Raises Interrupted, after which `sequence` holds the finished tokens, or EngineError.
        """
        if self.abort.is_set():
            self._steps.interrupted(time.perf_counter())
            raise Interrupted
        count, before = len(tokens), len(sequence.tokens)
        self._token[:count] = tokens
        np.add(self._count[:count], before, out=self._position[:count])
        self._output[: count - outputs] = 0
        self._output[count - outputs : count] = 1
        self._sequence_id.value = sequence.id
        self._batch.n_tokens = count
        while (code := self._take_step(count)) != 0:
            self._settle(sequence, tokens)
            if code != _ABORTED:
                raise EngineError(
                    f"llama.cpp could not evaluate the prompt (code {code}): {native_log().last_words()} "
                    "Ask again; if it keeps failing, restart the model."
                )
            if self.abort.is_set() or not self._stalled:
                self._steps.interrupted(time.perf_counter())
                raise Interrupted
            # The step waited for a processor that other programs use: repeat it with fewer threads.
            self._drop(sequence, before)
            self._rule.stalled(self.threads)
        sequence.tokens += tokens
        if count > 1 and sequence.together == before:
            sequence.together += count

    def _take_step(self, count: int) -> int:
        """Evaluate the batch once; returns llama.cpp's code."""
        threads = self._rule.threads()
        if threads != self.threads:
            llama_cpp.llama_set_n_threads(self._context, threads, threads)
            self.threads = threads
        self._stalled = False
        if self._alarm is not None and self._can_drop_part:  # otherwise the step could not be repeated
            self._alarm.begin(self._rule.limit(threads, count))
        start = time.perf_counter()
        code = int(llama_cpp.llama_decode(self._context, self._batch))
        llama_cpp.llama_synchronize(self._context)
        seconds = time.perf_counter() - start
        if self._alarm is not None:
            self._alarm.end()
        self.abort.allow_step()
        self.counters.decode_ms += 1e3 * seconds
        if code == 0:
            self._steps.took(count, seconds)
            self._rule.took(threads, count, seconds)
        elif code == _ABORTED and not self._stalled:
            self._rule.interrupted(threads, count, seconds)
        return code

    def _stop_step(self) -> None:
        """The alarm's: the running step is taken again with fewer threads."""
        self._stalled = True
        self.abort.stop_step()

    def logits(self, index: int) -> NDArray[np.float32]:
        """The logits after the last decode's token `index` (-1: the last). Valid until the next decode."""
        pointer = llama_cpp.llama_get_logits_ith(self._context, index)
        if not pointer:
            raise EngineError("llama.cpp gave no probabilities. Restart the model.")
        row: Any = self._row.from_address(ctypes.addressof(pointer.contents))
        logits: NDArray[np.float32] = np.frombuffer(row, np.float32)
        return logits

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
        llama_cpp.llama_free(self._context)

    def _set_up_batch(self) -> None:
        """One batch for all decodes, over its own arrays; the rows share one cell with the sequence's id."""
        self._token = np.zeros(self._largest, np.int32)
        self._position = np.zeros(self._largest, np.int32)
        self._output = np.zeros(self._largest, np.int8)
        self._count = np.arange(self._largest, dtype=np.int32)
        self._ones = np.ones(self._largest, np.int32)
        self._sequence_id = ctypes.c_int32(0)
        cell = ctypes.pointer(self._sequence_id)
        self._cells = (ctypes.POINTER(ctypes.c_int32) * self._largest)(*[cell] * self._largest)

        def pointer(array: NDArray[Any], kind: Any) -> Any:
            return array.ctypes.data_as(ctypes.POINTER(kind))

        self._batch = llama_cpp.llama_batch(
            n_tokens=0,
            token=pointer(self._token, ctypes.c_int32),
            embd=None,
            pos=pointer(self._position, ctypes.c_int32),
            n_seq_id=pointer(self._ones, ctypes.c_int32),
            seq_id=ctypes.cast(self._cells, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
            logits=pointer(self._output, ctypes.c_int8),
        )

    def _warm_up(self) -> bool:
        """Run the first decode, which reads the weights; returns whether part of a sequence can be dropped.

        Recurrent architectures keep a state, not positions. Raises EngineError if the model cannot decode.
        """
        first = self._sequences[0]
        self.decode(first, [0, 0], 1)
        self.logits(-1)
        able = bool(llama_cpp.llama_memory_seq_rm(self._memory, first.id, 1, -1))
        self._drop(first, 0)
        self.counters = Counters()
        return able

    def _drop(self, sequence: CachedSequence, start: int) -> None:
        """Remove the tokens from `start` on from a sequence, or all where a part cannot be removed."""
        if start >= len(sequence.tokens) > 0:
            return
        start = start if self._can_drop_part else 0
        llama_cpp.llama_memory_seq_rm(self._memory, sequence.id, start or -1, -1)
        del sequence.tokens[start:]
        sequence.together = min(sequence.together, start)

    def _settle(self, sequence: CachedSequence, tokens: Sequence[int]) -> None:
        """After a stopped decode: ask llama.cpp which tokens are left in the cache."""
        kept = llama_cpp.llama_memory_seq_pos_max(self._memory, sequence.id) + 1
        sequence.tokens = (sequence.tokens + list(tokens))[:kept]
        sequence.together = min(sequence.together, kept)
        if not self._can_drop_part:
            # Nor was the stopped step undone: the state is undefined.
            self._drop(sequence, 0)
