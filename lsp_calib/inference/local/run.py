"""Requests run through llama.cpp: a generation, or a prompt evaluated ahead.

A run holds its tokens and no part of the cache: each `advance` evaluates the tokens in a sequence, which
costs nothing where they are cached. So a run can resume whatever happened in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import EngineError
from lsp_calib.inference.engine import Observe, Priority, Request
from lsp_calib.inference.generation.run import Evaluator, GenerationRun
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.values import Generation, Observation, Stop, Timing, Token

if TYPE_CHECKING:
    from lsp_calib.inference.local.decoder import Decoder
    from lsp_calib.inference.local.native import Weights
    from lsp_calib.inference.local.states import Stream


# From logits to log-probabilities and to a choice, with no allocation of a vocabulary's size. float32
# exponentials are summed in float32 within blocks and in float64 over these: over 150,000 logits ten times
# faster than float64 throughout, and 2e-7 from it.
_BLOCK = 512
# exp(-200) is 0 in float32: no smaller logarithm of a probability can be told from another.
LEAST = -200.0


@attrs.frozen(eq=False)
class Distribution:
    """The softmax of one row of logits, in scratch arrays that the next call of `Normaliser` overwrites.

    below: logits minus the largest one, over the temperature. weights: exponentials of `below`; total: their
        sum, at least 1.
    log_sum_exp: logarithm of the softmax's denominator. Neither is finite where a logit is NaN or plus
        infinity, or all are minus infinity; then nothing else may be used.
    """

    below: NDArray[np.float32]
    weights: NDArray[np.float32]
    total: float
    log_sum_exp: float

    def entropy(self) -> float:
        """In nats, between 0 and the logarithm of the number of logits."""
        # All products have one sign, so that float32 is exact enough within a block.
        mean = _dot(self.below, self.weights) / self.total
        if math.isnan(mean):  # a logit of minus infinity, times a weight of 0
            np.maximum(self.below, np.float32(LEAST), out=self.below)
            mean = _dot(self.below, self.weights) / self.total
        return max(math.log(self.total) - mean, 0.0)

    def log_probability(self, ids: NDArray[np.int64]) -> float:
        """Natural logarithm of the probability of `ids` together, at least `LEAST`: that underflows."""
        among = float(self.weights[ids].sum(dtype=np.float64))
        return max(math.log(among / self.total), LEAST) if among > 0.0 else LEAST


class Normaliser:
    """The softmax of one row of logits at a time, in scratch arrays that are kept.

    size: of the vocabulary. Rows are float32, of shape (size,) or shorter; they are never written to.
    """

    def __init__(self, size: int) -> None:
        self._weights = np.empty(size, np.float32)
        self._below = np.empty(size, np.float32)

    def distribution(self, logits: NDArray[np.float32], temperature: float = 1.0) -> Distribution:
        """The softmax of `logits` / temperature (above 0), from one pass of exponentials."""
        below, weights = self._below[: logits.size], self._weights[: logits.size]
        peak = logits.max()
        if not math.isfinite(peak):
            return Distribution(below, weights, math.nan, math.nan)
        np.subtract(logits, peak, out=below)
        if temperature != 1.0:
            np.multiply(below, np.float32(1.0 / temperature), out=below)
        np.exp(below, out=weights)
        total = _sum(weights)
        return Distribution(below, weights, total, float(peak) / temperature + math.log(total))

    def draw(self, logits: NDArray[np.float32], temperature: float, uniform: float) -> int:
        """The index drawn from the softmax at `temperature` (above 0) by a number uniform in [0, 1)."""
        weights = self.distribution(logits, temperature).weights
        # Find the block first: a running float64 sum over all would take ten times as long as all the rest.
        blocks = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)).astype(np.float64).cumsum()
        target = uniform * blocks[-1]
        block = min(int(blocks.searchsorted(target, side="right")), blocks.size - 1)
        start = block * _BLOCK
        inside = weights[start : start + _BLOCK].cumsum(dtype=np.float64)
        before = blocks[block - 1] if block else 0.0
        at = int(inside.searchsorted(target - before, side="right"))
        # Rounding may point past a block's end: then take the block's last token that has any weight.
        return start + (at if at < inside.size else int(inside.searchsorted(inside[-1])))


def best_two(logits: NDArray[np.float32]) -> tuple[int, int | None]:
    """The indices of the largest logit and of the second largest; None if there is only one."""
    first = int(logits.argmax())
    before, after = logits[:first], logits[first + 1 :]
    places = [int(before.argmax())] if before.size else []
    places += [first + 1 + int(after.argmax())] if after.size else []
    return first, max(places, key=lambda place: logits[place], default=None)


# Sums with `einsum` rather than `dot`, whose libraries may start threads of their own beside llama.cpp's.


def _sum(values: NDArray[np.float32]) -> float:
    whole = values.size // _BLOCK * _BLOCK
    blocks = np.einsum("ij->i", values[:whole].reshape(-1, _BLOCK))
    return float(blocks.sum(dtype=np.float64)) + float(values[whole:].sum(dtype=np.float64))


def _dot(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    whole = one.size // _BLOCK * _BLOCK
    blocks = np.einsum("ij,ij->i", one[:whole].reshape(-1, _BLOCK), other[:whole].reshape(-1, _BLOCK))
    return float(blocks.sum(dtype=np.float64)) + float(np.einsum("i,i->", one[whole:], other[whole:]))


# A margin is finite, so that it can be averaged and written down: one token alone may be possible.
_LARGEST_MARGIN = 100.0
# So many alternatives are listed, as interfaces to models do (Spiess et al. 2024, 3.1.2).
_LIKELIEST = 5


class Observer:
    """Observes what a request asks for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def observe(
        self,
        wanted: Observe,
        distribution: Distribution,
        among: NDArray[np.float32],
        allowed: NDArray[np.int64] | None = None,
    ) -> Observation | None:
        """None where nothing is wanted. among: logits of the tokens that may come next, whose ids are
        `allowed` (None: all)."""
        if not wanted:
            return None
        margin = second = entropy = None
        if Observe.MARGIN in wanted:
            first, at = best_two(among)
            margin = _LARGEST_MARGIN
            if at is not None:
                margin = min(float(among[first]) - float(among[at]), _LARGEST_MARGIN)
                second = at if allowed is None else int(allowed[at])
        if Observe.ENTROPY in wanted:
            entropy = distribution.entropy()
        return Observation(entropy, margin, second)

    def answer(self, words: Sequence[str], logits: NDArray[np.float32], whole: Distribution) -> Observation:
        """The words of a request, and what is likeliest. whole: the distribution of `logits`."""
        probabilities = (whole.log_probability(self._vocabulary.spelling(word)) for word in words)
        best = np.argpartition(-logits, min(_LIKELIEST, logits.size) - 1)[:_LIKELIEST]
        best = best[np.argsort(-logits[best], kind="stable")]
        return Observation(
            words=tuple(probabilities),
            likeliest=tuple(
                (
                    self._vocabulary.pieces[id].decode("utf-8", "replace"),
                    max(min(float(logits[id]) - whole.log_sum_exp, 0.0), LEAST),
                )
                for id in best.tolist()
            ),
        )


