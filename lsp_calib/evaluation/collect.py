"""Ask the chosen workers for the items of a task; the answers become records.

The pools of workers are this process, worker processes (joblib), a Dask cluster, or several servers. All
return the same answers, in different orders; `runner.Pool` documents the contract.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import re
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.completion.prompt import WindowSize
from lsp_calib.errors import DataError, EngineError, SettingsError
from lsp_calib.evaluation.engine_host import Asking, close_engines
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.item_worker import Completing, Observed, Reflected, Studying, Summarising
from lsp_calib.evaluation.records import Record, read_records, sources_of
from lsp_calib.evaluation.runner import Answer, Ask, Plain, Pool, run
from lsp_calib.evaluation.summary_observation import SummaryObserved
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.tasks import Task
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.installation import install_command

if TYPE_CHECKING:
    from distributed import Client, Future


T = TypeVar("T")

# How many workers may be lost in a row without an answer.
_MOST_LOSSES = 3
# How long to wait for a cluster that has no workers, in seconds.
_PATIENCE = 60.0
# How often a worker process looks whether the one that it works for is still there, in seconds.
_LOOKS = 1.0


def answer_of(ask: Ask, item: str, payload: Plain) -> Answer:
    """Ask for one item; runs in the worker. An EngineError is returned as an answer without a result."""
    try:
        return Answer(item, ask(payload))
    except EngineError as error:
        return Answer(item, None, str(error))


class DirectPool(Pool):
    """Runs in this process, one item after the other."""

    def answers(self, ask: Ask, items: Mapping[str, Plain]) -> Iterator[Answer]:
        for item, payload in items.items():
            yield answer_of(ask, item, payload)


class TeamPool(Pool):
    """Workers of different speeds, such as servers: a thread for each; a free worker takes the next item.

    A worker that fails leaves the item to the others, and is removed after three failures in a row.
    """

    def __init__(self, asks: Sequence[Ask]) -> None:
        if not asks:
            raise SettingsError("No server is given: name at least one.")
        self._asks = tuple(asks)

    def answers(self, ask: Ask, items: Mapping[str, Plain]) -> Iterator[Answer]:  # noqa: ARG002 - has its own
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for item in items:
            waiting.put(item)
        results: queue.SimpleQueue[Answer | BaseException | None] = queue.SimpleQueue()
        enough = threading.Event()
        members = [
            threading.Thread(target=_member, args=(one, items, waiting, results, enough), daemon=True)
            for one in self._asks
        ]
        for member in members:
            member.start()
        present, left, last = len(members), len(items), ""
        failed: dict[str, int] = {}
        try:
            while left:
                result = results.get()
                if result is None:
                    present -= 1
                    if not present:
                        raise EngineError(f"All servers have failed. The last error: {last}")
                    continue
                if isinstance(result, BaseException):
                    raise result
                if result.result is None:
                    last = result.error
                    failed[result.item] = failed.get(result.item, 0) + 1
                    if failed[result.item] < _MOST_LOSSES:
                        waiting.put(result.item)
                        continue
                left -= 1
                yield result
        finally:
            enough.set()


def _member(
    ask: Ask,
    items: Mapping[str, Plain],
    waiting: queue.SimpleQueue[str],
    results: queue.SimpleQueue[Answer | BaseException | None],
    enough: threading.Event,
) -> None:
    in_a_row = 0
    while not enough.is_set() and in_a_row < _MOST_LOSSES:
        try:
            item = waiting.get(timeout=0.1)
        except queue.Empty:
            continue
        try:
            answer = answer_of(ask, item, items[item])
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            results.put(error)
            return
        in_a_row = 0 if answer.result is not None else in_a_row + 1
        results.put(answer)
    results.put(None)


class JoblibPool(Pool):
    """Worker processes on this machine. A worker that dies is replaced, and its items are asked for again."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def answers(self, ask: Ask, items: Mapping[str, Plain]) -> Iterator[Answer]:
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = dict(items)
        losses = 0
        while left:
            # One item at a time: with larger batches a worker that dies would lose finished answers.
            parallel = joblib.Parallel(
                n_jobs=self._jobs,
                backend="loky",
                batch_size=1,
                pre_dispatch="2*n_jobs",
                return_as="generator_unordered",
            )
            job = joblib.delayed(functools.partial(_in_worker, os.getpid()))
            work = [job(ask, item, payload) for item, payload in left.items()]
            results = parallel(work)
            try:
                for answer in results:
                    losses = 0
                    del left[answer.item]
                    yield answer
            except TerminatedWorkerError as error:
                losses += 1
                if losses == _MOST_LOSSES:
                    raise EngineError(
                        f"Worker processes died {losses} times without an answer: {error} "
                        "Too little memory for so many --jobs is a common cause."
                    ) from error
            finally:
                with warnings.catch_warnings():
                    # joblib warns about answers that are no longer waited for.
                    warnings.simplefilter("ignore")
                    results.close()

    def close(self) -> None:
        """End the workers; otherwise they wait for more work and keep their models in memory."""
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


