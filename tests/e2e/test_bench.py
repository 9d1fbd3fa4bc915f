"""The short bench with the real server and the real model: what it reports hangs together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lsp_calib import home as state
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.speeds import known_speed

pytestmark = [pytest.mark.model, pytest.mark.long, pytest.mark.alone]

# Seconds; only so that a bench that hangs ends.
LIVENESS = 900


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
    options = ("--short", "--steps", "24", "--long-file", "--typing-on", "--json")
    done = command("bench", *options, home=home)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


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
    tokens = report["tokens"]["keystroke"]
    assert tokens["n"] > 0
    assert tokens["evaluated"]["p50"][0] >= 1
    assert tokens["needed"]["p50"][0] >= 1
    # A key within a line leaves the prompt's tokens as they are, or adds a few.
    assert tokens["evaluated"]["p50"][0] < 20


def test_the_overhead_is_that_of_a_server_that_waits_for_its_model(report: dict[str, Any]) -> None:
    overhead = report["overhead"]
    assert overhead["n"] + overhead["unequal"] > 0
    # Never faster than what llama.cpp took in the same moment.
    assert overhead["overDecode"][0] >= 1
    # Another process, another moment, a machine with other work: only that it is of the same size.
    assert 0.2 < overhead["overRaw"][0] < 5


def test_cancelling_takes_a_small_part_of_what_the_request_would_have(report: dict[str, Any]) -> None:
    cancel = report["cancel"]
    assert cancel["promptTokens"] > 1000
    idle = cancel["toIdleMs"]
    assert idle is None or idle["p50"][0] < cancel["uncancelledMs"] / 2
    assert (idle["n"] if idle else 0) + cancel["tooLate"] >= 1


def test_who_types_on_without_waiting_waits_less_in_the_end(report: dict[str, Any]) -> None:
    found = report["typingOn"]
    assert found["keys"] == 20
    # Each of the keys interrupts the evaluation of a long prompt: steps that take longer than a pause between
    # two keys would use none of the time, and leave as many tokens as without it. (Tokens: the speed of a
    # machine with other work varies by more than the time that is gained.)
    then, at_once = found["thenTokens"]["p50"][0], found["atOnceTokens"]["p50"][0]
    assert at_once > 1000
    assert at_once - then > 2 * found["keys"]


def test_a_long_file_is_about_as_fast_as_a_short_one(report: dict[str, Any]) -> None:
    found = report["longFile"]
    assert found["lines"] == [500, 50_000]
    assert found["n"] >= found["asked"] > 5
    assert found["p50Ratio"][0] < 3


def test_an_idle_server_rests(report: dict[str, Any]) -> None:
    idle = report["idle"]
    if idle["serverCpuMs"] is None:
        pytest.skip("this system does not tell the processor time of others")
    assert idle["serverCpuMs"] + idle["modelCpuMs"] < 0.2 * 1e3 * idle["seconds"]


def test_nothing_is_left_behind_that_would_choose_another_model(
    report: dict[str, Any], home: Path, model_card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSP_CALIB_HOME", str(home))
    assert report["speed"]["promptTokensPerS"] > 0
    assert known_speed(model_card) is None
    assert not (home / "feedback.db").exists()
    assert not (home / "run").exists()


def test_without_a_model_it_says_so(tmp_path: Path) -> None:
    done = command("bench", "--short", "--json", home=tmp_path / "empty")
    assert done.returncode == 4
    assert "lsp-calib models pull" in done.stderr
    assert done.stdout == ""


def test_a_peer_that_is_not_there_is_found_out_before_anything_is_measured(home: Path) -> None:
    done = command("bench", "--short", "--peer", "http://127.0.0.1:9", home=home)
    assert done.returncode == 1
    assert "llama-server -m MODEL" in done.stderr
    assert "Loading" not in done.stderr


def test_the_doctor_measures_and_recommends(home: Path) -> None:
    done = command("doctor", "--json", home=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    [speed] = [finding for finding in document["findings"] if finding["about"] == "speed"]
    assert speed["data"]["model"] == "smollm2-135m"
    assert speed["data"]["p50"] <= speed["data"]["p95"]
    [advice] = [finding for finding in document["findings"] if finding["about"] == "recommendation"]
    assert advice["data"]["model"] == "smollm2-135m"
    assert advice["data"]["quickEnough"] == speed["data"]["quick"]


def test_summaries_are_made_while_somebody_types(home: Path) -> None:
    done = command("bench", "--only", "summaries", "--steps", "32", "--json", home=home)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["summaries"]
    first, hover, typing = found["first"], found["hover"], found["typing"]
    assert first["n"] == 8
    # Each summary takes as long as its parts at least; medians of parts need not add up to that of the whole.
    for part in ("promptMs", "generateMs"):
        assert first[part]["p50"][0] <= first["wallMs"]["p50"][0]
    assert first["evaluated"]["p50"][0] > 100
    assert hover["made"] > 0
    assert hover["newMs"]["n"] == hover["made"] + hover["late"]
    assert hover["knownMs"]["p50"][0] < hover["newMs"]["p50"][0]
    assert 0 < typing["n"] <= 30
