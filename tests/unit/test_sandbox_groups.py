"""Control groups: the files that are written for each version, in a folder that looks like their mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_calib.evaluation.sandbox import execution
from lsp_calib.evaluation.sandbox.isolation import Limits

LIMITS = Limits(memory_total=100, disk=20, processes=7)


@pytest.fixture(autouse=True)
def _in_the_top_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_own", lambda _controller: "/")
    # A real group's folder goes with its files.
    monkeypatch.setattr(execution, "_remove", lambda _folder: None)


def test_version_1_has_a_group_for_each_controller(tmp_path: Path) -> None:
    for controller in ("memory", "pids"):
        (tmp_path / controller).mkdir()
    with execution.control_groups(LIMITS, tmp_path) as (memory, pids):
        assert (memory / "memory.limit_in_bytes").read_text() == "120"
        assert int((pids / "pids.max").read_text()) >= 7


def test_version_2_has_one_group(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    with execution.control_groups(LIMITS, tmp_path) as (group,):
        assert (group / "memory.max").read_text() == "120"
        assert int((group / "pids.max").read_text()) >= 7


def test_where_none_can_be_made_the_run_goes_on_without(tmp_path: Path) -> None:
    with execution.control_groups(LIMITS, tmp_path / "nothing") as made:
        assert made == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
        ("memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 2\n", True),
        ("memory.events", "low 0\nhigh 0\nmax 5\noom 0\noom_kill 0\n", False),
    ],
)
def test_the_kernel_says_whether_memory_ran_out(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    (tmp_path / name).write_text(text)
    assert execution.ran_out_of_memory([tmp_path]) is expected
