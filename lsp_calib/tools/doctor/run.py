"""`lsp-calib doctor`: check, measure, advise."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.text import Text

from lsp_calib.errors import EngineDiedError, LspCalibError, ModelError
from lsp_calib.inference import open_engine
from lsp_calib.inference.models.demands import ENOUGH, LATENCY_BUDGET, Speed, is_quiet
from lsp_calib.inference.models.inventory import Entry, inventory, recommended
from lsp_calib.settings import Settings, engine_choice, resolve
from lsp_calib.terminal import Console, tell
from lsp_calib.tools.bench.run import short_bench
from lsp_calib.tools.doctor import checks
from lsp_calib.tools.doctor.bundle import check_place, write_bundle
from lsp_calib.tools.doctor.checks import Finding, Level, note, problem

BUDGET_MS = 1e3 * LATENCY_BUDGET


def speeds(usable: Sequence[Entry], trusted: Settings, progress: Callable[[str], None]) -> list[Finding]:
    """The speed of each model, or why it could not be measured, and the recommended model."""
    found = [_measured(entry, trusted, progress) for entry in usable if entry.fits is not False]
    measured = [finding for finding in found if "p50" in finding.data]
    # Completions need the model that the settings name, or else any; or a server elsewhere.
    for at, finding in enumerate(found):
        needed = not measured or finding.data["model"] == trusted.model
        if needed and finding.data.get("runs") is False and not trusted.remote_url:
            found[at] = attrs.evolve(finding, fatal=True)
    return [*found, recommend(measured, trusted, inventory())] if measured else found


def _measured(entry: Entry, trusted: Settings, progress: Callable[[str], None]) -> Finding:
    """The short form of the bench with one model: of the keystrokes that asked it, but for the first one in a
    document or at another place."""
    name, quiet = entry.card.name, is_quiet()
    of_model = attrs.evolve(trusted, model=str(entry.card.path), remote_url=None)
    try:
        report = short_bench(of_model, lambda text: progress(f"{name}: {text}"))
    except LspCalibError as error:
        says = f"{name} could not be measured: {error}"
        advice = f"Run `lsp-calib models verify {name}`, then `lsp-calib bench --model {name}`."
        # Any other error is one of measuring, as when its time is over.
        runs = not isinstance(error, ModelError | EngineDiedError)
        return problem("speed", says, advice, data={"model": name, "runs": runs})
    asked, machine = report["latencyMs"]["typingModel"], report["machine"]
    if asked is None:
        says = f"{name} could not be timed: every answer came from memory."
        return note("speed", says, data={"model": name})
    p50, p95 = asked["p50"][0], asked["p95"][0]
    quick, load = p50 <= BUDGET_MS, machine["load"]
    words = (
        f"half of {asked['n']} keystrokes of recorded typing within {p50:.0f} ms, 95 % within {p95:.0f} ms "
        f"({report['threads']} threads, {machine['processors']} processors"
        + ("" if load is None else f", load {load:.1f}")
        + (")" if quiet else "); other programs were busy, so a quiet machine is faster")
    )
    verdict = "quick enough" if quick else f"slower than {BUDGET_MS:.0f} ms"
    data = {"model": name, "p50": p50, "p95": p95, "n": asked["n"], "threads": report["threads"]}
    return Finding(
        "speed",
        f"{name} is {verdict}: {words}.",
        level=Level.GOOD if quick else Level.NOTE,
        data=data | {"load": load, "quick": quick, "quiet": quiet, "words": words},
    )


def recommend(measured: Sequence[Finding], trusted: Settings, known: Sequence[Entry]) -> Finding:
    """The recommended model for this machine: that of `models list`, by the speeds that were measured now.

    If it is not installed, the best installed one is named as well: the first that is quick enough, else the
    fastest. It is shown, and changes nothing. What was measured beside busy programs speaks against no model.
    measured: of `_measured`, at least one, in order of preference. known: all models.
    """
    undisturbed = [one.data for one in measured if one.data["quiet"]]
    times = {str(one["model"]): Speed(float(one["p50"]) / 1e3, ENOUGH) for one in undisturbed}
    wanted = recommended(attrs.evolve(one, speed=times.get(one.card.name, one.speed)) for one in known)
    fastest = min((one.data for one in measured), key=lambda one: float(one["p50"]))
    quick = [one.data for one in measured if one.data["quick"] or not one.data["quiet"]]
    of_wanted = [one for one in quick if wanted is not None and one["model"] == wanted.card.name]
    best = next(iter([*of_wanted, *quick]), fastest)
    name = str(best["model"]) if wanted is None or wanted.installed else wanted.card.name
    data = {
        "model": best["model"],
        "threads": best["threads"],
        "quickEnough": best["quick"],
        "recommended": name,
    }
    if wanted is not None and not wanted.installed:
        says = f"Recommended: {name}, which is not installed. The best installed model is {best['model']}"
        advice = f"Run `lsp-calib models pull {name}` ({wanted.card.size / 1e6:,.0f} MB)."
        return note("recommendation", f"{says}: {best['words']}.", advice, data=data)
    why = f"Recommended: {best['model']}: {best['words']}."
    if not best["quick"]:
        why += (
            f" None of the installed models answers within {BUDGET_MS:.0f} ms; this is the fastest. If other "
            "programs were busy, measure again without them."
        )
    if trusted.model and trusted.model != best["model"]:
        why += f" Your settings name {trusted.model}."
        advice = f'Set `model = "{best["model"]}"` in config.toml, or remove `model`.'
        return note("recommendation", why, advice, data=data)
    return Finding("recommendation", why, level=Level.GOOD if best["quick"] else Level.NOTE, data=data)


FORMAT = 1
# Seconds to wait for an answer of a remote server.
_REMOTE = 20.0
_MARKS = {Level.GOOD: ("✓", "green"), Level.NOTE: ("•", "yellow"), Level.PROBLEM: ("✗", "red")}


def run(*, as_json: bool, quick: bool, bundle: Path | None) -> int:
    """Print the findings; returns the exit code: 0 if completions work, else 1.

    bundle: also write them to this new ZIP file. Raises SettingsError if there is a file of this name,
    DataError if it cannot be written, both before anything is examined.
    """
    if bundle is not None:
        check_place(bundle)
    # With --json only the document is printed.
    findings = examine(quick=quick, progress=(lambda _: None) if as_json else tell)
    report = to_json(findings)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        _print(findings, report, quick=quick)
    if bundle is not None:
        write_bundle(bundle, report)
        if not as_json:
            print(f"Attach {bundle} to a bug report: it holds no source text, no keys and not your name.")
    return 0 if report["usable"] else 1


def to_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """The document of `lsp-calib doctor --json`."""
    return {
        "format": FORMAT,
        "usable": not any(finding.fatal for finding in findings),
        "problems": sum(finding.level is Level.PROBLEM for finding in findings),
        "findings": [attrs.asdict(finding, recurse=False) for finding in findings],
    }


def examine(*, quick: bool, progress: Callable[[str], None]) -> list[Finding]:
    """Run all checks. quick: neither load a model nor measure any."""
    found = [checks.package(), *checks.state_folder()]
    if any(finding.fatal for finding in found):
        return found  # all other checks need the state folder
    trusted, problems = resolve(Settings())
    engine = checks.engine(trusted)
    installed, usable = checks.models(trusted)
    found += [
        *checks.configuration(trusted, problems),
        engine,
        *checks.acceleration_used(),
        *([_remote(trusted)] if trusted.remote_url else []),
        *installed,
        *checks.chosen(trusted),
        *checks.calibrators(usable, trusted),
        checks.encoder(),
        checks.feedback(),
        checks.processes(),
    ]
    if not quick and not engine.fatal:
        found += speeds(usable, trusted, progress)
    return found


def _remote(trusted: Settings) -> Finding:
    """Check whether the remote server in the settings answers."""

    async def ask() -> str:
        engine = open_engine(engine_choice(trusted))
        try:
            async with asyncio.timeout(_REMOTE):
                return (await engine.ready()).identity.name
        finally:
            with contextlib.suppress(LspCalibError):
                await engine.close()

    advice = "Start that server, or correct remote.url; without it, a model on this machine is used."
    try:
        name = asyncio.run(ask())
    except TimeoutError:
        says = f"The remote server did not answer within {_REMOTE:.0f} s."
        return problem("remote", says, advice, fatal=True)
    except LspCalibError as error:
        return problem("remote", str(error), advice, fatal=True)
    return Finding("remote", f"The remote server answers; its model is {name}.", data={"model": name})


def _print(findings: Sequence[Finding], report: dict[str, Any], *, quick: bool) -> None:
    console, problems = Console(), report["problems"]
    for finding in findings:
        mark, colour = _MARKS[finding.level]
        console.print(Text(f"{mark} ", style=colour) + Text(finding.says, style=""))
        if finding.advice:
            console.print(Text(f"    {finding.advice}", style="cyan"))
    console.print()
    if not report["usable"]:
        console.print(Text("Completions do not work until the problems above are solved.", style="bold red"))
    elif quick:
        found = f"Problems found: {problems}." if problems else "Nothing wrong was found."
        untried = "Not tried: loading a model, and asking it. `lsp-calib doctor` without --quick does both."
        console.print(Text(f"{found} {untried}", style="yellow"))
    elif problems:
        console.print(Text(f"Completions work. Problems found: {problems}.", style="yellow"))
    else:
        console.print(Text("Everything works.", style="green"))
