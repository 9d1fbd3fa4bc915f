"""Reading a given text with a local model, in this process: each token's probability, or all distributions.

For the studies alone. The numbers are those that the model process would give: the same weights and kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import LoadedModel, Priority
from lsp_calib.inference.generation.run import text_decoder
from lsp_calib.inference.models import converted
from lsp_calib.inference.process import acceleration
from lsp_calib.studies.token_level import Entries
from lsp_calib.values import Prompt

if TYPE_CHECKING:
    from lsp_calib.inference.local.llama import LlamaModel
    from lsp_calib.inference.local.run import Normaliser

# Tokens evaluated at once.
_STEP = 64

Row = NDArray[np.float32]


@attrs.frozen
class Scored:
    """A token of a text. logprob: in nats. logit, log_sum_exps: its logit, and the logarithm of the softmax's
    denominator at each of the temperatures asked for."""

    id: int
    logprob: float
    text: str
    logit: float
    log_sum_exps: tuple[float, ...]


KINDS = {
    "tokens": "<u4",
    "probabilities": "<f4",
    "targets": "<u4",
    "target_probabilities": "<f4",
    "largest": "<f4",
    "hits": "?",
}


@attrs.define(eq=False)
class Counts:
    """Whole distributions at one temperature, reduced to counts.

    sums: of each token of the vocabulary the sum of its probabilities over the positions. lists, by the names
    in `KINDS`, each of several arrays: tokens and probabilities of the entries above the wanted probability,
    position after position; of each position, the token that the text has (targets), its probability, the
    largest one, and whether the token has it (hits).
    """

    sums: FloatArray
    lists: dict[str, list[NDArray[Any]]]

    @property
    def positions(self) -> int:
        return sum(map(len, self.lists["targets"]))

    def add(self, other: Counts) -> None:
        """Raises DataError for another vocabulary."""
        if self.sums.size != other.sums.size:
            raise DataError(
                "Two texts were read with vocabularies of different sizes. Begin in a new folder."
            )
        self.sums += other.sums
        for name, arrays in self.lists.items():
            arrays += other.lists[name]

    def arrays(self) -> dict[str, Any]:
        """Each list as one array."""
        return {"sums": self.sums, **{name: np.concatenate(arrays) for name, arrays in self.lists.items()}}

    def entries(self) -> Entries:
        arrays = self.arrays()
        return Entries(
            arrays["sums"],
            arrays["tokens"].astype(np.int64),
            arrays["probabilities"],
            arrays["targets"].astype(np.int64),
            arrays["target_probabilities"],
        )


class Counting:
    """Counts distributions at one temperature. above: entries above it are listed."""

    def __init__(self, normaliser: Normaliser, size: int, temperature: float, above: float) -> None:
        self._normaliser = normaliser
        self._temperature = temperature
        self._above = np.float32(above)
        self._sums = np.zeros(size)
        self._entries: list[tuple[NDArray[np.int64], Row]] = []
        self._positions: list[tuple[int, float, float]] = []

    def add(self, logits: Row, target: int) -> None:
        """Add a position, at which the text has the token `target`."""
        probabilities = self._probabilities(logits)
        self._sums += probabilities
        tokens = np.flatnonzero(probabilities > self._above)
        self._entries.append((tokens, probabilities[tokens]))
        self._positions.append((target, float(probabilities[target]), float(probabilities.max())))

    def counted(self) -> Counts:
        """What was counted so far."""
        fields = [("target", "<u4"), ("own", "<f4"), ("largest", "<f4")]
        positions = np.array(self._positions, fields)
        tokens = [np.zeros(0, np.int64), *(tokens for tokens, _ in self._entries)]
        values = [np.zeros(0, np.float32), *(values for _, values in self._entries)]
        lists = {
            "tokens": np.concatenate(tokens),
            "probabilities": np.concatenate(values),
            "targets": positions["target"],
            "target_probabilities": positions["own"],
            "largest": positions["largest"],
            "hits": positions["own"] == positions["largest"],
        }
        of_kind = {name: [array.astype(KINDS[name])] for name, array in lists.items()}
        return Counts(self._sums.astype("<f4").astype(np.float64), of_kind)

    def _probabilities(self, logits: Row) -> Row:
        """The softmax at the temperature, in the normaliser's scratch array."""
        distribution = self._normaliser.distribution(logits, self._temperature)
        weights = distribution.weights
        np.multiply(weights, np.float32(1.0 / distribution.total), out=weights)
        # Rounding may exceed 1 by the last bit.
        np.minimum(weights, np.float32(1.0), out=weights)
        return weights


