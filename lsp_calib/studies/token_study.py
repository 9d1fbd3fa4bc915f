"""Calibration of whole distributions over tokens, as Liu et al. 2024 (Full-ECE) measure it, on source code.

The model reads functions of code-to-text. At each position its distribution is counted. A temperature is
fitted on the first texts, which are then left out; all others are counted at temperature 1 and at this one.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.corpus.item_worker import EngineHost
from lsp_calib.corpus.places import in_asking_order
from lsp_calib.corpus.records import Header, json_line
from lsp_calib.errors import DataError, StoppedError
from lsp_calib.files import read_file, replace_file, write_atomically
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.json_text import parse_json
from lsp_calib.studies.data import data_set
from lsp_calib.studies.scoring import KINDS, Counts, Reader, reader
from lsp_calib.studies.tasks import data_origin, documented_functions
from lsp_calib.studies.token_level import classwise_ece, fit_token_temperature, full_ece
from lsp_calib.values import Prompt, Segment

TOKEN = "token"
VERSION = "token-1"
"""Of what the model reads; changes with it."""
BINS = (5, 10, 20, 50, 100, 200, 500)
"""The numbers of bins of the study's Table 1."""
MOST_CHARACTERS = 4000
"""Of a text; the rest of a longer function is not read."""

_LANGUAGES = ("python", "java")
# The share of the texts that the temperature is fitted on, and the temperatures tried.
_FITTED = 0.1
_GRID = tuple(float(f"{math.exp(x):.6g}") for x in np.linspace(math.log(0.5), math.log(2.0), 15))
# Seconds between two copies of the counts on disk.
_EVERY = 60.0
# How often a token occurs: never, and up to each of these.
_RARE = (10, 100, 1000)


def texts(folder: Path | None) -> list[tuple[str, str]]:
    """(id, text) of all functions of code-to-text, in an order that has nothing to do with theirs.

    Raises DataError if the data are missing.
    """
    found = {
        f"{language}/{one['item']}": one["code"][:MOST_CHARACTERS]
        for language in _LANGUAGES
        for one in documented_functions(language, folder)
    }
    return [(item, found[item]) for item in in_asking_order(found)]


