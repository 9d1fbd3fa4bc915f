"""Metrics as the JSON types of a calibrator's file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.validation.intervals import Interval, Kind


def metrics_to_json(metrics: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: attrs.asdict(interval) for name, interval in metrics.items()}


def metrics_of(fields: Fields) -> dict[str, Interval]:
    return {name: _interval(fields.object(name)) for name in fields.values}


def by_place_of(fields: Fields) -> dict[str, dict[str, Interval]]:
    return {place: metrics_of(fields.object(place)) for place in fields.values}


def _interval(fields: Fields) -> Interval:
    fields.only({"value", "low", "high", "kind"})
    return Interval(
        fields.optional_number("value"),
        fields.optional_number("low"),
        fields.optional_number("high"),
        cast(Kind, fields.choice("kind", ("bootstrap", "calibrated-band"))),
    )
