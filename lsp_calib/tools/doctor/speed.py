"""Measures the installed models on this machine, and recommends one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from lsp_calib.errors import EngineDiedError, LspCalibError, ModelError
from lsp_calib.inference.models.inventory import Entry
from lsp_calib.inference.models.speeds import LATENCY_BUDGET, is_quiet
from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.run import bench, short_options
from lsp_calib.tools.doctor.finding import Finding, Level

BUDGET_MS = 1e3 * LATENCY_BUDGET


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


def measure(entry: Entry, trusted: Trusted, progress: Callable[[str], None]) -> Finding | Measurement:
    """The speed of one installed model, or why it could not be measured (see `does_not_run`)."""
    name, quiet = entry.card.name, is_quiet()
    options = short_options(attrs.evolve(trusted, model=str(entry.card.path), remote_url=None))
    try:
        report = bench(options, lambda text: progress(f"{name}: {text}"))
    except LspCalibError as error:
        return Finding(
            "speed",
            Level.PROBLEM,
            f"{name} could not be measured: {error}",
            f"Run `lsp-calib models verify {name}`, then `lsp-calib bench --model {name}`.",
            # Any other error is one of measuring, as when its time is over.
            data={"model": name, "runs": not isinstance(error, ModelError | EngineDiedError)},
        )
    found = measurement(name, report, quiet=quiet)
    if found is None:
        return Finding("speed", Level.NOTE, f"{name} could not be timed: every answer came from memory.")
    return found


def does_not_run(finding: Finding) -> bool:
    """Whether a finding of `measure` says that the model cannot answer."""
    return finding.data.get("runs") is False


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


def described(measured: Measurement) -> Finding:
    level = Level.GOOD if measured.quick else Level.NOTE
    verdict = "quick enough" if measured.quick else f"slower than {BUDGET_MS:.0f} ms"
    return Finding(
        "speed",
        level,
        f"{measured.model} is {verdict}: {measured.words}.",
        data={**attrs.asdict(measured), "quick": measured.quick},
    )


def recommend(measured: Sequence[Measurement], preference: Sequence[str], trusted: Trusted) -> Finding | None:
    """The recommended model for this machine: the first in order of preference that is quick enough.

    It is shown, and changes nothing: the server chooses by the times of its own requests.

    preference: names, the best first. None if nothing was measured.
    """
    if not measured:
        return None
    rank = {name: at for at, name in enumerate(preference)}
    quick = sorted((one for one in measured if one.quick), key=lambda one: rank.get(one.model, len(rank)))
    best = quick[0] if quick else min(measured, key=lambda one: one.p50)
    data = {"model": best.model, "threads": best.threads, "quickEnough": best.quick}
    why = f"Recommended: {best.model}: {best.words}."
    if not best.quick:
        why += (
            f" None of the installed models answers within {BUDGET_MS:.0f} ms; this is the fastest. If other "
            "programs were busy, measure again without them."
        )
    if trusted.model and trusted.model != best.model:
        return Finding(
            "recommendation",
            Level.NOTE,
            f"{why} Your settings name {trusted.model}.",
            f'Set `model = "{best.model}"` in config.toml, or remove `model`.',
            data=data,
        )
    return Finding("recommendation", Level.GOOD if best.quick else Level.NOTE, why, data=data)
