"""Weights of 8 bits for AMX: when they are tried, that the trial is in nobody's way, and what it decides."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from llama_scene import request
from test_gguf import file_of, pair, written

from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Acceleration, Hardware, LoadOptions
from lsp_calib.inference.models import converted, demands, sidecar
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.inventory import inventory, remove
from lsp_calib.inference.process import acceleration, eight_bit
from lsp_calib.inference.process.acceleration import AccelerationChoice, Question, Tried
from lsp_calib.inference.process.request_queue import Worker

AMX = Hardware("build", amx=True, converts=True)
PLAIN, EIGHT = Tried("cpu", 2.0), Tried("cpu-eight-bit", 1.5)
CHOICE = AccelerationChoice(Acceleration(), (PLAIN, Tried("cpu-without-amx", 3.0)))
Q4_K_M, Q4_1 = 15, 3


def model(folder: Path, file_type: int) -> Path:
    pairs = [pair("general.architecture", "llama"), pair("general.file_type", file_type)]
    return written(folder, file_of(pairs))


@pytest.fixture
def installed(home: Path) -> Path:
    assert home.is_dir()
    sidecar.models_folder().mkdir(exist_ok=True)
    return model(sidecar.models_folder(), Q4_K_M)


@pytest.fixture
def third_free(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"MemAvailable:": 6 << 30, "MemTotal:": 16 << 30}
    monkeypatch.setattr(demands, "_memory", memory.get)


@pytest.mark.usefixtures("third_free")
class TestWanted:
    def test_beside_amx_that_is_used_they_are(self, installed: Path) -> None:
        assert eight_bit.are_wanted(installed, AMX, CHOICE)

    @pytest.mark.parametrize(
        ("hardware", "choice"),
        [
            (attrs.evolve(AMX, amx=False), CHOICE),
            (attrs.evolve(AMX, converts=False), CHOICE),
            (AMX, attrs.evolve(CHOICE, acceleration=Acceleration(amx=False))),
            (AMX, attrs.evolve(CHOICE, acceleration=Acceleration(gpu_layers=9))),
            (AMX, attrs.evolve(CHOICE, tried=(*CHOICE.tried, EIGHT))),
            (AMX, attrs.evolve(CHOICE, tried=(*CHOICE.tried, Tried("cpu-eight-bit", None, "signal 4")))),
        ],
        ids=["no-amx", "no-converter", "amx-withheld", "gpu", "tried", "crashed"],
    )
    def test_elsewhere_and_a_second_time_they_are_not(
        self, installed: Path, hardware: Hardware, choice: AccelerationChoice
    ) -> None:
        assert not eight_bit.are_wanted(installed, hardware, choice)

    def test_of_weights_that_amx_multiplies_as_they_are_and_of_files_elsewhere_they_are_not(
        self, installed: Path, tmp_path: Path
    ) -> None:
        other = model(installed.parent / "..", Q4_1).replace(installed.with_name("other.gguf"))
        assert not eight_bit.are_wanted(other, AMX, CHOICE)
        own = model(tmp_path, Q4_K_M)
        assert not eight_bit.are_wanted(own, AMX, CHOICE)

    def test_where_a_third_of_the_memory_would_not_stay_free_they_are_not(
        self, installed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with installed.open("ab") as file:
            file.truncate(1 << 30)  # 8 bits take .75 of that more
        memory = {"MemTotal:": 6 << 30, "MemAvailable:": (11 << 28) - 1}
        monkeypatch.setattr(demands, "_memory", memory.get)
        assert not eight_bit.are_wanted(installed, AMX, CHOICE)
        memory["MemAvailable:"] += 1
        assert eight_bit.are_wanted(installed, AMX, CHOICE)
        monkeypatch.setattr(demands, "_memory", {}.get)
        assert not eight_bit.are_wanted(installed, AMX, CHOICE), "unknown"


@pytest.mark.parametrize(
    ("outcome", "name"),
    [(1.5, "cpu-eight-bit"), (1.9, "cpu"), (2.5, "cpu"), (None, "cpu")],
    ids=["faster", "hardly-faster", "slower", "crashed"],
)
def test_they_are_used_from_the_next_start_on_where_they_were_faster(
    installed: Path, outcome: float | None, name: str
) -> None:
    question = Question(AMX, None, model="a" * 64, has_eight_bit=True)
    question.remember(CHOICE)
    target = converted.place(installed)
    target.touch()
    asked: list[str] = []

    trials = iter([None, None, Tried("cpu-eight-bit", outcome, "" if outcome else "signal 4"), PLAIN])

    def tried(options: LoadOptions, in_the_way: object) -> Tried | None:
        assert callable(in_the_way)
        asked.append(options.acceleration.name)
        trial = next(trials)
        worker.is_idle = trial is not None
        return trial

    worker = Idle()
    eight_bit.consider(question, CHOICE, LoadOptions(installed, 64), worker, tried)
    assert asked == ["cpu-eight-bit"] * 3 + ["cpu"]
    known = question.recall()
    assert known is not None
    assert known.acceleration.name == name
    assert not eight_bit.are_wanted(installed, AMX, known)
    assert target.exists() == (name == "cpu-eight-bit")
    if name == "cpu-eight-bit":
        gone = attrs.evolve(question, has_eight_bit=False)
        assert gone.recall() is None, "removed: no start waits for a conversion"


def test_a_trial_that_ends_with_nobody_in_the_way_is_not_made_again(installed: Path) -> None:
    """The system ends what takes too much memory."""
    asked: list[str] = []

    def killed(options: LoadOptions, _in_the_way: object) -> None:
        asked.append(options.acceleration.name)

    question = Question(AMX, None, model="a" * 64)
    eight_bit.consider(question, CHOICE, LoadOptions(installed, 64), Idle(), killed)
    assert asked == ["cpu-eight-bit"]


class Idle:
    """Nobody asks anything."""

    is_idle = True

    def wait_until_idle(self, seconds: float) -> None:
        assert seconds > 0


def test_a_trial_that_is_in_the_way_is_ended_and_leaves_nothing(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = installed.with_name("started")
    target = converted.place(installed)
    program = (
        "import os, pathlib, sys, time\n"
        f"pathlib.Path({str(target)!r} + f'.{{os.getpid()}}').touch()\n"
        f"pathlib.Path({str(started)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", program])
    options = LoadOptions(installed, 64, acceleration=Acceleration(eight_bit=True))
    assert acceleration.attempt(options, started.exists) is None
    assert converted.unfinished(installed) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


class Answering:
    """A backend whose runs last until they are told to end."""

    counters = None
    threads = 1

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def begin(self, _request: object) -> Answering:
        return self

    def advance(self) -> object:
        self.go_on.wait()
        raise EngineError("over")

    def interrupt(self, *, after_step: bool = False) -> None: ...

    def resume(self) -> None: ...


@pytest.fixture
def worker() -> Iterator[tuple[Worker, Answering]]:
    answered: list[object] = []
    made, backend = Worker(lambda *message: answered.append(message)), Answering()
    threading.Thread(target=made.serve, args=(backend,), daemon=True).start()
    yield made, backend
    backend.go_on.set()


def test_nobody_is_idle_while_a_request_runs_or_has_just_run(worker: tuple[Worker, Answering]) -> None:
    made, backend = worker
    assert made.is_idle
    made.put(1, 1, request("x"))
    assert not made.is_idle
    waited: list[float] = []

    def wait() -> None:
        made.wait_until_idle(0.2)
        waited.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    assert not waited
    ended = time.monotonic()
    backend.go_on.set()
    thread.join()
    assert waited[0] - ended >= 0.2


@pytest.mark.model
@pytest.mark.long
def test_the_trial_converts_and_decodes_with_the_real_model(
    home_with_model: Path, model_card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's kind is taken for one that AMX multiplies slowly: here 8 bits are faster or not."""
    assert home_with_model.is_dir()
    monkeypatch.setattr(converted, "_SLOW_WITH_AMX", model_card.quantisation)
    program = [sys.executable, "-P", "-m", "lsp_calib.inference.process"]
    place = [f"--model={model_card.path}", "--context=512"]
    monkeypatch.setattr(sys, "orig_argv", [*program, *place])
    question = Question(AMX, None, model=model_card.sha256, has_eight_bit=True)
    eight_bit.consider(question, CHOICE, LoadOptions(model_card.path, 512, threads=1), Idle())
    known = question.recall()
    assert known is not None
    seconds = {one.name: one.seconds for one in known.tried}
    assert seconds["cpu"]
    assert seconds["cpu-eight-bit"]
    faster = seconds["cpu-eight-bit"] < acceleration.FASTER * seconds["cpu"]
    assert known.acceleration.eight_bit == faster
    (entry,) = [one for one in inventory() if one.card.name == model_card.name]
    assert (entry.eight_bit > 1 << 20) == faster
    remove(model_card.name)
    assert [path.name for path in model_card.path.parent.iterdir() if "eight-bit" in path.name] == []
