"""The readings of a bench, and its report: percentiles and ratios with intervals, as JSON and for people."""

from __future__ import annotations

import enum
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from lsp_calib import __version__
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.wire import Stats
from lsp_calib.terminal import Console
from lsp_calib.tools.bench.beside import Asked, Beside, How, Run
from lsp_calib.tools.bench.processes import Repeated
from lsp_calib.tools.bench.typist import Cancelled, Place, Reading

FORMAT = 2
_DRAWS = 2000
_LEVEL = 95.0
_SEED = 0
# A prompt needs this many tokens to measure the speed of a batch.
_LONG = 32
_TYPING = (Place.KEYSTROKE, Place.NEWLINE)
# Seconds after busy processes have ended.
_WINDOWS = ((0, 5), (5, 10))

Floats = NDArray[np.float64]
Milliseconds = Sequence[tuple[float, float]]

Value = list[float | None]
"""As JSON: an estimate with the bounds of its 95 % bootstrap interval, None for fewer than 3 readings."""


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
    return _estimate(values, lambda rows: np.percentile(rows, percent, axis=-1))


def median_ratio(pairs: Milliseconds) -> Value | None:
    """Median of a / b over pairs (a, b) in the order they were taken; None without a positive b."""
    return percentile([a / b for a, b in pairs if b > 0], 50)


def ratio_of_percentiles(pairs: Milliseconds, percent: float) -> Value | None:
    """Percentile of all a divided by that of all b; pairs are resampled together. None if it is undefined."""
    both = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    if not len(both) or np.percentile(both[:, 1], percent) <= 0:
        return None

    def ratio(rows: Floats) -> Floats:
        high, low = np.moveaxis(np.percentile(rows, percent, axis=-2), -1, 0)
        found: Floats = high / np.maximum(low, np.finfo(np.float64).tiny)
        return found

    return _estimate(both, ratio)


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


def _estimate(values: Floats, statistic: Callable[[Floats], Floats]) -> Value:
    """values: the readings along the first axis."""
    value = float(statistic(values))
    if len(values) < 3:
        return [round(value, 3), None, None]
    drawn = statistic(values[resamples(len(values), np.random.default_rng(_SEED))])
    low, high = np.percentile(drawn, [(100 - _LEVEL) / 2, (100 + _LEVEL) / 2])
    return [round(float(one), 3) for one in (value, low, high)]


