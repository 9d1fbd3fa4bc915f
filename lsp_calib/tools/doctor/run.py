"""`lsp-calib doctor`: check, measure, advise."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.text import Text

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engines import open_engine
from lsp_calib.json_text import json_text
from lsp_calib.settings import Trusted, engine_choice, resolve_trusted
from lsp_calib.terminal import Console, tell
from lsp_calib.tools.doctor import checks, models
from lsp_calib.tools.doctor.bundle import check_place, write_bundle
from lsp_calib.tools.doctor.checks import Finding, Level, problem

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
        print(json_text(report, sys.stdout.encoding))
    else:
        _print(findings, Console(), quick=quick)
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
    found = [checks.package()]
    state = checks.state_folder()
    found += state
    if any(finding.fatal for finding in state):
        # All other checks need this folder.
        return found
    trusted, problems = resolve_trusted(Trusted(), Trusted())
    found += checks.configuration(trusted, problems)
    engine = checks.engine(trusted)
    found.append(engine)
    found += checks.engine_speed()
    if trusted.remote_url:
        found.append(_remote(trusted))
    installed, usable = checks.models(trusted)
    found += installed
    found += checks.chosen(trusted)
    found += models.calibrators(usable, trusted)
    found.append(checks.encoder())
    found.append(checks.feedback())
    found.append(checks.processes())
    if not quick and not engine.fatal:
        found += models.speeds(usable, trusted, progress)
    return found


def _remote(trusted: Trusted) -> Finding:
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


def _print(findings: Sequence[Finding], console: Console, *, quick: bool) -> None:
    for finding in findings:
        mark, colour = _MARKS[finding.level]
        console.print(Text(f"{mark} ", style=colour) + Text(finding.says, style=""))
        if finding.advice:
            console.print(Text(f"    {finding.advice}", style="cyan"))
    fatal = any(finding.fatal for finding in findings)
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    console.print()
    if fatal:
        console.print(Text("Completions do not work until the problems above are solved.", style="bold red"))
    elif quick:
        found = f"Problems found: {problems}." if problems else "Nothing wrong was found."
        untried = "Not tried: loading a model, and asking it. `lsp-calib doctor` without --quick does both."
        console.print(Text(f"{found} {untried}", style="yellow"))
    elif problems:
        console.print(Text(f"Completions work. Problems found: {problems}.", style="yellow"))
    else:
        console.print(Text("Everything works.", style="green"))
