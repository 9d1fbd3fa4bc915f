"""The judge goes by the calibrator in force now, whoever put it there."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from test_calibration_calibrator import make

from lsp_calib.calibration import Calibrator, CalibratorStore, PlattCalibrator
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.values import CalibratorRef

PURPOSE = make().purpose
RUST = attrs.evolve(PURPOSE, language="rust")


def personal(intercept: float, language: str = "python") -> Calibrator:
    purpose = attrs.evolve(PURPOSE, language=language)
    made: Calibrator = make(
        purpose=purpose, platt=PlattCalibrator(0.9, intercept), source="personal", state="learning"
    )
    return made


@pytest.fixture
def shelf(tmp_path: Path) -> CalibratorStore:
    shelf = CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")
    make().save(shelf.shipped / "shipped.json")
    shelf.personal.mkdir(parents=True)
    return shelf


class Watching:
    def __init__(self, shelf: CalibratorStore) -> None:
        self.changes: list[CalibratorRef] = []
        self.judge = ConfidenceEstimator(shelf, on_change=self.changes.append)

    def intercept(self) -> float:
        return self.judge.calibrator(PURPOSE).platt.intercept


def test_another_process_promotes_and_rolls_back(shelf: CalibratorStore) -> None:
    watching = Watching(shelf)
    shipped = watching.intercept()
    assert watching.changes == []
    other = CalibratorStore(shelf.personal, shelf.shipped)
    mine = personal(-3.0)
    other.promote(mine)
    assert watching.intercept() == -3.0
    assert watching.changes == [mine.ref]
    other.rollback(PURPOSE)
    assert watching.intercept() == shipped
    assert watching.changes[1:] == [make().ref]


def test_two_promotions_in_one_moment_are_told_apart(shelf: CalibratorStore) -> None:
    """The time of a folder is not exact enough to tell them apart by."""
    watching = Watching(shelf)
    moment = 1_790_000_000_000_000_000
    for number in range(20):
        slot = shelf.promote(personal(-number))
        for path in (slot, shelf.personal):
            os.utime(path, ns=(moment, moment))
        assert watching.intercept() == -number


def test_what_was_chosen_is_looked_after_without_a_judgement(shelf: CalibratorStore) -> None:
    watching = Watching(shelf)
    watching.judge.notice()
    watching.judge.calibrator(PURPOSE)
    watching.judge.calibrator(RUST)
    new = personal(-2.0, "rust")
    shelf.promote(new)
    watching.judge.notice()
    watching.judge.notice()
    assert watching.changes == [new.ref]


def test_nothing_is_read_again_as_long_as_nothing_changes(
    shelf: CalibratorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching(shelf)
    watching.intercept()

    def refuse(_path: Path) -> Calibrator:
        raise AssertionError("read again")

    monkeypatch.setattr(Calibrator, "load", refuse)
    for _ in range(3):
        watching.intercept()
        watching.judge.notice()