class Stopped(enum.StrEnum):
    """Why a bench was stopped early."""

    LIMIT = "limit"
    INTERRUPT = "SIGINT"
    TERMINATE = "SIGTERM"

    @property
    def words(self) -> str:
        others = "by Ctrl-C" if self is Stopped.INTERRUPT else "by a signal to terminate"
        return "at its time limit" if self is Stopped.LIMIT else others

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as in shells; 0 at the limit, which the user asked for."""
        return {Stopped.LIMIT: 0, Stopped.INTERRUPT: 130, Stopped.TERMINATE: 143}[self]


@attrs.define
class Notes:
    """The readings so far. Each part adds its own, so that a stopped bench still has its readings.

    left: the parts that are not finished. stats, engine, start_ms: of the server. peer: its description.
    missing: further things that were not measured, with reasons. stopped: None if it ran to its end.
    """

    card: ModelCard
    left: list[str] = attrs.field(factory=list)
    stats: Stats | None = None
    engine: str | None = None
    start_ms: float | None = None
    readings: list[Reading] = attrs.field(factory=list)
    cancelled: Cancelled = attrs.field(factory=Cancelled)
    peer: dict[str, object] = attrs.field(factory=dict)
    beside: Beside = attrs.field(factory=Beside)
    missing: dict[str, str] = attrs.field(factory=dict)
    stopped: Stopped | None = None
    seconds: float = 0.0


def to_json(notes: Notes) -> dict[str, Any]:
    """The document of `lsp-calib bench --json`; docs/bench.md explains each value.

    Values with an interval are [estimate, lower bound, upper bound]; values that were not measured are null,
    with the reason in `notMeasured`.
    """
    readings, stats, stopped = notes.readings, notes.stats, notes.stopped
    # A part that was cut short may still have readings.
    cut = f"the bench was stopped {stopped.words} before this was finished" if stopped else ""
    return {
        "format": FORMAT,
        "lspCalib": __version__,
        "model": notes.card.name,
        "quantisation": notes.card.quantisation,
        "engine": notes.engine,
        "threads": stats.threads if stats else None,
        "stopped": stopped.value if stopped else None,
        "seconds": round(notes.seconds, 1),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        },
        "steps": len(readings),
        "startMs": None if notes.start_ms is None else round(notes.start_ms, 1),
        "latencyMs": latencies(readings),
        "answers": answers(readings),
        "evaluated": {
            place.value: spread_of([r.evaluated for r in readings if r.place is place and r.asked_model])
            for place in Place
        },
        "overhead": overhead(readings),
        "speed": speed(readings),
        "cancel": cancel(notes.cancelled),
        "peer": against_peer(notes.peer, readings),
        "beside": beside(notes.beside),
        "notMeasured": {**(dict.fromkeys(notes.left, cut) if stopped else {}), **notes.missing},
    }


def is_empty(report: dict[str, Any]) -> bool:
    """Whether there is no reading that a report could show."""
    return not report["steps"] and report["cancel"] is None and report["beside"] is None


def latencies(readings: Sequence[Reading]) -> dict[str, Any]:
    """Milliseconds from a keystroke to its answer, by kind of keystroke."""
    return {
        **{place.value: spread_of([r.wall_ms for r in readings if r.place is place]) for place in Place},
        # Every keystroke, from memory or not; the first one in a document has nothing to build on.
        "all": spread_of([r.wall_ms for r in readings if r.place is not Place.COLD]),
        # The latency that a user feels if no answer comes from memory.
        "typingModel": spread_of([r.wall_ms for r in readings if r.asked_model and r.place in _TYPING]),
        "askedModel": spread_of([r.wall_ms for r in readings if r.asked_model]),
    }


def answers(readings: Sequence[Reading]) -> dict[str, Any]:
    """Number of answers by source."""
    counts = {source: sum(r.source == source for r in readings) for source in ("model", "memory", "none")}
    return {**counts, "shareFromMemory": round(counts["memory"] / len(readings), 3) if readings else None}


def overhead(readings: Sequence[Reading]) -> dict[str, Any]:
    """Time to the suggestion, divided by the time of the same tokens in llama.cpp, in two ways."""
    inside = [(r.wall_ms, r.decode_ms) for r in readings if r.asked_model and r.decode_ms]
    return {
        "overDecode": median_ratio(inside),
        "inside": len(inside),
        **_paired([(r, r.raw) for r in readings if r.raw is not None]),
    }


def against_peer(description: dict[str, object], readings: Sequence[Reading]) -> dict[str, Any] | None:
    """The same for a llama-server."""
    both = [(r, r.peer) for r in readings if r.peer is not None]
    if not both:
        return None
    evaluated = {
        "evaluated": spread_of([r.evaluated for r, _ in both]),
        "peerEvaluated": spread_of([peer.evaluated for _, peer in both]),
    }
    return {**description, **_paired(both), **evaluated}


def _paired(both: Sequence[tuple[Reading, Repeated]]) -> dict[str, Any]:
    """The server's times over those of the same tokens elsewhere; without those that did other work."""
    same = [(r.place, (r.wall_ms, other.ms)) for r, other in both if other.same]
    pairs = [pair for _, pair in same]
    places = {place: [pair for kind, pair in same if kind is place] for place in Place}
    return {
        "unequal": len(both) - len(same),
        **_ratios(pairs),
        "places": {
            place.value: {"medianOfRatios": median_ratio(found), "n": len(found)}
            for place, found in places.items()
            if found
        },
    }


