"""The readings of a bench, and its report as one JSON document: percentiles and ratios with intervals."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib import __version__
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.wire import Stats
from lsp_calib.tools.bench.comparisons import (
    LONG_FILE,
    Asked,
    Beside,
    How,
    Pairs,
    PeerReading,
    Run,
    where_asked,
)
from lsp_calib.tools.bench.forecast import Stopped
from lsp_calib.tools.bench.processes import shared_by_session
from lsp_calib.tools.bench.server import Idle
from lsp_calib.tools.bench.summaries import BUDGET, Summaries
from lsp_calib.tools.bench.typist import Counts, Place, Reading
from lsp_calib.tools.bench.uncached import KEYS, Burst, Cancelled

_DRAWS = 2000
_LEVEL = 95.0
_SEED = 0

Floats = NDArray[np.float64]


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


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Value | None:
    """Median of a / b over pairs (a, b) in the order they were taken; None without a positive b."""
    return percentile([a / b for a, b in pairs if b > 0], 50)


def ratio_of_percentiles(pairs: Sequence[tuple[float, float]], percent: float) -> Value | None:
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


FORMAT = 1
FIRST = 10
BACK = 1.1
"""Latency counts as recovered at this ratio to that of the quiet machine."""
# Number of consecutive readings that show the recovery.
_IN_A_ROW = 5
_WINDOWS = ((0.0, 5.0), (5.0, 10.0))
# A prompt needs this many tokens to measure the speed of a batch.
_LONG = 32
_MERGED = 2
# Milliseconds beyond the budget that the answer of a hover may take: it is written and read.
_MORE = 50.0
_TYPING = (Place.KEYSTROKE, Place.NEWLINE)

Milliseconds = Sequence[tuple[float, float]]


@attrs.define
class Notes:
    """The readings so far. Each part adds its own, so that a stopped bench still has its readings.

    stats, engine, start_ms: of the server of the main part, or else of the first one. peer: its description.
    missing: parts that were not measured, with reasons. stopped: None if it ran to its end.
    """

    card: ModelCard
    stats: Stats | None = None
    engine: str | None = None
    start_ms: float | None = None
    readings: list[Reading] = attrs.field(factory=list)
    idle: Idle | None = None
    cancelled: Cancelled = attrs.field(factory=Cancelled)
    bursts: list[Burst] = attrs.field(factory=list)
    long_file: Pairs = attrs.field(factory=list)
    two: tuple[Pairs, Pairs] = attrs.field(factory=lambda: ([], []))
    peer: dict[str, object] = attrs.field(factory=dict)
    against: list[PeerReading] = attrs.field(factory=list)
    beside: Beside = attrs.field(factory=Beside)
    summaries: Summaries = attrs.field(factory=Summaries)
    missing: dict[str, str] = attrs.field(factory=dict)
    stopped: Stopped | None = None
    seconds: float = 0.0

    def end(self, stopped: Stopped | None, unfinished: Iterable[str], seconds: float) -> None:
        """unfinished: the parts that were cut short or not begun when it was stopped."""
        self.stopped, self.seconds = stopped, seconds
        if stopped:
            # A part that was cut short may still have readings.
            words = f"the bench was stopped {stopped.words} before this was finished"
            self.missing = {**dict.fromkeys(unfinished, words), **self.missing}


def to_json(notes: Notes) -> dict[str, Any]:
    """The document of `lsp-calib bench --json`; docs/bench.md explains each value.

    Values with an interval are [estimate, lower bound, upper bound]; values that were not measured are null,
    with the reason in `notMeasured`.
    """
    readings, stats = notes.readings, notes.stats
    return {
        "format": FORMAT,
        "lspCalib": __version__,
        "model": notes.card.name,
        "quantisation": notes.card.quantisation,
        "engine": notes.engine,
        "threads": stats.threads if stats else None,
        "stopped": notes.stopped.value if notes.stopped else None,
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
        "faults": faults(readings),
        "tokens": {place.value: tokens(readings, place) for place in Place if place is not Place.COLD},
        "newLines": new_lines(readings),
        "ahead": {"tokens": stats.ahead_tokens, "ms": round(stats.ahead_ms, 1)} if stats else None,
        "overhead": overhead(readings),
        "speed": speed(readings),
        "cancel": cancel(notes.cancelled),
        "typingOn": typing_on(notes.bursts),
        "longFile": long_file(notes.long_file),
        "two": two(notes.two),
        "idle": idle(notes.idle),
        "peer": against_peer(notes.peer, notes.against),
        "beside": beside(notes.beside),
        "summaries": summaries(notes.summaries),
        "notMeasured": notes.missing,
    }


def _spreads(items: Sequence[object], **names: str) -> dict[str, Any]:
    """Spreads of attributes. names: the attribute for each key."""
    return {key: spread_of([getattr(item, name) for item in items]) for key, name in names.items()}


def is_empty(report: dict[str, Any]) -> bool:
    """Whether there is no reading that a report could show."""
    parts = ("cancel", "typingOn", "longFile", "two", "idle", "peer", "beside", "summaries")
    return not report["steps"] and all(report[part] is None for part in parts)


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


def faults(readings: Sequence[Reading]) -> dict[str, Any] | None:
    """Suggestions that changed while they were typed, and those that repeat what is there."""
    if not readings:
        return None
    columns = zip(*(attrs.astuple(r.counts) for r in readings), strict=True)
    total = Counts(*(sum(column) for column in columns))
    return {
        "typedAlong": total.typed_along,
        "changed": total.changed,
        "repeatsRest": total.repeats_rest,
        "repeatsNext": total.repeats_next,
    }


def tokens(readings: Sequence[Reading], place: Place) -> dict[str, Any] | None:
    """Prompt tokens evaluated, compared with those that changed, for requests to the model."""
    pairs = [(r.evaluated, r.needed) for r in readings if r.place is place and r.asked_model and r.needed]
    if not pairs:
        return None
    return {
        "n": len(pairs),
        "evaluated": spread_of([evaluated for evaluated, _ in pairs]),
        "needed": spread_of([needed for _, needed in pairs]),
        "medianRatio": median_ratio(pairs),
    }


def new_lines(readings: Sequence[Reading]) -> dict[str, Any] | None:
    """How many new lines caused evaluation of only the finished line and the text after it."""
    asked = [r for r in readings if r.place is Place.NEWLINE and r.asked_model and r.tail is not None]
    if not asked:
        return None
    # The last tokens of the text above may have merged with the new text.
    within = sum(r.evaluated <= (r.tail or 0) + _MERGED for r in asked)
    return {"n": len(asked), "within": within}


def overhead(readings: Sequence[Reading]) -> dict[str, Any]:
    """Time to the suggestion, divided by the time of the same tokens in llama.cpp, in two ways."""
    asked = [r for r in readings if r.asked_model]
    inside = [(r.wall_ms, r.decode_ms) for r in asked if r.decode_ms]
    bare = [(r, r.raw) for r in asked if r.raw is not None]
    # The bare loop has one cache, the server several. If it kept fewer tokens, its work was not the same.
    same = [(r.place, (r.wall_ms, raw.ms)) for r, raw in bare if raw.evaluated == r.evaluated]
    pairs = [pair for _, pair in same]
    return {
        "overDecode": median_ratio(inside),
        "inside": len(inside),
        "overRaw": median_ratio(pairs),
        "n": len(pairs),
        "unequal": len(bare) - len(pairs),
        "medianWallMs": round(median(wall for wall, _ in pairs), 2) if pairs else None,
        "medianRawMs": round(median(raw for _, raw in pairs), 2) if pairs else None,
        "places": _by_place(same, "overRaw"),
    }


def _by_place(pairs: Sequence[tuple[Place, tuple[float, float]]], name: str) -> dict[str, Any]:
    """The median of the ratios, by kind of keystroke."""
    return {
        place.value: {name: median_ratio(found), "n": len(found)}
        for place in Place
        if (found := [pair for kind, pair in pairs if kind is place])
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
    if measured.alone is None or not (measured.idle_ms or measured.superseded_ms or measured.too_late):
        return None
    return {
        "toIdleMs": spread_of(measured.idle_ms),
        "supersededToNextMs": spread_of(measured.superseded_ms),
        "tooLate": measured.too_late,
        "promptTokens": measured.alone[1],
        "uncancelledMs": round(measured.alone[0], 1),
    }


def typing_on(bursts: Sequence[Burst]) -> dict[str, Any] | None:
    """Times of typing on, and the share of the typing time by which the last answer came sooner."""
    if not bursts:
        return None
    long, single = ([one for one in bursts if (one.keys > 1) is several] for several in (True, False))
    share = None
    if long and single:
        at_once, then = (median(one.then_ms for one in some) for some in (single, long))
        share = round((at_once - then) / median(one.typed_ms for one in long), 3)
    return {
        "keys": KEYS,
        **_spreads(long, typedMs="typed_ms", thenMs="then_ms"),
        **_spreads(single, atOnceMs="then_ms"),
        **_spreads(long, thenTokens="then_tokens"),
        **_spreads(single, atOnceTokens="then_tokens"),
        "shareUsed": share,
    }


def long_file(pairs: Pairs) -> dict[str, Any] | None:
    """pairs: answers in the short and in the long document."""
    if not pairs:
        return None
    asked = where_asked(pairs)
    return {
        "lines": list(LONG_FILE),
        "n": len(pairs),
        "extraMs": percentile([long - short for (short, _), (long, _) in pairs], 50),
        "asked": len(asked),
        "p50Ms": [round(median(times), 2) for times in zip(*asked, strict=True)] or None,
        "p50Ratio": ratio_of_percentiles([(long, short) for short, long in asked], 50),
    }


def two(servers: Sequence[Pairs]) -> dict[str, Any] | None:
    """servers: of each, answers alone and together."""
    if not any(servers):
        return None
    return {"servers": [_together(where_asked(pairs)) for pairs in servers]}


def _together(pairs: Milliseconds) -> dict[str, Any]:
    return {
        "aloneMs": spread_of([alone for alone, _ in pairs]),
        "togetherMs": spread_of([together for _, together in pairs]),
        "p50Ratio": ratio_of_percentiles([(together, alone) for alone, together in pairs], 50),
    }


def idle(watched: Idle | None) -> dict[str, Any] | None:
    if watched is None:
        return None
    server, model = (
        None if used is None else round(1e3 * used, 1) for used in (watched.server, watched.model)
    )
    return {"seconds": round(watched.seconds, 2), "serverCpuMs": server, "modelCpuMs": model}


def against_peer(description: dict[str, object], readings: Sequence[PeerReading]) -> dict[str, Any] | None:
    if not readings:
        return None
    pairs = [(r.wall_ms, r.peer.ms) for r in readings]
    return {
        **description,
        "n": len(readings),
        "oursMs": spread_of([ours for ours, _ in pairs]),
        "peerMs": spread_of([theirs for _, theirs in pairs]),
        **_ratios(pairs),
        "places": _by_place([(r.place, (r.wall_ms, r.peer.ms)) for r in readings], "medianOfRatios"),
        # If these are not 0, the two did not do the same work.
        "otherPromptLength": sum(r.peer.prompt_tokens != r.prompt_tokens for r in readings),
        "otherAnswerLength": sum(r.generated != r.predicted for r in readings),
        "otherPeerAnswerLength": sum(r.peer.generated != r.predicted for r in readings),
        "evaluated": spread_of([r.evaluated for r in readings]),
        "peerEvaluated": spread_of([r.peer.evaluated for r in readings]),
    }


def _ratios(pairs: Milliseconds) -> dict[str, Any]:
    return {
        "p50Ratio": ratio_of_percentiles(pairs, 50),
        "p95Ratio": ratio_of_percentiles(pairs, 95),
        "medianOfRatios": median_ratio(pairs),
    }


def beside(measured: Beside) -> dict[str, Any] | None:
    """How much slower beside other work, and for how long."""
    quiet = measured.quiet
    if not quiet:
        return None
    runs = {run.how: run for run in measured.runs if run.readings}
    return {
        "processes": measured.processes,
        "sharedBySession": shared_by_session(),
        "keys": measured.keys,
        **_spreads(quiet, generated="generated", evaluated="evaluated", quietMs="ms"),
        **{how.value: _run(quiet, runs[how]) if how in runs else None for how in How},
    }


def _run(quiet: Sequence[Asked], run: Run) -> dict[str, Any]:
    # Each phase types the same keys in the same order; a stopped run has fewer of them.
    both = list(zip(run.readings, quiet, strict=False))
    pairs = [(one.ms, other.ms) for one, other in both if one.same_work(other)]
    first = [(one.ms, other.ms) for one, other in both[:FIRST] if one.same_work(other)]
    return {
        "besideMs": spread_of([one.ms for one in run.readings]),
        **_with_worst(pairs),
        "unequal": len(both) - len(pairs),
        "first": _with_worst(first),
        "busyShare": None if run.share is None else round(run.share, 3),
        "sameSession": run.same_session,
        "after": after(quiet, run.after),
    }


def _with_worst(pairs: Milliseconds) -> dict[str, Any]:
    """pairs: milliseconds beside busy processes and without, of the same work."""
    worst = round(max(a / b for a, b in pairs), 3) if pairs else None
    return {"n": len(pairs), **_ratios(pairs), "worstRatio": worst}


def after(quiet: Sequence[Asked], readings: Sequence[Asked]) -> dict[str, Any] | None:
    """The readings after the busy processes ended, relative to the same keys on the quiet machine.

    None without readings.
    """
    found = []  # (seconds, ratio to the median of the quiet readings of the same key and work)
    for one in readings:
        if usual := [other.ms for other in quiet if other.same_work(one)]:
            found.append((one.at, one.ms / median(usual)))
    if not found:
        return None
    windows = {
        f"seconds{low:.0f}To{high:.0f}": {
            "n": len(inside := [ratio for at, ratio in found if low <= at < high]),
            "medianOfRatios": percentile(inside, 50),
        }
        for low, high in _WINDOWS
    }
    return {**windows, "backAfterS": back_after(found)}


def back_after(found: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until the first of five ratios in a row whose median is at most 1.1; None if there is none."""
    for at in range(len(found) - _IN_A_ROW + 1):
        if median(ratio for _, ratio in found[at : at + _IN_A_ROW]) <= BACK:
            return round(found[at][0], 2)
    return None


