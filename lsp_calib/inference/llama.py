"""llama.cpp through its low-level API. Only the model process imports this.

The binding's own `logprobs` are not used: they need the logits of every prompt position, and its issue
#1983 shows them shifted by one. Here the last position's logits are read and normalised directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError, ModelFileError, RequestCancelledError
from lsp_calib.inference.engine import Request
from lsp_calib.inference.vocabulary import Vocabulary
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

_BATCH = 512
# A cancelled prompt keeps what was finished in steps of this many tokens. On a CPU small steps cost little
# (440 tokens of SmolLM2: 1.35 s in steps of 64, 1.30 s in one; 402 of Qwen 1.5B: no difference), and one who
# types faster than the prompt is evaluated gets to its end all the same. A GPU wants large ones.
_STEP = 64
_WARNING = 3  # GGML_LOG_LEVEL_WARN; errors are 4
_ABORTED = 2
# A prompt that had to be shortened keeps this many tokens free beside the answer.
_SPARE = 8


class AbortFlag:
    """A flag that stops a running decode, read by native code without the interpreter's lock.

    llama.cpp asks a callback at every graph node. A Python callback would take the lock each time; libc's
    `strlen` has the right shape instead: over this buffer it is 0 until the first byte is set.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        libc = ctypes.cdll.msvcrt if os.name == "nt" else ctypes.CDLL(None)
        self.callback = ctypes.cast(libc.strlen, llama_cpp.llama_cpp.ggml_abort_callback)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self) -> None:
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        self._buffer[0] = b"\x00"

    def is_set(self) -> bool:
        return self._buffer[0] != b"\x00"


class LlamaModel:
    """A loaded model with one KV-cache sequence.

    path: a GGUF file. context: positions to keep. threads: 0 chooses. on_progress: called with the loaded
    fraction in [0, 1]. Raises ModelFileError, with llama.cpp's own words, if it cannot be loaded.
    """

    def __init__(
        self,
        path: Path,
        *,
        context: int,
        threads: int = 0,
        gpu_layers: int = 0,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.abort = AbortFlag()
        self._log: deque[str] = deque(maxlen=8)
        self._log_callback = llama_cpp.llama_log_callback(self._keep_log)
        llama_cpp.llama_log_set(self._log_callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()

        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = gpu_layers

        def progress(fraction: float, _: ctypes.c_void_p) -> bool:
            if on_progress is not None:
                on_progress(fraction)
            return True

        self._progress = llama_cpp.llama_progress_callback(progress)
        model_params.progress_callback = self._progress
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), model_params)
        if not self._model:
            raise ModelFileError(
                f"The model file {path} cannot be loaded. llama.cpp says: {self._last_words()}"
            )

        params = llama_cpp.llama_context_default_params()
        trained = llama_cpp.llama_model_n_ctx_train(self._model)
        params.n_ctx = min(context, trained) if trained > 0 else context
        params.n_batch = _BATCH
        params.n_ubatch = _BATCH if gpu_layers else _STEP
        params.n_threads = params.n_threads_batch = threads or default_threads()
        params.no_perf = True
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise ModelFileError(f"No context for the model {path}. llama.cpp says: {self._last_words()}")
        llama_cpp.llama_set_abort_callback(self._context, self.abort.callback, self.abort.data)

        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._positions = int(params.n_ctx)
        self.vocabulary = Vocabulary(
            [self._piece(token) for token in range(self._size)],
            lambda text: self.tokenize(text, control=False),
        )
        self._cached: list[int] = []

    def tokenize(self, text: bytes, *, control: bool) -> list[int]:
        """Token ids of UTF-8 bytes; control tokens are recognised only where `control` is set."""
        room = len(text) + 8
        tokens = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self._vocab, text, len(text), tokens, room, False, control)
        if count < 0:
            raise EngineError("A text could not be tokenised.")
        return list(tokens[:count])

    def generate(self, request: Request, *, queued: float = 0.0) -> Generation:
        """Answer a request, greedily. queued: seconds it has already waited.

        Raises RequestCancelledError if the abort flag was set, EngineError if llama.cpp fails.
        """
        start = time.perf_counter()
        prompt = self._tokenize_prompt(request.prompt, self._positions - request.max_tokens - _SPARE)
        reused = self._evaluate(prompt)
        prompt_done = time.perf_counter()
        answer = _Answer(request.prompt.forced)
        # Forced characters may take tokens of their own; they do not use up the answer's.
        most = request.max_tokens + len(answer.remaining)
        for step in range(min(most, self._positions - len(prompt))):
            if step:
                self._decode([answer.last])
            self._next_token(answer)
            if answer.stop is not None or len(answer.tokens) >= request.max_tokens:
                break
        end = time.perf_counter()
        return answer.finish(
            Timing(
                queue_ms=1e3 * queued,
                prompt_tokens=len(prompt),
                prompt_reused=reused,
                prompt_ms=1e3 * (prompt_done - start),
                generate_ms=1e3 * (end - prompt_done),
                total_ms=1e3 * (end - start + queued),
            )
        )

    def _next_token(self, answer: _Answer) -> None:
        logits = self._logits()
        whole = log_sum_exp(logits)
        typed_logprob = 0.0
        if answer.remaining:
            allowed = self.vocabulary.allowed(answer.remaining)
            token = int(allowed[np.argmax(logits[allowed])])
            typed_logprob = log_sum_exp(logits[allowed]) - whole
        else:
            token = int(np.argmax(logits))
        logprob = float(logits[token]) - whole
        if llama_cpp.llama_vocab_is_eog(self._vocab, token):
            answer.end(token, logprob)
        else:
            answer.add(token, logprob, typed_logprob, self.vocabulary.pieces[token])

    def _evaluate(self, prompt: list[int]) -> int:
        """Bring the cache to `prompt`, reusing its longest common prefix; returns how many were reused."""
        same = 0
        for old, new in zip(self._cached, prompt[:-1], strict=False):
            if old != new:
                break
            same += 1
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, same, -1):
            # Some architectures cannot drop a part of a sequence.
            llama_cpp.llama_memory_clear(self._memory, True)
            same = 0
        del self._cached[same:]
        for start in range(same, len(prompt), _BATCH):
            self._decode(prompt[start : start + _BATCH])
        return same

    def _decode(self, tokens: list[int]) -> None:
        if self.abort.is_set():
            raise RequestCancelledError("The request was cancelled.")
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code == 0:
            self._cached += tokens
            return
        # What was evaluated before the stop stays in the cache: ask, rather than assume.
        kept = llama_cpp.llama_memory_seq_pos_max(self._memory, 0) + 1
        self._cached = (self._cached + tokens)[:kept]
        if code == _ABORTED:
            raise RequestCancelledError("The request was cancelled.")
        raise EngineError(f"llama.cpp could not evaluate the prompt (code {code}). {self._last_words()}")

    def _tokenize_prompt(self, prompt: Prompt, room: int) -> list[int]:
        pieces = [
            (kind, self.tokenize(text.encode("utf-8", "replace"), control=kind is Segment.CONTROL))
            for kind, text in prompt.segments
        ]
        # Callers keep to a window in characters; where that was too many tokens, the oldest text goes.
        excess = sum(len(tokens) for _, tokens in pieces) + 1 - room
        shortened: list[int] = []
        if llama_cpp.llama_vocab_get_add_bos(self._vocab):
            shortened.append(llama_cpp.llama_vocab_bos(self._vocab))
        for kind, tokens in pieces:
            cut = min(max(excess, 0), len(tokens)) if kind is Segment.TEXT else 0
            excess -= cut
            shortened += tokens[cut:]
        if excess > 0:
            raise EngineError("The prompt is too long for the model's context.")
        # An empty document: something has to be evaluated before there are logits.
        return shortened or [self._first_token()]

    def _first_token(self) -> int:
        bos = int(llama_cpp.llama_vocab_bos(self._vocab))
        return bos if bos >= 0 else self.tokenize(b"\n", control=False)[0]

    def _logits(self) -> NDArray[np.float32]:
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._size,))

    def _piece(self, token: int) -> bytes:
        if llama_cpp.llama_vocab_is_control(self._vocab, token):
            return b""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, size, 0, False)
            if count >= 0:
                return buffer.raw[:count]
            size = -count

    def _keep_log(self, level: int, text: bytes, _: ctypes.c_void_p) -> None:
        if level >= _WARNING:
            self._log.append(text.decode("utf-8", "replace").strip())

    def _last_words(self) -> str:
        return " ".join(line for line in self._log if line) or "nothing"


