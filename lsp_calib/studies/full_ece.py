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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

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
from lsp_calib.inference.process import acceleration
from lsp_calib.json_text import parse_json
from lsp_calib.settings import Settings, engine_choice
from lsp_calib.studies import headings
from lsp_calib.studies.data import data_set
from lsp_calib.studies.figures import draw_diagrams, draw_full_ece
from lsp_calib.studies.published import FULL_ECE, Quoted, published, said, table
from lsp_calib.studies.score import File, Study
from lsp_calib.studies.tables import Picture, Table, percent, print_tables
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

    every: shape (3, FINE): of all entries in a bin their number, the sum of their probabilities, and how many
    are the token that the text has. top: the same of each position's largest entry alone. drawn: shape
    (DRAWS, FINE), hits of tokens drawn from the distributions. occurrences: shape (k,), how often the text
    has each token. sums: shape (k,), of each token's probabilities. at, gaps: shapes (2, m) and (m,): by
    token and bin, of all bins but the first, the probabilities minus the hits.
    """

    every: FloatArray
    top: FloatArray
    drawn: IntArray
    occurrences: IntArray
    sums: FloatArray
    at: IntArray
    gaps: FloatArray
    _new: list[tuple[IntArray, FloatArray]] = attrs.field(factory=list)

    @classmethod
    def none(cls, tokens: int) -> Self:
        """Of no position yet. tokens: k."""
        by_token = np.zeros(tokens, np.intp), np.zeros(tokens)
        return cls(
            *(np.zeros((3, FINE)), np.zeros((3, FINE)), np.zeros((DRAWS, FINE), np.intp), *by_token),
            *(np.zeros((2, 0), np.intp), np.zeros(0)),
        )

    @property
    def positions(self) -> int:
        return int(self.every[2].sum())

    def add(self, p: Row, target: int, uniform: FloatArray) -> None:
        """Add a position. p: its distribution, shape (k,). target: the token that the text has.
        uniform: DRAWS numbers in [0, 1) to draw tokens by."""
        listed = np.flatnonzero(p > _LISTED)
        values, place = p[listed].astype(np.float64), _places(p[listed])
        total, likeliest = np.cumsum(p, dtype=np.float64), int(p.argmax())
        own, top = _places(p[[target, likeliest]]).tolist()
        entries, confidence, hits = self.every
        entries += np.bincount(place, minlength=FINE)
        entries[0] += p.size - listed.size
        confidence += np.bincount(place, values, minlength=FINE)
        confidence[0] += max(0.0, total[-1] - values.sum())
        hits[own] += 1
        self.top[:, top] += 1.0, p[likeliest], target == likeliest
        self.sums += p
        self.occurrences[target] += 1
        drawn = np.searchsorted(total, uniform * total[-1], side="right")
        self.drawn[np.arange(DRAWS), _places(p[drawn])] += 1
        self._new.append((np.stack((listed, place)), values))
        if own:
            self._new.append((np.array([[target], [own]]), np.array([-1.0])))

    def merge(self) -> None:
        """Sum the gaps of equal tokens and bins."""
        at, gaps = zip((self.at, self.gaps), *self._new, strict=True)
        merged = self._summed(np.concatenate(at, axis=1), np.concatenate(gaps), FINE).tocoo()
        self.at, self.gaps = np.stack((merged.row, merged.col)).astype(np.intp), merged.data
        self._new.clear()

    def _summed(self, at: IntArray, values: FloatArray, bins: int) -> csr_array:
        """The sums by token and bin, shape (k, bins)."""
        return coo_array((values, (at[0], at[1])), shape=(self.sums.size, bins)).tocsr()

    def classwise_ece(self, bins: int) -> float:
        """Classwise ECE: the mean over tokens of each token's own ECE, as a binary prediction; in [0, 1].

        bins: M, which divides FINE. Its weights are counts over n k. Most tokens of a large vocabulary occur
        rarely or never, and their ECE is then mostly noise, or how small their probability is.
        Source: Kull et al. 2019; Liu et al. 2024, eq. 7.
        """
        self.merge()
        token, fine = self.at
        k = self.sums.size
        first = self.sums - self.occurrences - np.bincount(token, self.gaps, minlength=k)
        at = np.stack(
            (np.append(token, np.arange(k)), np.append(fine // (FINE // bins), np.zeros(k, np.intp)))
        )
        gaps = self._summed(at, np.append(self.gaps, first), bins)
        return float(np.abs(gaps.data).sum()) / (self.positions * k)

    def to_json(self) -> dict[str, Any]:
        """What a file keeps. `classwise`: by M, for its counts, one for each token and bin, are too many."""
        (entries, confidence, hits), (top_entries, top_confidence, top_hits) = self.every, self.top
        return {
            "entries": entries.astype(int).tolist(),
            "confidence": [round(x, 6) for x in confidence.tolist()],
            "hits": hits.astype(int).tolist(),
            "topEntries": top_entries.astype(int).tolist(),
            "topConfidence": [round(x, 6) for x in top_confidence.tolist()],
            "topHits": top_hits.astype(int).tolist(),
            "drawn": self.drawn.tolist(),
            "classwise": {str(bins): float(f"{self.classwise_ece(bins):.8g}") for bins in BINS},
        }


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
    def floor_words(self) -> str:
        mean, least, most = (100 * one for one in self.floor_deviations)
        return f"{mean:.0f} % ({least:.0f} to {most:.0f})"

    @property
    def counting(self) -> float:
        """The rise of Full-ECE from the fewest bins to the most in the draws, over that of the model. About 1
        or more: the deviation comes from counting, as a perfect model's does."""
        first, *_, last = self.floor.mean(axis=0)
        return float((last - first) / (self.full[-1] - self.full[0]))


