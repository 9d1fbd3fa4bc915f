"""Items cross to workers as plain data, and which projects are held out is settled by their names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_scene import record

import lsp_calib
from lsp_calib.commands import records as records_command
from lsp_calib.corpus import asking as collecting
from lsp_calib.corpus.asking import AskingOptions, digest
from lsp_calib.corpus.functions import documented_task
from lsp_calib.corpus.item_worker import Answerer, Completing, Summarising, prompt_hash
from lsp_calib.corpus.places import (
    INSERTING,
    NEW_LINE,
    WRITING_ON,
    Task,
    held_out,
    line_item_of,
    line_task,
    plain,
)
from lsp_calib.corpus.records import Record, read_records
from lsp_calib.errors import DataError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.studies.tasks import infill_task, judge
from lsp_calib.values import ModelIdentity, Prompt, Segment

PACKAGE = Path(lsp_calib.__file__).parent
# Small: all of it is read for each task.
PROJECT = (PACKAGE / "calibration",)
DATA = os.environ.get("LSP_CALIB_DATA")
names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), unique=True, min_size=4)


def test_an_item_is_the_same_after_the_way_to_a_worker() -> None:
    task = line_task((PACKAGE / "inference", PACKAGE / "completion"), 40, seed=2)
    items = [line_item_of(json.loads(json.dumps(payload))) for _, payload in task.items]
    assert [(item.id, plain(item)) for item in items] == list(task.items)


@given(names, st.integers(0, 3))
def test_the_split_depends_on_the_names_and_the_seed_alone(groups: list[str], seed: int) -> None:
    count = len(groups) - 3
    apart = held_out(groups, count, seed)
    assert len(apart) == count
    assert apart <= set(groups)
    assert held_out(groups[::-1] * 2, count, seed) == apart


@given(names, st.text(max_size=3))
def test_a_project_more_changes_the_split_by_one_at_most(groups: list[str], new: str) -> None:
    count = len(groups) - 3
    assert len(held_out(groups, count) - held_out([*groups, new], count)) <= 1


def test_another_seed_holds_out_others() -> None:
    groups = [f"project-{n}" for n in range(40)]
    assert len({held_out(groups, 5, seed) for seed in range(5)}) == 5


def test_too_few_projects_to_fit_on_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(DataError, match="at least 3"):
        held_out(["a", "b", "c", "d"], 2)
    assert held_out(["a"], 0) == frozenset()


def test_the_hash_tells_prompts_apart() -> None:
    prompts = [
        Prompt(((Segment.TEXT, "ab"),), "", "v"),
        Prompt(((Segment.TEXT, "a"), (Segment.TEXT, "b")), "", "v"),
        Prompt(((Segment.CONTROL, "ab"),), "", "v"),
        Prompt(((Segment.TEXT, "a"),), "b", "v"),
    ]
    assert len({prompt_hash(prompt) for prompt in prompts}) == len(prompts)
    assert all(len(prompt_hash(prompt)) == 16 for prompt in prompts)


def test_no_text_is_never_right() -> None:
    ((_, payload), *_) = line_task(PROJECT, 20, seed=0).items
    item = line_item_of(payload)
    assert judge("exact", item, payload, item.target)
    assert not judge("exact", item, payload, item.target + "x")
    assert not judge("tests", item, payload, ""), "and needs no sandbox"


def test_lines_to_write_on_are_further_ones_with_nothing_below() -> None:
    alone = line_task(PROJECT, 30, seed=0)
    both = line_task(PROJECT, 30, seed=0, no_suffix=20)
    items = [line_item_of(payload) for _, payload in both.items]
    assert [item for item in items if item.condition == INSERTING] == [
        line_item_of(payload) for _, payload in alone.items
    ]
    on = [item for item in items if item.condition == WRITING_ON]
    assert len(on) == 20
    for item in on:
        assert item.cursor.line == len(item.cursor.lines) - 1
        assert item.is_correct(item.target)


def test_lines_behind_openers_are_further_ones_half_of_them_with_nothing_below() -> None:
    both = line_task(PROJECT, 30, seed=0, no_suffix=20, behind_openers=40)
    known = line_task(PROJECT, 30, seed=0, no_suffix=20).items
    assert both.items[: len(known)] == known
    further = [line_item_of(payload) for _, payload in both.items[len(known) :]]
    assert 38 <= len(further) <= 40
    assert abs(sum(item.condition == "writing-on" for item in further) - len(further) / 2) <= 1


def test_new_lines_are_further_ones_half_of_them_with_nothing_below() -> None:
    known = line_task(PROJECT, 30, seed=0, no_suffix=20, behind_openers=40).items
    both = line_task(PROJECT, 30, seed=0, no_suffix=20, behind_openers=40, new_lines=40).items
    assert both[: len(known)] == known
    further = [line_item_of(payload) for _, payload in both[len(known) :]]
    assert 38 <= len(further) <= 40
    assert {item.condition for item in further} == {WRITING_ON, NEW_LINE}
    assert abs(sum(item.condition == WRITING_ON for item in further) - len(further) / 2) <= 1
    assert {item.stratum for item in further} == {"line-start", "after-indentation"}
    alone = line_task(PROJECT, 0, seed=0, new_lines=40).items
    assert len(alone) == 40, "a run may be of new lines alone"
    assert {id_ for id_, _ in both[len(known) :]} <= {id_ for id_, _ in alone}


def test_the_first_of_the_drawn_lines_are_the_same_whatever_comes_later() -> None:
    whole, few, more = (
        line_task(PROJECT, 60, seed=0, no_suffix=20, first=first).items for first in (None, 25, 40)
    )
    assert (len(few), len(more)) == (25, 40)
    assert set(dict(few)) < set(dict(more)) < set(dict(whole))
    assert [item for item in whole if item in few] == list(few)


def test_own_lines_to_write_on_are_further_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [
        {"id": f"{n}", "before": f"a = {n}\nb = ", "after": "\nc = 2\n", "target": "1"} for n in range(50)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = [line_item_of(payload) for _, payload in line_task((path,), 20, 0, no_suffix=10).items]
    assert [item.condition for item in items] == [INSERTING] * 20 + [WRITING_ON] * 10
    assert len({item.id for item in items}) == 30
    assert all(item.cursor.lines[-1] == "b = " for item in items[20:])


@pytest.mark.skipif(DATA is None, reason="LSP_CALIB_DATA does not say where the data are")
class TestInfilling:
    def test_a_sample_is_drawn_by_the_seed_and_keeps_the_order(self) -> None:
        whole = [item for item, _ in infill_task(None, None, 0).items]
        drawn = [item for item, _ in infill_task(None, 50, 3).items]
        assert drawn == sorted(drawn, key=whole.index)
        assert drawn == [item for item, _ in infill_task(None, 50, 3).items]
        assert drawn != [item for item, _ in infill_task(None, 50, 4).items]


@pytest.mark.parametrize(("name", "criteria"), [("infill", ("exact", "tests")), ("summary", ())])
def test_kept_answers_are_compared_by_the_criteria_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, criteria: tuple[str, ...]
) -> None:
    """But for summaries, which are judged again by the thresholds of the day."""
    answerer = Answerer(ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", None)
    for asking in (Completing, Summarising):
        monkeypatch.setattr(asking, "answerer", lambda _: answerer)
    seen: list[object] = []

    def run(*_: object, **options: object) -> None:
        seen.append(options["criteria"])
        raise DataError("Enough.")

    monkeypatch.setattr(collecting, "run", run)
    task = Task(name, (), criteria=("exact", "tests"))
    with pytest.raises(DataError, match="Enough"):
        collecting.collect(*(task, EngineChoice(), tmp_path / "r.jsonl", AskingOptions(created="2026-01-01")))
    assert seen == [criteria]


@pytest.mark.parametrize("kind", ["lines", "functions"])
def test_the_digest_of_an_item_changes_with_its_text_and_not_with_where_it_lies(
    tmp_path: Path, kind: str
) -> None:
    text = "".join(
        f'def open_{n}(value):\n    """Open the door number {n}."""\n    return compute(value, {n})\n\n\n'
        for n in range(30)
    )

    def digests(folder: str, text: str) -> dict[str, str]:
        root = tmp_path / folder / "p"
        root.mkdir(parents=True)
        (root / "a.py").write_text(text)
        task = line_task((root,), 30, 0) if kind == "lines" else documented_task((root,), 30, 0)
        return {item: digest(payload) for item, payload in task.items}

    before = digests("one", text)
    assert digests("two", text) == before
    after = digests("three", text.replace("compute", "confuse"))
    same = before.keys() & after.keys()
    assert same
    assert all(before[item] != after[item] for item in same)


def test_what_is_to_be_told_of_kept_answers_reaches_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect(*given: Any) -> tuple[str, list[Record]]:
        asking: AskingOptions = given[3]
        asking.say("Some are asked for again.")
        return "header", []

    monkeypatch.setattr(records_command, "collect", collect)
    said: list[str] = []
    path = tmp_path / "r.jsonl"
    asking = AskingOptions(say=said.append, model="m", quiet=True)
    records_command.collect_records(Task("line", ()), path, asking)
    assert said == ["Some are asked for again."]


def test_the_sources_are_those_of_the_items_also_where_the_file_holds_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answerer = Answerer(ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", None)
    monkeypatch.setattr(Completing, "answerer", lambda _: answerer)

    def answer(_: Completing, payload: dict[str, Any]) -> dict[str, Any]:
        return {"record": attrs.evolve(record(0), **payload).to_row(), "timing": {}}

    monkeypatch.setattr(Completing, "__call__", answer)
    for project in ("one-1.0", "two-2.0"):
        ids = [f"{project}/a.py:{n}:1" for n in range(3)]
        items = [(id_, {"item": id_, "group": project}) for id_ in ids]
        header, records = collecting.collect(
            *(Task("line", tuple(items)), EngineChoice(), tmp_path / "r.jsonl"),
            AskingOptions(created="2026-01-01"),
        )
        assert [record.group for record in records] == [project] * 3
        assert [(one.name, one.items) for one in header.sources] == [(project[:3], 3)]
    kept, all_ = read_records(tmp_path / "r.jsonl")
    assert len(all_) == 6
    assert [one.name for one in kept.sources] == ["one", "two"], "in the file, of all that it holds"
