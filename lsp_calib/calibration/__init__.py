"""Labels + raw confidences -> a calibrator; a calibrated probability -> a tier; and how good either is.

Importing this costs numpy only.
"""

from lsp_calib.calibration.beta import BetaCalibrator
from lsp_calib.calibration.binomial import fewest_labels
from lsp_calib.calibration.calibration_error import (
    debiased_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
)
from lsp_calib.calibration.calibrator import Calibrator, Origin, Purpose
from lsp_calib.calibration.cautions import CalibrationWarning, quietly
from lsp_calib.calibration.certificates import (
    Certificate,
    certify,
    labels_needed,
    power_table,
)
from lsp_calib.calibration.correctness import (
    CorrectnessThresholds,
    rated_correct,
    threshold_of_correctness,
)
from lsp_calib.calibration.correlation import RankCorrelations, kendall, rank_correlations, spearman
from lsp_calib.calibration.curves import Curve, curve_from_json, curve_to_json
from lsp_calib.calibration.drift import Watch
from lsp_calib.calibration.fitting import fit_calibrator
from lsp_calib.calibration.folds import (
    FirstT,
    SelectedMeasure,
    grouped_folds,
    out_of_fold,
    select_first_t,
    select_measure,
)
from lsp_calib.calibration.histogram import HistogramCalibrator
from lsp_calib.calibration.intervals import (
    Interval,
    bootstrap_difference,
    bootstrap_interval,
    calibrated_band,
    summarise,
)
from lsp_calib.calibration.isotonic import IsotonicCalibrator
from lsp_calib.calibration.metrics import (
    auc,
    brier_score,
    expected_calibration_error,
    log_loss,
    reference_brier,
    skill_score,
)
from lsp_calib.calibration.multiple import MultipleCalibrator, multiple_out_of_fold
from lsp_calib.calibration.platt import (
    DEFAULT_PRIOR,
    FLAT_PRIOR,
    LOOSE_PRIOR,
    PlattCalibrator,
    Predictor,
    Prior,
)
from lsp_calib.calibration.refit import RefitResult, refit
from lsp_calib.calibration.reliability import (
    ReliabilityBin,
    ReliabilityData,
    reliability,
    wilson_interval,
)
from lsp_calib.calibration.selective import RiskCoverage, risk_coverage
from lsp_calib.calibration.sequential import Calibeater, OnlinePlatt, SequentialCalibrator
from lsp_calib.calibration.shelf import Choice, Shelf
from lsp_calib.calibration.significance import benjamini_hochberg, paired_t_test
from lsp_calib.calibration.smooth import smooth_ece
from lsp_calib.calibration.temperature import (
    TemperatureCalibrator,
    TokenTemperature,
    fit_token_temperature,
    log_sum_exp,
    token_log_probabilities,
)
from lsp_calib.calibration.tiers import (
    COST_PRESETS,
    PRESETS,
    RISK_PRESETS,
    CostPolicy,
    Policy,
    RiskPolicy,
    TierPolicy,
)
from lsp_calib.calibration.token_level import ClasswiseECE, FullECE, TokenBins

__all__ = [
    "COST_PRESETS",
    "DEFAULT_PRIOR",
    "FLAT_PRIOR",
    "LOOSE_PRIOR",
    "PRESETS",
    "RISK_PRESETS",
    "BetaCalibrator",
    "Calibeater",
    "CalibrationWarning",
    "Calibrator",
    "Certificate",
    "Choice",
    "ClasswiseECE",
    "CorrectnessThresholds",
    "CostPolicy",
    "Curve",
    "FirstT",
    "FullECE",
    "HistogramCalibrator",
    "Interval",
    "IsotonicCalibrator",
    "MultipleCalibrator",
    "OnlinePlatt",
    "Origin",
    "PlattCalibrator",
    "Policy",
    "Predictor",
    "Prior",
    "Purpose",
    "RankCorrelations",
    "RefitResult",
    "ReliabilityBin",
    "ReliabilityData",
    "RiskCoverage",
    "RiskPolicy",
    "SelectedMeasure",
    "SequentialCalibrator",
    "Shelf",
    "TemperatureCalibrator",
    "TierPolicy",
    "TokenBins",
    "TokenTemperature",
    "Watch",
    "auc",
    "benjamini_hochberg",
    "bootstrap_difference",
    "bootstrap_interval",
    "brier_score",
    "calibrated_band",
    "certify",
    "curve_from_json",
    "curve_to_json",
    "debiased_calibration_error",
    "expected_calibration_error",
    "fewest_labels",
    "fit_calibrator",
    "fit_token_temperature",
    "grouped_folds",
    "kendall",
    "ks_calibration_error",
    "labels_needed",
    "log_loss",
    "log_sum_exp",
    "maximum_calibration_error",
    "multiple_out_of_fold",
    "out_of_fold",
    "paired_t_test",
    "power_table",
    "quietly",
    "rank_correlations",
    "rated_correct",
    "reference_brier",
    "refit",
    "reliability",
    "risk_coverage",
    "select_first_t",
    "select_measure",
    "skill_score",
    "smooth_ece",
    "spearman",
    "summarise",
    "threshold_of_correctness",
    "token_log_probabilities",
    "wilson_interval",
]
