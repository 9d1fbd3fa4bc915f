"""Asks the chosen workers for all items of a task: each answer is saved at once, none is asked for twice.

The records do not depend on the number of workers, the order of completion, or how often the run was stopped:
see `records.Journal`.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.completion.prompt import WindowSize
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.item_worker import Asking, Completing, Summarising, close_engines
from lsp_calib.corpus.places import Plain, Task, held_out, in_asking_order
from lsp_calib.corpus.records import Header, Journal, Record, journal_path, read_records, sources_of
from lsp_calib.errors import DataError, EngineError, StoppedError
from lsp_calib.inference.choice import EngineChoice

# What a payload says of where an item is and what it is part of. A project that was moved is still the same,
# a condition is compared by itself, and the scores of a search may differ in their last digits. Which tests
# are run is part of the question; where they are, and for how long, is not.
_PLACE = {"item", "group", "root", "condition", "exclude", "scores", "project", "environment", "seconds"}
# After this many items in a row without an answer, the run is given up.
_MOST_FAILURES = 5
# How many workers may be lost in a row without an answer.
_MOST_LOSSES = 3
# How often a worker process looks whether the one that it works for is still there, in seconds.
_LOOKS = 1.0


@attrs.frozen(kw_only=True)
class AskingOptions:
    """How a model is asked for the answers to a task: the options that `calibrate` and `eval` share.

    model, threads: of the command line, as for `settings_in_force`. seed: of all random draws.
    held_out: the number of projects that nothing is fitted on; None: those that the records name.
    jobs: number of processes that ask; 1 means this one. They share the user's one model process, which
    decodes for one client at a time. remote: the address of a server to ask in its place.
    observe: what a study's task asks the model about its answers, by name. window: how much of a document the
    model sees; None: as much as when it serves an editor.
    created: ISO date for new records; None: today.
    say: reports settings that cannot be used, and answers that are there but do not count.
    quiet: no progress on standard error.
    """

    say: Callable[[str], None] = lambda _: None
    model: str | None = None
    threads: int = 0
    seed: int = 0
    held_out: int | None = None
    jobs: int = 1
    remote: str | None = None
    observe: frozenset[str] = frozenset()
    window: WindowSize | None = None
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
    """Write the records of all items of `task` to `path`; returns its header and them. See `run`.

    The header's sources are those of the items, also where the file holds answers to others.
    choice: of the engine: asking's model and threads say nothing here.
    Raises SettingsError if the engine cannot do what is asked of it, and the errors of `run`.
    """
    apart = None
    if asking.held_out is not None:
        apart = asking.apart([str(payload["group"]) for _, payload in task.items])
    ask = _asking_of(task, choice, asking)
    pool: Pool = partial(processes, asking.jobs) if asking.jobs > 1 else alone
    try:
        answerer = ask.answerer()
        header = Header(
            task=task.name,
            language=task.language,
            seed=asking.seed,
            sources=task.sources,
            held_out=tuple(sorted(apart or ())),
            created=asking.created or datetime.date.today().isoformat(),
            task_version=task.version,
            prompt_sha256=_first_prompt(ask, task) if task.version else "",
            **attrs.asdict(answerer, recurse=False, filter=attrs.filters.exclude("window")),
        )
        records = run(
            *(task.items, ask.expecting(answerer), pool, path, header),
            # Summaries are judged again by the thresholds of the day, whatever they were judged by.
            criteria=() if task.name == SUMMARY else task.criteria,
            keeps_held_out=apart is None,
            on_progress=on_progress,
            say=asking.say,
        )
    finally:
        close_engines()
    written, _ = read_records(path)
    return attrs.evolve(written, sources=task.sources or sources_of(records)), records


def _first_prompt(ask: Asking, task: Task) -> str:
    """The SHA-256 of the text of the first item's prompt, as lm-evaluation-harness tells prompts apart."""
    host = ask.host()
    prompt = host.wait(ask.prompt(host, task.items[0][1]))
    text = "".join(text for _, text in prompt.segments) + prompt.forced
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _asking_of(task: Task, choice: EngineChoice, asking: AskingOptions) -> Asking:
    if task.asks is not None:
        made: Asking = task.asks(task, choice, asking)
        return made
    if task.name == SUMMARY:
        return Summarising(choice)
    return Completing(choice, criteria=task.criteria, judge=task.judge, window=asking.window)


Ask = Callable[[Plain], Plain]
"""Asks for one item, as `Asking` does. It must be picklable, since it is sent to workers."""


@attrs.frozen
class Outcome:
    """Of one item: what `Ask` returned, or the reason why that is missing."""

    item: str
    result: Plain | None
    error: str = ""


Pool = Callable[[Ask, Mapping[str, Plain]], Generator[Outcome]]
"""Workers: one outcome for each item, in order of arrival.

Items of a lost worker are asked for again. Closing the generator stops the work and ends the workers.
Raises EngineError if no worker is left, and every error of `ask` except EngineError.
"""


def alone(ask: Ask, items: Mapping[str, Plain]) -> Generator[Outcome]:
    """A `Pool` that is this process: one item after the other."""
    for item, payload in items.items():
        yield _outcome(ask, item, payload)


def _outcome(ask: Ask, item: str, payload: Plain) -> Outcome:
    """Ask for one item; runs in the worker."""
    try:
        return Outcome(item, ask(payload))
    except EngineError as error:
        return Outcome(item, None, str(error))


