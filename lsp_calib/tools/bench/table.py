"""Prints the report of a bench for people."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from lsp_calib.terminal import Console
from lsp_calib.tools.bench.report_summaries import summaries_lines
from lsp_calib.tools.bench.stopping import Stopped
from lsp_calib.tools.bench.table_beside import beside_lines
from lsp_calib.tools.bench.table_beside import with_interval as _value

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
    for line in _lines(report):
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
        counts = f"{tokens['evaluated']['p50'][0]:.0f} / {tokens['needed']['p50'][0]:.0f}" if tokens else ""
        table.add_row(words, str(found["n"]), _value(found["p50"]), _value(found["p95"]), counts)
    return table


def _lines(report: dict[str, Any]) -> list[str]:
    lines = _typing(report) if report["steps"] else []
    if (cancel := report["cancel"]) and cancel["toIdleMs"]:
        lines.append(
            f"From cancelling to an idle model: p50 {_value(cancel['toIdleMs']['p50'])} ms, "
            f"p95 {_value(cancel['toIdleMs']['p95'])} ms ({cancel['toIdleMs']['n']} requests; "
            f"prompts of {cancel['promptTokens']} tokens, {cancel['uncancelledMs']:.0f} ms if left alone)."
        )
    if (typed := report["typingOn"]) and typed["shareUsed"] is not None:
        used = _share(typed["shareUsed"])
        lines.append(
            f"In a new document, after {typed['keys']} keys without a pause "
            f"({_value(typed['typedMs']['p50'])} ms): the suggestion "
            f"{_value(typed['thenMs']['p50'])} ms after the last key ({typed['thenMs']['n']} times); "
            f"without them {_value(typed['atOnceMs']['p50'])} ms. {used} of that time was used."
        )
    if long_file := report["longFile"]:
        lines.append(
            f"A file of {long_file['lines'][1]:,} lines against one of {long_file['lines'][0]}: "
            f"{_value(long_file['extraMs'], 1)} ms more a keystroke ({long_file['n']} pairs); where the "
            f"model was asked, p50 ratio {_value(long_file['p50Ratio'], 2)} ({long_file['asked']} pairs)."
        )
    return lines + _others(report) + beside_lines(report["beside"]) + summaries_lines(report["summaries"])


def _typing(report: dict[str, Any]) -> list[str]:
    share = _share(report["answers"]["shareFromMemory"])
    lines = [f"From memory, without the model: {share} of {report['steps']}."]
    if faults := report["faults"]:
        lines.append(
            f"Changed while they were typed: {faults['changed']} of {faults['typedAlong']} suggestions. "
            f"Repeated what stands after the cursor: {faults['repeatsRest']}; the next line: "
            f"{faults['repeatsNext']}."
        )
    if new := report["newLines"]:
        lines.append(
            f"New lines that cost no more than the line and the text below: {new['within']} of {new['n']}. "
            f"Evaluated ahead in pauses: {report['ahead']['tokens']} tokens, {report['ahead']['ms']:.0f} ms."
        )
    overhead = report["overhead"]
    if overhead["overRaw"]:
        lines.append(
            f"Time to the suggestion over the same tokens in a bare llama.cpp loop: "
            f"{_value(overhead['overRaw'], 3)} ({overhead['n']} pairs, medians "
            f"{overhead['medianWallMs']:.0f} and {overhead['medianRawMs']:.0f} ms)."
        )
    if overhead["overDecode"]:
        lines.append(
            f"Over the time inside llama.cpp: {_value(overhead['overDecode'], 3)} "
            f"({overhead['inside']} keystrokes)."
        )
    if speed := report["speed"]:
        lines.append(
            f"Speed: {speed['promptTokensPerS']:.0f} prompt tokens/s ({speed['prompts']} prompts), "
            f"{speed['generatedTokensPerS']:.0f} generated tokens/s ({speed['generations']} answers)."
        )
    return lines


def _others(report: dict[str, Any]) -> list[str]:
    lines = []
    if two := report["two"]:
        lines += [
            f"Two servers at once, server {at}: p50 {_value(one['togetherMs']['p50'])} ms, alone "
            f"{_value(one['aloneMs']['p50'])} ms, "
            f"ratio {_value(one['p50Ratio'], 2)} ({one['togetherMs']['n']} pairs)."
            for at, one in enumerate(two["servers"], 1)
            if one["p50Ratio"]
        ]
    if idle := report["idle"]:
        lines.append(
            f"Processor time in {idle['seconds']:.0f} s without a keystroke: "
            f"server {_known(idle['serverCpuMs'])}, model process {_known(idle['modelCpuMs'])}."
        )
    if peer := report["peer"]:
        lines += [
            f"Against the peer, same tokens ({peer['n']} pairs): p50 ratio {_value(peer['p50Ratio'], 2)}, "
            f"p95 ratio {_value(peer['p95Ratio'], 2)}; p50 {_value(peer['oursMs']['p50'])} and "
            f"{_value(peer['peerMs']['p50'])} ms."
        ]
        unequal = {name: peer[name] for name in peer if name.startswith("other") and peer[name]}
        if unequal:
            lines.append(f"[yellow]Not all pairs did the same work: {unequal}.[/yellow]")
    return lines


def _known(ms: float | None) -> str:
    return "not known on this system" if ms is None else f"{ms:.0f} ms"


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