def study(
    choice: EngineChoice,
    items: Sequence[tuple[str, str]],
    path: Path,
    *,
    positions: int,
    created: str,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[Header, Mapping[str, Any]]:
    """Count the texts until there are so many positions, and write the numbers to `path`.

    path: a file of a header and one line; beside it FILE.counts.npz keeps the counts, from which the same
    call goes on. on_progress: called with the number of positions, and all of them.
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
        if not kept.temperature:
            kept.temperature = _temperature(reading, [text for _, text in items[:fitted]])
        saved = time.monotonic()
        try:
            for item, text in items[fitted:]:
                on_progress(kept.positions, positions)
                if kept.positions >= positions:
                    break
                if item in kept.done:
                    continue
                kept.add(item, reading.count(*_parts(text), (1.0, kept.temperature), 1.0 / max(BINS)))
                if time.monotonic() - saved > _EVERY:
                    kept.save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            kept.save()
            raise StoppedError(
                f"Stopped: {kept.positions} of {positions} positions are kept in {kept.path}. Run the same "
                "command again to go on."
            ) from None
        kept.save()
        on_progress(kept.positions, positions)
    if kept.positions < positions:
        raise DataError(
            f"All texts together have {kept.positions} positions, fewer than {positions}. Ask for fewer "
            "--positions."
        )
    numbers = numbers_of(kept.counts, kept.temperature, len(kept.done), fitted)
    replace_file(path, header.to_line() + "\n" + json_line(numbers) + "\n")
    return header, numbers


def read_numbers(path: Path) -> Mapping[str, Any]:
    """The numbers in a file that `study` wrote. Raises DataError if it is none."""
    try:
        lines = read_file(path).decode("utf-8").split("\n")
        numbers: Mapping[str, Any] = parse_json(lines[1])
        if Header.from_row(parse_json(lines[0])).task != TOKEN or not numbers["rows"]:
            raise ValueError("it holds no numbers")
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise DataError(f"{path} is not a file of `eval token`: {error}.") from error
    return numbers


def numbers_of(counts: Sequence[Counts], temperature: float, read: int, fitted: int) -> dict[str, Any]:
    """The metrics of counts at temperature 1 and at `temperature`. read, fitted: numbers of texts."""
    rows, spread = [], []
    for at, found in zip((1.0, temperature), counts, strict=True):
        entries = found.entries()
        arrays = found.arrays()
        largest, hits = arrays["largest"].astype(np.float64), arrays["hits"]
        table = [
            (_top_ece(largest, hits, bins), classwise_ece(entries, bins), full_ece(entries, bins))
            for bins in BINS
        ]
        for bins, errors in zip(BINS, table, strict=True):
            rows.append({"temperature": at, "bins": bins, **_named(errors)})
        spread.append({"temperature": at, **_named(_rsd(table))})
        outcomes = np.bincount(entries.target, minlength=entries.sums.size)
    shares = {"never": float(np.mean(outcomes == 0))}
    low = 0
    for most in _RARE:
        shares[f"{low + 1} to {most}"] = float(np.mean((outcomes > low) & (outcomes <= most)))
        low = most
    shares[f"over {low}"] = float(np.mean(outcomes > low))
    return {
        "texts": read,
        "fittedTexts": fitted,
        "positions": counts[0].positions,
        "tokens": counts[0].sums.size,
        "temperature": temperature,
        "accuracy": _rounded(float(np.mean(np.concatenate(counts[0].lists["hits"])))),
        "rows": rows,
        "relativeDeviation": spread,
        "rarity": {name: _rounded(share) for name, share in shares.items()},
    }


COLUMNS = ("temperature", "M", "ECE", "cw-ECE x 1e6", "Full-ECE")


def rows_by_bins(numbers: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The errors in words, with these columns."""
    return [
        (
            *(f"{row['temperature']:.3f}", str(row["bins"]), f"{row['ece']:.4f}"),
            *(f"{1e6 * row['classwise']:.3f}", f"{row['full']:.4f}"),
        )
        for row in numbers["rows"]
    ]


def _top_ece(largest: FloatArray, hits: BoolArray, bins: int) -> float:
    """The ECE of the likeliest token, bins as in the study: ((m - 1) / M, m / M]."""
    edges = (np.arange(1, bins) / bins).astype(np.float32).astype(np.float64)
    place = np.searchsorted(edges, largest, side="left")
    gap = np.bincount(place, largest, minlength=bins) - np.bincount(place, hits, minlength=bins)
    return float(np.sum(np.abs(gap))) / largest.size


def _rsd(values: Sequence[tuple[float, ...]]) -> list[float]:
    """The relative standard deviation over the numbers of bins, of each metric."""
    table = np.array(values)
    return [float(x) for x in np.std(table, axis=0, ddof=1) / np.mean(table, axis=0)]


def _named(values: Sequence[float]) -> dict[str, float]:
    return dict(zip(("ece", "classwise", "full"), map(_rounded, values), strict=True))


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")


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
                for at in range(2 if kept.done else 0):
                    arrays = {name: [found[f"{name}{at}"]] for name in KINDS}
                    kept.counts.append(Counts(found[f"sums{at}"], arrays))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"{file} cannot be read: {error}. Remove it to begin again.") from error
        return kept

    def add(self, item: str, new: Sequence[Counts]) -> None:
        self.done.add(item)
        if not self.counts:
            self.counts = list(new)
            return
        for counts, more in zip(self.counts, new, strict=True):
            counts.add(more)

    def save(self) -> None:
        arrays: dict[str, Any] = {
            f"{name}{at}": array
            for at, counts in enumerate(self.counts)
            for name, array in counts.arrays().items()
        }
        memory = io.BytesIO()
        np.savez(
            memory,
            question=np.array(self.question),
            done=np.array(sorted(self.done), dtype=np.str_),
            temperature=np.array(self.temperature),
            **arrays,
        )
        try:
            write_atomically(self.path, memory.getvalue(), 0o600)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}.") from error


def _temperature(reading: Reader, some: Sequence[str]) -> float:
    """The temperature of the highest likelihood of these texts."""
    scored = [one for text in some for one in reading.score(*_parts(text), _GRID)]
    logits, sums = [one.logit for one in scored], np.array([one.log_sum_exps for one in scored])
    return float(f"{fit_token_temperature(logits, sums, _GRID):.6g}")


def _parts(text: str) -> tuple[Prompt, str]:
    """A text's first line as the prompt, and the rest, which is scored."""
    first, newline, rest = text.partition("\n")
    return Prompt(((Segment.TEXT, first + newline),), "", VERSION), rest
