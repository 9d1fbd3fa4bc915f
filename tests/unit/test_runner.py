"""A run loses nothing and does nothing twice, however often it is killed; its file is always the same."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
import runner_scene
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runner_scene import HEADER, Answering, asked, items, record, timings, whole

from lsp_calib.corpus import records as kept
from lsp_calib.corpus.asking import Ask, Outcome, alone, processes, run
from lsp_calib.corpus.places import INSERTING, WRITING_ON, Plain
from lsp_calib.corpus.records import (
    FeatureList,
    Header,
    Journal,
    Record,
    SimilarityList,
    journal_path,
    read_records,
    write_records,
)
from lsp_calib.errors import DataError, EngineError, StoppedError
from lsp_calib.values import ModelIdentity

COUNT = 60


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.jsonl"


def keep(path: Path, *records: Record, finished: bool = True) -> None:
    """The answers of a run of other items, or of these so far."""
    with Journal(path, HEADER) as journal:
        for one in records:
            journal.add({"record": one.to_row(), "timing": {"ms": 1.0}})
        if finished:
            journal.finish([one.item for one in records])


def begin(path: Path, header: Header) -> None:
    """A run that was stopped after one answer."""
    with Journal(path, header) as journal:
        journal.add({"record": record(0).to_row(), "timing": {}})


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    return whole(folder / "r.jsonl", folder / "notes", COUNT)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts this process and those it starts, also where it was ignored (nohup, some CIs)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_there(group: int) -> bool:
    """Whether a process of the group runs: one that has ended, but that nobody has waited for, does not."""
    for one in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(one.pid) == group and one.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def shuffled(ask: Ask, items: Mapping[str, Plain]) -> Generator[Outcome]:
    """Answers that come in another order."""
    answers = list(alone(ask, items))
    random.Random(3).shuffle(answers)
    yield from answers


def test_a_finished_run_leaves_the_records_and_their_times_in_order(
    tmp_path: Path, path: Path, notes: Path
) -> None:
    told: list[tuple[int, int]] = []
    records = run(items(5), Answering(str(notes)), alone, path, HEADER, on_progress=lambda *n: told.append(n))
    header, read = read_records(path)
    assert read == records
    assert [r.item for r in records] == [item for item, _ in items(5)]
    assert header.asks_the_same_as(HEADER)
    assert [(s.name, s.version, s.items) for s in header.sources] == [
        ("project", "1.0", 2),
        ("project", "1.1", 2),
        ("project", "1.2", 1),
    ]
    assert [row["item"] for row in timings(path)] == [item for item, _ in items(5)]
    assert told == [(n, 5) for n in range(6)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "r.jsonl", "r.jsonl.timing.jsonl"]


def test_a_folder_that_is_removed_meanwhile_costs_no_answers(tmp_path: Path, notes: Path) -> None:
    """As by `feedback purge`, while a calibration without a file of its own is running."""
    path = tmp_path / "calibrating" / "r.jsonl"
    path.parent.mkdir()

    def purge(done: int, _: int) -> None:
        if done == 3:
            shutil.rmtree(path.parent)

    assert len(run(items(5), Answering(str(notes)), alone, path, HEADER, on_progress=purge)) == 5
    assert len(read_records(path)[1]) == 5


def test_nothing_is_asked_for_twice(path: Path, notes: Path) -> None:
    run(items(10), Answering(str(notes)), alone, path, HEADER)
    before = path.read_bytes()
    run(items(10), Answering(str(notes)), alone, path, HEADER)
    assert path.read_bytes() == before
    run(items(15), Answering(str(notes)), alone, path, HEADER)
    assert asked(notes) == dict.fromkeys(range(15), 1)
    records = run(items(3), Answering(str(notes)), alone, path, HEADER)
    assert [r.item for r in records] == [item for item, _ in items(3)]
    assert len(read_records(path)[1]) == 15, "a smaller run takes nothing away from a larger one's records"


def test_the_order_of_completion_does_not_show(tmp_path: Path, notes: Path, uninterrupted: bytes) -> None:
    run(items(COUNT), Answering(str(notes)), shuffled, tmp_path / "r.jsonl", HEADER)
    assert (tmp_path / "r.jsonl").read_bytes() == uninterrupted


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.data())
def test_a_journal_cut_anywhere_is_taken_up_to_the_same_file(
    tmp_path: Path, path: Path, notes: Path, uninterrupted: bytes, data: st.DataObject
) -> None:
    for leftover in tmp_path.glob("r.jsonl*"):
        leftover.unlink()
    with Journal(path, HEADER) as journal:
        for n in data.draw(st.permutations(range(8))):
            journal.add({"record": record(n).to_row(), "timing": {"ms": 1.0}})
    content = journal_path(path).read_bytes()
    ends = [at for at, byte in enumerate(content) if byte == 10]
    cut = data.draw(st.integers(0, len(content)) | st.sampled_from([*ends, *(at + 1 for at in ends)]))
    journal_path(path).write_bytes(content[:cut])
    with Journal(path, HEADER) as journal:
        assert len(journal.done) == max(content[:cut].count(b"\n") - 1, 0), "whole lines, and only they"
    run(items(COUNT), Answering(str(notes)), alone, path, HEADER)
    assert path.read_bytes() == uninterrupted
    assert not journal_path(path).exists()


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_at_twenty_moments_nothing_is_lost_or_done_twice(tmp_path: Path, notes: Path) -> None:
    path, count = tmp_path / "r.jsonl", 200
    command = [sys.executable, runner_scene.__file__, str(path), str(notes), str(count), "0.01"]
    rng = random.Random(1)
    for _ in range(20):
        before = len(asked(notes))
        process = subprocess.Popen(command)
        while process.poll() is None and len(asked(notes)) == before:
            time.sleep(0.002)
        time.sleep(rng.random() * 0.03)
        process.kill()
        assert process.wait() != 0, "it was over before it was disturbed"
        journal = journal_path(path)
        answers = journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0
        assert len(asked(notes)) - answers <= 1
    subprocess.run(command, check=True, timeout=60)
    assert path.read_bytes() == whole(tmp_path / "w.jsonl", tmp_path / "whole", count)
    counts = asked(notes)
    assert counts.keys() == set(range(count))
    # An item may be asked for again only if a kill came before its answer was on disk: one for each kill.
    assert sum(counts.values()) - count <= 20
    assert len(timings(path)) == count


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(path: Path, notes: Path, uninterrupted: bytes) -> None:

    def interrupt(done: int, _all: int) -> None:
        if done == 7:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError, match=r"^Stopped: (7|8) of 60 .* Run the same command again"):
        run(items(COUNT), Answering(str(notes)), alone, path, HEADER, on_progress=interrupt)
    run(items(COUNT), Answering(str(notes)), alone, path, HEADER)
    assert path.read_bytes() == uninterrupted


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_terminal_ends_worker_processes_too_and_quietly(
    path: Path, notes: Path, uninterrupted: bytes
) -> None:
    command = [sys.executable, runner_scene.__file__, str(path), str(notes), str(COUNT), "0.2", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and len(asked(notes)) < 8:
        time.sleep(0.01)
    # As a terminal does it: to everybody in the group.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert errors.startswith("Stopped: "), errors
    assert errors.count("\n") == 1, errors
    end = time.monotonic() + 60
    while is_there(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_there(process.pid)
    assert journal_path(path).read_bytes().count(b"\n") > 3
    run(items(COUNT), Answering(str(notes)), alone, path, HEADER)
    assert path.read_bytes() == uninterrupted


def test_items_without_an_answer_do_not_keep_others_from_theirs(path: Path, notes: Path) -> None:
    with pytest.raises(EngineError, match=r"2 of 20 items .* no answer to 4"):
        run(items(20), Answering(str(notes), failing=(4, 11)), alone, path, HEADER)
    assert not path.exists(), "a file of records is complete"
    assert len(run(items(20), Answering(str(notes)), alone, path, HEADER)) == 20
    assert sum(asked(notes).values()) == 22


def test_a_run_whose_engine_is_gone_ends_early(tmp_path: Path, notes: Path) -> None:
    def gone(payload: Plain) -> Plain:
        return Answering(str(notes), failing=(payload["n"],) if len(asked(notes)) >= 10 else ())(payload)

    with pytest.raises(EngineError, match="990 of 1000"):
        run(items(1000), gone, alone, tmp_path / "r.jsonl", HEADER)
    assert len(asked(notes)) == 15


def test_the_answers_of_an_unfinished_run_are_a_fair_sample(tmp_path: Path, notes: Path) -> None:
    """Not the first projects, nor the first files."""
    told: list[str] = []

    def ask(payload: Plain) -> Plain:
        told.append(payload["n"])
        return Answering(str(notes))(payload)

    run(items(400), ask, alone, tmp_path / "r.jsonl", HEADER)
    assert 150 < statistics.mean(told[:100]) < 250
    assert {n % 3 for n in told[:20]} == {0, 1, 2}
    _, read = read_records(tmp_path / "r.jsonl")
    assert [record.item for record in read] == [item for item, _ in items(400)]


def test_the_answers_of_a_run_that_ends_while_another_begins_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(path, record(0))
    running = Journal(path, HEADER)
    running.add({"record": record(1).to_row(), "timing": {}})
    read = kept.read_records

    def ends_now(place: Path) -> Any:
        monkeypatch.setattr(kept, "read_records", read)
        found = read(place)
        running.finish([record(0).item, record(1).item])
        return found

    monkeypatch.setattr(kept, "read_records", ends_now)
    with pytest.raises(DataError, match="in use"):
        Journal(path, HEADER)
    running.finish([record(0).item, record(1).item])
    with Journal(path, HEADER) as second:
        second.add({"record": record(2).to_row(), "timing": {}})
        second.finish([record(2).item])
    assert {one.item for one in read_records(path)[1]} == {record(n).item for n in range(3)}


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "r.jsonl", HEADER), pytest.raises(DataError, match="in use"):
        Journal(tmp_path / "r.jsonl", HEADER)
    Journal(tmp_path / "r.jsonl", HEADER).close()


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(HEADER, seed=8),
        attrs.evolve(HEADER, prompt_version="line-prefix-2"),
        attrs.evolve(HEADER, model=ModelIdentity("m", "Q4", "1" * 64)),
        attrs.evolve(HEADER, task="summary"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_records_of_something_else_are_refused_and_left_alone(
    tmp_path: Path, path: Path, other: Header, finished: bool
) -> None:
    keep(path, record(0), finished=finished)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(DataError, match=r"r\.jsonl"):
        Journal(path, other)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"task": "infill", "seed": 8}, "task: infill there, line now; seed: 8 there, 7 now."),
        ({"language": "java"}, "language: java there, python now."),
        (
            {"model": ModelIdentity("a", "Q8", "1" * 64), "prompt_version": "line-fim-1"},
            f"model: a Q8 ({'1' * 16}) there, m Q4 ({'0' * 16}) now; prompt: line-fim-1 there, line-prefix-1",
        ),
        ({"similarity": SimilarityList(1, "a", "", ())}, "similarity: a, version 1 there, None now."),
        ({"features": FeatureList(0, ("a",))}, "features: of version 0 there, of version 1 now."),
        ({"task_version": "line@1"}, "task version: line@1 there, line@2 now."),
    ],
)
def test_what_differs_is_named(path: Path, there: dict[str, Any], said: str) -> None:
    begin(path, attrs.evolve(HEADER, **there))
    later = {"features": FeatureList(1, ("a",)), "task_version": "line@2"}
    now = attrs.evolve(HEADER, **{name: value for name, value in later.items() if name in there})
    with pytest.raises(DataError, match=re.escape(f"holds answers of another run: {said}")):
        Journal(path, now)


@pytest.mark.parametrize("finished", [True, False])
def test_answers_under_another_condition_are_refused_before_anything_is_asked(
    tmp_path: Path, path: Path, notes: Path, finished: bool
) -> None:
    """A run of another size writes on where the earlier one inserted."""
    keep(path, record(0), attrs.evolve(record(1), condition=WRITING_ON), finished=finished)
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    ask = Answering(str(notes))
    mixed = [(item, {**payload, "condition": INSERTING}) for item, payload in items(3)]
    with pytest.raises(DataError, match=r"holds 1 answers under another condition .* \(writing-on\)"):
        run(mixed, ask, alone, path, HEADER)
    assert not asked(notes)
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before
    mixed[1] = (mixed[1][0], {**mixed[1][1], "condition": WRITING_ON})
    assert len(run(mixed, ask, alone, path, HEADER)) == 3
    assert asked(notes) == {2: 1}


def test_a_place_that_has_another_condition_since_an_edit_is_asked_for_again(path: Path, notes: Path) -> None:
    """Edits move places, so that the same options divide other ones into the two conditions."""
    said = list[str]()
    before = [(item, {**payload, "condition": INSERTING}) for item, payload in edited(10)]
    run(before, Answering(str(notes)), alone, path, HEADER)
    after = [(item, {**payload, "condition": WRITING_ON}) for item, payload in edited(10, 3)]
    after = [pair if pair[1]["n"] == 3 else before[at] for at, pair in enumerate(after)]
    assert len(run(after, Answering(str(notes)), alone, path, HEADER, say=said.append)) == 10
    assert "1 of 10 answers" in said[0]
    assert {n for n, times in asked(notes).items() if times > 1} == {3}


def edited(count: int, *changed: int) -> list[tuple[str, Plain]]:
    """The items, some of them of other text at the same place."""
    return [(item, {**payload, "text": payload["n"] in changed}) for item, payload in items(count)]


@pytest.mark.parametrize("finished", [True, False])
def test_after_an_edit_an_item_is_asked_for_again(path: Path, notes: Path, finished: bool) -> None:
    said = list[str]()

    def stop(done: int, _: int) -> None:
        if done == 8 and not finished:
            raise KeyboardInterrupt

    with contextlib.nullcontext() if finished else pytest.raises(StoppedError):
        run(edited(10), Answering(str(notes)), alone, path, HEADER, on_progress=stop)
    before = asked(notes)
    assert len(before) == (10 if finished else 8)
    changed = sorted(before)[:2]

    def fail(payload: Plain) -> Plain:
        return Answering(str(notes), failing=(changed[1],))(payload)

    with pytest.raises(EngineError, match=r"1 of 10 items"):
        run(edited(10, *changed), fail, alone, path, HEADER, say=said.append)
    assert said == [
        f"2 of {len(before)} answers in {path} are of text that was changed since. These items are asked for "
        "again; their new answers take the place of the old ones."
    ]
    # The first one is not asked for a third time, and the old answer to the other one does not come back.
    assert len(run(edited(10, *changed), Answering(str(notes)), alone, path, HEADER)) == 10
    assert {n for n, times in asked(notes).items() if times > 1} == set(changed)
    assert asked(notes)[changed[0]] == 2
    assert len(timings(path)) == 10
    run(edited(10, *changed), Answering(str(notes)), alone, path, HEADER, say=said.append)
    assert len(said) == 1
    run(edited(10), Answering(str(notes)), alone, path, HEADER)
    assert asked(notes)[changed[0]] == 3, "nor do the old answers once the text is as it was"


def test_what_is_no_text_of_an_item_does_not_ask_again(path: Path, notes: Path) -> None:
    """As where a project was moved, or other files of it are excluded."""
    for root in ("/a", "/b"):
        placed = [(item, {**one, "root": root, "exclude": [root], "group": "g"}) for item, one in items(5)]
        run(placed, Answering(str(notes)), alone, path, HEADER)
    assert asked(notes) == dict.fromkeys(range(5), 1)


@pytest.mark.parametrize("finished", [True, False])
def test_answers_that_do_not_say_of_what_text_they_are_count_and_are_named(
    path: Path, notes: Path, finished: bool
) -> None:
    """Those of an earlier version, and files of records that were copied alone."""
    said = list[str]()
    keep(path, *map(record, range(4)), finished=finished)
    run(items(6), Answering(str(notes)), alone, path, HEADER, say=said.append)
    assert asked(notes) == {4: 1, 5: 1}
    assert [text[:43] for text in said] == ["Nothing says of what text 4 of 4 answers in"]
    assert "name another folder or file" in said[0]
    assert ["asked" in row for row in timings(path)] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("kept", "wanted"), [(["exact"], ["exact", "tests"]), (["exact", "tests"], ["exact"])]
)
def test_answers_judged_by_other_criteria_are_refused_before_anything_is_asked(
    path: Path, notes: Path, kept: list[str], wanted: list[str]
) -> None:
    keep(path, attrs.evolve(record(0), correct=dict.fromkeys(kept, True)))
    before = path.read_bytes()
    with pytest.raises(DataError, match=f"judged by {' and '.join(kept)}; .* by {' and '.join(wanted)}:"):
        run(items(3), Answering(str(notes)), alone, path, HEADER, criteria=wanted)
    assert not asked(notes)
    assert path.read_bytes() == before
    assert not journal_path(path).exists()


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.journal"])
@pytest.mark.parametrize(
    "content",
    [b"print('hello')\n", b"print('hello')", b"\xff\xfe\x00\n", b"[]\n", b"null\n", b"{}\n", b"\n\n"],
    ids=ascii,
)
def test_a_file_that_holds_no_records_is_refused_and_left_alone(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"r\.jsonl"):
        Journal(tmp_path / "r.jsonl", HEADER)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == content


def test_the_date_and_version_of_the_first_answer_stay(path: Path) -> None:
    begin(path, attrs.evolve(HEADER, package="0.0.1"))
    with Journal(path, attrs.evolve(HEADER, created="2030-01-01")) as journal:
        journal.finish([])
    header, _ = read_records(path)
    assert (header.created, header.package) == ("2026-01-02", "0.0.1")


def test_what_is_held_out_stays_so_where_nobody_says_otherwise(path: Path) -> None:
    with Journal(path, attrs.evolve(HEADER, held_out=("a", "b"))) as journal:
        journal.finish([])
    # Of each run: what it holds out, None if nothing was said of it (`--held-out 0` says that nothing is).
    for apart, expected in ((None, ("a", "b")), (("c",), ("c",)), (None, ("c",)), ((), ()), (None, ())):
        header = attrs.evolve(HEADER, held_out=apart or ())
        with Journal(path, header, keeps_held_out=apart is None) as journal:
            journal.finish([])
        assert read_records(path)[0].held_out == expected


def test_a_place_that_cannot_be_written_is_a_data_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such" / "r.jsonl"):
        with pytest.raises(DataError, match=r"cannot be (written|read)"):
            Journal(path, HEADER)
    with pytest.raises(DataError, match="cannot be written"):
        write_records(tmp_path / "no" / "r.jsonl", HEADER, [])


class TestWorkers:
    def test_processes_make_the_same_file(self, tmp_path: Path, notes: Path, uninterrupted: bytes) -> None:
        run(items(COUNT), Answering(str(notes), 0.01), partial(processes, 2), tmp_path / "r.jsonl", HEADER)
        assert (tmp_path / "r.jsonl").read_bytes() == uninterrupted
        assert len({pid for path in notes.iterdir() for pid in path.read_text().split()}) == 2

    def test_where_no_process_can_be_started_threads_answer(
        self, path: Path, notes: Path, uninterrupted: bytes
    ) -> None:
        """As in a container without shared memory. What ends workers must not end the command."""
        command = [sys.executable, "-W", "ignore", runner_scene.__file__, str(path), str(notes)]
        subprocess.run(
            [*command, str(COUNT), "0.01", "2"],
            env={**os.environ, "JOBLIB_MULTIPROCESSING": "0"},
            check=True,
            timeout=300,
        )
        assert path.read_bytes() == uninterrupted

    @pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
    def test_a_process_that_is_killed_loses_nothing(
        self, tmp_path: Path, notes: Path, uninterrupted: bytes
    ) -> None:
        ask = Answering(str(notes), 0.01, killing=20)
        run(items(COUNT), ask, partial(processes, 2), tmp_path / "r.jsonl", HEADER)
        assert (tmp_path / "r.jsonl").read_bytes() == uninterrupted
        assert asked(notes)[20] == 2

    def test_a_mistake_in_the_program_is_not_taken_for_an_answer(self, tmp_path: Path, notes: Path) -> None:
        ask = Answering(str(notes / "no-such-folder"))
        with pytest.raises(FileNotFoundError):
            run(items(3), ask, alone, tmp_path / "r.jsonl", HEADER)
