"""The model's answers to a task, for `lsp-calib calibrate` and `lsp-calib eval`."""

from __future__ import annotations

import datetime
from pathlib import Path

from lsp_calib.commands.engine import Say, settings_in_force
from lsp_calib.commands.printing import item_progress
from lsp_calib.completion.prompt import WindowSize
from lsp_calib.evaluation.collect import Workers, collect
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.tasks import REPAIR, SYNTHESIS, Task
from lsp_calib.settings import Trusted, engine_choice

_DOING = {SUMMARY: "Summarising functions", SYNTHESIS: "Writing functions", REPAIR: "Repairing lines"}


def collect_records(
    task: Task,
    workers: Workers,
    path: Path,
    say: Say,
    *,
    model: str | None,
    threads: int,
    seed: int,
    quiet: bool,
    lines: bool = False,
    created: str | None = None,
    held_out: frozenset[str] | None = None,
    observe: frozenset[str] = frozenset(),
    window: WindowSize | None = None,
    augment: bool = False,
) -> tuple[Header, list[Record]]:
    """The records of a task, kept in `path`; progress goes to standard error unless `quiet`, as `lines` for a
    program if these are wanted.

    model, threads: of the command line, as for `settings_in_force`. say: reports settings that cannot be
    used, and answers that are there but do not count.
    held_out, observe, window, augment: as for `evaluation.collect.collect`, whose errors it raises.
    """
    if workers.remotes:
        given = Trusted(remote_url=workers.remotes[0], remote_model=model)
    else:
        given = Trusted(model=model, threads=threads)
    choice = engine_choice(settings_in_force(given, say))
    doing = _DOING.get(task.name, "Completing lines")
    with item_progress(doing, quiet=quiet, lines=lines) as show:
        return collect(
            task,
            choice,
            workers,
            path,
            seed=seed,
            created=created or datetime.date.today().isoformat(),
            held_out=held_out,
            observe=observe,
            window=window,
            augment=augment,
            on_progress=show,
            say=say,
        )