def summaries(measured: Summaries) -> dict[str, Any] | None:
    first, typed = measured.first, measured.typed
    pairs = [(beside.ms, without.ms) for beside, without in typed if beside.asked and without.asked]
    if not (first or measured.known_ms or measured.new_ms):
        return None
    return {
        "first": {
            "n": len(first),
            **{name: spread_of([one[name] for one in first]) for name in first[0]},
        }
        if first
        else None,
        "hover": {
            "budgetMs": BUDGET,
            "knownMs": spread_of(measured.known_ms),
            "newMs": spread_of(measured.new_ms),
            "worstNewMs": round(max(measured.new_ms), 1) if measured.new_ms else None,
            "withinBudget": sum(ms <= BUDGET + _MORE for ms in measured.new_ms),
            "made": measured.made,
            "late": measured.late,
        },
        "typing": {
            "n": len(pairs),
            "withoutMs": spread_of([without for _, without in pairs]),
            "besideMs": spread_of([beside for beside, _ in pairs]),
            "p50Ratio": ratio_of_percentiles(pairs, 50),
            "p95Ratio": ratio_of_percentiles(pairs, 95),
            "evaluated": {
                "beside": sum(beside.evaluated for beside, _ in typed),
                "without": sum(without.evaluated for _, without in typed),
            },
        }
        if pairs
        else None,
    }
