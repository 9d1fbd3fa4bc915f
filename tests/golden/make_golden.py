"""Write golden.json: what netcal, torchmetrics and betacal say about the inputs below.

These packages pull gigabytes, so they are no dependency; the numbers were made once, in an environment of
their own, and are compared by tests/unit/test_calibration_metrics.py:

    python -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.13.0 netcal==1.4.0 torchmetrics==1.9.0 betacal==1.1.0
    /tmp/golden/bin/python tests/golden/make_golden.py

Confidences are chosen so that the definitions coincide: none lies on an edge of the bins (netcal and
torchmetrics take those of linspace, where 0.3 is below the third one) except 0 and 1, and 1 is not together
with others of the last bin (torchmetrics gives it a bin of its own). The debiased error is compared where
each bin holds one value, twice or more: ours takes the noise of confidence - correct, and an item alone as
nothing.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from betacal import BetaCalibration
from netcal.metrics import ECE, MCE
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_calibration_error,
)
from torchmetrics.functional.classification.calibration_error import _ce_compute
from torchmetrics.functional.regression import kendall_rank_corrcoef, spearman_corrcoef

FILE = Path(__file__).with_name("golden.json")
BINS = 10


def inputs() -> dict[str, tuple[list[float], list[int]]]:
    rng = np.random.default_rng(20261120)

    def labels(p: np.ndarray) -> list[int]:
        return [int(y) for y in rng.random(p.size) < p]

    random = {
        "uniform": rng.random(100),
        "confident": rng.beta(4, 1, 100),
        "extreme": rng.beta(0.2, 0.2, 100).clip(0.0001, 0.9999),
    }
    cases = {}
    for name, values in random.items():
        p = np.round(values, 4)
        p = np.where(np.isclose((p * BINS) % 1.0, 0.0), p + 0.0001, p).round(4)
        cases[name] = (p.tolist(), labels(p))
        cases[f"{name}, overconfident"] = (p.tolist(), labels(p**3))
    constant = np.repeat([0.15, 0.35, 0.75, 0.95], 25)
    cases["one value a bin"] = (constant.tolist(), labels(constant))
    cases["one value a bin, diffident"] = (constant.tolist(), labels(np.sqrt(constant)))
    cases["one bin"] = ([0.55] * 10, [1, 1, 1, 0, 1, 1, 0, 1, 1, 1])
    cases["all right"] = ([0.25, 0.45, 0.65, 0.85], [1, 1, 1, 1])
    cases["all wrong"] = ([0.25, 0.45, 0.65, 0.85], [0, 0, 0, 0])
    cases["sure"] = ([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 1, 1, 0, 1])
    cases["one item"] = ([0.25], [1])
    return cases


def measured(confidence: list[float], correct: list[int]) -> dict[str, float]:
    p, y = np.array(confidence), np.array(correct)
    tp, ty = torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct)
    values = {
        "netcal ECE": ECE(BINS).measure(p, y),
        "netcal MCE": MCE(BINS).measure(p, y),
        "torchmetrics l1": binary_calibration_error(tp, ty, n_bins=BINS, norm="l1"),
        "torchmetrics max": binary_calibration_error(tp, ty, n_bins=BINS, norm="max"),
    }
    if np.unique(p).size == p.size and p.size % BINS == 0:
        values["netcal ECE, equal mass"] = ECE(BINS, equal_intervals=False).measure(p, y)
    _, count = np.unique((p * BINS).astype(int), return_counts=True)
    if count.size == np.unique(p).size and count.min() > 1:
        values["torchmetrics l2, debiased"] = _ce_compute(tp, ty, BINS, norm="l2", debias=True)
    if 0 < y.sum() < y.size:
        values["torchmetrics AUROC"] = binary_auroc(tp, ty)
        if np.ptp(p) > 0.0:
            values["torchmetrics Spearman"] = spearman_corrcoef(tp, ty.to(torch.float64))
            values["torchmetrics Kendall"] = kendall_rank_corrcoef(tp, ty.to(torch.float64), variant="b")
    return {name: float(value) for name, value in values.items()}


def beta(confidence: list[float], correct: list[int]) -> dict[str, list[float]]:
    """Beta calibration by maximum likelihood with all three parameters, on a grid."""
    grid = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]
    fitted = BetaCalibration(parameters="abm").fit(np.array(confidence).reshape(-1, 1), np.array(correct))
    return {"raw": grid, "predicted": fitted.predict(np.array(grid).reshape(-1, 1)).tolist()}


def main() -> None:
    cases = {}
    for name, (confidence, correct) in inputs().items():
        cases[name] = {
            "confidence": confidence,
            "correct": correct,
            "values": measured(confidence, correct),
        }
        if len(confidence) == 100 and not name.startswith("one"):
            cases[name]["beta"] = beta(confidence, correct)
    packages = ("netcal", "torchmetrics", "betacal", "torch", "scikit-learn", "numpy")
    document = {"packages": {name: version(name) for name in packages}, "bins": BINS, "cases": cases}
    # One line a case, so that a change can be read.
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    head = json.dumps({key: value for key, value in document.items() if key != "cases"}, indent=1)[:-2]
    FILE.write_text(head + ',\n "cases": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