# The schemes are those of Dask that have a host and a port. A host in brackets is an IPv6 address.
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


def _in_worker(parent: int, ask: Ask, item: str, payload: Plain) -> Answer:
    # Ctrl-C in a terminal reaches the workers too; they ignore it, and the parent process ends them.
    if os.getpid() != parent:
        # Where no process can be started, joblib asks in threads of this one.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _begin_worker(parent)
    return answer_of(ask, item, payload)


@functools.cache
def _begin_worker(parent: int) -> None:
    """Close the memory of this worker process, and end it soon after the one that it works for.

    That one may be killed. Of workers that wait for work, loky's lock keeps all but one from seeing that
    nobody is left to give it.
    """
    home.leave_no_core()
    home.close_memory()
    if os.name != "posix":
        return  # only here a process gets another parent when its own has ended

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


class DaskPool(Pool):
    """The workers of a running Dask cluster, at `scheduler` ("tcp://host:port").

    patience: seconds to wait for a worker if the cluster has none.
    Raises SettingsError if the extra `dask` is missing or the address is none, EngineError if the cluster
    cannot be reached.
    """

    def __init__(self, scheduler: str, *, patience: float = _PATIENCE) -> None:
        self._patience = patience
        try:
            from distributed import Client
        except ImportError as error:
            raise SettingsError(
                f"A Dask cluster needs the extra `dask`: run `{install_command('dask')}`."
            ) from error
        # A client of an address without a port waits for itself, and prints a traceback when it is deleted.
        found = _ADDRESS.fullmatch(scheduler)
        if found is None or not 0 < int(found[1]) <= 65535:
            raise SettingsError(
                f"{scheduler!r} is not the address of a Dask scheduler. Give --scheduler tcp://HOST:PORT, as "
                "the scheduler prints it when it starts, such as tcp://127.0.0.1:8786."
            )
        try:
            self._client: Client = Client(scheduler, timeout=min(10.0, patience), set_as_default=False)
        except (OSError, ValueError) as error:
            raise EngineError(f"There is no Dask scheduler at {scheduler}: {error}.") from error

    def answers(self, ask: Ask, items: Mapping[str, Plain]) -> Iterator[Answer]:
        waiting = list(items)[::-1]
        futures: dict[Future, str] = {}
        finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
        losses: dict[str, int] = {}
        try:
            while waiting or futures:
                # Enough in flight to keep workers busy, few enough to lose little.
                room = max(2 * sum(self._client.nthreads().values()), 2)
                while waiting and len(futures) < room:
                    item = waiting.pop()
                    future = self._client.submit(answer_of, ask, item, items[item], pure=False)
                    futures[future] = item
                    future.add_done_callback(finished.put)
                future = self._next(finished)
                answer = self._answer(future, futures.pop(future), losses)
                if isinstance(answer, str):
                    waiting.append(answer)
                else:
                    yield answer
        finally:
            for future in futures:
                future.cancel()

    def call(self, function: Callable[[], T]) -> T:
        future = self._client.submit(function, pure=False)
        finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
        future.add_done_callback(finished.put)
        result: T = self._next(finished).result()
        return result

    def close(self) -> None:
        self._client.close()

    def _answer(self, future: Future, item: str, losses: dict[str, int]) -> Answer | str:
        """The answer, or the item's name if the answer was lost with its worker."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            answer: Answer = future.result()
        except (KilledWorker, CancelledError) as error:
            losses[item] = losses.get(item, 0) + 1
            if losses[item] == _MOST_LOSSES:
                return Answer(item, None, f"its workers were lost, again and again: {error}.")
            return item
        return answer

    def _next(self, finished: queue.SimpleQueue[Any]) -> Future:
        missing = 0.0
        pause = min(self._patience, 5.0)
        while True:
            try:
                return finished.get(timeout=pause)
            except queue.Empty:
                missing = 0.0 if self._client.nthreads() else missing + pause
                if missing >= self._patience:
                    raise EngineError(
                        f"The Dask cluster has had no worker for {self._patience:.0f} s. Start some, then "
                        "run the same command again: its answers are kept."
                    ) from None


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
