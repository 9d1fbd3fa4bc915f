"""The numbers of a calibrator as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.validation.intervals import Interval


def rounded(calibrator: Calibrator) -> Calibrator:
    """The calibrator with numbers of nine significant digits: further digits depend on the processor, and the
    same records must give the same file on all of them."""
    return attrs.evolve(
        calibrator,
        curves=tuple(curve.rounded(_nine) for curve in calibrator.curves),
        ranks=tuple(
            attrs.evolve(curve, slope=_nine(curve.slope), intercept=_nine(curve.intercept))
            for curve in calibrator.ranks
        ),
        metrics=_rounded_metrics(calibrator.metrics),
        by_place={place: _rounded_metrics(metrics) for place, metrics in calibrator.by_place.items()},
    )


def _rounded_metrics(metrics: Mapping[str, Interval]) -> dict[str, Interval]:
    return {
        name: attrs.evolve(
            interval, value=_nine(interval.value), low=_nine(interval.low), high=_nine(interval.high)
        )
        for name, interval in metrics.items()
    }


@overload
def _nine(value: float) -> float: ...
@overload
def _nine(value: None) -> None: ...
def _nine(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")
