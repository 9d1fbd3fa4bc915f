"""Requests on their way through llama.cpp: a generation, or the scoring of a text.

A run holds the tokens it has and nothing of the cache: each `advance` brings a sequence to these tokens,
which costs nothing where they are still there. So a run goes on after whatever happened in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Priority, Request, ScoreRequest
from lsp_calib.inference.local.answer import Answer, Text
from lsp_calib.inference.local.kv import CachedSequence
from lsp_calib.inference.local.sampling import Normaliser
from lsp_calib.inference.local.vocabulary import Vocabulary
from lsp_calib.values import Generation, Softmax, Stop, Timing, Token

if TYPE_CHECKING:
    from lsp_calib.inference.local.decoder import Decoder
    from lsp_calib.inference.local.native import Weights


class Machine:
    """What runs are made with: the weights, their vocabulary, and the one decoder."""

    def __init__(self, weights: Weights, decoder: Decoder) -> None:
        self.weights = weights
        self.decoder = decoder
        self.vocabulary = Vocabulary(weights.pieces(), weights.tokenize)
        self.normaliser = Normaliser(weights.size)

    def evaluate(
        self, sequence: CachedSequence, tokens: Sequence[int], outputs: int, priority: Priority | None
    ) -> None:
        """Bring `sequence` to `tokens` by the shortest way.

        outputs: 1 if the logits after the last are wanted, which is then evaluated in any case, else 0.
        priority: whose steps it takes; what is idle counts as ahead. None: steps that are always the same.
        """
        decoder = self.decoder
        ahead = priority is Priority.IDLE
        at = decoder.reuse(sequence, tokens, len(tokens) - outputs)
        while at < len(tokens):
            size = decoder.steady if priority is None else decoder.step(urgent=not ahead)
            chunk = tokens[at : at + size]
            at += len(chunk)
            decoder.decode(sequence, chunk, outputs if at == len(tokens) else 0, ahead=ahead)
            if ahead:
                decoder.counters.ahead_tokens += len(chunk)
            else:
                decoder.counters.prompt_tokens += len(chunk)

    def normalised(self, logits: NDArray[np.float32]) -> float:
        """`log_sum_exp` of a row. Raises EngineError if the model computes no numbers."""
        whole = self.normaliser.log_sum_exp(logits)
        if not math.isfinite(whole):
            raise EngineError(
                "The model's probabilities are not numbers: its file is damaged, or of a kind this version "
                "of llama.cpp cannot run. Check it with `lsp-calib models verify`."
            )
        return whole

    def softmax(
        self, logits: NDArray[np.float32], token: int, temperatures: tuple[float, ...]
    ) -> Softmax | None:
        return self.normaliser.softmax(logits, token, temperatures) if temperatures else None


class AheadRun:
    """A prompt that is evaluated for requests to come. prompt: its tokens."""

    def __init__(self, machine: Machine, prompt: list[int]) -> None:
        self.enough = False
        self._machine = machine
        self._tokens = prompt

    def advance(self) -> Generation:
        """Go on until the end. Raises Interrupted (call again), EngineError."""
        decoder = self._machine.decoder
        # Not in the sequence that the latest interactive request used.
        if decoder.documents > 1 and not self.enough:
            sequence = decoder.sequence(Priority.IDLE, self._tokens)
            sequence.owner = self
            self._machine.evaluate(sequence, self._tokens, 0, Priority.IDLE)
        return Generation("", (), Stop.LENGTH, Timing(prompt_tokens=len(self._tokens)))

    def close(self) -> None:
        """Nothing is held: what it left in the cache is there to be found."""


class GenerationRun:
    """One generation. prompt: its tokens (not empty), which leave room for an answer in the context."""

    def __init__(
        self,
        machine: Machine,
        request: Request,
        prompt: list[int],
        *,
        on_tokens: Callable[[list[Token]], None],
        tell_after: int,
    ) -> None:
        self.enough = False
        self._machine = machine
        self._request = request
        self._on_tokens = on_tokens
        self._tell_after = tell_after
        self._prompt = len(prompt)
        self._tokens = prompt.copy()  # and the answer's, as it grows
        self._answer = Answer(request.prompt.forced, one_line=request.one_line)
        # Forced characters may take tokens of their own; they do not use up the answer's.
        self._most = min(
            request.max_tokens + len(self._answer.remaining), machine.decoder.positions - len(prompt)
        )
        sampling = request.sampling
        self._random = np.random.default_rng(sampling.seed) if sampling and sampling.temperature > 0 else None
        self._reused: int | None = None
        self._seconds = {"prompt": 0.0, "answer": 0.0}
        self._decode_ms = 0.0
        self._generation: Generation | None = None

    def advance(self) -> Generation:
        """Go on until the end. Raises Interrupted (call again), EngineError."""
        counters = self._machine.decoder.counters
        decoded = counters.decode_ms
        self._since = time.perf_counter()
        try:
            if self._generation is None and not self._over:
                self._generate()
        finally:
            self._clock()
            self._decode_ms += counters.decode_ms - decoded
        if self._generation is None:
            self._generation = self._finish()
        return self._generation

    def close(self) -> None:
        """Nothing is held: what it left in the cache may be reused."""

    @property
    def _generated(self) -> int:
        return len(self._tokens) - self._prompt

    @property
    def _over(self) -> bool:
        if self.enough and self._answer.stop is None:
            self._answer.stop = Stop.EARLY
        return (
            self._answer.stop is not None
            or len(self._answer.tokens) >= self._request.max_tokens
            or self._generated >= self._most
        )

    def _clock(self) -> None:
        now = time.perf_counter()
        self._seconds["answer" if self._generated else "prompt"] += now - self._since
        self._since = now

    def _generate(self) -> None:
        decoder = self._machine.decoder
        sequence = decoder.sequence(self._request.priority, self._tokens, self._request.document)
        if not self._request.reuse and sequence.owner is not self:
            decoder.reuse(sequence, [], 0)
        sequence.owner = self
        if self._reused is None:
            self._reused = decoder.reuse(sequence, self._tokens, self._prompt - 1)
        self._evaluate(sequence)
        self._clock()
        self._choose()
        while not self._over:
            decoder.decode(sequence, self._tokens[-1:], 1)
            self._choose()

    def _evaluate(self, sequence: CachedSequence) -> None:
        """Bring the sequence to all tokens there are."""
        if self._request.reuse:
            self._machine.evaluate(sequence, self._tokens, 1, self._request.priority)
            return
        # In the same batches as if nothing had come between: the answer's tokens one by one.
        if len(sequence.tokens) < self._prompt:
            self._machine.evaluate(sequence, self._tokens[: self._prompt], 1, None)
        for token in self._tokens[len(sequence.tokens) :]:
            self._machine.decoder.decode(sequence, [token], 1)

    def _choose(self) -> None:
        """Take the next token from the logits there are."""
        machine, answer, request = self._machine, self._answer, self._request
        logits = machine.decoder.logits(-1)
        whole = machine.normalised(logits)
        typed_logprob = 0.0
        if answer.remaining:
            allowed = machine.vocabulary.allowed(answer.remaining)
            among = logits[allowed]
            token = int(allowed[self._pick(among)])
            typed_logprob = min(machine.normaliser.log_sum_exp(among) - whole, 0.0)
        else:
            token = self._pick(logits)
        logprob = min(float(logits[token]) - whole, 0.0)
        softmax = machine.softmax(logits, token, request.temperatures)
        self._tokens.append(token)
        machine.decoder.counters.generated_tokens += 1
        if machine.weights.ends_text(token):
            answer.end(token, logprob, softmax)
        else:
            answer.add(token, logprob, typed_logprob, machine.vocabulary.pieces[token], softmax)
        if len(answer.tokens) == self._tell_after > 0:
            self._on_tokens(answer.tokens.copy())
            self._tell_after = 0

    def _pick(self, logits: NDArray[np.float32]) -> int:
        sampling = self._request.sampling
        if sampling is None or self._random is None:
            return int(logits.argmax())
        return self._machine.normaliser.draw(logits, sampling.temperature, self._random.random())

    def _finish(self) -> Generation:
        prompt, answer = self._seconds["prompt"], self._seconds["answer"]
        return self._answer.finish(
            Timing(
                prompt_tokens=self._prompt,
                prompt_reused=self._reused or 0,
                prompt_ms=1e3 * prompt,
                generate_ms=1e3 * answer,
                total_ms=1e3 * (prompt + answer),
                decode_ms=self._decode_ms,
                generated_tokens=self._generated,
            )
        )


class ScoreRun:
    """The scoring of a text after a prompt. prompt (not empty), text: their tokens."""

    def __init__(
        self,
        machine: Machine,
        request: ScoreRequest,
        prompt: list[int],
        text: list[int],
        *,
        on_tokens: Callable[[list[Token]], None],
    ) -> None:
        self.enough = False
        self._machine = machine
        self._request = request
        self._on_tokens = on_tokens
        self._prompt = len(prompt)
        self._tokens = prompt + text
        self._text = text
        self._characters = Text()
        self._scored = 0

    def advance(self) -> None:
        """Go on until the end. Raises Interrupted (call again), EngineError."""
        decoder = self._machine.decoder
        if self._scored == len(self._text) or self.enough:
            return
        sequence = decoder.sequence(self._request.priority, self._tokens[:-1])
        # The probabilities of a token are those after the one before it: the first needs the prompt's last.
        sequence.owner = self
        self._machine.evaluate(sequence, self._tokens[: self._prompt - 1 + self._scored], 0, None)
        while self._scored < len(self._text) and not self.enough:
            start = self._prompt - 1 + self._scored
            chunk = self._tokens[start : min(start + decoder.steady, len(self._tokens) - 1)]
            decoder.decode(sequence, chunk, len(chunk))
            decoder.counters.prompt_tokens += len(chunk)
            scored = [self._token(index) for index in range(len(chunk))]
            self._scored += len(chunk)
            self._on_tokens(scored)

    def close(self) -> None:
        """Nothing is held: what it left in the cache may be reused."""

    def _token(self, index: int) -> Token:
        """The scored token whose probabilities are in row `index` of the last decode."""
        machine = self._machine
        token = self._text[self._scored + index]
        logits = machine.decoder.logits(index)
        logprob = min(float(logits[token]) - machine.normalised(logits), 0.0)
        text = self._characters.add(machine.vocabulary.pieces[token])
        return Token(token, logprob, 0.0, text, machine.softmax(logits, token, self._request.temperatures))
