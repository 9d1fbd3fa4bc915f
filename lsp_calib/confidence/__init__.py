"""Token log-probabilities -> one raw confidence in [0, 1]."""

from lsp_calib.confidence.measures import (
    Measure,
    arithmetic_mean,
    by_name,
    first_tokens,
    geometric_mean,
    measure_name,
    minimum,
    total,
)

__all__ = [
    "Measure",
    "arithmetic_mean",
    "by_name",
    "first_tokens",
    "geometric_mean",
    "measure_name",
    "minimum",
    "total",
]
