"""The short bench with the real server and the real model: what it reports hangs together, and stopped it
says what it has, and nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from lsp_calib import home as state
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.demands import known_speed

pytestmark = [pytest.mark.model, pytest.mark.long, pytest.mark.alone]

# Seconds; only so that a bench that hangs ends.
LIVENESS = 900
# A parent that ignores Ctrl-C (nohup, some CIs) would make the bench ignore it.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from lsp_calib.__main__ import main; main()"
)
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has it")


def command(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lsp_calib", *arguments],
        env={**os.environ, "LSP_CALIB_HOME": str(home), "LSP_CALIB_MODEL": ""},
        capture_output=True,
        text=True,
        timeout=LIVENESS,
        check=False,
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


@pytest.fixture(scope="module")
def report(home: Path) -> dict[str, Any]:
    done = command("bench", "--short", "--steps", "24", "--json", home=home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_keystroke_is_counted_once(report: dict[str, Any]) -> None:
    latency, answers = report["latencyMs"], report["answers"]
    assert report["steps"] == 24
    places = ("cold", "jump", "newLine", "keystroke")
    assert sum(latency[place]["n"] for place in places if latency[place]) == 24
    assert sum(answers[source] for source in ("model", "memory", "none")) == 24
    assert answers["shareFromMemory"] == pytest.approx(answers["memory"] / 24, abs=1e-3)


def test_percentiles_lie_in_their_intervals(report: dict[str, Any]) -> None:
    for found in report["latencyMs"].values():
        if found is None:
            continue
        for value, low, high in (found["p50"], found["p95"]):
            assert value > 0
            if low is not None:
                assert low <= value <= high
        assert found["p50"][0] <= found["p95"][0]


def test_a_keystroke_costs_less_than_a_document_that_is_new(report: dict[str, Any]) -> None:
    latency = report["latencyMs"]
    assert latency["keystroke"]["p50"][0] < latency["cold"]["p50"][0]


def test_tokens_that_were_evaluated_were_counted(report: dict[str, Any]) -> None:
    tokens = report["evaluated"]["keystroke"]
    assert tokens["n"] > 0
    # A key within a line leaves the prompt's tokens as they are, or adds a few.
    assert 1 <= tokens["p50"][0] < 20


def test_where_the_cursor_rested_the_prompt_was_evaluated_before_the_key(report: dict[str, Any]) -> None:
    jump, back = report["ahead"]["jumpAfterRest"], report["ahead"]["returnAfterRest"]
    assert jump["evaluated"]["n"] == back["evaluated"]["n"] == 3
    assert jump["evaluated"]["p50"][0] > 0
    assert jump["used"]["p50"][0] >= 0.9 * jump["evaluated"]["p50"][0]
    # Nothing is evaluated twice: what was evaluated for the jumps is kept.
    assert back["evaluated"]["p50"][0] + back["left"]["p50"][0] <= 25


def test_reading_costs_what_was_evaluated_at_rest(report: dict[str, Any]) -> None:
    hour = report["readingHour"]
    assert hour["tokensEach"] > 0
    assert 0 < hour["seconds"] <= hour["limitSeconds"]


def test_no_answer_is_faster_than_the_work_inside_the_library(report: dict[str, Any]) -> None:
    assert report["overDecode"][0] >= 1


def test_cancelling_takes_a_small_part_of_what_the_request_would_have(report: dict[str, Any]) -> None:
    cancel = report["cancel"]
    assert cancel["promptTokens"] > 1000
    idle = cancel["toIdleMs"]
    assert idle is None or idle["p50"][0] < cancel["uncancelledMs"] / 2
    assert (idle["n"] if idle else 0) + cancel["tooLate"] >= 1


def test_nothing_is_left_behind_that_would_choose_another_model(
    report: dict[str, Any], home: Path, model_card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSP_CALIB_HOME", str(home))
    assert report["speed"]["promptTokensPerS"] > 0
    assert known_speed(model_card) is None
    assert not (home / "feedback.db").exists()
    assert not (home / "run").exists()


def test_the_doctor_measures_and_recommends(home: Path) -> None:
    done = command("doctor", "--json", home=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    [speed] = [finding for finding in document["findings"] if finding["about"] == "speed"]
    assert speed["data"]["model"] == "smollm2-135m"
    assert speed["data"]["p50"] <= speed["data"]["p95"]
    [advice] = [finding for finding in document["findings"] if finding["about"] == "recommendation"]
    assert advice["data"]["model"] == "smollm2-135m"
    assert advice["data"]["recommended"] in ("qwen2.5-coder-1.5b", "smollm2-135m"), "by the memory here"
    assert advice["data"]["quickEnough"] == speed["data"]["quick"]


@attrs.define
class Bench:
    """A bench that runs. seen: its descendants so far."""

    process: subprocess.Popen[str]
    seen: dict[int, psutil.Process] = attrs.field(factory=dict)

    def look(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in psutil.Process(self.process.pid).children(recursive=True):
                self.seen[one.pid] = one

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


@posix
def test_stopped_amid_its_parts_it_has_the_keystrokes_so_far(home: Path) -> None:
    with bench(home, "--steps", "240") as running:
        begun = 0
        while begun < 2:  # then all keystrokes of the first document have been typed
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


def test_a_limit_that_is_too_short_for_anything_says_so_in_words_and_in_a_document(home: Path) -> None:
    with bench(home, "--short", "--limit", "0.2") as running:
        out, err = running.end()
    assert running.process.returncode == 5
    assert "before anything was measured" in err
    assert "--limit" in err
    report = json.loads(out)
    assert report["stopped"] == "limit"
    assert report["steps"] == 0
