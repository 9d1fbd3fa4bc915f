"""`lsp-calib doctor`: check, measure, advise."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.text import Text

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import LENT, Purpose, is_same_model
from lsp_calib.commands.engine import layouts_for
from lsp_calib.errors import EngineDiedError, LspCalibError, ModelError
from lsp_calib.inference.engines import open_engine
from lsp_calib.inference.models.card import ModelCard
from lsp_calib.inference.models.inventory import Entry
from lsp_calib.inference.models.speeds import LATENCY_BUDGET, is_quiet
from lsp_calib.settings import Trusted, engine_choice, resolve_trusted
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.terminal import Console, tell
from lsp_calib.tools.bench.run import short_bench
from lsp_calib.tools.doctor import checks
from lsp_calib.tools.doctor.bundle import check_place, write_bundle
from lsp_calib.tools.doctor.checks import Finding, Level, note, problem

DEFAULTS = Trusted()
OTHER = "other"
"""A language that nothing is known of, see `languages.bounded`."""

BUDGET_MS = 1e3 * LATENCY_BUDGET


def calibrators(usable: Sequence[Entry], trusted: Trusted = DEFAULTS) -> list[Finding]:
    """The calibrators in force for each model, with the prompts that it gets on this machine, and files that
    had to be skipped."""
    store = CalibratorStore.open()
    listed, skipped = store.listed()
    in_force = [one.calibrator for one in listed if one.in_force]
    found: list[Finding] = []
    layouts = layouts_for(trusted, store)
    for entry in usable:
        card = entry.card
        assert isinstance(card, ModelCard), "an inventory is of language models"
        identity = card.identity
        version = layouts.of_card(card, identity).version
        of_model = [one for one in in_force if is_same_model(one.purpose.model, identity)]
        lines = [one for one in of_model if one.purpose.asks_like(Purpose(identity, version, "line", ""))]
        summaries = [one for one in of_model if one.purpose.task == "summary"]
        # A language without a grammar stands for all of these.
        served = {
            language: store.choose(Purpose(identity, version, "line", language)).calibrator
            for language in (*LANGUAGES, OTHER)
        }
        found.append(_of_model(identity.name, version, lines, summaries, served))
        # Where nothing is in force, something may be promised all the same.
        purposes = [Purpose(identity, version, "line", "python"), *(one.purpose for one in lines + summaries)]
        for purpose in dict.fromkeys(purposes):
            found += certificate(store, purpose, store.choose(purpose).calibrator)
    advice = "Remove or replace the file. Until then another calibrator is used."
    return found + [problem("calibrator", text, advice) for text in skipped]


def _of_model(
    name: str,
    version: str,
    lines: Sequence[Calibrator],
    summaries: Sequence[Calibrator],
    served: Mapping[str, Calibrator],
) -> Finding:
    """The finding on one model. lines, summaries: its calibrators in force. served: the calibrator of lines
    that each language gets."""
    data = {
        "model": name,
        "prompt": version,
        "calibrators": [
            {
                "id": one.id,
                "task": one.purpose.task,
                "language": one.purpose.language,
                "source": one.source,
                "state": one.state,
                "n": one.n,
            }
            for one in (*lines, *summaries)
        ],
        "languages": {language: {"source": one.source, "n": one.n} for language, one in served.items()},
    }
    of_lines, of_summaries = _words("lines", lines), _words("summaries", summaries)
    if not lines:
        says = f"{name} is not calibrated: its lines have no probability, and their tier is review."
        says += f" It has calibrators for {of_summaries}." if summaries else ""
        advice = f"Run `lsp-calib calibrate PATH --model {name}`, or refit after using it for a while."
        return note("calibrator", says, advice, data=data)
    known = f"{of_lines}, and for {of_summaries}" if summaries else of_lines
    says = f"{name}: calibrators for {known}. {_of_the_rest(served)}"
    return Finding("calibrator", says, data=data)


def _of_the_rest(served: Mapping[str, Calibrator]) -> str:
    """How lines are calibrated in languages without labels, as a sentence."""
    rest = {language: one for language, one in served.items() if one.source in LENT}
    named = sorted(one.purpose.language_name for language, one in rest.items() if language != OTHER)
    others = ", ".join([*named, "languages without a grammar"])
    if rest[OTHER].source == "pooled":
        return f"Lines of {others}: pooled, {rest[OTHER].n:,} labels of other languages and windows."
    return f"Lines of {others}: not calibrated, always marked review."


def _words(task: str, found: Sequence[Calibrator]) -> str:
    """Calibrators of one task, those that came about in the same way together."""
    together: dict[str, list[Calibrator]] = defaultdict(list)
    for one in found:
        together[one.source_and_state].append(one)
    parts = []
    for origin, some in together.items():
        names = sorted(one.purpose.language_name for one in some)
        least, most = min(one.n for one in some), max(one.n for one in some)
        labels = f"{most} labels" if least == most else f"{least} to {most} labels"
        parts.append(f"{', '.join(names)} ({origin}, {labels})")
    return f"{task} of {'; '.join(parts)}"


def certificate(store: CalibratorStore, purpose: Purpose, calibrator: Calibrator) -> list[Finding]:
    """What is promised of the tiers, where the policy is or was `risk`."""
    try:
        ledger = store.ledger(purpose)
    except LspCalibError as error:
        advice = "Remove the file: certificates then begin anew, with later labels."
        return [problem("certificate", str(error), advice)]
    if ledger.promise is None:
        return []
    data = ledger.to_wire(calibrator.id, ledger.promise)
    name = f"{purpose.model.name}, {purpose.language}"
    if data["certified"]:
        return [Finding("certificate", f"{name}: certified: {data['reason']}.", data=data)]
    says = f"{name}: nothing is certified to be accepted: {data['reason']}."
    advice = "Labels come with use; `lsp-calib refit` asks for a certificate when there are enough."
    return [note("certificate", says, advice, data=data)]


@attrs.frozen
class Measurement:
    """The short form of the bench with one model.

    p50, p95: milliseconds from a keystroke to its suggestion, for keystrokes that asked the model and did not
    open a document or follow a move of the cursor. first: p50 of the first one in a document. n: number of
    keystrokes. load: of the machine, None if the system does not report it. quiet: whether little else ran
    before the bench began.
    """

    model: str
    p50: float
    p95: float
    first: float | None
    n: int
    threads: int
    processors: int
    load: float | None
    quiet: bool = True

    @property
    def quick(self) -> bool:
        return self.p50 <= BUDGET_MS

    @property
    def words(self) -> str:
        """The measured values in words."""
        load = "" if self.load is None else f", load {self.load:.1f}"
        first = "" if self.first is None else f"; the first in a document {self.first:.0f} ms"
        busy = "" if self.quiet else "; other programs were busy, so a quiet machine is faster"
        return (
            f"half of {self.n} keystrokes of recorded typing within {self.p50:.0f} ms, 95 % within "
            f"{self.p95:.0f} ms{first} ({self.threads} threads, {self.processors} processors{load}){busy}"
        )


def speeds(usable: Sequence[Entry], trusted: Trusted, progress: Callable[[str], None]) -> list[Finding]:
    """The speed of each model, or why it could not be measured, and the recommended model."""
    found: list[Finding] = []
    measured: list[Measurement] = []
    for entry in usable:
        if entry.fits is not False:
            finding, one = _measured(entry, trusted, progress)
            found.append(finding)
            measured += [one] if one else []
    # Completions need the model that the settings name, or else any; or a server elsewhere.
    for at, finding in enumerate(found):
        needed = not measured or finding.data.get("model") == trusted.model
        if needed and finding.data.get("runs") is False and not trusted.remote_url:
            found[at] = attrs.evolve(finding, fatal=True)
    advice = recommend(measured, trusted)
    return found if advice is None else [*found, advice]


def _measured(
    entry: Entry, trusted: Trusted, progress: Callable[[str], None]
) -> tuple[Finding, Measurement | None]:
    name, quiet = entry.card.name, is_quiet()
    of_model = attrs.evolve(trusted, model=str(entry.card.path), remote_url=None)
    try:
        report = short_bench(of_model, lambda text: progress(f"{name}: {text}"))
    except LspCalibError as error:
        says = f"{name} could not be measured: {error}"
        advice = f"Run `lsp-calib models verify {name}`, then `lsp-calib bench --model {name}`."
        # Any other error is one of measuring, as when its time is over.
        runs = not isinstance(error, ModelError | EngineDiedError)
        return problem("speed", says, advice, data={"model": name, "runs": runs}), None
    found = measurement(name, report, quiet=quiet)
    if found is None:
        return note("speed", f"{name} could not be timed: every answer came from memory."), None
    level = Level.GOOD if found.quick else Level.NOTE
    verdict = "quick enough" if found.quick else f"slower than {BUDGET_MS:.0f} ms"
    data = {**attrs.asdict(found), "quick": found.quick}
    return Finding("speed", f"{name} is {verdict}: {found.words}.", level=level, data=data), found


def measurement(model: str, report: dict[str, Any], *, quiet: bool = True) -> Measurement | None:
    """The relevant values of a bench's report; None if no keystroke asked the model."""
    latency = report["latencyMs"]
    asked = latency["typingModel"]
    if asked is None:
        return None
    return Measurement(
        model=model,
        p50=asked["p50"][0],
        p95=asked["p95"][0],
        first=latency["cold"]["p50"][0] if latency["cold"] else None,
        n=asked["n"],
        threads=report["threads"],
        processors=report["machine"]["processors"],
        load=report["machine"]["load"],
        quiet=quiet,
    )