class LocalEvaluator(Evaluator):
    """The weights, their vocabulary, and the one decoder."""

    def __init__(self, weights: Weights, decoder: Decoder) -> None:
        vocabulary = Vocabulary(weights.pieces(), weights.tokenize)
        super().__init__(vocabulary, decoder.positions, decoder.counters)
        self.weights = weights
        self.decoder = decoder
        self.normaliser = Normaliser(weights.size)
        self.observer = Observer(self.vocabulary)

    def distribution(self, logits: NDArray[np.float32]) -> Distribution:
        """The softmax of a row. Raises EngineError if it is not finite."""
        whole = self.normaliser.distribution(logits)
        if not math.isfinite(whole.log_sum_exp):
            raise EngineError(
                "The model's probabilities are not numbers: its file is damaged, or of a kind this version "
                "of llama.cpp cannot run. Check it with `lsp-calib models verify`."
            )
        return whole


ANSWER = 64
"""Tokens of the answer that a prompt evaluated ahead leaves room for: those of a completed line."""


class AheadRun:
    """A prompt evaluated for later requests. prompt: its tokens."""

    def __init__(self, evaluator: LocalEvaluator, prompt: list[int]) -> None:
        self._evaluator = evaluator
        self._tokens = prompt
        self._reused: int | None = None
        self._seconds = self._decode_ms = 0.0

    def advance(self) -> Generation:
        """Continue until the end. Raises Interrupted (call again to resume), EngineError."""
        decoder = self._evaluator.decoder
        began, decoded = time.perf_counter(), decoder.counters.decode_ms
        try:
            length = len(self._tokens)
            stream = decoder.stream(Priority.INTERACTIVE, "", length + ANSWER)
            if not decoder.would_lose(stream, self._tokens):
                reused = decoder.come_to(stream, self._tokens, length, length)
                self._reused = reused if self._reused is None else self._reused
                decoder.evaluate(stream, self._tokens, 0)
        finally:
            self._seconds += time.perf_counter() - began
            self._decode_ms += decoder.counters.decode_ms - decoded
        timing = Timing(
            prompt_tokens=len(self._tokens),
            # What was not evaluated counts as known, so that nothing counts as done.
            prompt_reused=len(self._tokens) if self._reused is None else self._reused,
            prompt_ms=1e3 * self._seconds,
            total_ms=1e3 * self._seconds,
            decode_ms=self._decode_ms,
        )
        return Generation("", (), Stop.LENGTH, timing)


