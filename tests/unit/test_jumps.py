"""Two builds side by side: which answers are compared, what was saved, and where the keys are typed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from jumps import gapped, usual_excerpts
from paired_answers import Answer, compared, is_pair, pairs_of, share_saved
from two_builds import Build

import lsp_calib
from lsp_calib.tools.bench.places import with_gaps
from lsp_calib.tools.bench.trace import load_trace

ROOT = Path(lsp_calib.__file__).parents[1]
OLD = Answer(2600.0, 2000.0, 300, 300)
NEW = Answer(1100.0, 500.0, 80, 300)
NOT_ASKED = Answer(5.0)


@pytest.mark.parametrize(
    ("new_ms", "rest", "share"),
    [
        (1000.0, 1.4, 1.0),  # a second could be saved, and was
        (1500.0, 1.4, 0.5),
        (0.0, 4.0, 1.0),  # no more than the prompt takes
        (2000.0, 4.0, 0.0),
        (2500.0, 4.0, -0.25),
        (0.0, 0.4, None),
    ],
)
def test_what_was_saved_is_a_share_of_what_could_be(new_ms: float, rest: float, share: float | None) -> None:
    found = share_saved(2000.0, new_ms, rest)
    assert found == (share if share is None else pytest.approx(share))


def test_pairs_in_which_a_model_was_not_asked_are_left_out_and_counted() -> None:
    found = compared([(OLD, NEW), (OLD, NOT_ASKED), (NOT_ASKED, NEW)], 1.5)
    assert (found["n"], found["notAsked"]) == (1, 2)
    assert (found["ready"][0], found["key"][0]) == (0.25, pytest.approx(1100 / 2600, abs=1e-3))
    assert found["saved"][0] == 1.364  # of 1.1 s
    assert [side[0] for side in found["evaluated"]] == [300, 80]
    assert found["mostEvaluated"] == [300, 80]
    assert not is_pair({"old": OLD, "new": NOT_ASKED})


def test_the_first_build_is_the_one_to_compare_with() -> None:
    found = pairs_of([{"new": NEW, "other": OLD, "old": OLD}], ["old", "new", "other"])
    assert found == {"new": [(OLD, NEW)], "other": [(OLD, OLD)]}


def test_an_answer_of_the_model_has_its_times() -> None:
    timing = {"queueMs": 3.0, "promptMs": 40.0, "promptTokens": 300, "promptReused": 280}
    assert Answer.of(50.0, {"source": "model", "timing": timing}) == Answer(50.0, 43.0, 20, 300)
    assert Answer.of(5.0, {"source": "memory", "timing": timing}) == Answer.of(5.0, None) == NOT_ASKED


def test_a_gap_keeps_the_indentation_and_its_text_fills_it() -> None:
    lines = (ROOT / "lsp_calib" / "settings.py").read_text("utf-8").split("\n")
    left, gaps = with_gaps(lines, 8, random.Random(0))
    assert len(gaps) == 8
    for gap in gaps:
        assert left[gap.line].isspace()
        assert len(left[gap.line]) == gap.column
        left[gap.line] += gap.text
    assert left == lines
    numbers = sorted(gap.line for gap in gaps)
    assert all(after - before >= 25 for before, after in itertools.pairwise(numbers))


def test_files_come_from_all_projects_in_turn_and_the_same_each_time(tmp_path: Path) -> None:
    text = (ROOT / "lsp_calib" / "settings.py").read_text("utf-8")
    for project in ("a", "b"):
        (tmp_path / project).mkdir()
        for at in range(3):
            (tmp_path / project / f"{project}{at}.py").write_text(text, "utf-8")
        (tmp_path / project / "short.py").write_text(text[:500], "utf-8")

    def names() -> list[str]:
        return [name for name, _, _ in gapped(tmp_path, random.Random(7))]

    found = names()
    assert found == names()
    assert sorted(found) == [f"{project}{at}.py" for project in "ab" for at in range(3)]
    assert [name[0] for name in found] in (list("ababab"), list("bababa"))


def test_recorded_keys_are_typed_in_runs_with_no_more_jumps_than_usual() -> None:
    whole = [step for edit in load_trace() for step in edit.steps]
    [run] = usual_excerpts(150)
    assert len(run.steps) == 150
    assert abs(sum(step.jump for step in run.steps) - 150 * sum(s.jump for s in whole) / len(whole)) < 1
    assert len(usual_excerpts(300)) == 2


def test_a_build_is_a_folder_with_the_package() -> None:
    assert Build.named(f"new={ROOT}") == Build("new", ROOT)
    for wrong in (str(ROOT), f"={ROOT}", "new=", f"new={ROOT / 'docs'}"):
        with pytest.raises(ValueError, match="NAME=PATH"):
            Build.named(wrong)