class _Answer:
    """An answer as it grows: bytes still to be reproduced, the text so far, the tokens that carry it."""

    def __init__(self, forced: str) -> None:
        self.remaining = forced.encode("utf-8", "replace")
        self.tokens: list[tuple[int, float, float, bytes]] = []
        self.stop: Stop | None = None
        self.last = -1

    def add(self, token: int, logprob: float, typed_logprob: float, piece: bytes) -> None:
        self.last = token
        new = piece[len(self.remaining) :]
        self.remaining = self.remaining[len(piece) :]
        if not new:
            return
        line, newline, _ = new.partition(b"\n")
        self.tokens.append((token, logprob, typed_logprob, line))
        if newline:
            self.stop = Stop.LINE

    def end(self, token: int, logprob: float) -> None:
        self.last = token
        self.tokens.append((token, logprob, 0.0, b""))
        self.stop = Stop.END_OF_TEXT

    def finish(self, timing: Timing) -> Generation:
        text = b"".join(piece for *_, piece in self.tokens)
        return Generation(
            text=text.decode("utf-8", "replace").rstrip("\r"),
            tokens=tuple(
                Token(token, logprob, typed_logprob, piece.decode("utf-8", "replace"))
                for token, logprob, typed_logprob, piece in self.tokens
            ),
            stop=self.stop or Stop.LENGTH,
            timing=timing,
        )


def log_sum_exp(logits: NDArray[np.float32]) -> float:
    """Logarithm of the softmax's denominator.

    float32 exponentials with a float64 sum: over 150,000 logits ten times faster than float64 throughout,
    and 2e-7 from it.
    """
    peak = logits.max()
    return float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))


def default_threads() -> int:
    """Threads to decode with: the processors this process may use, but no more than physical cores as a rule.

    Threads spin at barriers, so one too many costs far more than one too few.
    """
    with contextlib.suppress(AttributeError):
        available = len(os.sched_getaffinity(0))
        return available if available <= 4 else available // 2
    available = os.cpu_count() or 1
    return available if available <= 4 else available // 2
