"""Answers from a model for a command of the terminal: settings, progress, words."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.collect import Workers, collect
from lsp_calib.evaluation.records import Header, Record
from lsp_calib.evaluation.tasks import Task
from lsp_calib.settings import Trusted, engine_choice, resolve_trusted


def generate(
    task: Task,
    workers: Workers,
    path: Path,
    *,
    model: str | None,
    threads: int,
    seed: int,
    quiet: bool,
    created: str | None = None,
    held_out: frozenset[str] = frozenset(),
) -> tuple[Header, list[Record]]:
    """The records of a task, kept in `path`; progress goes to standard error unless `quiet`.

    What is not given comes from where the server takes it: the environment, the user's `config.toml`.
    """
    if workers.remotes:
        given = Trusted(remote_url=workers.remotes[0], remote_model=model)
    else:
        given = Trusted(model=model, threads=threads)
    trusted, problems = resolve_trusted(given, Trusted())
    for problem in problems:
        click.echo(f"lsp-calib: {problem}", err=True)
    with _progress(quiet) as show:
        return collect(
            task,
            engine_choice(trusted),
            workers,
            path,
            seed=seed,
            created=created or datetime.date.today().isoformat(),
            held_out=held_out,
            on_progress=show,
        )


def writable(*paths: Path | None) -> None:
    """Asking takes long: a place that cannot be written to is better named before. Raises SettingsError."""
    for wanted in paths:
        if wanted is not None and not wanted.absolute().parent.is_dir():
            raise SettingsError(f"There is no folder {wanted.absolute().parent} to write {wanted.name} to.")


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        bar = progress.add_task("Completing lines", total=None)
        yield lambda done, all_: progress.update(bar, completed=done, total=all_)
