"""The result of `lsp-calib bench --beside` in words."""

from __future__ import annotations

from typing import Any

from lsp_calib.tools.bench.under_load import How


def beside_lines(beside: dict[str, Any] | None) -> list[str]:
    """One paragraph for each kind of busy processes."""
    if beside is None:
        return []
    quiet = beside["quietMs"]
    lines = [
        f"Keystrokes that ask the model, nothing else running: p50 {with_interval(quiet['p50'])} ms, "
        f"p95 {with_interval(quiet['p95'])} ms ({quiet['n']} of {beside['keys']} different ones)."
    ]
    for how in How:
        if run := beside[how.value]:
            lines += _run(how, beside["processes"], run)
    return lines


def _run(how: How, processes: int, run: dict[str, Any]) -> list[str]:
    count = "1 process" if processes == 1 else f"{processes} processes"
    times = run["besideMs"]
    lines = [
        f"Beside {count} {how.words}: p50 {with_interval(times['p50'])} ms, "
        f"p95 {with_interval(times['p95'])} ms; over the quiet machine p50 ratio "
        f"{with_interval(run['p50Ratio'], 2)}, p95 ratio {with_interval(run['p95Ratio'], 2)}, "
        f"median of ratios {with_interval(run['medianOfRatios'], 2)}, "
        f"worst {_number(run['worstRatio'])} ({run['n']} pairs)."
    ]
    first = run["first"]
    lines.append(
        f"  The first {first['n']} of them: p50 ratio {with_interval(first['p50Ratio'], 2)}, "
        f"worst {_number(first['worstRatio'])}."
    )
    if after := run["after"]:
        early, late = after["seconds0To5"], after["seconds5To10"]
        back = after["backAfterS"]
        lines.append(
            f"  After they had ended: ratio {with_interval(early['medianOfRatios'], 2)} in the first 5 s "
            f"({early['n']} keystrokes), {with_interval(late['medianOfRatios'], 2)} in the next 5 s "
            f"({late['n']}); " + ("not back to 1.1." if back is None else f"back to 1.1 after {back:.1f} s.")
        )
    if run["unequal"]:
        lines.append(f"  [yellow]{run['unequal']} pairs did not do the same work and are left out.[/yellow]")
    if how is How.NICE and run["sameSession"] is False:
        lines.append("  [yellow]They were not in the model's session.[/yellow]")
    return lines


def with_interval(value: list[float | None] | None, digits: int = 0) -> str:
    """An estimate with its interval, as text for rich."""
    if value is None or value[0] is None:
        return "?"
    estimate, low, high = value
    if low is None or high is None:
        return f"{estimate:.{digits}f}"
    return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]".replace("[", "\\[")


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"
