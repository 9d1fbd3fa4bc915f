"""Recorded typing is what it says: it leads from one commit's text to the next one's."""

import json
import random
import shutil
import subprocess
from gzip import decompress
from pathlib import Path

import pytest
import record_typing
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.tools.bench.trace import Edit, Kind, Step, load_trace, select

EDITS = load_trace()
EACH = pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)


def committed(commit: str, name: str) -> str:
    try:
        return record_typing.at_commit(commit, name)
    except (OSError, subprocess.CalledProcessError):
        # A history without the commit is none; a commit without the file would be a fault of ours.
        here, folder = ["git", "cat-file", "-e", f"{commit}^{{commit}}"], Path(__file__).parent
        if shutil.which("git") and not subprocess.run(here, cwd=folder, check=False).returncode:
            raise
        pytest.skip("the repository's history is not here")


class TestTheRecordingThatIsShipped:
    @EACH
    def test_replaying_it_gives_the_text_that_was_recorded(self, edit: Edit) -> None:
        assert record_typing.sha256_of(edit.replay()) == edit.after_sha256

    def test_recording_again_gives_the_same_bytes(self) -> None:
        for commit, name in record_typing.SOURCES:
            committed(f"{commit}^", name)
        file = record_typing.RECORDING.read_bytes()
        again = record_typing.dump_trace(list(record_typing.recordings()))
        assert json.loads(decompress(again)) == json.loads(decompress(file))

    def test_it_is_large_enough_to_measure_with_and_small_enough_to_ship(self) -> None:
        steps = [step for edit in EDITS for step in edit.steps]
        assert len(EDITS) >= 5
        for kind, least in ((Kind.TYPE, 300), (Kind.NEWLINE, 40), (Kind.BACKSPACE, 20)):
            assert sum(step.kind is kind for step in steps) >= least
        assert sum(step.jump for step in steps) >= 10
        assert len(record_typing.dump_trace(EDITS)) < 300_000


class TestParts:
    @EACH
    @pytest.mark.parametrize("count", [1, 20, 45])
    def test_an_excerpt_is_that_part_of_the_edit(self, edit: Edit, count: int) -> None:
        part = edit.excerpt(count)
        assert len(part.steps) == count
        first = next(at for at, step in enumerate(edit.steps) if step is part.steps[0])
        lines = list(edit.before)
        for step in edit.steps[:first]:
            step.apply(lines)
        assert part.before == tuple(lines)

    @given(st.integers(12, 4000))
    def test_a_selection_has_about_as_many_steps_as_were_asked_for(self, steps: int) -> None:
        chosen = select(EDITS, steps)
        count = sum(len(edit.steps) for edit in chosen)
        whole = sum(len(edit.steps) for edit in EDITS)
        assert min(steps, whole) - len(EDITS) <= count <= steps
        assert all(len(edit.steps) >= min(steps, 16) for edit in chosen)

    def test_a_short_selection_holds_every_kind_of_step(self) -> None:
        steps = [step for edit in select(EDITS, 36) for step in edit.steps[1:]]
        assert any(step.jump for step in steps)
        assert any(step.kind is Kind.NEWLINE for step in steps)
        assert any(step.kind is Kind.TYPE and not step.jump for step in steps)


@given(
    st.lists(st.text("ab é🎉", max_size=6), min_size=1, max_size=6),
    st.text("xy\n", max_size=5),
    st.integers(0),
)
def test_a_step_replaces_what_stands_between_its_ends(lines: list[str], text: str, seed: int) -> None:
    chance = random.Random(seed)
    joined = "\n".join(lines)
    first, last = sorted(chance.randint(0, len(joined)) for _ in range(2))

    def place(at: int) -> tuple[int, int]:
        return joined[:at].count("\n"), len(joined[:at].rpartition("\n")[2])

    step = Step(Kind.TYPE, place(first), place(last), text, 1, False)
    after = list(lines)
    assert step.apply(after) == step.cursor
    expected = joined[:first] + text + joined[last:]
    assert after == expected.split("\n")
    typed = expected[: first + len(text)]
    assert step.cursor == (typed.count("\n"), len(typed.rpartition("\n")[2]))
    assert Step.from_json(record_typing.step_to_json(step)) == step
