"""Agreement with netcal, torchmetrics and betacal, by numbers that tests/golden/make_golden.py made once."""

import json
from pathlib import Path

import numpy as np
import pytest

from lsp_calib.calibration.scores import auc, expected_calibration_error
from lsp_calib.studies.calibration_errors import debiased_calibration_error
from lsp_calib.studies.other_curves import BetaCalibrator

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))
OURS = {
    "netcal ECE": expected_calibration_error,
    "netcal ECE, equal mass": lambda p, y, bins: expected_calibration_error(p, y, bins, "mass"),
    "torchmetrics l1": expected_calibration_error,
    "torchmetrics l2, debiased": lambda p, y, bins: debiased_calibration_error(p, y, bins, "width"),
    "torchmetrics AUROC": lambda p, y, _: auc(p, y),
}
# torchmetrics has ranks in single precision.
SINGLE = {"torchmetrics AUROC"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore::lsp_calib.calibration.arrays.CalibrationWarning")
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
