"""The projection of a state is the same everywhere, and keeps distances approximately."""

from __future__ import annotations

import numpy as np
import pytest

from lsp_calib.errors import DataError
from lsp_calib.evaluation.records import COORDINATES, project


def coordinates(state: np.ndarray) -> np.ndarray:
    projected = project(state.tolist())
    return projected.scale * np.array(projected.values)


def test_records_of_all_machines_and_versions_have_the_same_projection() -> None:
    """A change of these numbers makes the states in records useless."""
    unit = np.zeros(576)
    unit[7] = 8.0
    projected = project(unit.tolist())
    assert projected.scale == pytest.approx(1 / 127)
    assert set(projected.values) == {-127, 127}
    signs = "".join("+" if value > 0 else "-" for value in projected.values)
    assert signs == "--++++----++--+++--++++--+-++--+++-+-+++----+--++-+-++++--++++--"


def test_distances_are_kept_approximately() -> None:
    random = np.random.default_rng(0)
    states = random.normal(0, 2, (40, 1536)) * random.gamma(1, size=1536)
    ratios = [
        np.linalg.norm(coordinates(one) - coordinates(other)) / np.linalg.norm(one - other)
        for one, other in zip(states[::2], states[1::2], strict=True)
    ]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)
    assert np.std(ratios) < 2.0 / np.sqrt(2 * COORDINATES)


def test_eight_bits_are_near_enough() -> None:
    state = np.random.default_rng(1).normal(0, 1, 576)
    exact = coordinates(state * 1e6) / 1e6
    assert coordinates(state) == pytest.approx(exact, abs=1e-9), "only the scale knows the size"
    assert project([0.0, 0.0]).values == (0,) * COORDINATES


@pytest.mark.parametrize("wrong", [[], [1.0, float("nan")], [float("inf")]])
def test_what_is_no_state_is_refused(wrong: list[float]) -> None:
    with pytest.raises(DataError, match="finite"):
        project(wrong)
