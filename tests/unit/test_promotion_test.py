"""The evidence against a calibrator: what it counts, how seldom it errs, how soon it sees who differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.calibrators.calibrator import Shift
from lsp_calib.calibration.calibrators.promotion import ENOUGH, ERROR, LabelWeights, odds_against
from lsp_calib.calibration.logistic import log_odds, sigmoid

NOISE = 0.02


def user(n: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences as a small model has them, many near 0, and outcomes whose log-odds lie `shift` off."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 1.4, n)
    right = rng.random(n) < sigmoid(log_odds(p) + shift)
    return p, right ^ (rng.random(n) < NOISE)


def odds(p: np.ndarray, right: np.ndarray, **of: object) -> float:
    nowhere_else = Shift(slope_sd=0.25, intercept_sd=0.5)
    return odds_against(p, right, LabelWeights.of(p.size, **of), noise=NOISE, expected=nowhere_else)


def seldom(found: list[float]) -> bool:
    """Whether there is evidence enough against at most ERROR of the calibrators, but for chance."""
    wrong = np.mean(np.array(found) >= ENOUGH)
    return bool(wrong <= ERROR + 2.0 * np.sqrt(ERROR * (1.0 - ERROR) / len(found)))


@pytest.mark.parametrize("users", [60, pytest.param(400, marks=pytest.mark.long)])
def test_a_calibrator_that_is_right_is_seldom_replaced_however_often_one_looks(users: int) -> None:
    """Each looked at after every label of 300."""
    assert seldom([odds(*user(300, 0.0, seed)) for seed in range(users)])


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_a_user_who_differs_is_seen(shift: float) -> None:
    seen = {n: np.mean([odds(*user(n, shift, seed)) >= ENOUGH for seed in range(100)]) for n in (30, 150)}
    assert seen[150] > 0.8
    assert seen[30] < seen[150]


LABELS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=40)


def apart(labels: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p for p, _ in labels], dtype=float), np.array([right for _, right in labels], dtype=bool)


@given(LABELS)
def test_evidence_once_seen_stays_and_begins_at_one(labels: list[tuple[float, bool]]) -> None:
    found = [odds(*apart(labels[:n])) for n in range(len(labels) + 1)]
    assert found[0] == 1.0
    assert np.isfinite(found).all()
    assert found == sorted(found)


@given(st.lists(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=4), max_size=20))
def test_a_visit_counts_once_by_its_first_label(visits: list[list[tuple[float, bool]]]) -> None:
    every = [label for visit in visits for label in visit]
    of = [at for at, visit in enumerate(visits) for _ in visit]
    assert odds(*apart(every), episodes=of) == odds(*apart([visit[0] for visit in visits]))


@pytest.mark.parametrize("types_on", [0.3, 0.7])
def test_a_visit_that_ends_with_a_right_suggestion_is_no_evidence(types_on: float) -> None:
    """Users who type on after a wrong suggestion get another one: the last of a visit is right more often."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, right, visits = [], [], []
        for visit in range(150):
            while True:
                p.append(rng.beta(0.5, 1.4))
                right.append(rng.random() < p[-1])
                visits.append(visit)
                if right[-1] or rng.random() > types_on:
                    break
        found.append(odds(np.array(p), np.array(right), episodes=visits))
    assert seldom(found)


def test_lines_that_come_back_with_the_same_outcome_are_no_evidence() -> None:
    found, five = [], np.repeat(np.arange(150), 5)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.5, 1.4, 150)
        right = rng.random(150) < p
        found.append(odds(p[five], right[five], lines=five))
    assert seldom(found)
