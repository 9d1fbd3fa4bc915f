"""The calibrators that `excess_loss` compares: each from labels to a curve, none knows the truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, log_odds
from lsp_calib.studies.other_curves import BetaCalibrator, IsotonicCalibrator, TemperatureCalibrator

Curve = Callable[[FloatArray], FloatArray]
Method = Callable[[FloatArray, BoolArray], Curve]


def _raw(_: FloatArray, __: BoolArray) -> Curve:
    return lambda raw: raw


def _ours(raw: FloatArray, correct: BoolArray) -> Curve:
    return PlattCalibrator.fit(raw, correct).predict


def _loose(raw: FloatArray, correct: BoolArray) -> Curve:
    return PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR).predict


def _sigmoid(over: Callable[[FloatArray], FloatArray]) -> Method:
    """Platt's targets, no prior: scikit-learn's own code, given what CalibratedClassifierCV would hand it."""

    def method(raw: FloatArray, correct: BoolArray) -> Curve:
        from sklearn.calibration import _SigmoidCalibration  # 1.3 s to import

        if raw.size == 0:
            return _raw(raw, correct)
        fitted = _SigmoidCalibration().fit(over(raw), correct.astype(np.float64))
        return lambda at: np.asarray(fitted.predict(over(at)))

    return method


def _logistic(raw: FloatArray, correct: BoolArray) -> Curve:
    from sklearn.linear_model import LogisticRegression

    if np.unique(correct).size < 2:
        return _raw(raw, correct)
    fitted = LogisticRegression(C=np.inf, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that separable labels do not converge is what is shown
        fitted.fit(log_odds(raw)[:, None], correct)
    return lambda at: np.asarray(fitted.predict_proba(log_odds(at)[:, None])[:, 1])


def _isotonic(raw: FloatArray, correct: BoolArray) -> Curve:
    return IsotonicCalibrator.fit(raw, correct).predict


def _beta(raw: FloatArray, correct: BoolArray) -> Curve:
    return BetaCalibrator.fit(raw, correct).predict


def _temperature(raw: FloatArray, correct: BoolArray) -> Curve:
    return TemperatureCalibrator.fit(raw, correct).predict


METHODS: dict[str, Method] = {
    "Platt, ours": _ours,
    "Platt, ours, loose prior": _loose,
    "sigmoid (scikit-learn), on p": _sigmoid(lambda raw: raw),
    "sigmoid (scikit-learn), on log-odds": _sigmoid(log_odds),
    "logistic, unpenalised": _logistic,
    "isotonic": _isotonic,
    "beta": _beta,
    "temperature": _temperature,
    "raw score": _raw,
}
