"""Calibration of whole distributions over tokens, as Liu et al. 2024 (Full-ECE) measure it, on source code.

The model reads functions of code-to-text. At each position its distribution is counted, in bins of its
probabilities. A temperature is fitted on the first texts, which are then left out; all others are counted at
temperature 1 and at this one. A file of records holds the counts, from which the study's numbers follow.

Bin m of M is ((m - 1) / M, m / M], and 0 belongs to the first one: right-closed, unlike the bins of
`expected_calibration_error`, as in the papers. Edges are rounded to float32, the type of the probabilities,
so that a float32 of 0.1 lies on the edge 0.1.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import json
import math
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.calibration.reliability import LEVEL, ReliabilityBin, ReliabilityData, wilson_interval
from lsp_calib.commands.engine import settings_in_force
from lsp_calib.commands.printing import item_progress
from lsp_calib.commands.records import make_folder
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.item_worker import EngineHost
from lsp_calib.corpus.places import in_asking_order
from lsp_calib.corpus.records import Header, json_line
from lsp_calib.errors import DataError, SettingsError, StoppedError
from lsp_calib.files import read_file, replace_file, write_atomically
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Priority
from lsp_calib.inference.models import converted
from lsp_calib.inference.process import acceleration
from lsp_calib.json_text import parse_json
from lsp_calib.settings import Settings, engine_choice
from lsp_calib.studies.data import data_set
from lsp_calib.studies.figures import draw_full_ece, draw_row
from lsp_calib.studies.published import FULL_ECE, Quoted, published, said, table
from lsp_calib.studies.score import File, Study
from lsp_calib.studies.tables import Picture, Section, Table, print_tables
from lsp_calib.studies.tasks import data_origin, documented_functions
from lsp_calib.terminal import Console
from lsp_calib.values import Prompt, Segment

if TYPE_CHECKING:
    from lsp_calib.inference.local.llama import LlamaModel

TOKEN, TOKENS = "token", "token.jsonl"
VERSION = "token-1"
"""Of what the model reads; changes with it."""
BINS = (5, 10, 20, 50, 100, 200, 500)
"""The numbers of bins of the study's Table 1."""
FINE = 1000
"""The bins of the counts. Each number in BINS divides it."""
DRAWS = 40
"""At each position as many tokens are drawn from the distribution itself: what a calibrated model shows."""

_LANGUAGES = ("python", "java")
_MOST_CHARACTERS = 4000  # of a text; the rest of a longer function is not read
_STEP = 64  # tokens evaluated at once
_EVERY = 60.0  # seconds between two copies of the counts on disk
# The share of the texts that the temperature is fitted on, and the temperatures tried.
_FITTED = 0.1
GRID = np.exp(np.linspace(math.log(0.5), math.log(2.0), 15))
# How often a token occurs: never, and up to each of these.
_RARE = (10, 100, 1000)

# Probabilities up to the first edge of the most bins share one bin whatever M is.
_LISTED = np.float32(1 / max(BINS))
_EDGES = np.maximum((np.arange(1, FINE) / FINE).astype(np.float32), _LISTED)

Row = npt.NDArray[np.float32]


def _places(probabilities: Row) -> IntArray:
    """The fine bin of each probability."""
    return np.searchsorted(_EDGES, probabilities, side="left")


