"""The report of a bench as one JSON document."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib import __version__
from lsp_calib.tools.bench.comparisons import LongFile, Two
from lsp_calib.tools.bench.measured import Measured
from lsp_calib.tools.bench.peer import PeerPass
from lsp_calib.tools.bench.report_beside import beside
from lsp_calib.tools.bench.report_summaries import summaries
from lsp_calib.tools.bench.statistics import (
    interval,
    median_of,
    median_ratio,
    ratio_of_percentiles,
    spread_of,
)
from lsp_calib.tools.bench.steadiness import Counts
from lsp_calib.tools.bench.typing_on import TypedOn
from lsp_calib.tools.bench.typist import Place, Reading

FORMAT = 1
# A prompt needs this many tokens to measure the speed of a batch.
_LONG = 32
_MERGED = 2
_TYPING = (Place.KEYSTROKE, Place.NEWLINE)


def to_json(measured: Measured) -> dict[str, Any]:
    """The document of `lsp-calib bench --json`; docs/bench.md explains each value.

    Values with an interval are [estimate, lower bound, upper bound]; values that were not measured are null,
    with the reason in `notMeasured`.
    """
    readings, stats = measured.readings, measured.stats
    return {
        "format": FORMAT,
        "lspCalib": __version__,
        "model": measured.card.name,
        "quantisation": measured.card.quantisation,
        "engine": measured.engine,
        "threads": stats.threads if stats else None,
        "stopped": measured.stopped.value if measured.stopped else None,
        "seconds": round(measured.seconds, 1),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        },
        "steps": len(readings),
        "startMs": None if measured.start_ms is None else round(measured.start_ms, 1),
        "latencyMs": latencies(readings),
        "answers": answers(readings),
        "faults": faults(readings),
        "tokens": {place.value: tokens(readings, place) for place in Place if place is not Place.COLD},
        "newLines": new_lines(readings),
        "ahead": {"tokens": stats.ahead_tokens, "ms": round(stats.ahead_ms, 1)} if stats else None,
        "overhead": overhead(readings),
        "speed": speed(readings),
        "cancel": cancel(measured),
        "typingOn": typing_on(measured.typed_on),
        "longFile": long_file(measured.long_file),
        "two": two(measured.two),
        "idle": idle(measured),
        "peer": against_peer(measured.peer),
        "beside": beside(measured.beside),
        "summaries": summaries(measured.summaries),
        "notMeasured": measured.missing,
    }


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
    counts = [r.counts for r in readings]
    return Counts(*(sum(column) for column in zip(*map(attrs.astuple, counts), strict=True))).to_json()


def tokens(readings: Sequence[Reading], place: Place) -> dict[str, Any] | None:
    """Prompt tokens evaluated, compared with those that changed, for requests to the model."""
    asked = [r for r in readings if r.place is place and r.asked_model and r.needed]
    if not asked:
        return None
    pairs = [(float(r.evaluated), float(r.needed or 1)) for r in asked]
    return {
        "n": len(asked),
        "evaluated": spread_of([evaluated for evaluated, _ in pairs]),
        "needed": spread_of([needed for _, needed in pairs]),
        "medianRatio": interval(median_ratio(pairs)),
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
    bare = [r for r in asked if r.raw is not None]
    # The bare loop has one cache, the server several. If it kept fewer tokens, its work was not the same.
    same = [r for r in bare if r.raw and r.raw.evaluated == r.evaluated]
    pairs = _over_raw(same)
    return {
        "overDecode": interval(median_ratio(inside)),
        "inside": len(inside),
        "overRaw": interval(median_ratio(pairs)),
        "n": len(pairs),
        "unequal": len(bare) - len(pairs),
        "medianWallMs": round(statistics.median(wall for wall, _ in pairs), 2) if pairs else None,
        "medianRawMs": round(statistics.median(raw for _, raw in pairs), 2) if pairs else None,
        "places": {
            place.value: {"overRaw": interval(median_ratio(found)), "n": len(found)}
            for place in Place
            if (found := _over_raw([r for r in same if r.place is place]))
        },
    }


def _over_raw(readings: Sequence[Reading]) -> list[tuple[float, float]]:
    """Milliseconds to the suggestion, and those of the same tokens in the bare loop."""
    return [(r.wall_ms, r.raw.ms) for r in readings if r.raw]


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
    generated_per_s = statistics.median(generation)
    prompt = [
        1e3 * r.evaluated / ms
        for r in readings
        if r.evaluated >= _LONG and (ms := r.decode_ms - 1e3 * (r.generated - 1) / generated_per_s) > 0
    ]
    if not prompt:
        return None
    return {
        "promptTokensPerS": round(statistics.median(prompt), 1),
        "generatedTokensPerS": round(generated_per_s, 1),
        "prompts": len(prompt),
        "generations": len(generation),
    }


def cancel(measured: Measured) -> dict[str, Any] | None:
    done = measured.cancelled
    if done is None:
        return None
    return {
        "toIdleMs": spread_of(done.idle_ms),
        "supersededToNextMs": spread_of(done.superseded_ms),
        "tooLate": done.too_late,
        "promptTokens": done.prompt_tokens,
        "uncancelledMs": round(done.alone_ms, 1),
    }


def typing_on(measured: TypedOn | None) -> dict[str, Any] | None:
    """Times of typing on, and the share of the typing time by which the last answer came sooner."""
    if measured is None:
        return None
    read = (measured.typed_ms, measured.then_ms, measured.at_once_ms)
    share = None
    if all(read):
        typed, then, at_once = (statistics.median(values) for values in read)
        share = round((at_once - then) / typed, 3)
    return {
        "keys": measured.keys,
        "typedMs": spread_of(measured.typed_ms),
        "thenMs": spread_of(measured.then_ms),
        "atOnceMs": spread_of(measured.at_once_ms),
        "thenTokens": spread_of([float(count) for count in measured.then_tokens]),
        "atOnceTokens": spread_of([float(count) for count in measured.at_once_tokens]),
        "shareUsed": share,
    }


def long_file(measured: LongFile | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    asked = [pair for pair, was in zip(measured.pairs, measured.asked, strict=True) if was]
    return {
        "lines": list(measured.lines),
        "n": len(measured.pairs),
        "extraMs": interval(median_of([long - short for short, long in measured.pairs])),
        "asked": len(asked),
        "p50Ms": [round(statistics.median(times), 2) for times in zip(*asked, strict=True)] or None,
        "p50Ratio": interval(ratio_of_percentiles([(long, short) for short, long in asked], 50)),
    }


def two(measured: Two | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    return {
        "servers": [
            _together([pair for pair, was in zip(pairs, asked, strict=True) if was])
            for pairs, asked in zip(measured.pairs, measured.asked, strict=True)
        ]
    }


def _together(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """pairs: milliseconds alone and together, where the model was asked both times."""
    return {
        "aloneMs": spread_of([alone for alone, _ in pairs]),
        "togetherMs": spread_of([together for _, together in pairs]),
        "p50Ratio": interval(ratio_of_percentiles([(together, alone) for alone, together in pairs], 50)),
    }


def idle(measured: Measured) -> dict[str, Any] | None:
    watched = measured.idle
    if watched is None:
        return None
    return {
        "seconds": round(watched.seconds, 2),
        "serverCpuMs": _ms(watched.server),
        "modelCpuMs": _ms(watched.model),
    }


def against_peer(passed: PeerPass | None) -> dict[str, Any] | None:
    if passed is None:
        return None
    readings = passed.readings
    pairs = [(r.wall_ms, r.peer.ms) for r in readings]
    return {
        **passed.description,
        "n": len(readings),
        "oursMs": spread_of([ours for ours, _ in pairs]),
        "peerMs": spread_of([theirs for _, theirs in pairs]),
        "p50Ratio": interval(ratio_of_percentiles(pairs, 50)),
        "p95Ratio": interval(ratio_of_percentiles(pairs, 95)),
        "medianOfRatios": interval(median_ratio(pairs)),
        "places": {
            place.value: {"medianOfRatios": interval(median_ratio(found)), "n": len(found)}
            for place in Place
            if (found := [(r.wall_ms, r.peer.ms) for r in readings if r.place is place])
        },
        # If these are not 0, the two did not do the same work.
        "otherPromptLength": sum(r.peer.prompt_tokens != r.prompt_tokens for r in readings),
        "otherAnswerLength": sum(r.generated != r.predicted for r in readings),
        "otherPeerAnswerLength": sum(r.peer.generated != r.predicted for r in readings),
        "evaluated": spread_of([float(r.evaluated) for r in readings]),
        "peerEvaluated": spread_of([float(r.peer.evaluated) for r in readings]),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 1)
