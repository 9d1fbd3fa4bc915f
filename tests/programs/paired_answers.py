"""Answers of several builds to the same keys, in pairs, and a table of what `jumps.py` measures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from two_builds import REST

from lsp_calib.tools.bench.report import median_ratio, percentile

# Tokens of a prompt that is long enough to tell a speed.
LONG = 64


@attrs.frozen
class Answer:
    """To one key. wall_ms: until it came. ready_ms: in the model process, until the prompt was evaluated.
    evaluated, prompt: tokens. All but the first are 0 where the model was not asked, or said nothing."""

    wall_ms: float
    ready_ms: float = 0.0
    evaluated: int = 0
    prompt: int = 0

    @classmethod
    def of(cls, wall_ms: float, suggestion: dict[str, Any] | None) -> Answer:
        if suggestion is None or suggestion["source"] != "model":
            return cls(wall_ms)
        timing = suggestion["timing"]
        new = timing["promptTokens"] - timing["promptReused"]
        return cls(wall_ms, timing["queueMs"] + timing["promptMs"], new, timing["promptTokens"])


Pair = tuple[Answer, Answer]
"""Of the first build and of another, to the same key at the same place."""


def compared(pairs: Sequence[Pair], rest: float = 0.0) -> dict[str, Any]:
    """The second answers of the pairs over the first, as JSON; of those that both models gave."""
    both = [(old, new) for old, new in pairs if old.prompt and new.prompt]
    saved = [share_saved(old.ready_ms, new.ready_ms, rest) for old, new in both]
    sides = list(zip(*both, strict=True))
    return {
        "n": len(both),
        "notAsked": len(pairs) - len(both),
        "keyMs": [percentile([one.wall_ms for one in side], 50) for side in sides],
        "readyMs": [percentile([one.ready_ms for one in side], 50) for side in sides],
        "key": median_ratio([(new.wall_ms, old.wall_ms) for old, new in both]),
        "ready": median_ratio([(new.ready_ms, old.ready_ms) for old, new in both]),
        "evaluated": [percentile([one.evaluated for one in side], 50) for side in sides],
        "mostEvaluated": [max(one.evaluated for one in side) for side in sides],
        "tokensPerS": [percentile(speeds(side), 50) for side in sides],
        "saved": percentile([one for one in saved if one is not None], 50) if rest > REST else None,
        "readings": [[attrs.astuple(one) for one in pair] for pair in both],
    }


def share_saved(old_ms: float, new_ms: float, rest: float) -> float | None:
    """Of the time that could be saved, from `REST` on and no more than the prompt takes, the share that was.
    None where there is none."""
    possible = min(1e3 * (rest - REST), old_ms)
    return (old_ms - new_ms) / possible if possible > 0 else None


def speeds(answers: Iterable[Answer]) -> list[float]:
    """Prompt tokens a second, of long prompts."""
    return [1e3 * one.evaluated / one.ready_ms for one in answers if one.evaluated >= LONG]


def is_pair(answers: Mapping[str, Answer]) -> bool:
    """Whether the models of all builds have answered."""
    return all(one.prompt for one in answers.values())


def pairs_of(found: Sequence[Mapping[str, Answer]], names: Sequence[str]) -> dict[str, list[Pair]]:
    """By the name of each build but the first."""
    first, *others = names
    return {other: [(one[first], one[other]) for one in found] for other in others}


def table(parts: Mapping[str, Any]) -> Iterator[str]:
    """The figures, in lines for people."""
    jumps = parts.get("jumps", {})
    for rest, builds in jumps.get("rests", {}).items():
        for name, found in builds.items():
            yield f"jump after {rest} s, {name}: {_line(found)}"
    for name, speed in jumps.get("overRaw", {}).items():
        yield f"prompt's speed over raw llama.cpp, {name}: {speed}"
    for part, words in (("first", "first in a document, after 4 s"), ("returns", "return")):
        for name, found in parts.get(part, {}).get("pairs", {}).items():
            yield f"{words}, {name}: {_line(found)}"
    for name, found in parts.get("returns", {}).get("gone", {}).items():
        yield f"return to a place that was gone, {name}: {_line(found)}"
    typing = parts.get("typing", {})
    for name, kinds in typing.get("pairs", {}).items():
        for kind, found in kinds.items():
            yield f"typing, {kind}, {name}: {_line(found)}"
    for name, ratio in typing.get("processor", {}).items():
        yield f"typing, processor time, {name}: {ratio}"
    for name, found in parts.get("reading", {}).items():
        yield f"reading, {name}: {found['hourSeconds']} s an hour, {found['shareOfACore']} of a core"
    for name, kinds in parts.get("cancel", {}).items():
        for kind, found in kinds.items():
            yield f"cancelled {kind}, {name}: p50 {found['p50']}, p95 {found['p95']} ms ({found['n']})"
    for model, memories in parts.get("memory", {}).items():
        for name, found in memories.items():
            yield f"memory, {model}, {name}: {json.dumps(found)}"
    for part in ("jumps", "first", "returns", "typing"):
        yield f"evaluated ahead, {part}: {json.dumps(parts.get(part, {}).get('ahead'))}"


def _line(found: Mapping[str, Any]) -> str:
    if not found["n"]:
        return "no pair"
    evaluated = " and ".join(f"{one[0]:.0f}" for one in found["evaluated"])
    saved = f", saved {found['saved']}" if found["saved"] else ""
    return (
        f"key {found['key']}, prompt {found['ready']} of {found['readyMs'][0][0]:.0f} ms{saved}; evaluated "
        f"{evaluated}, at most {found['mostEvaluated']} ({found['n']} pairs)"
    )
