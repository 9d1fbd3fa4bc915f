"""Labels + raw confidences -> a calibrator; a calibrated probability -> a tier; and how good either is.

methods: fit a curve from raw confidences to probabilities. metrics: how good probabilities are. policies:
from a probability to a tier. validation: folds, intervals, tests. calibrators: fitted curves in files, and
the choice between them. Importing this package is cheap: a name below is imported from its module when it is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC: dict[str, tuple[str, ...]] = {
    "calibrators.calibrator": ("Calibrator",),
    "calibrators.calibrator_store": (
        "CalibratorStore",
        "Choice",
    ),
    "calibrators.curve": (
        "Curve",
        "Shift",
        "Weighted",
    ),
    "calibrators.fitting": ("fit_calibrator",),
    "calibrators.purpose": (
        "Origin",
        "Purpose",
    ),
    "calibrators.recipes": (
        "RECIPES",
        "Recipe",
    ),
    "calibrators.refit": (
        "RefitResult",
        "refit",
    ),
    "calibrators.serialization": (
        "curve_from_json",
        "curve_to_json",
    ),
    "folds": ("grouped_folds",),
    "methods.beta": ("BetaCalibrator",),
    "methods.histogram": ("HistogramCalibrator",),
    "methods.isotonic": ("IsotonicCalibrator",),
    "methods.logistic": ("LogisticCalibrator",),
    "methods.method": (
        "CalibrationMethod",
        "Predictor",
    ),
    "methods.online": (
        "Calibeater",
        "OnlineCalibrator",
        "OnlinePlatt",
    ),
    "methods.platt": (
        "DEFAULT_PRIOR",
        "FLAT_PRIOR",
        "LOOSE_PRIOR",
        "PlattCalibrator",
        "Prior",
    ),
    "methods.temperature": (
        "TemperatureCalibrator",
        "TokenTemperature",
        "fit_token_temperature",
        "log_sum_exp",
        "token_log_probabilities",
    ),
    "metrics.binomial": ("fewest_labels",),
    "metrics.calibration_error": (
        "debiased_calibration_error",
        "ks_calibration_error",
        "maximum_calibration_error",
    ),
    "metrics.correlation": (
        "RankCorrelations",
        "kendall",
        "rank_correlations",
        "spearman",
    ),
    "metrics.reliability": (
        "ReliabilityBin",
        "ReliabilityData",
        "reliability",
        "wilson_interval",
    ),
    "metrics.scores": (
        "auc",
        "brier_score",
        "expected_calibration_error",
        "log_loss",
        "reference_brier",
        "skill_score",
    ),
    "metrics.smooth": ("smooth_ece",),
    "metrics.token_level": (
        "ClasswiseECE",
        "FullECE",
        "TokenBins",
    ),
    "policies.certificates": (
        "Certificate",
        "certify",
        "Prospect",
        "labels_needed",
        "power_table",
        "prospect",
    ),
    "policies.drift": ("Watch",),
    "policies.selective_risk": (
        "RiskCoverage",
        "risk_coverage",
    ),
    "policies.similarity_threshold": (
        "CorrectnessThresholds",
        "rated_correct",
        "threshold_of_correctness",
    ),
    "policies.tiers": (
        "COST_PRESETS",
        "CostPolicy",
        "PRESETS",
        "Policy",
        "RISK_PRESETS",
        "RiskPolicy",
        "TierPolicy",
    ),
    "validation.cross_validation": (
        "FirstT",
        "SelectedMeasure",
        "held_out_predictions",
        "logistic_out_of_fold",
        "out_of_fold",
        "select_first_t",
        "select_measure",
    ),
    "validation.intervals": (
        "Interval",
        "bootstrap_difference",
        "bootstrap_interval",
        "bootstrap_mean",
        "calibrated_band",
        "summarise",
    ),
    "validation.significance": (
        "benjamini_hochberg",
        "paired_t_test",
    ),
    "warnings": (
        "CalibrationWarning",
        "quietly",
    ),
}
_MODULE = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE})
