"""Sequential updating follows a truth that moves; without forgetting it does not."""

import numpy as np
import pytest

from lsp_calib.calibration import Calibeater, OnlineCalibrator, OnlinePlatt
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid

pytestmark = pytest.mark.long

LABELS = 1500


def excess(memory: float, *, drift: bool, seeds: int = 12) -> tuple[float, float]:
    """Mean excess log-loss over the last 500 of 1,500 labels: of the curve, and with calibeating on top.

    With drift the intercept goes from 0 to -3 between the 500th and the 1,000th label.
    """
    losses = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        raw = rng.beta(5, 1.2, LABELS)
        shift = -3.0 * np.clip((np.arange(LABELS) - 500) / 500, 0.0, 1.0) if drift else np.zeros(LABELS)
        truth = sigmoid(log_odds(raw) + shift)
        correct = rng.random(LABELS) < truth
        state = OnlineCalibrator(OnlinePlatt.start(memory=memory), Calibeater.start())
        for i in range(LABELS):
            if i >= LABELS - 500:
                answers = np.array([float(f(raw[i])) for f in (state.platt.predict, state.predict)])
                p = truth[i]
                losses.append(p * np.log(p / answers) + (1 - p) * np.log((1 - p) / (1 - answers)))
            state = state.update(float(raw[i]), bool(correct[i]))
    curve, beaten = np.mean(losses, axis=0)
    return float(curve), float(beaten)


def test_it_tracks_a_drift() -> None:
    following, beaten = excess(100, drift=True)
    remembering, _ = excess(1e9, drift=True)
    assert remembering > 0.15, "the drift must matter for this to say anything"
    assert following < 0.02
    assert following < remembering / 8
    assert beaten < following + 0.005, "calibeating must not undo it"


def test_forgetting_costs_little_where_nothing_moves() -> None:
    following, beaten = excess(100, drift=False)
    remembering, _ = excess(1e9, drift=False)
    assert remembering < following
    assert following < 0.008
    assert beaten < following + 0.005
