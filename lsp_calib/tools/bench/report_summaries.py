"""What `lsp-calib bench --only summaries` has measured, as JSON and in words."""

from __future__ import annotations

from typing import Any

from lsp_calib.tools.bench.statistics import interval, ratio_of_percentiles, spread_of
from lsp_calib.tools.bench.summaries import BUDGET, SummariesNotes
from lsp_calib.tools.bench.table_beside import with_interval

# Milliseconds beyond the budget that the answer of a hover may take: it is written and read.
_MORE = 50.0


def summaries(measured: SummariesNotes | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    first, pairs = measured.first, measured.pairs()
    return {
        "first": {
            "n": len(first),
            "lines": spread_of([float(one.lines) for one in first]),
            "wallMs": spread_of([one.wall_ms for one in first]),
            "promptMs": spread_of([one.prompt_ms for one in first]),
            "generateMs": spread_of([one.generate_ms for one in first]),
            "promptTokens": spread_of([float(one.prompt_tokens) for one in first]),
            "evaluated": spread_of([float(one.prompt_tokens - one.reused) for one in first]),
            "generated": spread_of([float(one.tokens) for one in first]),
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
            "p50Ratio": interval(ratio_of_percentiles(pairs, 50)),
            "p95Ratio": interval(ratio_of_percentiles(pairs, 95)),
            "evaluated": {
                "beside": sum(beside for beside, _ in measured.evaluated_pairs()),
                "without": sum(without for _, without in measured.evaluated_pairs()),
            },
        }
        if pairs
        else None,
    }


def summaries_lines(found: dict[str, Any] | None) -> list[str]:
    """One paragraph for each figure."""
    if found is None:
        return []
    lines = []
    if first := found["first"]:
        lines.append(
            f"First summary of a function of {first['lines']['p50'][0]:.0f} lines ({first['n']} functions): "
            f"p50 {with_interval(first['wallMs']['p50'])} ms, "
            f"p95 {with_interval(first['wallMs']['p95'])} ms; "
            f"prompt {with_interval(first['promptMs']['p50'])} ms "
            f"({first['evaluated']['p50'][0]:.0f} of {first['promptTokens']['p50'][0]:.0f} tokens), "
            f"generation {with_interval(first['generateMs']['p50'])} ms "
            f"({first['generated']['p50'][0]:.0f} tokens)."
        )
    hover = found["hover"]
    if hover["knownMs"]:
        lines.append(
            f"Hover while typing, summary known: p50 {with_interval(hover['knownMs']['p50'], 1)} ms, "
            f"p95 {with_interval(hover['knownMs']['p95'], 1)} ms ({hover['knownMs']['n']} hovers)."
        )
    if new := hover["newMs"]:
        lines.append(
            f"Hover while typing, summary not known: answered within the budget of {hover['budgetMs']} ms: "
            f"{hover['withinBudget']} of {new['n']}, worst {hover['worstNewMs']:.0f} ms; "
            f"{hover['made']} with the summary, {hover['late']} before it was made."
        )
    if typing := found["typing"]:
        lines.append(
            f"Completions while summaries are made, over those without: p50 ratio "
            f"{with_interval(typing['p50Ratio'], 3)}, p95 ratio {with_interval(typing['p95Ratio'], 3)} "
            f"({typing['n']} pairs; p95 {with_interval(typing['besideMs']['p95'])} and "
            f"{with_interval(typing['withoutMs']['p95'])} ms; prompt tokens evaluated "
            f"{typing['evaluated']['beside']} and {typing['evaluated']['without']})."
        )
    return lines
