"""The fastest acceleration that works is taken, and remembered for this library and this processor."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.backend import Acceleration, Hardware, LoadOptions
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.process import acceleration
from lsp_calib.inference.process.acceleration import (
    AccelerationChoice,
    Question,
    Tried,
    fastest_that_works,
)

PLAIN, AMX = Hardware("build"), Hardware("build", amx=True)
CONVERTS = Hardware("build", converts=True)
GPU = Hardware("build", gpu=True)
NAMES = ("gpu", "cpu", "cpu-without-amx", "cpu-without-repacking")


class Machine:
    """What each acceleration does here: seconds, a death, or None where its trial shows nothing."""

    def __init__(self, **outcomes: float | str | None) -> None:
        self.outcomes = {name.replace("_", "-"): outcome for name, outcome in outcomes.items()}
        self.tried: list[str] = []

    def attempt(self, candidate: Acceleration) -> Tried | None:
        self.tried.append(candidate.name)
        outcome = self.outcomes[candidate.name]
        if outcome is None:
            return None
        name = candidate.name
        return Tried(name, None, outcome) if isinstance(outcome, str) else Tried(name, outcome)


def acceleration_remembered(hardware: Hardware, choice: AccelerationChoice) -> list[AccelerationChoice]:
    """What `doctor` reads after the choice was kept."""
    Question(hardware, None, slow_weights=True, model="1" * 64).remember(choice)
    return acceleration.remembered(acceleration.machine(hardware))


class TestChoice:
    @pytest.mark.parametrize(
        ("hardware", "slow", "name"),
        [
            (CONVERTS, True, "cpu-eight-bit"),
            (CONVERTS, False, "cpu"),
            (PLAIN, True, "cpu"),
            (attrs.evolve(AMX, converts=True), True, "cpu"),
        ],
    )
    def test_slow_weights_are_converted_where_that_helps(
        self, hardware: Hardware, slow: bool, name: str
    ) -> None:
        assert Question(hardware, 0, slow).candidates[0].name == name

    @pytest.mark.usefixtures("home")
    def test_converted_weights_that_crash_are_not_used_again(self) -> None:
        machine = Machine(cpu_eight_bit="signal 4", cpu=1.0)
        choice = fastest_that_works(Question(CONVERTS, 0, slow_weights=True), machine.attempt, careful=True)
        assert choice.acceleration == Acceleration()
        assert acceleration.failure(choice) == (
            "The model runs without weights of 8 bits: llama.cpp crashed with weights of 8 bits (signal 4)."
        )
        worse = Machine(cpu_eight_bit="signal 4", cpu="signal 4", cpu_without_repacking=1.0)
        last = fastest_that_works(Question(CONVERTS, 0, slow_weights=True), worse.attempt, careful=True)
        assert acceleration.failure(last) == (
            "The model runs without repacked weights: llama.cpp crashed with repacked weights (signal 4)."
        )
        question = Question(CONVERTS, 0, slow_weights=True, model="0" * 64)
        question.remember(choice)
        assert question.recall() == choice

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize(("on_gpu", "name"), [(0.2, "gpu"), (3.0, "cpu-eight-bit")])
    def test_a_gpu_is_compared_with_converted_weights(self, on_gpu: float, name: str) -> None:
        machine = Machine(gpu=on_gpu, cpu_eight_bit=1.0, cpu=2.0)
        hardware = attrs.evolve(GPU, converts=True)
        choice = fastest_that_works(Question(hardware, None, slow_weights=True), machine.attempt)
        assert choice.acceleration.name == name
        assert choice in acceleration_remembered(hardware, choice)

    def test_amx_that_crashes_is_withheld(self) -> None:
        machine = Machine(cpu="signal 11", cpu_without_amx=1.0)
        choice = fastest_that_works(Question(AMX, None), machine.attempt)
        assert choice.acceleration == Acceleration(amx=False)
        assert acceleration.failure(choice) == (
            "The model runs without AMX: llama.cpp crashed with AMX (signal 11)."
        )

    @pytest.mark.parametrize(("with_amx", "name"), [(0.5, "cpu"), (1.0, "cpu"), (1.2, "cpu-without-amx")])
    def test_amx_that_works_is_used_if_it_is_not_slower(self, with_amx: float, name: str) -> None:
        machine = Machine(cpu=with_amx, cpu_without_amx=1.0)
        assert fastest_that_works(Question(AMX, None), machine.attempt).acceleration.name == name
        assert machine.tried == ["cpu", "cpu-without-amx"]

    def test_what_crashed_although_it_was_tried_is_not_used_again(self) -> None:
        machine = Machine(cpu=1.0, cpu_without_repacking=2.0)
        choice = fastest_that_works(Question(PLAIN, None), machine.attempt, careful=True, avoid=("cpu",))
        assert choice.acceleration.name == "cpu-without-repacking"
        assert machine.tried == ["cpu-without-repacking"]
        assert choice.failed[0].name == "cpu"

    def test_a_trial_that_was_ended_from_outside_demotes_nothing(self) -> None:
        machine = Machine(cpu=None)
        assert fastest_that_works(Question(AMX, None), machine.attempt) == AccelerationChoice(Acceleration())

    def test_where_nothing_works_it_says_what_to_do(self) -> None:
        machine = Machine(cpu="signal 11", cpu_without_repacking="signal 11")
        with pytest.raises(ModelFileError, match=r"signal 11.*prebuilt.*remote\.url.*doctor"):
            fastest_that_works(Question(PLAIN, None), machine.attempt, careful=True)

    @given(
        amx=st.booleans(),
        gpu=st.booleans(),
        layers=st.sampled_from([None, 0, 7]),
        outcomes=st.fixed_dictionaries(
            {name: st.one_of(st.just("signal 11"), st.floats(0.01, 10)) for name in NAMES}
        ),
        careful=st.booleans(),
    )
    def test_what_is_chosen_works(
        self, amx: bool, gpu: bool, layers: int | None, outcomes: dict[str, float | str], careful: bool
    ) -> None:
        hardware = Hardware("build", amx=amx, gpu=gpu)
        machine = Machine()
        machine.outcomes = dict(outcomes)
        try:
            choice = fastest_that_works(Question(hardware, layers), machine.attempt, careful=careful)
        except ModelFileError:
            assert all(isinstance(outcomes[one.name], str) for one in Question(hardware, layers).candidates)
            return
        assert choice.acceleration in Question(hardware, layers).candidates
        if machine.tried:
            seconds = outcomes[choice.acceleration.name]
            assert isinstance(seconds, float)
            worked = [one for name in machine.tried if isinstance(one := outcomes[name], float)]
            assert 0.9 * seconds <= min(worked)

    @pytest.mark.parametrize(("hardware", "layers"), [(PLAIN, None), (PLAIN, 0), (GPU, 0), (GPU, 12)])
    def test_nothing_is_tried_where_nothing_is_in_doubt(self, hardware: Hardware, layers: int | None) -> None:
        machine = Machine()
        choice = fastest_that_works(Question(hardware, layers), machine.attempt)
        assert choice == AccelerationChoice(Acceleration(gpu_layers=layers or 0))
        assert machine.tried == []


@pytest.mark.usefixtures("home")
class TestMemory:
    CHOICE = AccelerationChoice(
        Acceleration(amx=False),
        (Tried("cpu", None, "signal 11"), Tried("cpu-without-amx", 1.5)),
    )
    QUESTION = Question(AMX, None, model="a" * 64)

    def test_what_was_found_out_is_remembered(self) -> None:
        assert self.QUESTION.recall() is None
        self.QUESTION.remember(self.CHOICE)
        assert self.QUESTION.recall() == self.CHOICE
        assert acceleration.remembered(acceleration.machine(AMX)) == [self.CHOICE]

    @pytest.mark.parametrize(
        "other",
        [
            {"hardware": Hardware("another build", amx=True)},
            {"model": "b" * 64},
            {"gpu_layers": 0},
        ],
        ids=["build", "model", "gpu"],
    )
    def test_it_holds_for_nothing_else(self, other: dict[str, object]) -> None:
        self.QUESTION.remember(self.CHOICE)
        assert attrs.evolve(self.QUESTION, **other).recall() is None  # type: ignore[arg-type]

    def test_without_a_trial_there_is_nothing_to_remember(self) -> None:
        self.QUESTION.remember(AccelerationChoice(Acceleration()))
        assert self.QUESTION.recall() is None

    @pytest.mark.parametrize(
        "entry",
        [
            7,
            {"chosen": "magic"},
            {"chosen": "cpu", "tried": [[1], "x", ["cpu", "a", 2]]},
        ],
        ids=str,
    )
    def test_a_damaged_memory_is_no_memory(self, home: Path, entry: object) -> None:
        assert home.is_dir()
        sidecar.update(acceleration.MEMORY, acceleration.machine(AMX), {"aaaaaaaaaaaaaaaa gpu=auto": entry})
        known = self.QUESTION.recall()
        assert known is None or known.acceleration == Acceleration()
        acceleration.remembered(acceleration.machine(AMX))


@pytest.mark.parametrize(
    ("program", "seconds", "how"),
    [
        ("import time; time.sleep(600)", 1.0, "no answer in 1 s"),
        ("print('no JSON')", 60.0, "no figures"),
        ("import os; os._exit(9)", 60.0, "exit code 9"),
    ],
)
def test_a_trial_without_figures_says_why(
    program: str, seconds: float, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    monkeypatch.setattr(acceleration, "_SECONDS", seconds)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", program])
    assert acceleration.attempt(LoadOptions(model, 64)) == Tried("cpu", None, how)


def test_a_trial_tells_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", "print('{\"seconds\": 1.5}')"])
    assert acceleration.attempt(LoadOptions(model, 64)) == Tried("cpu", 1.5)