class Reader:
    """A loaded model that reads texts."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._evaluator = model.evaluator

    def score(self, prompt: Prompt, text: str, temperatures: Sequence[float] = ()) -> list[Scored]:
        """The tokens of a text behind a prompt. Raises EngineError if both are too long."""
        characters, pieces = text_decoder(), self._evaluator.vocabulary.pieces
        distribution = self._evaluator.normaliser.distribution
        scored = []
        for id, logits in self._rows(prompt, text):
            logit = float(logits[id])
            logprob = min(logit - self._evaluator.distribution(logits).log_sum_exp, 0.0)
            sums = tuple(distribution(logits, temperature).log_sum_exp for temperature in temperatures)
            scored.append(Scored(id, logprob, characters.decode(pieces[id]), logit, sums))
        return scored

    def count(self, prompt: Prompt, text: str, temperatures: Sequence[float], above: float) -> list[Counts]:
        """The distributions that the tokens of a text behind a prompt come from, at each temperature."""
        normaliser, size = self._evaluator.normaliser, self._evaluator.weights.size
        counting = [Counting(normaliser, size, temperature, above) for temperature in temperatures]
        for id, logits in self._rows(prompt, text):
            self._evaluator.distribution(logits)  # refuses one that is not finite
            for one in counting:
                one.add(logits, id)
        return [one.counted() for one in counting]

    def close(self) -> None:
        self._model.close()

    def _rows(self, prompt: Prompt, text: str) -> Iterator[tuple[int, Row]]:
        """Each token of a text, and the logits that it was to be chosen from, valid until the next one."""
        decoder = self._evaluator.decoder
        ids = list(self._evaluator.weights.tokenize(text.encode("utf-8", "replace")))
        before = self._model.tokenize(prompt, self._model.positions - len(ids))
        # The token before a token gives its probabilities; for the first, that is the prompt's last token.
        tokens = [*before, *ids][:-1]
        self._model.resume()
        sequence = decoder.sequence(Priority.BACKGROUND, tokens)
        done = 0
        while done < len(ids):
            start = len(before) - 1 + done
            # A last one is evaluated once more together with the one before it: no token is evaluated alone.
            again = int(len(tokens) - start == 1 and start > 0)
            decoder.evaluate(sequence, tokens[: start - again], 0, urgent=True)
            chunk = decoder.chunk(tokens[start - again :], _STEP)
            decoder.decode(sequence, chunk, len(chunk))
            for row in range(again, len(chunk)):
                yield ids[done], decoder.logits(row)
                done += 1


@functools.cache
def reader(loaded: LoadedModel, threads: int = 0, gpu_layers: int | None = None) -> Reader:
    """The reader of a model that its process has loaded, with the acceleration found best there.

    Raises SettingsError for another engine than llama.cpp's binding, ModelError if it cannot be loaded.
    """
    if not loaded.engine.startswith("llama-cpp-python"):
        raise SettingsError(
            f"The engine {loaded.engine} cannot score a given text: use a local model for this."
        )
    from lsp_calib.inference.local.llama import LlamaModel

    path = loaded.card.path
    slow = converted.slow(path)
    question = acceleration.Question(LlamaModel.hardware(), gpu_layers, slow, loaded.identity.sha256)
    known = question.recall()
    used = question.candidates[0] if known is None else known.acceleration
    return Reader(LlamaModel(LoadOptions(path, loaded.card.context, threads, used)))
