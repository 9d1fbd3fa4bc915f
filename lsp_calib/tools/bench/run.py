"""`lsp-calib bench`: measure, print, remember how fast the model was."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import click

from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.speeds import remember_speed
from lsp_calib.server.settings import Trusted, resolve_trusted
from lsp_calib.tools.bench.course import Options, Progress, measure
from lsp_calib.tools.bench.report import to_json
from lsp_calib.tools.bench.table import print_report

_SHORT: dict[str, Any] = {"steps": 36, "cancels": 3, "typing_on": False, "long_file": False, "idle": 2.0}


def run(*, as_json: bool, model: str | None, threads: int, short: bool, **given: Any) -> None:
    """Measure and print.

    given: `Options` by name; what is None is the default's, or the short form's. Raises LspCalibError.
    """
    trusted, problems = resolve_trusted(Trusted(model=model, threads=threads), Trusted())
    for problem in problems:
        click.echo(f"lsp-calib: {problem}", err=True)
    changes = {name: value for name, value in given.items() if value is not None}
    options = Options(trusted=trusted, **{**(_SHORT if short else {}), **changes})
    report = bench(options, lambda text: None if as_json else click.echo(text, err=True))
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        print_report(report)


def short_options(trusted: Trusted) -> Options:
    """The short form of the bench, without the bare loop: what `doctor` runs."""
    return Options(trusted=trusted, raw=False, **{**_SHORT, "cancels": 0, "idle": 0.0})


def bench(options: Options, progress: Progress) -> dict[str, Any]:
    """The report of a bench. Its speed is remembered, for whoever has to choose a model."""
    # What goes wrong is raised here, once; pygls would log it as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    measured = asyncio.run(measure(options, progress))
    report = to_json(measured)
    _remember(measured.card, report)
    return report


def _remember(card: ModelCard, report: dict[str, Any]) -> None:
    if speed := report["speed"]:
        remember_speed(card, speed["promptTokensPerS"], speed["generatedTokensPerS"])
