"""The readings of a bench, and its report: percentiles with intervals, as JSON and for people."""

from __future__ import annotations

import enum
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from lsp_calib import __version__
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.protocol import Stats
from lsp_calib.server.ahead import BUDGET, WINDOW
from lsp_calib.terminal import Console

FORMAT = 4
_DRAWS = 2000
_SEED = 0
# A prompt needs this many tokens to measure the speed of a batch.
_LONG = 32

Floats = NDArray[np.float64]

Value = list[float | None]
"""As JSON: an estimate with the bounds of its 95 % bootstrap interval, None for fewer than 3 readings."""

Stopped = Literal["limit", "SIGINT"]
"""Why a bench was stopped early: at its time limit, or by Ctrl-C."""


class Place(enum.StrEnum):
    """The kind of a keystroke in a reading."""

    COLD = "cold"  # the first in a document
    JUMP = "jump"  # the first after the cursor was moved to another place
    REST = "jumpAfterRest"  # the same, after a look at the place
    RETURN = "returnAfterRest"  # the same, at a place that was typed at before
    NEWLINE = "newLine"
    KEYSTROKE = "keystroke"


_TYPING = (Place.KEYSTROKE, Place.NEWLINE)
_RESTED = (Place.REST, Place.RETURN)
# Of an hour's reading: the cursor goes on every 15 s.
_AN_HOUR = 240


@attrs.frozen
class Reading:
    """The cost of one change.

    wall_ms: from sending the change's bytes to receiving the answer's bytes. source: "model", "memory", or
    "none" if nothing was offered. evaluated, generated, decode_ms: as counted by the model process, 0 if it
    was not asked.
    ahead: prompt tokens that were evaluated while the cursor rested before. used: of these, those that this
    change made use of.
    """

    place: Place
    wall_ms: float
    source: str
    suggestion: dict[str, Any] | None
    evaluated: int
    generated: int
    decode_ms: float
    ahead: int = 0
    used: int = 0

    @property
    def asked_model(self) -> bool:
        """Whether the model had work to do."""
        return self.evaluated > 0


@attrs.define
class Cancelled:
    """idle_ms: from `$/cancelRequest` until the model process was idle, one reading each.

    too_late: requests that finished before they could be cancelled. uncancelled: milliseconds and prompt
    tokens of such a request that is not cancelled.
    """

    idle_ms: list[float] = attrs.field(factory=list)
    too_late: int = 0
    uncancelled: tuple[float, int] | None = None


@attrs.frozen
class Look:
    """A rest of the cursor after which nothing is typed. tokens: evaluated meanwhile. seconds: of a
    processor, of all threads together."""

    tokens: int
    seconds: float


@attrs.define
class Notes:
    """The readings so far: a stopped bench still has them.

    stats, engine, start_ms: of the server. stopped: None if it ran to its end.
    """

    card: ModelCard
    stats: Stats | None = None
    engine: str | None = None
    start_ms: float | None = None
    readings: list[Reading] = attrs.field(factory=list)
    looks: list[Look] = attrs.field(factory=list)
    cancelled: Cancelled = attrs.field(factory=Cancelled)
    stopped: Stopped | None = None
    seconds: float = 0.0


def spread_of(readings: Sequence[float]) -> dict[str, Any] | None:
    """p50 and p95 of n readings in the order they were taken, as JSON; None if there are none."""
    if not len(readings):
        return None
    both = {f"p{percent}": percentile(readings, percent) for percent in (50, 95)}
    return {**both, "n": len(readings)}


def percentile(readings: Sequence[float], percent: float) -> Value | None:
    """A percentile of readings in the order they were taken; None if there are none."""
    if not len(readings):
        return None
    values = np.asarray(readings, dtype=np.float64)
    return estimate(values, lambda rows: np.percentile(rows, percent, axis=-1))


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Value | None:
    """Median of a / b over pairs (a, b) in the order they were taken; None without a positive b."""
    return percentile([a / b for a, b in pairs if b > 0], 50)


