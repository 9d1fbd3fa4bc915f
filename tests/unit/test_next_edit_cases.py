"""Cases from the differences between two releases, and what is fitted on them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.edits.history import FEATURES
from lsp_calib.edits.offers import EditCurve
from lsp_calib.errors import DataError
from lsp_calib.studies.next_edit_fit import Judged, Places, fitted
from lsp_calib.studies.next_edits import (
    Case,
    ReleasedFile,
    cases_of,
    drawn,
    read_cases,
    released_files,
    steps_of,
    write_cases,
)

OLD = ("def f(size):", "    a = size", "    b = size", "    return a", "c = size", "")
NEW = ("def f(width):", "    a = width", "    b = width", "    return a + 1", "c = size", "")
_ALL = st.lists(
    st.sampled_from(["a = size", "b = size", "return a", "a = width", "", "call(x, y)"]), max_size=9
)


@given(_ALL, _ALL)
def test_steps_make_one_of_the_other(old: list[str], new: list[str]) -> None:
    made, last = [], 0
    for step in steps_of(old, new):
        assert last <= step.start <= step.end
        made += [*old[last : step.start], *step.lines]
        last = step.end
    assert [*made, *old[last:]] == new


def test_lines_that_resemble_each_other_are_matched_though_their_block_has_grown() -> None:
    steps = steps_of(["a = call(size)", "b = call(size)"], ["# new", "a = call(width)", "b = call(width)"])
    assert [(step.start, step.end, step.lines) for step in steps] == [
        (0, 0, ("# new",)),
        (0, 1, ("a = call(width)",)),
        (1, 2, ("b = call(width)",)),
    ]


def test_a_case_says_what_the_newer_release_has() -> None:
    """From the top: after the first change the next two are right, after the third the last one is wrong."""
    found = list(cases_of([ReleasedFile.of("a.py", OLD, NEW)], "of the top", "python"))
    assert [[right for _, right in case.candidates] for case in found] == [
        [True, True, False],
        [True, False],
        [False],
        [],
    ]
    assert [case.once for case in found] == [False, False, False, True]


def test_a_change_in_another_file_is_looked_for() -> None:
    files = [ReleasedFile.of("a.py", OLD[:1], NEW[:1]), ReleasedFile.of("b.py", OLD[1:3], NEW[1:3])]
    first = next(iter(cases_of(files, "of the top", "python")))
    far = FEATURES.index("far")
    assert [(values[far], right) for values, right in first.candidates] == [(1.0, True), (1.0, True)]


def test_files_are_those_of_both_releases(tmp_path: Path) -> None:
    """An only folder in a release, named after its version, is no part of a path."""
    for version, text in (("1", "a = size\n"), ("2", "a = width\n")):
        folder = tmp_path / version / f"name-{version}"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(text)
        (folder / f"only{version}.py").write_text(text)
        (folder / "b.py").write_bytes(b"\xff\xfe")
    (found,) = released_files(tmp_path / "1", tmp_path / "2", "python")
    assert (found.path, len(found.steps)) == ("a.py", 1)


def _case(project: int, right: bool, strength: float) -> Case:
    values = tuple(strength if name == "alike" else 0.0 for name in FEATURES)
    return Case(f"p{project}", "python", False, ((values, right), ((0.0,) * len(FEATURES), False)))


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    cases = [_case(1, True, 0.5), Case("p2", "go", True, ())]
    write_cases(tmp_path / "cases.jsonl.gz", cases)
    assert read_cases(tmp_path / "cases.jsonl.gz") == cases


def test_records_of_other_features_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cases(tmp_path / "cases.jsonl.gz", [])
    monkeypatch.setattr("lsp_calib.studies.next_edits.VERSION", 99)
    with pytest.raises(DataError, match="make it again"):
        read_cases(tmp_path / "cases.jsonl.gz")


def test_a_project_counts_for_no_more_than_its_share() -> None:
    cases = [_case(1, True, 0.5)] * 300 + [Case("p1", "python", True, ())] * 300
    found = drawn(cases, most=100)
    assert sum(bool(case.candidates) for case in found) == 100
    assert 60 < sum(not case.candidates for case in found) < 140


def test_a_curve_finds_what_the_labels_rest_on() -> None:
    """Known truth: places whose lines are alike are changed nine times of ten, others one of ten."""
    chance = np.random.default_rng(0)
    cases = []
    for number in range(360):
        strength = float(number % 2)
        cases.append(_case(number // 2 % 12, bool(chance.random() < (0.9 if strength else 0.1)), strength))
    curve, calibrator = fitted(cases, [], "2026-11-30")
    assert isinstance(curve, EditCurve)
    judged = Judged.by(cases, curve, calibrator)
    likely = judged.confidence > 0.5
    assert 0.45 < likely.mean() < 0.55
    assert abs(judged.right[likely].mean() - judged.confidence[likely].mean()) < 0.05
    share, right = judged.tier(0.5)
    assert share.value is not None
    assert right.value is not None
    assert math.isclose(share.value, likely.mean())
    assert right.value > 0.85


def test_of_equally_likely_places_the_first_counts() -> None:
    places = Places.of([_case(1, True, 0.0), _case(1, False, 1.0)])
    assert places.likeliest(np.log([0.5, 0.5, 0.2, 0.4])).tolist() == [0, 3]
