"""The bench with the real model, beside busy processes and stopped: it says what it has; nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psutil
import pytest

from lsp_calib import home as state
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import ModelCard

pytestmark = [pytest.mark.model, pytest.mark.long]
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has it")

# Seconds; only so that a bench that hangs ends.
LIVENESS = 600
# A parent that ignores Ctrl-C (nohup, some CIs) would make the bench ignore it.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from lsp_calib.__main__ import main; main()"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_path: Path, model_card: ModelCard) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LSP_CALIB_HOME", str(folder))
        state.private_folder(model_card.path.parent)
        model_card.path.symlink_to(model_path)
        sidecar.remember(model_card.path, model_card.sha256)
    return folder


@attrs.define
class Bench:
    """A bench that runs. seen: its descendants so far; busy: those of them that are to want a core."""

    process: subprocess.Popen[str]
    seen: dict[int, psutil.Process] = attrs.field(factory=dict)
    busy: dict[int, psutil.Process] = attrs.field(factory=dict)
    most_at_once: int = 0

    def look(self) -> None:
        busy = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in psutil.Process(self.process.pid).children(recursive=True):
                self.seen[one.pid] = one
                with contextlib.suppress(psutil.NoSuchProcess):
                    if {"lsp_calib.tools.bench.processes", "busy"} <= set(one.cmdline()):
                        busy[one.pid] = one
        self.busy |= busy
        self.most_at_once = max(self.most_at_once, len(busy))

    def until(self, condition: Callable[[], bool]) -> None:
        """Look again and again until the condition holds, or the bench ends."""
        deadline = time.monotonic() + LIVENESS
        while not condition() and self.process.poll() is None:
            assert time.monotonic() < deadline
            self.look()
            time.sleep(0.05)

    def end(self) -> tuple[str, str]:
        """What it printed, once it has ended and nothing that it started is there any more."""
        out, err = self.process.communicate(timeout=LIVENESS)
        _, alive = psutil.wait_procs(list(self.seen.values()), timeout=10)
        assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
        return out, err


@contextlib.contextmanager
def bench(home: Path, *arguments: str) -> Iterator[Bench]:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "bench", "--threads", "1", "--json", *arguments],
        env={**os.environ, "LSP_CALIB_HOME": str(home), "LSP_CALIB_MODEL": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Bench(process)
    finally:
        process.kill()
        process.communicate()


def test_beside_has_as_many_busy_processes_as_asked_for_and_none_afterwards(home: Path) -> None:
    with bench(home, "--only", "beside", "--beside", "2", "--requests", "12") as running:
        running.until(lambda: False)
        out, err = running.end()
    assert running.process.returncode == 0, err
    assert "This takes " in err
    assert running.most_at_once == 2
    report = json.loads(out)
    assert report["stopped"] is None
    assert report["notMeasured"] == {}
    found = report["beside"]
    assert found["processes"] == 2
    assert found["quietMs"]["n"] == 12
    # None came from memory.
    assert found["generated"]["p50"][0] >= 1
    assert found["evaluated"]["p50"][0] >= 1
    assert found["equalShare"]["sameSession"] is False
    assert found["niceSameSession"]["sameSession"] is True
    assert len(running.busy) == 4
    for how in ("equalShare", "niceSameSession"):
        run = found[how]
        assert run["besideMs"]["n"] == run["n"] + run["unequal"] == 12
        assert run["n"] >= 6
        assert run["first"]["n"] <= 10
        assert run["after"]["seconds0To5"]["n"] > 0
        if run["busyShare"] is not None:
            assert run["busyShare"] > 0


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_beside_busy_processes_it_says_what_it_has_and_leaves_none(
    home: Path, number: signal.Signals, code: int
) -> None:
    with bench(home, "--only", "beside", "--requests", "12") as running:
        running.until(lambda: bool(running.busy))
        os.kill(running.process.pid, number)
        out, err = running.end()
    assert running.process.returncode == code, err
    report = json.loads(out)
    assert report["stopped"] == number.name
    assert report["beside"]["quietMs"]["n"] == 12
    assert report["beside"]["niceSameSession"] is None
    assert "beside" in report["notMeasured"]


@posix
def test_stopped_amid_its_parts_it_has_the_keystrokes_so_far(home: Path) -> None:
    with bench(home, "--steps", "240", "--no-raw") as running:
        begun = 0
        while begun < 2:  # then all keystrokes of the first document have been typed
            assert running.process.stderr is not None
            line = running.process.stderr.readline()
            assert line, "the bench ended"
            begun += " keystrokes of " in line
            running.look()
        os.kill(running.process.pid, signal.SIGINT)
        out, err = running.end()
    assert running.process.returncode == 130, err
    report = json.loads(out)
    assert report["stopped"] == "SIGINT"
    assert 12 <= report["steps"] < 240
    assert report["latencyMs"]["askedModel"]["n"] > 0
    assert {"typing", "cancel", "typingOn", "longFile", "idle"} == set(report["notMeasured"])


def test_a_limit_that_is_too_short_for_anything_says_so_in_words_and_in_a_document(home: Path) -> None:
    with bench(home, "--short", "--limit", "0.2") as running:
        running.until(lambda: False)
        out, err = running.end()
    assert running.process.returncode == 5
    assert "before anything was measured" in err
    assert "--limit" in err
    report = json.loads(out)
    assert report["stopped"] == "limit"
    assert report["steps"] == 0
    assert set(report["notMeasured"]) == {"typing", "cancel", "idle"}
