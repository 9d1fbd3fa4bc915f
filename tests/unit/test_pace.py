"""Steps that wait for a processor are stopped and taken again: the watch, and what the kernel tells."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp_calib.inference.local import thread_budget
from lsp_calib.inference.local.thread_budget import Watch

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="what Linux tells")
PATIENCE = 20.0


@pytest.fixture
def watched() -> Iterator[tuple[Watch, list[float]]]:
    told: list[float] = []

    def overdue(elapsed: float) -> float | None:
        told.append(elapsed)
        return 0.01 if len(told) < 3 else None

    watch = Watch(overdue)
    yield watch, told
    watch.close()


class TestWatch:
    def test_a_step_that_takes_too_long_is_reported_again_and_again(
        self, watched: tuple[Watch, list[float]]
    ) -> None:
        watch, told = watched
        watch.begin(0.02)
        end = time.monotonic() + PATIENCE
        while len(told) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        watch.end()
        assert len(told) == 3
        assert told[0] >= 0.02
        assert told == sorted(told)

    def test_steps_that_keep_to_their_limit_are_not_reported(
        self, watched: tuple[Watch, list[float]]
    ) -> None:
        watch, told = watched
        for _ in range(2000):
            watch.begin(PATIENCE)
            watch.end()
        assert told == []

    def test_a_step_that_has_ended_is_never_reported(self) -> None:
        """Whenever `overdue` is called, the step that it is about is still under way."""
        running = [False]
        wrong: list[float] = []

        def overdue(elapsed: float) -> float | None:
            if not running[0]:
                wrong.append(elapsed)
            return 0.0001

        watch = Watch(overdue)
        for _ in range(300):
            running[0] = True
            watch.begin(0.0002)
            time.sleep(0.0003)
            watch.end()
            running[0] = False
        watch.close()
        assert wrong == []


@LINUX
class TestWhatTheKernelTells:
    def test_threads_that_share_a_processor_wait_for_it(self) -> None:
        """Two programs on one processor: each waits while the other runs."""
        if thread_budget.waited() is None:
            pytest.skip("this kernel keeps no such account")
        pin = f"import os\nos.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
        measure = (
            "import time\n"
            "from lsp_calib.inference.local import thread_budget\n"
            "before = thread_budget.waited()\n"
            "end = time.process_time() + 0.3\n"
            "while time.process_time() < end: pass\n"
            "print(thread_budget.waited() - before)\n"
        )
        with subprocess.Popen([sys.executable, "-c", f"{pin}while True: pass"]) as other:
            try:
                waited = float(subprocess.check_output([sys.executable, "-c", pin + measure], text=True))
            finally:
                other.kill()
        assert waited > 0.05

    def test_a_busy_program_takes_about_one_processor(self) -> None:
        processors = thread_budget.Processors()
        assert processors.known
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            try:
                time.sleep(0.3)
                processors.free()
                time.sleep(0.5)
                free = processors.free()
            finally:
                other.kill()
        assert free is not None
        assert free < len(os.sched_getaffinity(0)) - 0.3

    def test_what_this_process_does_itself_does_not_count(self) -> None:
        processors = thread_budget.Processors()
        end = time.perf_counter() + 0.4
        spun = time.process_time()
        while time.perf_counter() < end:
            pass
        spun = time.process_time() - spun
        free = processors.free()
        assert free is not None
        # Others may have been busy all the while: but what was spent here was not taken for theirs.
        assert free > spun / 0.5 - 0.5

    def test_it_says_nothing_of_moments_or_of_long_ago(self, monkeypatch: pytest.MonkeyPatch) -> None:
        processors = thread_budget.Processors()
        assert processors.free() is None
        monkeypatch.setattr(thread_budget, "_STALE", 0.0)
        time.sleep(0.15)
        assert processors.free() is None


def test_a_system_that_tells_nothing_is_known_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(thread_budget, "_STAT", tmp_path / "none")
    monkeypatch.setattr(thread_budget, "_TASKS", tmp_path / "none")
    assert thread_budget.waited() is None
    assert not thread_budget.Processors().known
    assert thread_budget.Processors().free() is None