def _ratios(pairs: Milliseconds) -> dict[str, Any]:
    """The first times of the pairs over the second ones."""
    return {
        "n": len(pairs),
        "oursMs": spread_of([ours for ours, _ in pairs]),
        "theirsMs": spread_of([theirs for _, theirs in pairs]),
        "p50Ratio": ratio_of_percentiles(pairs, 50),
        "p95Ratio": ratio_of_percentiles(pairs, 95),
        "medianOfRatios": median_ratio(pairs),
    }


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


def cancel(measured: Cancelled) -> dict[str, Any] | None:
    """None until a request was cancelled."""
    if measured.alone is None or not (measured.idle_ms or measured.too_late):
        return None
    return {
        "toIdleMs": spread_of(measured.idle_ms),
        "tooLate": measured.too_late,
        "promptTokens": measured.alone[1],
        "uncancelledMs": round(measured.alone[0], 1),
    }


def beside(measured: Beside) -> dict[str, Any] | None:
    """How much longer a key takes beside other work, and for how long. None before the first reading."""
    quiet = measured.quiet
    if not quiet:
        return None
    runs = {run.how: _run(quiet, run) for run in measured.runs if run.readings}
    return {
        "processes": measured.processes,
        "keys": measured.keys,
        "generated": spread_of([one.generated for one in quiet]),
        "quietMs": spread_of([one.ms for one in quiet]),
        **{how.value: runs.get(how) for how in How},
    }


def _run(quiet: Sequence[Asked], run: Run) -> dict[str, Any]:
    # Each phase types the same keys in the same order; a stopped run has fewer of them.
    both = list(zip(run.readings, quiet, strict=False))
    pairs = [(one.ms, other.ms) for one, other in both if one.same_work(other)]
    return {
        "unequal": len(both) - len(pairs),
        **_ratios(pairs),
        "worstRatio": round(max(busy / usual for busy, usual in pairs), 3) if pairs else None,
        "after": after(quiet, run.after),
    }


def after(quiet: Sequence[Asked], readings: Sequence[Asked]) -> dict[str, Any]:
    """Ratios of readings after the busy processes to the median of the same key on the quiet machine."""
    found = []  # (seconds, ratio)
    for one in readings:
        if usual := [other.ms for other in quiet if other.same_work(one)]:
            found.append((one.at, one.ms / median(usual)))
    return {
        f"seconds{low}To{high}": {
            "n": len(inside := [ratio for at, ratio in found if low <= at < high]),
            "medianOfRatios": percentile(inside, 50),
        }
        for low, high in _WINDOWS
    }


_PLACES = {
    "cold": "first in a document",
    "keystroke": "keystroke",
    "newLine": "new line",
    "jump": "jump to another place",
    "all": "all but the first",
    "typingModel": "typing, model asked",
    "askedModel": "all, model asked",
}


def print_report(report: dict[str, Any], console: Console | None = None) -> None:
    """Print the document of `to_json` for people."""
    console = console or Console(markup=True)
    for line in _lines(report):
        console.print(line)


def _lines(report: dict[str, Any]) -> Iterable[str | Table]:
    yield _heading(report)
    if report["stopped"]:
        yield (
            f"[yellow]Stopped {Stopped(report['stopped']).words} after {report['seconds']:.0f} s: "
            "the figures are of the readings until then.[/yellow]"
        )
    if report["steps"]:
        yield _latencies(report)
        yield from _typing(report)
    if peer := report["peer"]:
        yield f"Over the peer, same tokens: {_paired_words(peer)}."
    if (found := report["cancel"]) and (to_idle := found["toIdleMs"]):
        yield (
            f"From cancelling to an idle model: p50 {_value(to_idle['p50'])} ms, p95 "
            f"{_value(to_idle['p95'])} ms ({to_idle['n']} requests; prompts of {found['promptTokens']} "
            f"tokens, {found['uncancelledMs']:.0f} ms if left alone)."
        )
    if found := report["beside"]:
        yield from _beside(found)
    for what, why in report["notMeasured"].items():
        yield f"[yellow]Not measured: {what}: {escape(why)}.[/yellow]"
    yield "[dim]In brackets: 95 % bootstrap intervals over runs of consecutive keystrokes.[/dim]"


