"""Sequential updating follows a truth that moves; without forgetting it does not."""

import numpy as np
import pytest

from lsp_calib.calibration.calibrators.promotion import OnlinePlatt
from lsp_calib.calibration.logistic import log_odds, sigmoid

pytestmark = pytest.mark.long

LABELS = 1500


def excess(memory: float, *, drift: bool, seeds: int = 12) -> float:
    """Mean excess log-loss over the last 500 of 1,500 labels.

    With drift the intercept goes from 0 to -3 between the 500th and the 1,000th label.
    """
    losses = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        raw = rng.beta(5, 1.2, LABELS)
        shift = -3.0 * np.clip((np.arange(LABELS) - 500) / 500, 0.0, 1.0) if drift else np.zeros(LABELS)
        truth = sigmoid(log_odds(raw) + shift)
        correct = rng.random(LABELS) < truth
        state = OnlinePlatt.start(memory=memory)
        for i in range(LABELS):
            if i >= LABELS - 500:
                answer, p = float(state.predict(raw[i])), truth[i]
                losses.append(p * np.log(p / answer) + (1 - p) * np.log((1 - p) / (1 - answer)))
            state = state.update(float(raw[i]), bool(correct[i]))
    return float(np.mean(losses))


def test_it_tracks_a_drift() -> None:
    following = excess(100, drift=True)
    remembering = excess(1e9, drift=True)
    assert remembering > 0.15, "the drift must matter for this to say anything"
    assert following < 0.02
    assert following < remembering / 8


def test_forgetting_costs_little_where_nothing_moves() -> None:
    following = excess(100, drift=False)
    remembering = excess(1e9, drift=False)
    assert remembering < following
    assert following < 0.008
