"""The studies' tasks: which problems are asked for, how they are shown, and what is right."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import unproved_lines

from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.corpus.places import line_item_of
from lsp_calib.corpus.records import read_records
from lsp_calib.home import shipped_models
from lsp_calib.studies import tasks
from lsp_calib.studies.data import DATA_SETS
from lsp_calib.studies.tasks import (
    Gap,
    gap_of,
    infill_task,
    items_of,
    judge,
    prefix_task,
    repair_task,
    synthesis_task,
)

STUDIES = shipped_models() / "records" / "studies"
STUDIED = sorted(STUDIES.glob("[lrs]*.jsonl"))


@pytest.mark.parametrize("name", [name for name in DATA_SETS if name != "haque-ratings"])
def test_every_row_is_an_item_with_an_id_of_its_own(data: Path, name: str) -> None:
    if name.startswith("code-to-text-"):
        ids = [one["item"] for one in tasks.documented_functions(name.removeprefix("code-to-text-"), data)]
    else:
        ids = [one.id for one in items_of(name, data)]
    assert len(set(ids)) == len(ids) == DATA_SETS[name].records


def test_a_missing_line_is_asked_for_as_the_editor_would(data: Path) -> None:
    for item in items_of("humaneval-infilling", data)[::50]:
        line = item.line_item()
        assert "\n".join(line.cursor.lines) == f"{item.before}\n{item.behind}"
        assert (line.cursor.before, line.cursor.after) == ("", "")
        assert line.is_correct(item.missing)
        assert line.group == "/".join(item.id.split("/")[1:3])


def test_a_bug_is_asked_for_where_its_fix_belongs(data: Path) -> None:
    for bug in [*items_of("defects4j", data), *items_of("manysstubs4j", data)[::50]]:
        line, at = bug.line_item(), len(bug.before) + 2
        assert line.is_correct(bug.fixed_line.strip())
        assert not line.is_correct(bug.buggy_line) or bug.buggy_line.strip() == bug.fixed_line.strip()
        shown = [f"// Buggy line: {bug.buggy_line.strip()}", "// Fixed line:"]
        assert [one.strip() for one in line.cursor.lines[at - 2 : at]] == shown
        assert line.cursor.line == at
        assert (*line.cursor.lines[: at - 2], *line.cursor.lines[at:]) == (*bug.before, "", *bug.after)


def test_bugs_of_one_project_stay_together(data: Path) -> None:
    bugs = items_of("manysstubs4j", data)
    assert 60 <= len({bug.group for bug in bugs}) <= 140
    # One project each, whatever its modules and packages are called.
    for part, project in (
        ("/org/apache/camel/", "org.apache.camel"),
        ("/badlogic/gdx/", "com.badlogic"),
        ("/org/apache/hive/", "org.apache.hadoop"),
        ("/apache/hadoop/hive/", "org.apache.hadoop"),
    ):
        assert {bug.group for bug in bugs if part in bug.path} == {project}


def test_a_bug_whose_fix_is_its_copy_is_left_out_and_one_that_moved_and_changed_is_asked(data: Path) -> None:
    said: list[str] = []
    asked = {id_ for id_, _ in repair_task("defects4j", data, None, 0, said.append).items}
    copies = {"Closure-13", "Closure-102", "Jsoup-49", "Jsoup-64"}
    assert {bug.id for bug in items_of("defects4j", data)} - asked == copies
    assert "Time-7" in asked
    assert said[0].startswith("4 of 142 bugs are left out")
    assert all(id_ in said[0] for id_ in copies)


def test_a_fix_longer_than_any_of_the_studys_is_left_out_of_the_bugs_and_so_of_length(data: Path) -> None:
    said: list[str] = []
    asked = repair_task("manysstubs4j", data, None, 0, said.append).items
    assert len(asked) == 2789
    assert said[0].startswith("5 of 2794 bugs are left out")
    assert max(len(payload["target"]) for _, payload in asked) < 400


def test_the_bugs_left_out_of_records_are_those_that_the_rule_leaves_out(data: Path) -> None:
    bugs = [*items_of("defects4j", data), *items_of("manysstubs4j", data)]
    assert {bug.id for bug in bugs if bug.left_out} == tasks.LEFT_OUT


def test_problems_of_mbpp_that_are_alike_are_one_group(data: Path) -> None:
    found = items_of("mbpp", data)
    assert all(one.entry_points and all(name in one.tests for name in one.entry_points) for one in found)
    groups = tasks.groups_by_likeness(found)
    assert len(set(groups.values())) == 900
    same = [(one.id, two.id) for one, two in combinations(found, 2) if one.task == two.task]
    assert len(same) == 4
    assert all(groups[one] == groups[two] for one, two in same)
    assert groups["MBPP/82"] == "MBPP/82", "the volume of a sphere is like nothing else"
    records = read_records(STUDIES / "synthesis-mbpp-smollm2-135m.jsonl")[1]
    assert {record.item: record.group for record in records} == groups
    folds = grouped_folds(np.array([record.group for record in records]))
    fold = {record.item: fold for record, fold in zip(records, folds, strict=True)}
    assert all(fold[one] == fold[first] for one, first in groups.items())


SQUARE = Gap(
    id="S/1",
    group="S/1",
    before='import math\n\n\ndef square(x):\n    """Square a number."""\n',
    missing="    return x * x\n",
    behind="\n\ndef other():\n    return square(2)\n",
    tests="assert square(3) == 9\nassert other() == 4\n",
    entry_points=("square",),
    indentation=0,
)


def test_a_studys_task_names_its_version_and_its_profile(data: Path, tmp_path: Path) -> None:
    paths = projects(tmp_path, 8)
    found = {
        "spiess-defects4j@1": repair_task("defects4j", data, None, 0),
        "spiess-sstubs@1": repair_task("manysstubs4j", data, 30, 0),
        "spiess-humaneval@1": synthesis_task("humaneval", data, None, 0),
        "spiess-line@1": prefix_task(paths, 60, 1),
        "spiess-line-no-docstring@1": prefix_task(paths, 60, 1, docstrings=False),
    }
    assert {task.version: task.profile for task in found.values()} == dict.fromkeys(found, "paper")
    assert infill_task(data, 20, 0).profile == "editor"


@pytest.mark.parametrize("file", STUDIED, ids=lambda file: file.stem)
def test_a_committed_file_names_the_version_of_its_task(file: Path) -> None:
    header, _ = read_records(file)
    name, _, version = header.task_version.partition("@")
    assert (name in tasks.NOTES or name == "spiess-line-no-docstring", version) == (True, "1")
    assert re.fullmatch("[0-9a-f]{64}", header.prompt_sha256)


def test_a_committed_file_holds_the_hash_of_the_text_of_its_first_prompt(data: Path) -> None:
    """As lm-evaluation-harness has it."""
    first = items_of("humaneval", data)[0]
    expected = hashlib.sha256(first.before.encode()).hexdigest()
    headers = [read_records(file)[0] for file in STUDIED if "humaneval" in file.stem]
    assert [header.prompt_sha256 for header in headers] == [expected] * 2


def test_the_lines_that_humanevals_tests_prove_nothing_about_are_counted_and_named(data: Path) -> None:
    lines = {one.id.partition("/")[2] for one in items_of("humaneval-infilling", data)}
    assert len(tasks.UNPROVED) == 48
    assert lines.issuperset(tasks.UNPROVED)
    assert all(one in tasks.NOTES["humaneval-infill"] for one in tasks.UNPROVED)
    assert len({one.rpartition("/")[0] for one in tasks.UNPROVED}) == 24
    claims = [unproved_lines.without_a_claim(one.tests) for one in items_of("humaneval", data)]
    assert (sum(claims), sum(map(bool, claims))) == (48, 36)
    assert tasks.NOTES["spiess-humaneval"].startswith("48 assertions in the tests of 36 functions")


@pytest.mark.usefixtures("walls")
def test_a_line_named_as_unproved_passes_without_it_and_another_does_not(data: Path) -> None:
    named = set(tasks.CATALOGUE["unproved"]["without"])
    items = [
        one for one in items_of("humaneval-infilling", data) if one.group in ("HumanEval/20", "HumanEval/33")
    ]
    found = unproved_lines.pass_with("", items)
    assert len(items) > len(found) > 0
    assert set(found) == named.intersection(one.id.partition("/")[2] for one in items)


@pytest.mark.usefixtures("walls")
def test_a_function_is_right_if_its_tests_pass_in_its_place() -> None:
    payload = json.loads(json.dumps(SQUARE.payload()))
    assert gap_of(payload) == SQUARE
    item = line_item_of(payload)
    for text, right in ((SQUARE.missing, True), ("    return x ** 2", True), ("    return x + x\n", False)):
        assert judge("tests", item, payload, text) is right
    assert not judge("tests", item, payload, "    return (\n"), "no Python"


def problem(code: str, *tests: str) -> tasks.Problem:
    row = {"text": 'Double "it" \\ or not.', "code": code, "task_id": 1, "test_setup_code": ""}
    return tasks._problem({**row, "test_list": list(tests)})


def test_a_description_goes_inside_the_function_as_its_docstring() -> None:
    code = "import math\ndef helper(x):\n\treturn x\ndef double(x): # it\n\treturn helper(x) * 2\ny = 1"
    gap = problem(code.replace("\n", "\r\n"), "assert double(2) == 4").gap("")
    assert gap is not None
    assert gap.before == (
        'import math\ndef helper(x):\n\treturn x\ndef double(x): # it\n\t"""Double \'it\' \\\\ or not."""\n'
    )
    assert (gap.missing, gap.behind) == ("\treturn helper(x) * 2\n", "y = 1")
    assert problem("double = len", "assert double('ab') == 2").gap("") is None
    assert problem("def f(x):\n  return x\ndef g(x):\n  return x", "assert f(g(1))").gap("") is None