def _heading(report: dict[str, Any]) -> str:
    words = f"[bold]{escape(report['model'])}[/bold] {escape(report['quantisation'])}"
    if report["engine"]:
        words += f" · {report['engine']} · {report['threads']} threads"
    words += f" · {report['machine']['processors']} processors"
    return words + (f" · ready after {report['startMs'] / 1e3:.1f} s" if report["startMs"] else "")


def _latencies(report: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Milliseconds to the suggestion", title_justify="left")
    for name in ("", "n", "p50", "p95", "tokens evaluated"):
        table.add_column(name, justify="left" if not name else "right")
    for place, words in _PLACES.items():
        if found := report["latencyMs"][place]:
            tokens = report["evaluated"].get(place)
            cells = (str(found["n"]), _value(found["p50"]), _value(found["p95"]))
            table.add_row(words, *cells, f"{tokens['p50'][0]:.0f}" if tokens else "")
    return table


def _typing(report: dict[str, Any]) -> Iterator[str]:
    share = f"{report['answers']['shareFromMemory']:.0%}".replace("%", " %")
    yield f"From memory, without the model: {share} of {report['steps']}."
    overhead = report["overhead"]
    if overhead["n"]:
        yield f"Over the same tokens in a bare llama.cpp loop: {_paired_words(overhead)}."
    if overhead["overDecode"]:
        over = _value(overhead["overDecode"], 3)
        yield f"Over the time inside llama.cpp: median of ratios {over} ({overhead['inside']} keystrokes)."
    if speed := report["speed"]:
        yield (
            f"Speed: {speed['promptTokensPerS']:.0f} prompt tokens/s ({speed['prompts']} prompts), "
            f"{speed['generatedTokensPerS']:.0f} generated tokens/s ({speed['generations']} answers)."
        )


def _beside(found: dict[str, Any]) -> Iterator[str]:
    count = "1 process" if found["processes"] == 1 else f"{found['processes']} processes"
    for how in How:
        if not (run := found[how.value]):
            continue
        worst = f"; worst {run['worstRatio']:.2f}" if run["n"] else ""
        yield f"Beside {count} {how.words}, over the quiet machine: {_paired_words(run)}{worst}."
        words = (
            f"{_value(part['medianOfRatios'], 2)} ({part['n']}) in seconds {low} to {high}"
            for low, high in _WINDOWS
            if (part := run["after"][f"seconds{low}To{high}"])["n"]
        )
        if said := ", ".join(words):
            yield f"  After they had ended: median of ratios {said}."


def _paired_words(found: dict[str, Any]) -> str:
    """The figures of `_ratios` in words."""
    if not found["n"]:
        return f"no pair did the same work ({found['unequal']} others)"
    ours, theirs = (_value(found[name]["p50"]) for name in ("oursMs", "theirsMs"))
    others = f"; {found['unequal']} did other work" if found.get("unequal") else ""
    return (
        f"median of ratios {_value(found['medianOfRatios'], 3)}, p50 {ours} and {theirs} ms, ratio "
        f"{_value(found['p50Ratio'], 2)}, p95 ratio {_value(found['p95Ratio'], 2)} ({found['n']} pairs"
        f"{others})"
    )


def _value(value: Value, digits: int = 0) -> str:
    """An estimate with its interval, as text for rich."""
    estimate, low, high = value
    if low is None or high is None:
        return f"{estimate:.{digits}f}"
    return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]".replace("[", "\\[")
