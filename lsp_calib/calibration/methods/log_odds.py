"""Log-odds of raw confidences, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, probabilities

# Raw confidences count as no nearer than this to 0 and 1 (log-odds within 13.8). Log-probabilities from
# float32 logits are good to some 2e-7, so beyond 1e-6 the digits of 1 - p are noise, and a noisy log-odds of
# 36 would steer a fit by itself.
CLIP = 1e-6


def log_odds(raw: npt.ArrayLike) -> FloatArray:
    """log(p / (1 - p)) in nats, within +-13.8 (see CLIP), in the shape of `raw`.

    Raises DataError on NaN or values outside [0, 1].
    """
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p / (1.0 - p)))


def sigmoid(z: npt.ArrayLike) -> FloatArray:
    """1 / (1 + exp(-z)), accurate in both tails and without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(z, dtype=np.float64))))