@pytest.mark.usefixtures("walls")
def test_problems_whose_reference_fails_are_left_out_and_counted(data: Path, monkeypatch: Any) -> None:
    said: list[str] = []
    whole = synthesis_task("mbpp", data, 20, 1, said.append)
    (sentence,) = said
    assert "0 of 974 problems" in sentence
    assert "0 of 20 that were drawn" in sentence
    assert sentence.endswith("reference does not pass its own tests (the study: about 75).")
    assert (len(whole.items), whole.sources[0].name, whole.sources[0].items) == (20, "mbpp", 20)
    assert all('"""' in payload["lines"][-2] for _, payload in whole.items)
    wrong = whole.items[3][0]
    gap = tasks.Problem.gap

    def broken(one: tasks.Problem, group: str) -> Gap | None:
        found = gap(one, group)
        bad = found is not None and one.id == wrong
        return attrs.evolve(found, missing="    raise ValueError\n") if bad else found

    monkeypatch.setattr(tasks.Problem, "gap", broken)
    rest = synthesis_task("mbpp", data, 20, 1, said.append)
    assert [item for item, _ in rest.items] == [item for item, _ in whole.items if item != wrong]
    assert "1 of 20 that were drawn" in said[1]


DOCUMENTED = '''
class Shape:
    def area_{n}(self, width, height):
        """Multiply.

        Both are positive.
        """
        # A comment.
        if width < {n}:
            raise ValueError("no such rectangle")

        product = width * height
        return product + {n}

    def short(self):
        """Too short a body."""
        return 1


def bare(x):
    x += 1
    x += 2
    x += 3
    return x
'''


