"""Agreement with netcal, torchmetrics and betacal, by numbers that tests/golden/make_golden.py made once."""

import json
from pathlib import Path

import numpy as np
import pytest

from lsp_calib.calibration import (
    auc,
    debiased_calibration_error,
    expected_calibration_error,
    kendall,
    maximum_calibration_error,
    spearman,
)
from lsp_calib.calibration.methods.beta import BetaCalibrator

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))
OURS = {
    "netcal ECE": expected_calibration_error,
    "netcal ECE, equal mass": lambda p, y, bins: expected_calibration_error(p, y, bins, "mass"),
    "netcal MCE": maximum_calibration_error,
    "torchmetrics l1": expected_calibration_error,
    "torchmetrics max": maximum_calibration_error,
    "torchmetrics l2, debiased": lambda p, y, bins: debiased_calibration_error(p, y, bins, "width"),
    "torchmetrics AUROC": lambda p, y, _: auc(p, y),
    "torchmetrics Spearman": lambda p, y, _: spearman(p, y),
    "torchmetrics Kendall": lambda p, y, _: kendall(p, y),
}
# torchmetrics has ranks in single precision.
SINGLE = {"torchmetrics AUROC", "torchmetrics Spearman", "torchmetrics Kendall"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore::lsp_calib.calibration.CalibrationWarning")
def test_metrics(name):
    cases = [case for case in GOLDEN["cases"].values() if name in case["values"]]
    assert len(cases) >= 2
    for case in cases:
        ours = OURS[name](case["confidence"], np.array(case["correct"], dtype=bool), GOLDEN["bins"])
        assert ours == pytest.approx(case["values"][name], abs=2e-7 if name in SINGLE else 1e-9)


def test_beta_calibration():
    cases = [case for case in GOLDEN["cases"].values() if "beta" in case]
    assert len(cases) >= 4
    for case in cases:
        fitted = BetaCalibrator.fit(case["confidence"], np.array(case["correct"], dtype=bool))
        np.testing.assert_allclose(fitted.predict(case["beta"]["raw"]), case["beta"]["predicted"], atol=1e-3)
