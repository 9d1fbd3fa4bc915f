"""llama.cpp's context: decoding, a KV cache of two streams, and copies of what was in one.

Only the model process imports this.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import Counters, Interrupted
from lsp_calib.inference.engine import Priority
from lsp_calib.inference.local.native import AbortFlag, Weights, native_log
from lsp_calib.inference.local.states import States, Stream
from lsp_calib.inference.local.steps import USUAL, Alarm, StepSize, ThreadRule
from lsp_calib.inference.models.demands import STREAMS
from lsp_calib.inference.processor import default_threads

_ABORTED = 2  # llama_decode's answer when the abort callback stopped it


# Tokens evaluated at once by a GPU, which wants them large.
_ON_GPU = 512
# Positions of a stream at first, and those that a longer prompt adds at least, up to the whole context. They
# take memory whether they are used or not.
_AT_FIRST, _MORE = 1024, 512


class Decoder:
    """Evaluates tokens in one of two streams of the KV cache, and gives the logits after them.

    context: positions of each stream at most, no more than the model was trained on. Streams are apart, so
    that tokens in one do not slow down attention in the other: one is for interactive requests, the other for
    work in the background. What an interactive request displaces is kept as a state.
    threads: 0 takes `default_threads`. cache_bytes: for states. Raises ModelFileError if there is no memory
    for it.
    """

    def __init__(
        self, weights: Weights, *, context: int, threads: int, on_gpu: bool, cache_bytes: int
    ) -> None:
        self.abort = AbortFlag()
        self.counters = Counters()
        self._largest = _ON_GPU if on_gpu else USUAL
        self.steps = StepSize(self._largest)
        self.positions = min(context, weights.trained_context) if weights.trained_context > 0 else context
        self.threads = threads or default_threads()
        self._rule = ThreadRule(self.threads)
        self._stalled = False
        self._weights = weights
        self._on_gpu = on_gpu
        self._interactive, self._background = self._streams = [Stream(id=id) for id in range(STREAMS)]
        self._states = States(self, cache_bytes)
        self._row = ctypes.c_float * weights.size
        self._set_up_batch()
        self._length = min(_AT_FIRST, self.positions)
        try:
            self._context = self._make_context(self._length)
        except EngineError as error:
            raise ModelFileError(str(error)) from error
        self._alarm = Alarm(self._stop_step) if self.threads > 1 else None
        self.drops_part = False
        try:
            self.drops_part = self._warm_up()
        except EngineError as error:
            self.close()
            raise ModelFileError(f"The model loads, but does not run. {error}") from error

    def _make_context(self, length: int) -> Any:
        """A context of streams of so many positions. Raises EngineError if there is no memory for it."""
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = length * STREAMS
        params.n_seq_max = STREAMS
        params.kv_unified = False
        if not self._on_gpu:
            # On processors its results depend on the number of threads and on the size of a step.
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.n_batch = params.n_ubatch = self._largest
        params.n_threads = params.n_threads_batch = self.threads
        params.no_perf = True
        context = llama_cpp.llama_init_from_model(self._weights.model, params)
        if not context:
            raise EngineError(
                f"There is not enough memory to run the model. llama.cpp says: {native_log().last_words()}"
            )
        llama_cpp.llama_set_abort_callback(context, self.abort.callback, self.abort.data)
        return context

    def stream(self, priority: Priority, document: str, length: int) -> Stream:
        """The stream for a request. length: of its prompt and its answer.

        document: the one it belongs to, if known. An idle answer for a document is the beginning of an
        interactive one; any other, such as a summary, is no more for who types than background work.
        Raises EngineError if there is no memory for so long a prompt.
        """
        self._lengthen(min(length, self.positions))
        is_apart = priority is Priority.BACKGROUND or (priority is Priority.IDLE and not document)
        return self._background if is_apart else self._interactive

    def come_to(
        self, stream: Stream, tokens: Sequence[int], together: int, most: int, *, typed: bool = False
    ) -> int:
        """Have of the first `most` of `tokens` in a stream what was evaluated before; returns their number.

        together: how many of `tokens` are evaluated together. typed: an interactive request asks for them.
        An interactive place that would be lost is kept, and one that was kept is copied back.
        """
        if stream is self._interactive and self.drops_part:  # the end of a state is of no use to another
            self._states.come_to(stream, tokens, together, most, typed=typed)
        return self.reuse(stream, tokens, together, most)

    def would_lose(self, stream: Stream, tokens: Sequence[int]) -> bool:
        """Whether the place that somebody types at would be lost for `tokens`, as its state is too large."""
        kept = stream.reusable(tokens, len(tokens), len(tokens))
        return stream.typed and stream.loses(kept) and not self._states.may_keep(stream)

    def resume(self) -> None:
        """A run begins or resumes: take the interruption back."""
        self.abort.clear()
        self.steps.begins()

    def reuse(self, stream: Stream, tokens: Sequence[int], together: int, most: int) -> int:
        """Keep the tokens in the stream that are `reusable` for `tokens`; returns their number."""
        self._drop(stream, stream.reusable(tokens, together, most))
        return len(stream.tokens)

    def evaluate(self, stream: Stream, tokens: Sequence[int], outputs: int) -> None:
        """Evaluate `tokens` in `stream`, none alone, reusing those it already holds.

        outputs: 1 if the logits after the last are wanted, which is then evaluated in any case, else 0.
        """
        at = self.reuse(stream, tokens, len(tokens), len(tokens) - outputs)
        while at < len(tokens):
            chunk = self.chunk(tokens[at:], self.steps.size)
            at += len(chunk)
            self.decode(stream, chunk, outputs if at == len(tokens) else 0)
            self.counters.prompt_tokens += len(chunk)

    @staticmethod
    def chunk(tokens: Sequence[int], size: int) -> Sequence[int]:
        """The tokens that a step of `size` (above 2) takes, so that none is left alone."""
        return tokens[: size - 1 if len(tokens) == size + 1 else size]

    def decode(self, stream: Stream, tokens: Sequence[int], outputs: int) -> None:
        """Evaluate `tokens` (at most a step) after those in `stream`, which is long enough.

        outputs: the number of last tokens whose logits are wanted.
        Raises Interrupted, after which `stream` holds the finished tokens, or EngineError.
        """
        if self.abort.is_set():
            raise Interrupted
        count, before = len(tokens), len(stream.tokens)
        self._token[:count] = tokens
        np.add(self._count[:count], before, out=self._position[:count])
        self._output[: count - outputs] = 0
        self._output[count - outputs : count] = 1
        self._sequence_id.value = stream.id
        self._batch.n_tokens = count
        while (code := self._take_step(count)) != 0:
            self._settle(stream, tokens)
            if code != _ABORTED:
                raise EngineError(
                    f"llama.cpp could not evaluate the prompt (code {code}): {native_log().last_words()} "
                    "Ask again; if it keeps failing, restart the model."
                )
            if self.abort.is_set() or not self._stalled:
                if count > 1:
                    self.steps.lost()
                raise Interrupted
            # The step waited for a processor that other programs use: repeat it with fewer threads.
            self._drop(stream, before)
            self._rule.stalled(self.threads)
        if count > 1:
            self.steps.finished()
        stream.tokens += tokens
        if count > 1 and stream.together == before:
            stream.together += count

    def _take_step(self, count: int) -> int:
        """Evaluate the batch once; returns llama.cpp's code."""
        threads = self._rule.threads()
        if threads != self.threads:
            llama_cpp.llama_set_n_threads(self._context, threads, threads)
            self.threads = threads
        self._stalled = False
        if self._alarm is not None and self.drops_part:  # otherwise the step could not be repeated
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
        first = self._interactive
        self.decode(first, [0, 0], 1)
        self.logits(-1)
        able = bool(llama_cpp.llama_memory_seq_rm(self._memory, first.id, 1, -1))
        self._drop(first, 0)
        self.counters = Counters()
        return able

    @property
    def _memory(self) -> Any:
        return llama_cpp.llama_get_memory(self._context)

    def _drop(self, stream: Stream, start: int) -> None:
        """Remove the tokens from `start` on from a stream, or all where a part cannot be removed."""
        if start >= len(stream.tokens) > 0:
            return
        start = start if self.drops_part else 0
        llama_cpp.llama_memory_seq_rm(self._memory, stream.id, start or -1, -1)
        del stream.tokens[start:]
        stream.together = min(stream.together, start)

    def size(self, stream: Stream) -> int:
        """Bytes of a copy of what a stream holds."""
        return int(llama_cpp.llama_state_seq_get_size(self._context, stream.id))

    def copy(self, stream: Stream) -> NDArray[np.uint8] | None:
        """A copy of what a stream holds; None if llama.cpp refuses, or without the memory."""
        try:
            data = np.empty(self.size(stream), np.uint8)
        except MemoryError:
            return None
        written = llama_cpp.llama_state_seq_get_data(self._context, _pointer(data), data.size, stream.id)
        return data if written == data.size else None

    def paste(self, stream: Stream, data: NDArray[np.uint8]) -> bool:
        """Put a copy in the place of what a stream holds. False if llama.cpp refuses: it is empty then."""
        return _paste(self._context, stream, data)

    def _lengthen(self, length: int) -> None:
        """Have streams of so many positions, with what they hold. Raises EngineError without the memory."""
        if length <= self._length:
            return
        longer = min(-(-length // _MORE) * _MORE, self.positions)
        context = self._make_context(longer)
        for stream in self._streams:
            data = self.copy(stream) if stream.tokens else None
            if data is None or not _paste(context, stream, data):
                stream.tokens, stream.together = [], 0
        llama_cpp.llama_free(self._context)
        self._context, self._length = context, longer

    def _settle(self, stream: Stream, tokens: Sequence[int]) -> None:
        """After a stopped decode: ask llama.cpp which tokens are left in the cache."""
        kept = llama_cpp.llama_memory_seq_pos_max(self._memory, stream.id) + 1
        stream.tokens = (stream.tokens + list(tokens))[:kept]
        stream.together = min(stream.together, kept)
        if not self.drops_part:
            # Nor was the stopped step undone: the state is undefined.
            self._drop(stream, 0)


def _paste(context: Any, stream: Stream, data: NDArray[np.uint8]) -> bool:
    """Put a copy into a context's stream. llama.cpp refuses with 0 and leaves part of it behind, or nothing,
    from where a decode would go on without an error. So the stream is emptied then, and this is False."""
    memory = llama_cpp.llama_get_memory(context)
    llama_cpp.llama_memory_seq_rm(memory, stream.id, -1, -1)
    if llama_cpp.llama_state_seq_set_data(context, _pointer(data), data.size, stream.id):
        return True
    llama_cpp.llama_memory_seq_rm(memory, stream.id, -1, -1)
    return False


def _pointer(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
