"""Ask the chosen workers for the items of a task; the answers become records."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, Self

import attrs

from lsp_calib.completion.prompt import WindowSize
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.engine_host import Answerer, close_engines
from lsp_calib.evaluation.executors import DaskPool, DirectPool, JoblibPool, TeamPool
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.item_worker import Completing, Observed
from lsp_calib.evaluation.records import Record, read_records, sources_of
from lsp_calib.evaluation.runner import Plain, Pool, run
from lsp_calib.evaluation.study_worker import Reflected, Studying
from lsp_calib.evaluation.summary_observation import SummaryObserved
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.summary_worker import Summarising
from lsp_calib.evaluation.tasks import Task
from lsp_calib.inference.choice import EngineChoice


@attrs.frozen
class Workers:
    """The workers to use.

    jobs: number of processes on this machine; 1 means this process. They share the user's one model process,
        which decodes for one client at a time. model_per_job: each process starts its own model process.
    scheduler: address of a Dask cluster, "" for none. remotes: addresses of servers, all used in parallel.
    Raises SettingsError if these contradict each other.
    """

    jobs: int = 1
    model_per_job: bool = False
    scheduler: str = ""
    remotes: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        kinds = [self.jobs > 1, bool(self.scheduler), len(self.remotes) > 1]
        if sum(kinds) > 1:
            raise SettingsError("Give one of --jobs, --scheduler or several --remote.")
        if self.model_per_job and self.jobs < 2:
            raise SettingsError("--model-per-job gives each of several --jobs a model process: say how many.")
        if self.remotes and (self.model_per_job or self.scheduler):
            raise SettingsError(
                "With --remote the model runs elsewhere: --model-per-job and --scheduler do not apply."
            )


ALONE = Workers()


class Asking(Protocol):
    """A `runner.Ask` that knows whom it asks: `Completing`, `Studying` or `Summarising`."""

    def __call__(self, payload: Plain) -> Plain: ...

    def describe(self) -> Answerer: ...

    def expecting(self, answerer: Answerer) -> Self:
        """The same, refusing to ask another one."""
        ...

    def at(self, url: str) -> Self:
        """The same, asking the server at this address."""
        ...

    def privately(self, folder: str) -> Self:
        """The same, with a model process for each process that asks."""
        ...


def collect(
    task: Task,
    choice: EngineChoice,
    workers: Workers,
    path: Path,
    *,
    seed: int,
    created: str,
    held_out: frozenset[str] | None = None,
    observe: frozenset[str] = frozenset(),
    window: WindowSize | None = None,
    augment: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Header, list[Record]]:
    """Write the records of all items of `task` to `path`; returns its header and them. See `runner.run`.

    The header's sources are those of the items, also where the file holds answers to others.
    created: ISO date for a new file. held_out: groups that are excluded from fitting; None: those that the
        file names, if it is there. observe: optional
        fields of the records. window: how much of a document the model
        sees; None: as much as when it serves an editor. augment: as for `Summarising`; of lines it says
        nothing. on_progress, say: as for `runner.run`.
    Raises DataError if servers do not run the same model, SettingsError if the engine cannot observe what is
    to be observed, and the errors of `run`.
    """
    asks = _asks(task, choice, workers, observe, window, augment)
    with _pool(asks, workers) as (pool, ask):
        described = [one.describe() for one in asks] if len(asks) > 1 else [pool.call(asks[0].describe)]
        answerer = described[0]
        if workers.model_per_job:
            close_engines()  # the engine was opened only to identify the model; free its memory
        if any(other != answerer for other in described):
            raise DataError(
                "The servers run different models: "
                + "; ".join(
                    f"{url}: {other.model.name}"
                    for url, other in zip(workers.remotes, described, strict=True)
                )
                + ". Records of two models are not mixed: ask one after the other."
            )
        header = Header(
            task=task.name,
            language=task.language,
            model=answerer.model,
            prompt_version=answerer.prompt_version,
            seed=seed,
            sources=task.sources,
            held_out=tuple(sorted(held_out or ())),
            created=created,
            features=answerer.features,
            similarity=answerer.similarity,
            observations=answerer.observations,
        )
        if isinstance(pool, TeamPool):
            pool = TeamPool([one.expecting(answerer) for one in asks])
        records = run(
            *(task.items, ask.expecting(answerer), pool, path, header),
            # Summaries are judged again by the thresholds of the day, whatever they were judged by.
            criteria=() if task.name == SUMMARY else task.criteria,
            keeps_held_out=held_out is None,
            on_progress=on_progress,
            say=say,
        )
    found, _ = read_records(path)
    return attrs.evolve(found, sources=task.sources or sources_of(records)), records


def _asks(
    task: Task,
    choice: EngineChoice,
    workers: Workers,
    observe: frozenset[str],
    window: WindowSize | None,
    augment: bool,
) -> list[Asking]:
    ask: Asking
    if task.name == SUMMARY:
        # What a calibrator counts in the texts and compares by the encoder, which must be there to judge the
        # summary, costs next to nothing: every record holds it.
        wanted = {SummaryObserved.TEXT, SummaryObserved.ENCODER, *map(SummaryObserved, observe)}
        ask = Summarising(choice, observe=frozenset(wanted), augment=augment)
    elif task.study:
        ask = Studying(choice, criteria=task.criteria, observe=frozenset(map(Reflected, observe)))
    else:
        seen = frozenset(map(Observed, observe))
        ask = Completing(choice, criteria=task.criteria, observe=seen, window=window)
    return [ask.at(url) for url in workers.remotes] or [ask]


@contextlib.contextmanager
def _pool(asks: list[Asking], workers: Workers) -> Iterator[tuple[Pool, Asking]]:
    """The pool and the function it runs. On exit the pool and the engines of this process are closed."""
    ask = asks[0]
    pool: Pool
    with contextlib.ExitStack() as stack:
        stack.callback(close_engines)
        if workers.scheduler:
            pool = DaskPool(workers.scheduler)
        elif workers.jobs > 1:
            pool = JoblibPool(workers.jobs)
            if workers.model_per_job:
                folder = tempfile.mkdtemp(prefix="lsp-calib-")
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                ask = ask.privately(folder)
        else:
            pool = TeamPool(asks) if len(asks) > 1 else DirectPool()
        stack.callback(pool.close)
        yield pool, ask