def resamples(n: int, rng: np.random.Generator, draws: int = _DRAWS) -> NDArray[np.int64]:
    """Indices of bootstrap samples of n readings; shape (draws, n).

    Whole runs of consecutive readings are drawn (a circular block bootstrap, runs of about the cube root of
    n): the same causes slow down consecutive keystrokes, so drawing readings one by one would make the
    interval too narrow.
    """
    length = max(round(n ** (1 / 3)), 1)
    starts = rng.integers(0, n, size=(draws, -(-n // length)))
    runs = (starts[:, :, None] + np.arange(length)) % n
    return runs.reshape(draws, -1)[:, :n]


def estimate(values: Floats, statistic: Callable[[Floats], Floats]) -> Value:
    """A statistic of readings with its interval. values: the readings along the first axis."""
    value = float(statistic(values))
    if len(values) < 3:
        return [round(value, 3), None, None]
    drawn = statistic(values[resamples(len(values), np.random.default_rng(_SEED))])
    low, high = np.percentile(drawn, [2.5, 97.5])
    return [round(float(one), 3) for one in (value, low, high)]


def to_json(notes: Notes) -> dict[str, Any]:
    """The document of `lsp-calib bench --json`; models/records/README.md explains each value.

    Values with an interval are [estimate, lower bound, upper bound]; what was not measured is null.
    """
    stats = notes.stats
    readings = [reading for reading in notes.readings if reading.place not in _RESTED]
    sources = {source: sum(r.source == source for r in readings) for source in ("model", "memory", "none")}
    inside = [(r.wall_ms, r.decode_ms) for r in readings if r.asked_model and r.decode_ms]
    return {
        "format": FORMAT,
        "lspCalib": __version__,
        "model": notes.card.name,
        "quantisation": notes.card.quantisation,
        "engine": notes.engine,
        "threads": stats.threads if stats else None,
        "stopped": notes.stopped,
        "seconds": round(notes.seconds, 1),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        },
        "steps": len(readings),
        "startMs": None if notes.start_ms is None else round(notes.start_ms, 1),
        "latencyMs": {
            **{
                place.value: spread_of([r.wall_ms for r in notes.readings if r.place is place])
                for place in Place
            },
            # Every keystroke, from memory or not; the first one in a document has nothing to build on.
            "all": spread_of([r.wall_ms for r in readings if r.place is not Place.COLD]),
            # The latency that a user feels if no answer comes from memory.
            "typingModel": spread_of([r.wall_ms for r in readings if r.asked_model and r.place in _TYPING]),
            "askedModel": spread_of([r.wall_ms for r in readings if r.asked_model]),
        },
        "answers": {
            **sources,
            "shareFromMemory": round(sources["memory"] / len(readings), 3) if readings else None,
        },
        "evaluated": {
            place.value: spread_of(
                [r.evaluated for r in notes.readings if r.place is place and r.asked_model]
            )
            for place in Place
        },
        "ahead": _ahead(notes.readings, speed(readings)),
        "readingHour": reading_hour(notes.looks),
        "overDecode": median_ratio(inside),
        "speed": speed(readings),
        "cancel": _cancel(notes.cancelled),
    }


def is_empty(report: dict[str, Any]) -> bool:
    """Whether there is no reading that a report could show."""
    return not report["steps"] and report["cancel"] is None


def speed(readings: Sequence[Reading]) -> dict[str, Any] | None:
    """Tokens per second, evaluated (long prompts) and generated. None if there were too few."""
    generation = [
        1e3 * (r.generated - 1) / r.suggestion["timing"]["generateMs"]
        for r in readings
        if r.suggestion
        and r.source == "model"
        and r.generated > 1
        and r.suggestion["timing"]["generateMs"] > 0
    ]
    if not generation:
        return None
    generated_per_s = median(generation)
    prompt = [
        1e3 * r.evaluated / ms
        for r in readings
        if r.evaluated >= _LONG and (ms := r.decode_ms - 1e3 * (r.generated - 1) / generated_per_s) > 0
    ]
    if not prompt:
        return None
    return {
        "promptTokensPerS": round(median(prompt), 1),
        "generatedTokensPerS": round(generated_per_s, 1),
        "prompts": len(prompt),
        "generations": len(generation),
    }


def _ahead(readings: Sequence[Reading], known: dict[str, Any] | None) -> dict[str, Any] | None:
    """What was ready before the first key at a place, by kind of place. None where the cursor never rested.

    known: the speed, by which tokens are time.
    """
    ms = 1e3 / known["promptTokensPerS"] if known else None

    def of(rested: Sequence[Reading]) -> dict[str, Any] | None:
        if not rested:
            return None
        return {
            "evaluated": spread_of([r.ahead for r in rested]),
            "used": spread_of([r.used for r in rested]),
            "left": spread_of([r.evaluated for r in rested]),
            "savedMs": None if ms is None else spread_of([ms * r.used for r in rested]),
        }

    found = {place.value: of([r for r in readings if r.place is place]) for place in _RESTED}
    return found if any(found.values()) else None


def reading_hour(looks: Sequence[Look]) -> dict[str, Any] | None:
    """The processor time of an hour in which the cursor rests `_AN_HOUR` times and nothing is typed: that of
    so many rests like these, and no more than the server's limit. None without a rest."""
    if not looks:
        return None
    each = sum(look.seconds for look in looks) / len(looks)
    limit = 3600 * BUDGET / WINDOW
    seconds = min(_AN_HOUR * each, limit)
    return {
        "rests": len(looks),
        "tokensEach": round(sum(look.tokens for look in looks) / len(looks), 1),
        "secondsEach": round(each, 3),
        "restsAnHour": _AN_HOUR,
        "limitSeconds": limit,
        "seconds": round(seconds, 1),
        "shareOfACore": round(seconds / 3600, 3),
    }


def _cancel(measured: Cancelled) -> dict[str, Any] | None:
    """None until a request was cancelled."""
    if measured.uncancelled is None or not (measured.idle_ms or measured.too_late):
        return None
    return {
        "toIdleMs": spread_of(measured.idle_ms),
        "tooLate": measured.too_late,
        "promptTokens": measured.uncancelled[1],
        "uncancelledMs": round(measured.uncancelled[0], 1),
    }


_PLACES = {
    "cold": "first in a document",
    "keystroke": "keystroke",
    "newLine": "new line",
    "jump": "jump to another place",
    "jumpAfterRest": "jump, after a look",
    "returnAfterRest": "return, after a look",
    "all": "all but the first",
    "typingModel": "typing, model asked",
    "askedModel": "all, model asked",
}


def print_report(report: dict[str, Any], console: Console | None = None) -> None:
    """Print the document of `to_json` for people."""
    console = console or Console(markup=True)
    for line in _lines(report):
        console.print(line)


def _lines(report: dict[str, Any]) -> Iterator[str | Table]:
    words = f"[bold]{escape(report['model'])}[/bold] {escape(report['quantisation'])}"
    if report["engine"]:
        words += f" · {report['engine']} · {report['threads']} threads"
    words += f" · {report['machine']['processors']} processors"
    yield words + (f" · ready after {report['startMs'] / 1e3:.1f} s" if report["startMs"] else "")
    if report["stopped"]:
        how = "at its time limit" if report["stopped"] == "limit" else "by Ctrl-C"
        yield (
            f"[yellow]Stopped {how} after {report['seconds']:.0f} s: the figures are of the readings until "
            "then.[/yellow]"
        )
    if report["steps"]:
        yield _latencies(report)
        share = f"{report['answers']['shareFromMemory']:.0%}".replace("%", " %")
        yield f"From memory, without the model: {share} of {report['steps']}."
    if report["overDecode"]:
        yield f"Over the time inside llama.cpp: median of ratios {in_words(report['overDecode'], 3)}."
    yield from _about_ahead(report)
    if found := report["speed"]:
        yield (
            f"Speed: {found['promptTokensPerS']:.0f} prompt tokens/s ({found['prompts']} prompts), "
            f"{found['generatedTokensPerS']:.0f} generated tokens/s ({found['generations']} answers)."
        )
    if (found := report["cancel"]) and (to_idle := found["toIdleMs"]):
        yield (
            f"From cancelling to an idle model: p50 {in_words(to_idle['p50'])} ms, p95 "
            f"{in_words(to_idle['p95'])} ms ({to_idle['n']} requests; prompts of {found['promptTokens']} "
            f"tokens, {found['uncancelledMs']:.0f} ms if left alone)."
        )
    yield "[dim]In brackets: 95 % bootstrap intervals over runs of consecutive keystrokes.[/dim]"


def _about_ahead(report: dict[str, Any]) -> Iterator[str]:
    for place, found in (report["ahead"] or {}).items():
        if found:
            tokens = (f"{found[name]['p50'][0]:.0f}" for name in ("evaluated", "used", "left"))
            saved = f": {found['savedMs']['p50'][0]:.0f} ms saved" if found["savedMs"] else ""
            yield "{}: {} prompt tokens evaluated before the key, {} used, {} left at the key{}.".format(
                _PLACES[place].capitalize(), *tokens, saved
            )
    if hour := report["readingHour"]:
        share = f"{hour['shareOfACore']:.0%}".replace("%", " %")
        yield (
            f"An hour of reading ({hour['restsAnHour']} rests): {hour['seconds']:.0f} s of processor time, "
            f"{share} of a core; calculated from {hour['rests']} rests and the limit of "
            f"{hour['limitSeconds']:.0f} s."
        )


def _latencies(report: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Milliseconds to the suggestion", title_justify="left")
    for name in ("", "n", "p50", "p95", "tokens evaluated"):
        table.add_column(name, justify="left" if not name else "right")
    for place, words in _PLACES.items():
        if found := report["latencyMs"][place]:
            tokens = report["evaluated"].get(place)
            cells = (str(found["n"]), in_words(found["p50"]), in_words(found["p95"]))
            table.add_row(words, *cells, f"{tokens['p50'][0]:.0f}" if tokens else "")
    return table


def in_words(value: Value, digits: int = 0) -> str:
    """An estimate with its interval, as text for rich."""
    known, low, high = value
    if low is None or high is None:
        return f"{known:.{digits}f}"
    return f"{known:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]".replace("[", "\\[")