def recommend(measured: Sequence[Measurement], trusted: Trusted) -> Finding | None:
    """The recommended model for this machine: the first that is quick enough. None if nothing was measured.

    It is shown, and changes nothing: the server chooses by the times of its own requests.

    measured: in order of preference.
    """
    if not measured:
        return None
    fastest = min(measured, key=lambda one: one.p50)
    best = next((one for one in measured if one.quick), fastest)
    data = {"model": best.model, "threads": best.threads, "quickEnough": best.quick}
    why = f"Recommended: {best.model}: {best.words}."
    if not best.quick:
        why += (
            f" None of the installed models answers within {BUDGET_MS:.0f} ms; this is the fastest. If other "
            "programs were busy, measure again without them."
        )
    if trusted.model and trusted.model != best.model:
        why += f" Your settings name {trusted.model}."
        advice = f'Set `model = "{best.model}"` in config.toml, or remove `model`.'
        return note("recommendation", why, advice, data=data)
    return Finding("recommendation", why, level=Level.GOOD if best.quick else Level.NOTE, data=data)


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
    found += checks.engine_mode()
    if trusted.remote_url:
        found.append(_remote(trusted))
    installed, usable = checks.models(trusted)
    found += installed
    found += checks.chosen(trusted)
    found += calibrators(usable, trusted)
    found.append(checks.encoder())
    found.append(checks.feedback())
    found.append(checks.processes())
    if not quick and not engine.fatal:
        found += speeds(usable, trusted, progress)
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
