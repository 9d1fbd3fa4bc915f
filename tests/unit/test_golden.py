"""Agreement with netcal and torchmetrics, by numbers that tests/golden/make_golden.py made once."""

import json
from pathlib import Path

import numpy as np
import pytest

from lsp_calib.calibration.scores import auc, expected_calibration_error

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))
OURS = {
    "netcal ECE": expected_calibration_error,
    "netcal ECE, equal mass": lambda p, y, bins: expected_calibration_error(p, y, bins, "mass"),
    "torchmetrics l1": expected_calibration_error,
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