@attrs.define(eq=False)
class Counts:
    """Distributions over k tokens at n positions, counted in FINE bins of their probabilities.

    entries, confidence, hits: arrays of shape (FINE,): of all entries in a bin their number, the sum of their
    probabilities, and how many are the token that the text has. top_entries and so on: the same of each
    position's largest entry alone. drawn: shape (DRAWS, FINE), hits of tokens drawn from the distributions.
    occurrences: shape (k,), how often the text has each token. sums: shape (k,), of each token's
    probabilities. keys, gaps: by token * FINE + bin the probabilities minus the hits, of all bins but the
    first.
    """

    entries: IntArray
    confidence: FloatArray
    hits: IntArray
    top_entries: IntArray
    top_confidence: FloatArray
    top_hits: IntArray
    drawn: IntArray
    occurrences: IntArray
    sums: FloatArray
    keys: IntArray
    gaps: FloatArray
    _new: list[tuple[IntArray, FloatArray]] = attrs.field(factory=list)

    @classmethod
    def none(cls, tokens: int) -> Self:
        """Of no position yet. tokens: k."""

        def ints(*shape: int) -> IntArray:
            return np.zeros(shape, np.intp)

        every = ints(FINE), np.zeros(FINE), ints(FINE)
        top = ints(FINE), np.zeros(FINE), ints(FINE)
        return cls(*every, *top, ints(DRAWS, FINE), ints(tokens), np.zeros(tokens), ints(0), np.zeros(0))

    @property
    def positions(self) -> int:
        return int(self.hits.sum())

    def add(self, p: Row, target: int, uniform: FloatArray) -> None:
        """Add a position. p: its distribution, shape (k,). target: the token that the text has.
        uniform: DRAWS numbers in [0, 1) to draw tokens by."""
        listed = np.flatnonzero(p > _LISTED)
        values, place = p[listed].astype(np.float64), _places(p[listed])
        self.entries += np.bincount(place, minlength=FINE)
        self.entries[0] += p.size - listed.size
        self.confidence += np.bincount(place, values, minlength=FINE)
        self.sums += p
        total = np.cumsum(p, dtype=np.float64)
        self.confidence[0] += max(0.0, total[-1] - values.sum())
        top, own = int(p.argmax()), int(_places(p[target : target + 1])[0])
        at = int(_places(p[top : top + 1])[0])
        self.top_entries[at] += 1
        self.top_confidence[at] += p[top]
        self.top_hits[at] += target == top
        self.hits[own] += 1
        self.occurrences[target] += 1
        drawn = np.searchsorted(total, uniform * total[-1], side="right")
        self.drawn[np.arange(DRAWS), _places(p[drawn])] += 1
        keys, gaps = listed * FINE + place, values
        if own:
            keys, gaps = np.append(keys, target * FINE + own), np.append(gaps, -1.0)
        self._new.append((keys, gaps))

    def merge(self) -> None:
        """Sum the gaps of equal keys."""
        keys, gaps = zip((self.keys, self.gaps), *self._new, strict=True)
        self.keys, self.gaps = _summed(np.concatenate(keys), np.concatenate(gaps))
        self._new.clear()

    def classwise_ece(self, bins: int) -> float:
        """Classwise ECE: the mean over tokens of each token's own ECE, as a binary prediction; in [0, 1].

        bins: M, which divides FINE. Its weights are counts over n k. Most tokens of a large vocabulary occur
        rarely or never, and their ECE is then mostly noise, or how small their probability is.
        Source: Kull et al. 2019; Liu et al. 2024, eq. 7.
        """
        self.merge()
        token, fine = np.divmod(self.keys, FINE)
        first = self.sums - self.occurrences
        np.subtract.at(first, token, self.gaps)  # what is left is in the first fine bin
        every = np.arange(self.sums.size)
        keys = np.concatenate([token * bins + fine // (FINE // bins), every * bins])
        _, gaps = _summed(keys, np.concatenate([self.gaps, first]))
        return float(np.abs(gaps).sum()) / (self.positions * self.sums.size)

    def to_json(self) -> dict[str, Any]:
        """What a file keeps. `classwise`: by M, for its counts, one for each token and bin, are too many."""
        return {
            "entries": self.entries.tolist(),
            "confidence": [round(x, 6) for x in self.confidence.tolist()],
            "hits": self.hits.tolist(),
            "topEntries": self.top_entries.tolist(),
            "topConfidence": [round(x, 6) for x in self.top_confidence.tolist()],
            "topHits": self.top_hits.tolist(),
            "drawn": self.drawn.tolist(),
            "classwise": {str(bins): float(f"{self.classwise_ece(bins):.8g}") for bins in BINS},
        }


def _summed(keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """The distinct keys, ascending, and the sum of the values of each."""
    found, inverse = np.unique(keys, return_inverse=True)
    return found, np.bincount(inverse, values, minlength=found.size).astype(np.float64)


def binned_error(confidence: npt.ArrayLike, hits: npt.ArrayLike, bins: int) -> FloatArray:
    """The sum over bins of |confidence - hits| over the number of hits that one position makes.

    confidence, hits: shape (..., FINE). bins: M, which divides FINE. Of all entries this is Full-ECE, whose
    weight of a bin is its count over n, the number of positions, and not over all n k entries.
    Source: Liu et al. 2024, eq. 11 to 13.
    """
    gap = np.asarray(confidence, dtype=np.float64) - np.asarray(hits)
    by_bin = gap.reshape(*gap.shape[:-1], bins, -1).sum(axis=-1)
    return np.asarray(np.abs(by_bin).sum(axis=-1))


@attrs.frozen
class Level:
    """The study's numbers at one temperature, by M in the order of BINS.

    ece: of the likeliest token. floor: Full-ECE of a perfectly calibrated model with the same distributions:
    shape (DRAWS, len(BINS)).
    """

    temperature: float
    ece: FloatArray
    classwise: FloatArray
    full: FloatArray
    floor: FloatArray

    @property
    def deviations(self) -> tuple[float, float]:
        """Relative standard deviation over M of classwise ECE and of Full-ECE, as in the study's Table 1."""
        return float(_deviation(self.classwise)), float(_deviation(self.full))

    @property
    def floor_deviations(self) -> tuple[float, float, float]:
        """Relative deviation of Full-ECE over M that a calibrated model shows: mean, least and largest."""
        drawn = _deviation(self.floor)
        return float(drawn.mean()), float(drawn.min()), float(drawn.max())

    @property
    def counting(self) -> float:
        """The rise of Full-ECE from the fewest bins to the most in the draws, over that of the model. About 1
        or more: the deviation comes from counting, as a perfect model's does."""
        first, *_, last = self.floor.mean(axis=0)
        return float((last - first) / (self.full[-1] - self.full[0]))


def _deviation(errors: FloatArray) -> npt.NDArray[np.float64]:
    return np.asarray(np.std(errors, axis=-1, ddof=1) / np.mean(errors, axis=-1))


@attrs.frozen
class Numbers:
    """What a file of counts says. texts: functions counted. rarity: shares of the vocabulary by how often a
    token occurs. counts: of each level, as the file has them."""

    texts: int
    positions: int
    tokens: int
    accuracy: float
    rarity: Mapping[str, float]
    levels: tuple[Level, ...]
    counts: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From the JSON document of `study`. Raises KeyError, TypeError or ValueError for another one."""
        counts = document["counts"]
        positions, tokens = sum(counts[0]["hits"]), document["tokens"]
        return cls(
            document["texts"],
            positions,
            tokens,
            sum(counts[0]["topHits"]) / positions,
            {name: number / tokens for name, number in document["rarity"].items()},
            tuple(
                _level(temperature, one)
                for temperature, one in zip(document["temperatures"], counts, strict=True)
            ),
            tuple(counts),
        )


def _level(temperature: float, counts: Mapping[str, Any]) -> Level:
    n = sum(counts["hits"])

    def by_bins(confidence: npt.ArrayLike, hits: npt.ArrayLike) -> FloatArray:
        return np.stack([binned_error(confidence, hits, bins) / n for bins in BINS], axis=-1)

    return Level(
        temperature,
        by_bins(counts["topConfidence"], counts["topHits"]),
        np.array([counts["classwise"][str(bins)] for bins in BINS]),
        by_bins(counts["confidence"], counts["hits"]),
        by_bins([counts["confidence"]], counts["drawn"]),
    )


def read_numbers(path: Path) -> Numbers:
    """The numbers of a file that `eval token` wrote. Raises DataError if it is none."""
    try:
        header, counts = read_file(path).decode("utf-8").split("\n")[:2]
        if Header.from_row(parse_json(header)).task != TOKEN:
            raise ValueError("it is of another task")
        return Numbers.of(parse_json(counts))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is not a file of `eval token`: {error}.") from error


def best_temperature(losses: FloatArray) -> float:
    """The temperature with the least mean loss of GRID: the vertex of the parabola through the least and its
    neighbours over the logarithm of the temperature; as it is at the ends of the grid.

    losses: shape (len(GRID),), minus the mean log-probability of the tokens of a text at each temperature.
    Source: Guo et al. 2017; left for later by Virk et al. 2024, 6.3.
    """
    at = int(np.argmin(losses))
    if at in (0, GRID.size - 1):
        return float(GRID[at])
    near = slice(at - 1, at + 2)
    a, b, _ = np.polyfit(np.log(GRID[near]), losses[near], 2)
    return float(np.exp(-b / (2.0 * a)))


class Reader:
    """A loaded model that reads texts in this process, with the weights and kernels of the model process."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self.evaluator = model.evaluator

    def rows(self, prompt: Prompt, text: str) -> Iterator[tuple[int, Row]]:
        """Each token of a text behind a prompt, and the logits that it was to be chosen from, valid until the
        next one. Raises EngineError if both are too long."""
        decoder = self.evaluator.decoder
        ids = list(self.evaluator.weights.tokenize(text.encode("utf-8", "replace")))
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

    def fit_temperature(self, texts: Sequence[str]) -> float:
        """The temperature of the highest likelihood of these texts, to six digits."""
        distribution = self.evaluator.normaliser.distribution
        losses, count = np.zeros(GRID.size), 0
        for text in texts:
            for id, logits in self.rows(*_parts(text)):
                own = float(logits[id])
                losses += [distribution(logits, float(t)).log_sum_exp - own / t for t in GRID]
                count += 1
        return float(f"{best_temperature(losses / count):.6g}")

    def count(self, item: str, text: str, temperature: float, counts: Counts) -> None:
        """Count the distributions that a text's tokens come from. item: its id, the seed of what is drawn."""
        dice = np.random.default_rng(zlib.crc32(item.encode()))
        for id, logits in self.rows(*_parts(text)):
            self.evaluator.distribution(logits)  # refuses one that is not finite
            found = self.evaluator.normaliser.distribution(logits, temperature)
            p = found.weights * np.float32(1.0 / found.total)
            # Rounding may exceed 1 by the last bit.
            counts.add(np.minimum(p, np.float32(1.0)), id, dice.random(DRAWS))


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


def texts(folder: Path | None) -> list[tuple[str, str]]:
    """(id, text) of all functions of code-to-text, in an order that has nothing to do with theirs.

    Raises DataError if the data are missing.
    """
    found = {
        f"{language}/{one['item']}": one["code"][:_MOST_CHARACTERS]
        for language in _LANGUAGES
        for one in documented_functions(language, folder)
    }
    return [(item, found[item]) for item in in_asking_order(found)]


def _parts(text: str) -> tuple[Prompt, str]:
    """A text's first line as the prompt, and the rest, which is scored."""
    first, newline, rest = text.partition("\n")
    return Prompt(((Segment.TEXT, first + newline),), "", VERSION), rest


def study(
    choice: EngineChoice,
    items: Sequence[tuple[str, str]],
    path: Path,
    *,
    positions: int,
    created: str,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[Header, Numbers]:
    """Count the texts until there are so many positions, and write the counts to `path`.

    path: a file of a header and one line; beside it FILE.counts.npz keeps what the same call goes on from.
    on_progress: called with the number of positions, and all of them.
    Raises StoppedError when interrupted, DataError if the counts there are of another model or too few texts
    are there, and what the engine raises.
    """
    names = [f"code-to-text-{language}" for language in _LANGUAGES]
    sources = tuple(data_origin(name, data_set(name).records) for name in names)
    fitted = max(1, round(_FITTED * len(items)))
    with contextlib.closing(EngineHost(choice)) as host:
        loaded = host.loaded()
        header = Header(TOKEN, "code", loaded.identity, VERSION, 0, sources, created=created)
        kept = _Kept.load(path, header)
        reading = reader(loaded, choice.threads, choice.gpu_layers)
        if not kept.counts:
            kept.temperature = reading.fit_temperature([text for _, text in items[:fitted]])
            kept.counts = [Counts.none(reading.evaluator.weights.size) for _ in range(2)]
        saved = time.monotonic()
        try:
            for item, text in items[fitted:]:
                on_progress(kept.positions, positions)
                if kept.positions >= positions:
                    break
                if item in kept.done:
                    continue
                for temperature, counts in zip((1.0, kept.temperature), kept.counts, strict=True):
                    reading.count(item, text, temperature, counts)
                kept.done.add(item)
                if time.monotonic() - saved > _EVERY:
                    kept.save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            raise StoppedError(
                f"Stopped: the counts of a minute ago at most are kept in {kept.path}. Run the same command "
                "again to go on."
            ) from None
        kept.save()
        on_progress(kept.positions, positions)
    if kept.positions < positions:
        raise DataError(
            f"All texts together have {kept.positions} positions, fewer than {positions}. Ask for fewer "
            "--positions."
        )
    document = kept.to_json(fitted)
    replace_file(path, header.to_line() + "\n" + json_line(document) + "\n")
    return header, Numbers.of(document)


_ARRAYS = [field.name for field in attrs.fields(Counts) if field.name != "_new"]


@attrs.define(eq=False)
class _Kept:
    """The counts of a run, and of the earlier runs that it goes on from. path: of their copy on disk."""

    path: Path
    question: str
    done: set[str] = attrs.field(factory=set)
    temperature: float = 0.0
    counts: list[Counts] = attrs.field(factory=list)

    @property
    def positions(self) -> int:
        return self.counts[0].positions if self.counts else 0

    @classmethod
    def load(cls, path: Path, header: Header) -> Self:
        """Raises DataError for counts of another model or version, or a damaged file."""
        file = path.with_name(f"{path.name}.counts.npz")
        question = json.dumps([header.prompt_version, attrs.asdict(header.model)], sort_keys=True)
        kept = cls(file, question)
        if not file.exists():
            return kept
        try:
            # Read here: of a damaged archive NumPy leaves the file open.
            with np.load(io.BytesIO(read_file(file)), allow_pickle=False) as found:
                if str(found["question"]) != question:
                    raise DataError(f"{file} holds counts of another model. Name another folder.")
                kept.done = set(map(str, found["done"]))
                kept.temperature = float(found["temperature"])
                kept.counts = [Counts(*(found[f"{name}{at}"] for name in _ARRAYS)) for at in range(2)]
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"{file} cannot be read: {error}. Remove it to begin again.") from error
        return kept

    def save(self) -> None:
        arrays: dict[str, Any] = {}
        for at, counts in enumerate(self.counts):
            counts.merge()
            arrays |= {f"{name}{at}": getattr(counts, name) for name in _ARRAYS}
        memory = io.BytesIO()
        arrays |= {"question": self.question, "done": sorted(self.done), "temperature": self.temperature}
        np.savez(memory, allow_pickle=False, **arrays)
        try:
            write_atomically(self.path, memory.getvalue(), 0o600)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}.") from error

    def to_json(self, fitted: int) -> dict[str, Any]:
        """The second line of the file. fitted: texts that the temperature was fitted on."""
        occurrences, rarity, low = self.counts[0].occurrences, {}, 0
        rarity["never"] = int(np.sum(occurrences == 0))
        for most in _RARE:
            rarity[f"{low + 1} to {most}"] = int(np.sum((occurrences > low) & (occurrences <= most)))
            low = most
        rarity[f"over {low}"] = int(np.sum(occurrences > low))
        return {
            "texts": len(self.done),
            "fittedTexts": fitted,
            "tokens": occurrences.size,
            "temperatures": [1.0, self.temperature],
            "rarity": rarity,
            "counts": [one.to_json() for one in self.counts],
        }


COLUMNS = ("temperature", "M", "ECE", "cw-ECE x 1e6", "Full-ECE", "Full-ECE of a calibrated model")


def rows_by_bins(numbers: Numbers) -> list[tuple[str, ...]]:
    """The errors in words, with these columns; last at each temperature their relative deviation over M."""
    rows: list[tuple[str, ...]] = []
    for level in numbers.levels:
        at = f"{level.temperature:.3f}"
        for m, bins in enumerate(BINS):
            drawn = level.floor[:, m]
            floor = f"{drawn.mean():.4f} ({drawn.min():.4f} to {drawn.max():.4f})"
            errors = f"{level.ece[m]:.4f}", f"{1e6 * level.classwise[m]:.3f}", f"{level.full[m]:.4f}"
            rows.append((at, str(bins), *errors, floor))
        classwise, full = level.deviations
        mean, least, most = level.floor_deviations
        of_all = "–", f"{100 * classwise:.1f} %", f"{100 * full:.1f} %"
        rows.append((at, "deviation", *of_all, f"{100 * mean:.0f} % ({100 * least:.0f} to {100 * most:.0f})"))
    return rows


@attrs.frozen
class TokenReport:
    """The numbers of `study`, and the file that holds the counts."""

    header: Header
    numbers: Numbers
    path: Path

    def to_wire(self) -> dict[str, Any]:
        found = self.numbers
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows_by_bins(found)]
        told = {"positions": found.positions, "tokens": found.tokens, "rarity": dict(found.rarity)}
        return {"file": str(self.path), "model": attrs.asdict(self.header.model), **told, "rows": rows}

    def print(self) -> None:
        console, numbers = Console(), self.numbers
        title = f"{self.header.model.name}: {numbers.positions:,} positions"
        print_tables([Table(title, COLUMNS, rows_by_bins(numbers))], console)
        shares = (f"{name}: {100 * share:.1f} %" for name, share in numbers.rarity.items())
        console.print(f"How often each of {numbers.tokens:,} tokens occurs: {', '.join(shares)}.")
        console.print(f"The counts are in {self.path}.", soft_wrap=True)


def count_tokens(positions: int, data_dir: Path | None, output: Path, asking: AskingOptions) -> TokenReport:
    """Count the distributions over tokens of a model on functions, see `study`, whose errors it raises.

    output: the folder. SettingsError if it cannot be made, or for a remote engine.
    """
    given = Settings(model=asking.model, threads=asking.threads)
    choice = engine_choice(settings_in_force(given, asking.say))
    if choice.remote is not None:
        raise SettingsError(
            "`eval token` needs a model on this machine: a server does not report whole distributions. "
            "Leave `remote.url` out."
        )
    items = texts(data_dir)
    make_folder(output)
    path, today = output / TOKENS, datetime.date.today().isoformat()
    with item_progress("Counting distributions", quiet=asking.quiet) as show:
        header, numbers = study(choice, items, path, positions=positions, created=today, on_progress=show)
    return TokenReport(header, numbers, path)


def numbers_of(files: Sequence[File]) -> list[tuple[File, Numbers]]:
    """The files of `eval token` among some files, and what they say."""
    return [(file, read_numbers(file.path)) for file in files if file.header.task == TOKEN]


def temperatures(files: Sequence[File]) -> dict[str, float]:
    """By model the temperature fitted on tokens."""
    return {file.header.model.name: numbers.levels[1].temperature for file, numbers in numbers_of(files)}


def deviations(files: Sequence[File]) -> list[tuple[str, float, float, tuple[float, float], float]]:
    """For each model at temperature 1: its name, the relative deviations over M of cw-ECE and of Full-ECE,
    the least and the largest of a calibrated model, and `Level.counting`."""
    found = [(file.header.model.name, numbers.levels[0]) for file, numbers in numbers_of(files)]
    return [(name, *one.deviations, one.floor_deviations[1:], one.counting) for name, one in found]


def build(files: Sequence[File]) -> Study:
    """The study on the files of `eval token`."""
    found = numbers_of(files)
    sections = [
        Section(
            "Liu et al., Table 1 and section 3",
            "Deviation: of a sample over M, at temperature 1 and at the one fitted on the first tenth of the "
            "texts, which are left out. Floor: what a perfectly calibrated model with the same distributions "
            f"shows at as many positions, least and largest of {DRAWS} draws: it is counting, not the model.",
            (_table(found), *_pictures(found)),
        ),
        Section(
            "Liu et al.: every number of bins",
            "",
            [Table(_named(file, one), COLUMNS, rows_by_bins(one)) for file, one in found],
            folded=True,
        ),
    ]
    return Study(
        name=FULL_ECE,
        title="Full-ECE: calibration of whole distributions over tokens",
        reference=published()[FULL_ECE]["reference"],
        caveats=(
            "Full-ECE across tokenisers is not comparable; two quantisations of one model are.",
            "The texts here are functions, the study's sentences.",
        ),
        cells=(),
        sections=sections,
        quoted=lambda *_: Quoted(""),
    )


def _named(file: File, numbers: Numbers) -> str:
    return (
        f"{file.header.model.name} {file.header.model.quantisation}: {numbers.positions:,} positions of "
        f"{numbers.texts} functions, {numbers.tokens:,} tokens; {100 * numbers.accuracy:.0f} % of the "
        "likeliest are right"
    )


def _table(found: Sequence[tuple[File, Numbers]]) -> Table:
    printed, rarity = table(FULL_ECE, "1"), said(FULL_ECE, "rarity")
    ours = [one for _, one in found]
    none = () if ours else ("not run",)
    rows = []
    for at, when in enumerate(("", ", after the temperature")):
        for name, which in (("cw-ECE", 0), ("Full-ECE", 1)):
            here = (f"{100 * one.levels[at].deviations[which]:.2f} %" for one in ours)
            theirs = "–" if at else f"{printed[name]['2B']:.2f} %, {printed[name]['7B']:.2f} %"
            rows.append((f"relative standard deviation of {name} over M{when}", *here, *none, theirs))
        floors = (one.levels[at].floor_deviations for one in ours)
        here = (f"{100 * mean:.0f} % ({100 * least:.0f} to {100 * most:.0f})" for mean, least, most in floors)
        rows.append((f"its floor of Full-ECE{when}", *here, *none, "–"))
        full = (f"{one.levels[at].full[BINS.index(10)]:.4f}" for one in ours)
        rows.append((f"Full-ECE, M = 10{when}", *full, *none, "–"))
    for name, key, share in (
        ("tokens that never occur", "never", rarity["never"]),
        ("tokens that occur 1 to 10 times", "1 to 10", rarity["oneToTen"]),
    ):
        rows.append((name, *(f"{100 * one.rarity[key]:.0f} %" for one in ours), *none, f"{share} %"))
    models = [f"{file.header.model.name}, {one.positions:,} positions" for file, one in found] or ["ours"]
    note = "Counting only adds to a deviation. `lsp-calib eval token` makes the counts."
    return Table("", ("number", *models, "published (2B, 7B)"), rows, note)


def _pictures(found: Sequence[tuple[File, Numbers]]) -> Iterator[Picture]:
    if not found:
        return
    by_bin, over_m, diagrams = {}, {}, []
    for file, numbers in found:
        name, counts = file.header.model.name, numbers.counts[0]
        entries, confidence, hits = (
            np.reshape(counts[key], (10, -1)).sum(axis=1) for key in ("entries", "confidence", "hits")
        )
        by_bin[name] = confidence / entries, hits / entries
        over_m[name] = numbers.levels[0].full, numbers.levels[0].floor
        diagrams.append((name, f"n = {numbers.positions:,} tokens", likeliest(counts)))
    alt = "Full-ECE by bin, and over the number of bins beside that of a calibrated model"
    yield Picture("full-ece", alt, functools.partial(draw_full_ece, by_bin, over_m, BINS))
    alt = "Reliability of the likeliest token, as in Spiess et al., Figure 2a"
    yield Picture("spiess-figure-2", alt, functools.partial(draw_row, diagrams))


def likeliest(counts: Mapping[str, Any]) -> ReliabilityData:
    """The reliability of each position's likeliest token: ten bins, and five points of about equal mass."""
    fine = np.array([counts["topEntries"], counts["topConfidence"], counts["topHits"]], dtype=np.float64)
    n, _, hits = fine.sum(axis=1).astype(int).tolist()
    cumulated = np.cumsum(fine[0]) - fine[0] / 2
    mass = np.minimum(5 * cumulated // n, 4).astype(int)
    points = [fine[:, mass == k].sum(axis=1) for k in range(5)]
    bins = fine.reshape(3, 10, -1).sum(axis=2).T
    return ReliabilityData(
        *(n, hits, "width", LEVEL, 0),
        bins=tuple(_of_counts(one, k / 10, (k + 1) / 10) for k, one in enumerate(bins)),
        points=tuple(_of_counts(one, 0.0, 1.0) for one in points if one[0]),
    )


def _of_counts(counts: FloatArray, lower: float, upper: float) -> ReliabilityBin:
    n, total, hits = counts.tolist()
    if not n:
        return ReliabilityBin(lower, upper, 0)
    low, high = wilson_interval(int(hits), int(n))
    return ReliabilityBin(lower, upper, int(n), total / n, hits / n, low, high)
