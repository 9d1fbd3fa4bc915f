"""Ask the chosen workers for the items of a task; the answers become records."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs

from lsp_calib.completion.prompt import WindowSize
from lsp_calib.corpus.engine_host import Asking, close_engines
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.header import Header
from lsp_calib.corpus.item_worker import Completing, Observed, Reflected, Studying, Summarising
from lsp_calib.corpus.records import Record, read_records, sources_of
from lsp_calib.corpus.runner import Pool, alone, processes, run, team
from lsp_calib.corpus.summary_observation import SummaryObserved
from lsp_calib.corpus.tasks import Task, held_out
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.choice import EngineChoice


@attrs.frozen
class Workers:
    """The workers to use.

    jobs: number of processes on this machine; 1 means this process. They share the user's one model process,
        which decodes for one client at a time. model_per_job: each process starts its own model process.
    remotes: addresses of servers, all used in parallel.
    Raises SettingsError if these contradict each other.
    """

    jobs: int = 1
    model_per_job: bool = False
    remotes: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.jobs > 1 and len(self.remotes) > 1:
            raise SettingsError("Give one of --jobs or several --remote.")
        if self.model_per_job and self.jobs < 2:
            raise SettingsError("--model-per-job gives each of several --jobs a model process: say how many.")
        if self.remotes and self.model_per_job:
            raise SettingsError("With --remote the model runs elsewhere: --model-per-job does not apply.")


ALONE = Workers()


@attrs.frozen(kw_only=True)
class AskingOptions:
    """How a model is asked for the answers to a task: the options that `calibrate` and `eval` share.

    model, threads: of the command line, as for `settings_in_force`. seed: of all random draws.
    held_out: the number of projects that nothing is fitted on; None: those that the records name.
    observe: optional fields of the records. window: how much of a document the model sees; None: as much as
    when it serves an editor. augment: as for `Summarising`; of lines it says nothing.
    created: ISO date for new records; None: today.
    say: reports settings that cannot be used, and answers that are there but do not count.
    quiet: no progress on standard error.
    """

    say: Callable[[str], None] = lambda _: None
    model: str | None = None
    threads: int = 0
    seed: int = 0
    held_out: int | None = None
    workers: Workers = ALONE
    observe: frozenset[str] = frozenset()
    window: WindowSize | None = None
    augment: bool = False
    created: str | None = None
    quiet: bool = False

    def apart(self, groups: Sequence[str]) -> frozenset[str]:
        """The groups of items that are held out; none if their number is left to the records."""
        return held_out(groups, self.held_out or 0, self.seed)


def collect(
    task: Task,
    choice: EngineChoice,
    path: Path,
    asking: AskingOptions,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[Header, list[Record]]:
    """Write the records of all items of `task` to `path`; returns its header and them. See `runner.run`.

    The header's sources are those of the items, also where the file holds answers to others.
    choice: of the engine: asking's model and threads say nothing here.
    Raises DataError if servers do not run the same model, SettingsError if the engine cannot observe what is
    to be observed, and the errors of `run`.
    """
    workers, apart = asking.workers, None
    if asking.held_out is not None:
        apart = asking.apart([str(payload["group"]) for _, payload in task.items])
    asks = _asks(task, choice, asking)
    ask = asks[0]
    pool: Pool = alone
    with contextlib.ExitStack() as stack:
        stack.callback(close_engines)
        described = [one.describe() for one in asks]
        answerer = described[0]
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
            seed=asking.seed,
            sources=task.sources,
            held_out=tuple(sorted(apart or ())),
            created=asking.created or datetime.date.today().isoformat(),
            **attrs.asdict(answerer, recurse=False, filter=attrs.filters.exclude("window")),
        )
        if len(asks) > 1:
            pool = partial(team, [one.expecting(answerer) for one in asks])
        elif workers.jobs > 1:
            pool = partial(processes, workers.jobs)
        if workers.model_per_job:
            close_engines()  # the engine was opened only to identify the model; free its memory
            folder = tempfile.TemporaryDirectory(prefix="lsp-calib-", ignore_cleanup_errors=True)
            ask = ask.privately(stack.enter_context(folder))
        records = run(
            *(task.items, ask.expecting(answerer), pool, path, header),
            # Summaries are judged again by the thresholds of the day, whatever they were judged by.
            criteria=() if task.name == SUMMARY else task.criteria,
            keeps_held_out=apart is None,
            on_progress=on_progress,
            say=asking.say,
        )
    found, _ = read_records(path)
    return attrs.evolve(found, sources=task.sources or sources_of(records)), records


def _asks(task: Task, choice: EngineChoice, asking: AskingOptions) -> list[Asking]:
    observe = asking.observe
    ask: Asking
    if task.name == SUMMARY:
        # What a calibrator counts in the texts and compares by the encoder, which must be there to judge the
        # summary, costs next to nothing: every record holds it.
        wanted = {SummaryObserved.TEXT, SummaryObserved.ENCODER, *map(SummaryObserved, observe)}
        ask = Summarising(choice, observe=frozenset(wanted), augment=asking.augment)
    elif task.study:
        ask = Studying(
            choice, criteria=task.criteria, judge=task.judge, observe=frozenset(map(Reflected, observe))
        )
    else:
        seen = frozenset(map(Observed, observe))
        ask = Completing(choice, criteria=task.criteria, judge=task.judge, observe=seen, window=asking.window)
    return [ask.at(url) for url in asking.workers.remotes] or [ask]
