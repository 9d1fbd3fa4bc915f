"""Prints the report of a bench for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from lsp_calib.terminal import Console
from lsp_calib.tools.bench.comparisons import How
from lsp_calib.tools.bench.forecast import Stopped

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
    """Print the document of `report.to_json`."""
    console = console or Console(markup=True)
    console.print(_heading(report))
    if report["stopped"]:
        console.print(
            f"[yellow]Stopped {Stopped(report['stopped']).words} after {report['seconds']:.0f} s: "
            "the figures are of what was read until then.[/yellow]"
        )
    if report["steps"]:
        console.print(_latencies(report))
        for line in _typing(report):
            console.print(line)
    for part, lines in _PARTS.items():
        if report[part]:
            for line in lines(report[part]):
                console.print(line)
    for what, why in report["notMeasured"].items():
        console.print(f"[yellow]Not measured: {what}: {escape(why)}.[/yellow]")
    console.print("[dim]In brackets: 95 % bootstrap intervals over runs of consecutive keystrokes.[/dim]")


def _heading(report: dict[str, Any]) -> str:
    words = f"[bold]{escape(report['model'])}[/bold] {escape(report['quantisation'])}"
    if report["engine"]:
        words += f" · {report['engine']} · {report['threads']} threads"
    words += f" · {report['machine']['processors']} processors"
    return words + (f" · ready after {report['startMs'] / 1e3:.1f} s" if report["startMs"] else "")


def _latencies(report: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Milliseconds to the suggestion", title_justify="left")
    for name in ("", "n", "p50", "p95", "tokens evaluated / changed"):
        table.add_column(name, justify="left" if not name else "right")
    for place, words in _PLACES.items():
        found = report["latencyMs"][place]
        if found is None:
            continue
        tokens = report["tokens"].get(place)
        counts = f"{_median(tokens['evaluated'])} / {_median(tokens['needed'])}" if tokens else ""
        table.add_row(words, str(found["n"]), _value(found["p50"]), _value(found["p95"]), counts)
    return table


def _typing(report: dict[str, Any]) -> Iterator[str]:
    yield (
        f"From memory, without the model: {_share(report['answers']['shareFromMemory'])} "
        f"of {report['steps']}."
    )
    if faults := report["faults"]:
        yield (
            f"Changed while they were typed: {faults['changed']} of {faults['typedAlong']} suggestions. "
            f"Repeated what stands after the cursor: {faults['repeatsRest']}; the next line: "
            f"{faults['repeatsNext']}."
        )
    if new := report["newLines"]:
        yield (
            f"New lines that cost no more than the line and the text below: {new['within']} of {new['n']}. "
            f"Evaluated ahead in pauses: {report['ahead']['tokens']} tokens, {report['ahead']['ms']:.0f} ms."
        )
    overhead = report["overhead"]
    if overhead["overRaw"]:
        yield (
            f"Time to the suggestion over the same tokens in a bare llama.cpp loop: "
            f"{_value(overhead['overRaw'], 3)} ({overhead['n']} pairs, medians "
            f"{overhead['medianWallMs']:.0f} and {overhead['medianRawMs']:.0f} ms)."
        )
    if overhead["overDecode"]:
        yield (
            f"Over the time inside llama.cpp: {_value(overhead['overDecode'], 3)} "
            f"({overhead['inside']} keystrokes)."
        )
    if speed := report["speed"]:
        yield (
            f"Speed: {speed['promptTokensPerS']:.0f} prompt tokens/s ({speed['prompts']} prompts), "
            f"{speed['generatedTokensPerS']:.0f} generated tokens/s ({speed['generations']} answers)."
        )


def _cancel(cancel: dict[str, Any]) -> Iterator[str]:
    if to_idle := cancel["toIdleMs"]:
        yield (
            f"From cancelling to an idle model: {_spread(to_idle)} ({to_idle['n']} requests; "
            f"prompts of {cancel['promptTokens']} tokens, {cancel['uncancelledMs']:.0f} ms if left alone)."
        )


def _typing_on(typed: dict[str, Any]) -> Iterator[str]:
    if typed["shareUsed"] is not None:
        yield (
            f"In a new document, after {typed['keys']} keys without a pause "
            f"({_value(typed['typedMs']['p50'])} ms): the suggestion "
            f"{_value(typed['thenMs']['p50'])} ms after the last key ({typed['thenMs']['n']} times); "
            f"without them {_value(typed['atOnceMs']['p50'])} ms. "
            f"{_share(typed['shareUsed'])} of that time was used."
        )


def _long_file(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"A file of {found['lines'][1]:,} lines against one of {found['lines'][0]}: "
        f"{_value(found['extraMs'], 1)} ms more a keystroke ({found['n']} pairs); where the "
        f"model was asked, p50 ratio {_value(found['p50Ratio'], 2)} ({found['asked']} pairs)."
    )


def _two(two: dict[str, Any]) -> Iterator[str]:
    for at, one in enumerate(two["servers"], 1):
        if one["p50Ratio"]:
            yield (
                f"Two servers at once, server {at}: p50 {_value(one['togetherMs']['p50'])} ms, alone "
                f"{_value(one['aloneMs']['p50'])} ms, "
                f"ratio {_value(one['p50Ratio'], 2)} ({one['togetherMs']['n']} pairs)."
            )


def _idle(idle: dict[str, Any]) -> Iterator[str]:
    server, model = (
        "not known on this system" if ms is None else f"{ms:.0f} ms"
        for ms in (idle["serverCpuMs"], idle["modelCpuMs"])
    )
    yield (
        f"Processor time in {idle['seconds']:.0f} s without a keystroke: "
        f"server {server}, model process {model}."
    )


def _peer(peer: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Against the peer, same tokens ({peer['n']} pairs): p50 ratio {_value(peer['p50Ratio'], 2)}, "
        f"p95 ratio {_value(peer['p95Ratio'], 2)}; p50 {_value(peer['oursMs']['p50'])} and "
        f"{_value(peer['peerMs']['p50'])} ms."
    )
    unequal = {name: peer[name] for name in peer if name.startswith("other") and peer[name]}
    if unequal:
        yield f"[yellow]Not all pairs did the same work: {unequal}.[/yellow]"


def _beside(beside: dict[str, Any]) -> Iterator[str]:
    """One paragraph for each kind of busy processes."""
    quiet = beside["quietMs"]
    yield (
        f"Keystrokes that ask the model, nothing else running: {_spread(quiet)} "
        f"({quiet['n']} of {beside['keys']} different ones)."
    )
    count = "1 process" if beside["processes"] == 1 else f"{beside['processes']} processes"
    for how in How:
        if not (run := beside[how.value]):
            continue
        yield (
            f"Beside {count} {how.words}: {_spread(run['besideMs'])}; over the quiet machine p50 ratio "
            f"{_value(run['p50Ratio'], 2)}, p95 ratio {_value(run['p95Ratio'], 2)}, "
            f"median of ratios {_value(run['medianOfRatios'], 2)}, "
            f"worst {_value([run['worstRatio'], None, None], 2)} ({run['n']} pairs)."
        )
        first = run["first"]
        yield (
            f"  The first {first['n']} of them: p50 ratio {_value(first['p50Ratio'], 2)}, "
            f"worst {_value([first['worstRatio'], None, None], 2)}."
        )
        if after := run["after"]:
            early, late = after["seconds0To5"], after["seconds5To10"]
            back = after["backAfterS"]
            yield (
                f"  After they had ended: ratio {_value(early['medianOfRatios'], 2)} in the first 5 s "
                f"({early['n']} keystrokes), {_value(late['medianOfRatios'], 2)} in the next 5 s "
                f"({late['n']}); "
                + ("not back to 1.1." if back is None else f"back to 1.1 after {back:.1f} s.")
            )
        if run["unequal"]:
            yield f"  [yellow]{run['unequal']} pairs did not do the same work and are left out.[/yellow]"
        if how is How.NICE and run["sameSession"] is False:
            yield "  [yellow]They were not in the model's session.[/yellow]"


def _summaries(found: dict[str, Any]) -> Iterator[str]:
    """One paragraph for each figure."""
    if first := found["first"]:
        yield (
            f"First summary of a function of {_median(first['lines'])} lines ({first['n']} functions): "
            f"{_spread(first['wallMs'])}; prompt {_value(first['promptMs']['p50'])} ms "
            f"({_median(first['evaluated'])} of {_median(first['promptTokens'])} tokens), "
            f"generation {_value(first['generateMs']['p50'])} ms ({_median(first['generated'])} tokens)."
        )
    hover = found["hover"]
    if known := hover["knownMs"]:
        yield f"Hover while typing, summary known: {_spread(known, 1)} ({known['n']} hovers)."
    if new := hover["newMs"]:
        yield (
            f"Hover while typing, summary not known: answered within the budget of {hover['budgetMs']} ms: "
            f"{hover['withinBudget']} of {new['n']}, worst {hover['worstNewMs']:.0f} ms; "
            f"{hover['made']} with the summary, {hover['late']} before it was made."
        )
    if typing := found["typing"]:
        yield (
            f"Completions while summaries are made, over those without: p50 ratio "
            f"{_value(typing['p50Ratio'], 3)}, p95 ratio {_value(typing['p95Ratio'], 3)} "
            f"({typing['n']} pairs; p95 {_value(typing['besideMs']['p95'])} and "
            f"{_value(typing['withoutMs']['p95'])} ms; prompt tokens evaluated "
            f"{typing['evaluated']['beside']} and {typing['evaluated']['without']})."
        )


_PARTS = {
    "cancel": _cancel,
    "typingOn": _typing_on,
    "longFile": _long_file,
    "two": _two,
    "idle": _idle,
    "peer": _peer,
    "beside": _beside,
    "summaries": _summaries,
}


def _value(value: list[float | None] | None, digits: int = 0) -> str:
    """An estimate with its interval, as text for rich."""
    if value is None or value[0] is None:
        return "?"
    estimate, low, high = value
    if low is None or high is None:
        return f"{estimate:.{digits}f}"
    return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]".replace("[", "\\[")


def _spread(found: dict[str, Any], digits: int = 0) -> str:
    return f"p50 {_value(found['p50'], digits)} ms, p95 {_value(found['p95'], digits)} ms"


def _median(found: dict[str, Any]) -> str:
    """The estimate alone, without its interval."""
    return f"{found['p50'][0]:.0f}"


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