def processes(jobs: int, ask: Ask, items: Mapping[str, Plain]) -> Generator[Outcome]:
    """A `Pool` of processes on this machine. One that dies is replaced, and its items are asked for again."""
    import joblib
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = dict(items)
    losses = 0
    # One item at a time: with larger batches a worker that dies would lose finished answers.
    options = {"backend": "loky", "batch_size": 1, "pre_dispatch": "2*n_jobs"}
    job = joblib.delayed(partial(_in_worker, os.getpid()))
    try:
        while left:
            parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", **options)
            results = parallel([job(ask, item, payload) for item, payload in left.items()])
            try:
                for outcome in results:
                    losses = 0
                    del left[outcome.item]
                    yield outcome
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
    finally:
        # Otherwise they wait for more work and keep their models in memory.
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _in_worker(parent: int, ask: Ask, item: str, payload: Plain) -> Outcome:
    # Where no process can be started, joblib asks in threads of this one.
    if os.getpid() != parent:
        # Ctrl-C in a terminal reaches the workers too; they ignore it, and the parent process ends them.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _begin_worker(parent)
    return _outcome(ask, item, payload)


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


def run(
    items: Sequence[tuple[str, Plain]],
    ask: Ask,
    pool: Pool,
    path: Path,
    header: Header,
    *,
    criteria: Collection[str] = (),
    keeps_held_out: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Record]:
    """Write the records of all items to `path`, and return them, in the order of the items.

    items: (id, payload for `ask`) pairs with unique ids. Items that `path` or its journal already holds are
        not asked for again, unless their text is known to have been another one then.
    criteria: by which all answers are judged; none: those found there are not compared with any.
    keeps_held_out: as for `Journal`.
    on_progress: called with (done, all), first with the number found at the start. say: called with a
        sentence if answers are not kept because of their text, or if nothing says of what text they are.
    Raises StoppedError when interrupted (Ctrl-C), and EngineError if items got no answer; answers are kept in
    both cases. Raises DataError as `Journal` does, and before anything is asked for kept records of another
    condition than their items', or judged by other criteria.
    """
    assert len({item for item, _ in items}) == len(items), "an item is asked for once"
    with Journal(path, header, keeps_held_out=keeps_held_out) as journal:
        asked = {item: digest(payload) for item, payload in items}
        _forget_changed(asked, journal, say)
        _check_kept(items, journal.done, criteria, path)
        by_id = dict(items)
        left = {item: by_id[item] for item in in_asking_order(by_id) if item not in journal.done}
        done = len(items) - len(left)
        on_progress(done, len(items))
        failures: dict[str, str] = {}
        in_a_row = 0
        try:
            with contextlib.closing(pool(ask, left)) as outcomes:
                for outcome in outcomes:
                    if outcome.result is None:
                        failures[outcome.item] = outcome.error
                        in_a_row += 1
                        if in_a_row == _MOST_FAILURES:
                            break
                        continue
                    in_a_row = 0
                    journal.add(outcome.result, asked[outcome.item])
                    done += 1
                    on_progress(done, len(items))
        except KeyboardInterrupt:
            raise StoppedError(
                f"Stopped: {done} of {len(items)} answers are kept in {journal_path(path)}. "
                "Run the same command again to go on."
            ) from None
        if failures:
            item, reason = next(iter(failures.items()))
            raise EngineError(
                f"{len(items) - done} of {len(items)} items have no answer; the first: {item}: {reason} "
                f"The {done} answers are kept in {journal_path(path)}: run the same command again to ask "
                "for the others."
            )
        return journal.finish([item for item, _ in items])


def digest(payload: Plain) -> str:
    """16 hexadecimal digits that change with the text that an item is about, and with what is right there.

    Files of a project that the model is shown beside the item's own are no part of a payload.
    """
    text = {name: value for name, value in payload.items() if name not in _PLACE}
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:16]


def _forget_changed(asked: Mapping[str, str], journal: Journal, say: Callable[[str], None]) -> None:
    """Take back answers whose items have another text today. asked: of each item, the digest of today."""
    path, kept = journal.path, [item for item in asked if item in journal.done]
    unknown = sum(journal.asked(item) is None for item in kept)
    changed = [item for item in kept if journal.asked(item) not in (None, asked[item])]
    journal.forget(changed)
    if changed:
        say(
            f"{len(changed)} of {len(kept)} answers in {path} are of text that was changed since. These "
            "items are asked for again; their new answers take the place of the old ones."
        )
    if unknown:
        say(
            f"Nothing says of what text {unknown} of {len(kept)} answers in {path} are: they are of an "
            f"earlier version, or {path.name}.timing.jsonl is missing. They count as they are. If the source "
            "was changed since, name another folder or file, to ask for all of them again."
        )


def _check_kept(
    items: Sequence[tuple[str, Plain]], done: Mapping[str, Record], criteria: Collection[str], path: Path
) -> None:
    """Raises DataError if kept records and those of this run cannot stand in one file."""
    kept = [(done[item], payload) for item, payload in items if item in done]
    other = [one for one, payload in kept if one.condition != payload.get("condition", one.condition)]
    if other:
        raise DataError(
            f"{path} holds {len(other)} answers under another condition than this run asks for, such as "
            f"{other[0].item} ({other[0].condition}): other numbers of lines, and other text, divide a "
            "project's lines into inserting and writing on in another way. Give the same --samples and "
            "--no-suffix as before, or name another folder or file."
        )
    judged = next((set(one.correct) for one in done.values() if set(one.correct) != set(criteria)), None)
    if criteria and judged is not None:
        there, here = (" and ".join(sorted(names)) or "nothing" for names in (judged, criteria))
        raise DataError(
            f"{path} holds answers judged by {there}; this run judges by {here}: an answer that is kept is "
            "not judged again. Give the same --tests or --no-tests as before, or name another folder or file."
        )