def _deviation(errors: FloatArray) -> npt.NDArray[np.float64]:
    return np.asarray(np.std(errors, axis=-1, ddof=1) / np.mean(errors, axis=-1))


@attrs.frozen(eq=False)
class Numbers:
    """What a file of counts says. texts: functions counted. accuracy: share of the likeliest tokens that the
    text has. rarity: shares of the vocabulary by how often a token occurs. counts: of each level, as the file
    has them."""

    texts: int
    positions: int
    tokens: int
    accuracy: float
    rarity: Mapping[str, float]
    levels: tuple[Level, ...]
    counts: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From the JSON document of `study`. Raises KeyError, TypeError or ValueError for another one."""
        counts, tokens = document["counts"], document["tokens"]
        n = sum(counts[0]["hits"])

        def by_bins(confidence: npt.ArrayLike, hits: npt.ArrayLike) -> FloatArray:
            return np.stack([binned_error(confidence, hits, bins) / n for bins in BINS], axis=-1)

        levels = [
            Level(
                temperature,
                by_bins(one["topConfidence"], one["topHits"]),
                np.array([one["classwise"][str(bins)] for bins in BINS]),
                by_bins(one["confidence"], one["hits"]),
                by_bins([one["confidence"]], one["drawn"]),
            )
            for temperature, one in zip(document["temperatures"], counts, strict=True)
        ]
        rarity = {name: number / tokens for name, number in document["rarity"].items()}
        accuracy = sum(counts[0]["topHits"]) / n
        return cls(document["texts"], n, tokens, accuracy, rarity, tuple(levels), counts)


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
        stream = decoder.stream(Priority.BACKGROUND, "", len(tokens))
        done = 0
        while done < len(ids):
            start = len(before) - 1 + done
            # A last one is evaluated once more together with the one before it: no token is evaluated alone.
            again = int(len(tokens) - start == 1 and start > 0)
            decoder.evaluate(stream, tokens[: start - again], 0)
            chunk = decoder.chunk(tokens[start - again :], _STEP)
            decoder.decode(stream, chunk, len(chunk))
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
    question = acceleration.Question.of(path, LlamaModel.hardware(), gpu_layers, loaded.identity.sha256)
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
        if not kept.done:
            kept.temperature = reading.fit_temperature([text for _, text in items[:fitted]])
            kept.counts = [Counts.none(reading.evaluator.weights.size) for _ in range(2)]
        saved = time.monotonic()
        try:
            for item, text in items[fitted:]:
                on_progress(kept.counts[0].positions, positions)
                if kept.counts[0].positions >= positions:
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
    counted = kept.counts[0].positions
    on_progress(counted, positions)
    if counted < positions:
        raise DataError(
            f"All texts together have {counted} positions, fewer than {positions}. Ask for fewer --positions."
        )
    document = {
        "texts": len(kept.done),
        "fittedTexts": fitted,
        "tokens": kept.counts[0].occurrences.size,
        "temperatures": [1.0, kept.temperature],
        "rarity": _rarity(kept.counts[0].occurrences),
        "counts": [one.to_json() for one in kept.counts],
    }
    replace_file(path, header.to_line() + "\n" + json_line(document) + "\n")
    return header, Numbers.of(document)


def _rarity(occurrences: IntArray) -> dict[str, int]:
    """How many tokens occur never, and up to each number of times of _RARE."""
    bounds = zip((0, *_RARE), _RARE, strict=False)
    names = ["never", *(f"{low + 1} to {most}" for low, most in bounds), f"over {_RARE[-1]}"]
    numbers = np.bincount(np.searchsorted((0, *_RARE), occurrences), minlength=len(names))
    return dict(zip(names, numbers.tolist(), strict=True))


_ARRAYS = [field.name for field in attrs.fields(Counts) if field.name != "_new"]


@attrs.define(eq=False)
class _Kept:
    """The counts of a run, and of the earlier runs that it goes on from. path: of their copy on disk."""

    path: Path
    question: str
    done: set[str] = attrs.field(factory=set)
    temperature: float = 0.0
    counts: list[Counts] = attrs.field(factory=list)

    @classmethod
    def load(cls, path: Path, header: Header) -> Self:
        """Raises DataError for counts of another model or version, or a damaged file."""
        file = path.with_name(f"{path.name}.counts.npz")
        kept = cls(file, json.dumps([header.prompt_version, attrs.asdict(header.model)], sort_keys=True))
        if not file.exists():
            return kept
        try:
            # Read here: of a damaged archive NumPy leaves the file open.
            with np.load(io.BytesIO(read_file(file)), allow_pickle=False) as found:
                if str(found["question"]) != kept.question:
                    raise DataError(f"{file} holds counts of another model. Name another folder.")
                kept.done = set(map(str, found["done"]))
                kept.temperature = float(found["temperature"])
                kept.counts = [Counts(*(found[f"{name}{at}"] for name in _ARRAYS)) for at in range(2)]
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"{file} cannot be read: {error}. Remove it to begin again.") from error
        return kept

    def save(self) -> None:
        arrays: dict[str, Any] = {"question": self.question, "done": sorted(self.done)}
        arrays["temperature"] = self.temperature
        for at, counts in enumerate(self.counts):
            counts.merge()
            arrays |= {f"{name}{at}": getattr(counts, name) for name in _ARRAYS}
        memory = io.BytesIO()
        np.savez(memory, allow_pickle=False, **arrays)
        try:
            write_atomically(self.path, memory.getvalue(), 0o600)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}.") from error


def table_of(title: str, numbers: Numbers) -> Table:
    """The errors by number of bins; last at each temperature their relative deviation over M."""
    rows: list[tuple[str, ...]] = []
    for level in numbers.levels:
        at = f"{level.temperature:.3f}"
        for m, bins in enumerate(BINS):
            drawn = level.floor[:, m]
            floor = f"{drawn.mean():.4f} ({drawn.min():.4f} to {drawn.max():.4f})"
            errors = f"{level.ece[m]:.4f}", f"{1e6 * level.classwise[m]:.3f}", f"{level.full[m]:.4f}"
            rows.append((at, str(bins), *errors, floor))
        of_all = (f"{100 * one:.1f} %" for one in level.deviations)
        rows.append((at, "deviation", "–", *of_all, level.floor_words))
    return headings.table("full-ece.bins", rows, title=title)


@attrs.frozen
class TokenReport:
    """The numbers of `study`, and the file that holds the counts."""

    header: Header
    numbers: Numbers
    path: Path

    @property
    def table(self) -> Table:
        return table_of(f"{self.header.model.name}: {self.numbers.positions:,} positions", self.numbers)

    def to_wire(self) -> dict[str, Any]:
        found = self.numbers
        rows = [dict(zip(self.table.columns, row, strict=True)) for row in self.table.rows]
        told = {"positions": found.positions, "tokens": found.tokens, "rarity": dict(found.rarity)}
        return {"file": str(self.path), "model": attrs.asdict(self.header.model), **told, "rows": rows}

    def print(self) -> None:
        console, numbers = Console(), self.numbers
        print_tables([self.table], console)
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
    every = []
    for file, one in found:
        model = file.header.model
        counted = f"{one.positions:,} positions of {one.texts} functions, {one.tokens:,} tokens"
        right = f"{percent(one.accuracy)} of the likeliest are right"
        every.append(table_of(f"{model.name} {model.quantisation}: {counted}; {right}", one))
    words = headings.words(FULL_ECE)
    return Study(
        name=FULL_ECE,
        title=words["title"],
        reference=published()[FULL_ECE]["reference"],
        caveats=tuple(words["caveats"]),
        cells=(),
        sections=[
            headings.section("full-ece.table", (_table(found), *_pictures(found)), draws=DRAWS),
            headings.section("full-ece.every", every),
        ],
        quoted=lambda *_: Quoted(""),
    )


def _table(found: Sequence[tuple[File, Numbers]]) -> Table:
    """The study's Table 1, ours beside it."""
    printed, rarity = table(FULL_ECE, "1"), said(FULL_ECE, "rarity")
    rows: list[tuple[str, ...]] = []

    def add(name: str, ours: Iterable[str], theirs: str = "–") -> None:
        rows.append((name, *(list(ours) or ["not run"]), theirs))

    for at, when in enumerate(("", ", after the temperature")):
        levels = [one.levels[at] for _, one in found]
        for which, name in enumerate(("cw-ECE", "Full-ECE")):
            theirs = "–" if at else f"{printed[name]['2B']:.2f} %, {printed[name]['7B']:.2f} %"
            ours = (f"{100 * one.deviations[which]:.2f} %" for one in levels)
            add(f"relative standard deviation of {name} over M{when}", ours, theirs)
        add(f"its floor of Full-ECE{when}", (one.floor_words for one in levels))
        add(f"Full-ECE, M = 10{when}", (f"{one.full[BINS.index(10)]:.4f}" for one in levels))
    for name, key, share in (
        ("tokens that never occur", "never", rarity["never"]),
        ("tokens that occur 1 to 10 times", "1 to 10", rarity["oneToTen"]),
    ):
        add(name, (percent(one.rarity[key]) for _, one in found), f"{share} %")
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
    draw = functools.partial(draw_full_ece, by_bin, over_m, BINS)
    yield headings.picture("full-ece.figure", "full-ece", draw)
    yield headings.picture(
        "full-ece.likeliest", "spiess-figure-2", functools.partial(draw_diagrams, diagrams)
    )


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