class LocalGenerationRun(GenerationRun):
    """One generation. prompt: its tokens (not empty), which leave room for an answer in the context."""

    def __init__(self, evaluator: LocalEvaluator, request: Request, prompt: list[int]) -> None:
        super().__init__(evaluator, request, prompt)
        self._evaluator = evaluator
        sampling = request.sampling
        self._random = np.random.default_rng(sampling.seed) if sampling and sampling.temperature > 0 else None
        if any(evaluator.weights.ends_text(token) for token in request.given):
            self._builder.stop = Stop.END_OF_TEXT

    def _generate(self) -> None:
        decoder, request = self._evaluator.decoder, self._request
        stream = decoder.stream(request.priority, request.document, self._prompt + self._most)
        afresh = self._reused is None and not (request.reuse or request.given)  # these go on from an answer
        tokens = [] if afresh else self._tokens
        typed = request.priority is Priority.INTERACTIVE
        reused = decoder.come_to(stream, tokens, self._prompt, len(self._tokens) - 1, typed=typed)
        self._reused = reused if self._reused is None else self._reused
        while not self._over:
            self._evaluate(stream)
            if not self._chosen:
                self._clock()  # the time until now was the prompt's
            self._choose()

    def _evaluate(self, stream: Stream) -> None:
        """Evaluate all tokens so far in the stream: the prompt's together, those of the answer one by one.

        So a probability does not depend on whether the run was interrupted, nor on what is cached.
        """
        decoder = self._evaluator.decoder
        decoder.reuse(stream, self._tokens, self._prompt, len(self._tokens) - 1)
        if len(stream.tokens) < self._prompt:
            decoder.evaluate(stream, self._tokens[: self._prompt], int(not self._generated))
        for token in self._tokens[len(stream.tokens) :]:
            decoder.decode(stream, [token], 1)

    def _choose(self) -> None:
        """Choose the next token from the last logits."""
        evaluator, wanted = self._evaluator, self._request.observe
        remaining, required = self._builder.remaining, self._required
        logits = evaluator.decoder.logits(-1)
        # Observe first: what follows overwrites the distribution's arrays.
        distribution = evaluator.distribution(logits)
        words = self._request.words
        answer = evaluator.observer.answer(words, logits, distribution) if words else None
        typed_logprob = 0.0
        if required:
            allowed = evaluator.vocabulary.allowed(required)
            among = logits[allowed]
            seen = evaluator.observer.observe(wanted, distribution, among, allowed)
            id = int(allowed[self._pick(among)])
            if remaining:
                # What is typed is known, and the lead is not: its tokens count against all that could come.
                typed = among if required == remaining else logits[evaluator.vocabulary.allowed(remaining)]
                agreeing = evaluator.normaliser.distribution(typed)
                typed_logprob = min(agreeing.log_sum_exp - distribution.log_sum_exp, 0.0)
        else:
            seen = evaluator.observer.observe(wanted, distribution, logits)
            id = self._pick(logits)
        if answer is not None:
            seen = attrs.evolve(seen or Observation(), words=answer.words, likeliest=answer.likeliest)

        def token(id: int, seen: Observation | None) -> Token:
            logprob = min(float(logits[id]) - distribution.log_sum_exp, 0.0)
            return Token(id, logprob, typed_logprob, "", seen)

        ended = evaluator.weights.ends_text(id)
        if required and self._random is None:
            # Beside a choice that is not among the allowed ones there is no second.
            alone = seen and Observation(entropy=seen.entropy)
            self._reproduce(token(id, seen), token(int(logits.argmax()), alone), ended=ended)
        else:
            self._take(token(id, seen), ended=ended)
        self._follow_lead()

    def _pick(self, logits: NDArray[np.float32]) -> int:
        sampling = self._request.sampling
        if sampling is None or self._random is None:
            return int(logits.argmax())
        return self._evaluator.normaliser.draw(logits, sampling.temperature, self._random.random())
