"""`lsp-calib bench`: measure and print. What it finds changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection
from typing import Any

from lsp_calib.errors import EngineError, SettingsError, StoppedError
from lsp_calib.settings import Trusted, resolve_trusted
from lsp_calib.terminal import tell
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.measured import Measured
from lsp_calib.tools.bench.measurement import Options, Progress, measure
from lsp_calib.tools.bench.report import to_json
from lsp_calib.tools.bench.stopping import Stopped
from lsp_calib.tools.bench.table import print_report

_SHORT: dict[str, Any] = {"steps": 36, "cancels": 3, "typing_on": False, "long_file": False, "idle": 2.0}
# The options that are set if --only names a part, and if it leaves the part out.
_ON: dict[str, dict[str, Any]] = {
    "typing-on": {"typing_on": True},
    "long-file": {"long_file": True},
    "two": {"two": True},
    "beside": {"beside": 1},
    "summaries": {"summaries": True},
}
_OFF: dict[str, dict[str, Any]] = {
    "typing": {"typing": False},
    "cancel": {"cancels": 0},
    "typing-on": {"typing_on": False},
    "long-file": {"long_file": False},
    "idle": {"idle": 0.0},
    "two": {"two": False},
    "beside": {"beside": 0},
    "summaries": {"summaries": False},
}


def run(
    *,
    as_json: bool,
    model: str | None,
    threads: int,
    short: bool,
    only: Collection[str] = (),
    **given: Any,
) -> int:
    """Measure and print; returns the exit code.

    only: the `PARTS` to measure; empty for the usual ones. given: `Options` by name; None stands for the
    default, or for the value of the short form. Raises LspCalibError.
    """
    trusted, problems = resolve_trusted(Trusted(model=model, threads=threads), Trusted())
    for problem in problems:
        _tell(f"lsp-calib: {problem}")
    options = Options(trusted=trusted, **chosen(short=short, only=only, given=given))
    if not options.parts():
        raise SettingsError("There is nothing to measure: the options leave every part out.")
    try:
        measured, report = _measure(options, _tell)
    except KeyboardInterrupt:
        raise StoppedError("Stopped at once; nothing was printed.") from None
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    elif not measured.empty:
        print_report(report)
    if measured.stopped is None:
        return 0
    if measured.empty:
        _tell(f"lsp-calib: {_nothing(measured.stopped, options)}")
    return measured.stopped.exit_code or (EngineError.exit_code if measured.empty else 0)


def chosen(*, short: bool, only: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    """`Options` by name: those of the short form, replaced by those that `only` sets and by `given`."""
    options: dict[str, Any] = dict(_SHORT) if short else {}
    off: dict[str, Any] = {}
    for part in PARTS if only else ():
        if part in only:
            options |= _ON.get(part, {})
        else:
            off |= _OFF[part]
    return {**options, **{name: value for name, value in given.items() if value is not None}, **off}


def short_options(trusted: Trusted) -> Options:
    """The short form of the bench, without the bare loop, as `doctor` runs it."""
    return Options(trusted=trusted, raw=False, **{**_SHORT, "cancels": 0, "idle": 0.0})


def bench(options: Options, progress: Progress) -> dict[str, Any]:
    """The report of a bench.

    After the time limit it covers the readings so far. Raises LspCalibError if there are none,
    KeyboardInterrupt for Ctrl-C, SystemExit for a signal to terminate.
    """
    measured, report = _measure(options, progress)
    if measured.stopped is Stopped.INTERRUPT:
        raise KeyboardInterrupt
    if measured.stopped is Stopped.TERMINATE:
        raise SystemExit(measured.stopped.exit_code)
    if measured.stopped and measured.empty:
        raise EngineError(_nothing(measured.stopped, options))
    return report


def _measure(options: Options, progress: Progress) -> tuple[Measured, dict[str, Any]]:
    # Errors are raised here, once; pygls would log them as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    measured = asyncio.run(measure(options, progress))
    return measured, to_json(measured)


def _tell(text: str) -> None:
    tell(text)


def _nothing(stopped: Stopped, options: Options) -> str:
    words = f"The bench was stopped {stopped.words} before anything was measured."
    if stopped is Stopped.LIMIT:
        words += f" Allow it more than {options.limit:g} s (--limit)."
    return words
