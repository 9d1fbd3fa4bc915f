"""Runs a task: each answer is saved at once, and an item with an answer is not asked for again.

The result does not depend on the number of workers, the order of completion, or how often the run was
stopped: see `journal`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import queue
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.corpus.header import Header
from lsp_calib.corpus.journal import Journal, journal_path
from lsp_calib.corpus.places import Plain, in_asking_order
from lsp_calib.corpus.records import Record
from lsp_calib.errors import DataError, EngineError, StoppedError

Ask = Callable[[Plain], Plain]
"""Asks for one item. Returns {"record": a row as `Record.to_row` makes it, "timing": {name: number}}.

It must be picklable, since it is sent to workers. Raises EngineError if this item got no answer.
"""

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


@attrs.frozen
class Answer:
    """The outcome of one item: `result`, or the reason why it is missing."""

    item: str
    result: Plain | None
    error: str = ""


Pool = Callable[[Ask, Mapping[str, Plain]], Generator[Answer]]
"""Workers: one answer for each item, in order of arrival.

Items of a lost worker are asked for again. Closing the generator stops the work and ends the workers.
Raises EngineError if no worker is left, and every error of `ask` except EngineError.
"""


def answer_of(ask: Ask, item: str, payload: Plain) -> Answer:
    """Ask for one item; runs in the worker. An EngineError is returned as an answer without a result."""
    try:
        return Answer(item, ask(payload))
    except EngineError as error:
        return Answer(item, None, str(error))


def alone(ask: Ask, items: Mapping[str, Plain]) -> Generator[Answer]:
    """A `Pool` that is this process: one item after the other."""
    for item, payload in items.items():
        yield answer_of(ask, item, payload)


def team(asks: Sequence[Ask], _: Ask, items: Mapping[str, Plain]) -> Generator[Answer]:
    """A `Pool` of workers of different speeds, such as servers, each asked in its own way, by a thread.

    A free worker takes the next item. One that fails leaves its item to the others, and is removed after
    three failures in a row.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    results: queue.SimpleQueue[Answer | BaseException | None] = queue.SimpleQueue()
    enough = threading.Event()

    def work(ask: Ask) -> None:
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

    for one in asks:
        threading.Thread(target=work, args=(one,), daemon=True).start()
    present, left, last = len(asks), len(items), ""
    failed = Counter[str]()
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
                failed[result.item] += 1
                if failed[result.item] < _MOST_LOSSES:
                    waiting.put(result.item)
                    continue
            left -= 1
            yield result
    finally:
        enough.set()


def processes(jobs: int, ask: Ask, items: Mapping[str, Plain]) -> Generator[Answer]:
    """A `Pool` of processes on this machine. One that dies is replaced, and its items are asked for again."""
    import joblib
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = dict(items)
    losses = 0
    try:
        while left:
            # One item at a time: with larger batches a worker that dies would lose finished answers.
            parallel = joblib.Parallel(
                n_jobs=jobs,
                backend="loky",
                batch_size=1,
                pre_dispatch="2*n_jobs",
                return_as="generator_unordered",
            )
            job = joblib.delayed(functools.partial(_in_worker, os.getpid()))
            results = parallel([job(ask, item, payload) for item, payload in left.items()])
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
    finally:
        # Otherwise they wait for more work and keep their models in memory.
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


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
        try:
            _check_kept(items, journal.done, criteria, path)
        except DataError:
            journal.leave_as_found()
            raise
        by_id = dict(items)
        left = {item: by_id[item] for item in in_asking_order(by_id) if item not in journal.done}
        done = len(items) - len(left)
        on_progress(done, len(items))
        failures: dict[str, str] = {}
        in_a_row = 0
        try:
            with contextlib.closing(pool(ask, left)) as answers:
                for answer in answers:
                    if answer.result is None:
                        failures[answer.item] = answer.error
                        in_a_row += 1
                        if in_a_row == _MOST_FAILURES:
                            break
                        continue
                    in_a_row = 0
                    found, timing = Record.from_row(answer.result["record"]), answer.result["timing"]
                    journal.add(found, timing, asked[answer.item])
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
    unknown = sum(item not in journal.asked for item in kept)
    changed = [item for item in kept if journal.asked.get(item, asked[item]) != asked[item]]
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
    other = [
        item
        for item, payload in items
        if item in done and done[item].condition != payload.get("condition", done[item].condition)
    ]
    if other:
        raise DataError(
            f"{path} holds {len(other)} answers under another condition than this run asks for, such as "
            f"{other[0]} ({done[other[0]].condition}): other numbers of lines, and other text, divide a "
            "project's lines into inserting and writing on in another way. Give the same --samples and "
            "--no-suffix as before, or name another folder or file."
        )
    judged = next((set(one.correct) for one in done.values() if set(one.correct) != set(criteria)), None)
    if criteria and judged is not None:
        raise DataError(
            f"{path} holds answers judged by {_listed(judged)}; this run judges by {_listed(criteria)}: an "
            "answer that is kept is not judged again. Give the same --tests or --no-tests as before, or name "
            "another folder or file."
        )


def _listed(criteria: Collection[str]) -> str:
    return " and ".join(sorted(criteria)) or "nothing"
