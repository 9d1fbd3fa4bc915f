"""Fitted curves as JSON types and back, exactly. Reading executes nothing and refuses unknown fields."""

from __future__ import annotations

from typing import Any

import attrs

from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.beta import BetaCalibrator
from lsp_calib.calibration.methods.histogram import HistogramCalibrator
from lsp_calib.calibration.methods.isotonic import IsotonicCalibrator
from lsp_calib.calibration.methods.logistic import LogisticCalibrator
from lsp_calib.calibration.methods.method import CalibrationMethod
from lsp_calib.calibration.methods.online import OnlineCalibrator
from lsp_calib.calibration.methods.platt import PlattCalibrator
from lsp_calib.calibration.methods.temperature import TemperatureCalibrator
from lsp_calib.errors import CalibratorError, DataError

_CLASSES: tuple[type[CalibrationMethod], ...] = (
    PlattCalibrator,
    TemperatureCalibrator,
    BetaCalibrator,
    IsotonicCalibrator,
    HistogramCalibrator,
    LogisticCalibrator,
    OnlineCalibrator,
)
METHODS: dict[str, type[CalibrationMethod]] = {method.kind: method for method in _CLASSES}


def curve_to_json(curve: CalibrationMethod) -> dict[str, Any]:
    """The curve as JSON types, with its `kind`; `curve_from_json` gives back an equal one."""
    return {"kind": curve.kind, **curve.to_json()}


def curve_from_json(document: object, *, file: str = "curve") -> CalibrationMethod:
    """The curve in a document made of JSON types.

    file: the name of the document in error messages.
    Raises CalibratorError naming file and field: unknown kind or field, missing field, wrong type, numbers
    that no curve of its kind has.
    """
    fields = Fields.of(document, file)
    method = METHODS[fields.choice("kind", tuple(METHODS))]
    fields.only({"kind", *field_names(method)})
    try:
        return method.from_json(fields)
    except DataError as error:
        raise CalibratorError(f"{file}: {error}") from error


def field_names(method: type[CalibrationMethod]) -> set[str]:
    """The fields that a document of this kind may hold besides its `kind`."""
    return {field.name for field in attrs.fields(method)}
