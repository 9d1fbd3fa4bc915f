"""Labels + raw confidences -> a calibrator; a calibrated probability -> a tier; and how good either is.

Importing this costs numpy only.
"""

from lsp_calib.calibration.calibrator import Calibrator, Origin, Purpose
from lsp_calib.calibration.fitting import fit_calibrator
from lsp_calib.calibration.folds import FirstT, grouped_folds, out_of_fold, select_first_t
from lsp_calib.calibration.intervals import Interval, bootstrap_interval, calibrated_band, summarise
from lsp_calib.calibration.metrics import (
    auc,
    brier_score,
    expected_calibration_error,
    log_loss,
    reference_brier,
    skill_score,
)
from lsp_calib.calibration.platt import DEFAULT_PRIOR, PlattCalibrator, Prior
from lsp_calib.calibration.refit import RefitResult, refit
from lsp_calib.calibration.shelf import Choice, Shelf
from lsp_calib.calibration.tiers import PRESETS, TierPolicy

__all__ = [
    "DEFAULT_PRIOR",
    "PRESETS",
    "Calibrator",
    "Choice",
    "FirstT",
    "Interval",
    "Origin",
    "PlattCalibrator",
    "Prior",
    "Purpose",
    "RefitResult",
    "Shelf",
    "TierPolicy",
    "auc",
    "bootstrap_interval",
    "brier_score",
    "calibrated_band",
    "expected_calibration_error",
    "fit_calibrator",
    "grouped_folds",
    "log_loss",
    "out_of_fold",
    "reference_brier",
    "refit",
    "select_first_t",
    "skill_score",
    "summarise",
]
