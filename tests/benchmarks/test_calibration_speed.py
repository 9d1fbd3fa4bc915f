"""How fast the calibration library is beside scikit-learn, where it has the same (`make bench`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, log_odds
from lsp_calib.calibration.scores import auc, brier_score, expected_calibration_error, log_loss

pytestmark = [pytest.mark.long, pytest.mark.alone]

N = 1_000_000
_rng = np.random.default_rng(0)
P = _rng.beta(2, 1, N)
Y = _rng.random(N) < P
X = log_odds(P).reshape(-1, 1)

PAIRS: dict[str, dict[str, Callable[[], Any]]] = {
    "Brier score": {"ours": lambda: brier_score(P, Y), "scikit-learn": lambda: sk.brier_score_loss(Y, P)},
    "log loss": {"ours": lambda: log_loss(P, Y), "scikit-learn": lambda: sk.log_loss(Y, P)},
    "AUC": {"ours": lambda: auc(P, Y), "scikit-learn": lambda: sk.roc_auc_score(Y, P)},
    "ECE": {"ours": lambda: expected_calibration_error(P, Y)},
    "Platt": {
        "ours": lambda: PlattCalibrator.fit(P, Y, prior=LOOSE_PRIOR),
        "scikit-learn": lambda: LogisticRegression(C=np.inf).fit(X, Y),
    },
}
CASES = [(what, who) for what, pair in PAIRS.items() for who in pair]


@pytest.mark.parametrize(("what", "who"), CASES, ids=lambda value: value)
def test_a_million_pairs(benchmark: Any, what: str, who: str) -> None:
    benchmark.group = f"{what}, {N:,} pairs"
    assert benchmark.pedantic(PAIRS[what][who], rounds=3, warmup_rounds=1) is not None


def test_platt_on_a_hundred(benchmark: Any) -> None:
    benchmark.group = "Platt, 100 pairs"
    assert benchmark(lambda: PlattCalibrator.fit(P[:100], Y[:100], prior=LOOSE_PRIOR)).slope > 0