def projects(folder: Path, files: int) -> list[Path]:
    for n in range(3):
        (folder / f"project-{n}").mkdir()
        for m in range(files):
            source = DOCUMENTED.format(n=files * n + m)
            (folder / f"project-{n}" / f"file_{m}.py").write_text(source)
        (folder / f"project-{n}" / "copy.py").write_text(DOCUMENTED.format(n=0))
    return sorted(folder.glob("project-*"))


def test_one_line_of_each_documented_function_from_its_signature_down(tmp_path: Path) -> None:
    paths = projects(tmp_path, 8)
    task = prefix_task(paths, 60, 1)
    items = [line_item_of(payload) for _, payload in task.items]
    assert len(items) == 24, "no copies, no short ones, none without a docstring"
    assert len({item.target for item in items}) > 8
    for item in items:
        first, *above = item.cursor.lines[:-1]
        assert item.condition == "prefix"
        assert first.startswith("    def area_")
        assert above[0].strip() == '"""Multiply.', "the docstring is shown"
        assert (item.cursor.before, item.cursor.after) == ("", "")
        assert item.cursor.line == len(item.cursor.lines) - 1
        assert item.target.strip()
        assert not item.target.lstrip().startswith(("#", '"', "Both"))
        assert item.is_correct(item.target.strip())
    places = {len(item.cursor.lines) for item in items}
    assert len(places) == 4, "every line but blank ones, comments and the docstring"
    without = [line_item_of(payload) for _, payload in prefix_task(paths, 60, 1, docstrings=False).items]
    assert [(one.id, one.target) for one in without] == [(one.id, one.target) for one in items]
    for one, item in zip(without, items, strict=True):
        assert one.condition == "no-docstring"
        assert [*one.cursor.lines] == [item.cursor.lines[0], *item.cursor.lines[5:]]


def test_functions_in_functions_give_no_line_twice(tmp_path: Path) -> None:
    text = "".join(
        f'def outer_{n}():\n    """Outer."""\n    def inner():\n        """Inner."""\n'
        + "".join(f"        step_{n}_{at} = {at}\n" for at in range(4))
        for n in range(30)
    )
    (tmp_path / "a.py").write_text(text)
    for seed in range(5):
        ids = [identity for identity, _ in prefix_task([tmp_path], 1000, seed).items]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("file", "right", "asked"),
    [
        ("repair-defects4j-qwen2.5-coder-1.5b", 10, 138),
        ("repair-defects4j-smollm2-135m", 2, 138),
        ("repair-sstubs-qwen2.5-coder-1.5b", 79, 499),
    ],
)
def test_no_record_is_of_a_bug_that_is_left_out(file: str, right: int, asked: int) -> None:
    header, records = read_records(STUDIES / f"{file}.jsonl")
    assert not tasks.LEFT_OUT.intersection(record.item for record in records)
    assert (sum(record.correct["exact"] for record in records), len(records)) == (right, asked)
    assert header.sources[0].items == asked
