"""What a limit would have hidden, in numbers."""

from __future__ import annotations

import numpy as np

from lsp_calib.feedback.report import AtLimit

SURVIVES = np.array([0.1, 0.19, 0.2, 0.9, np.nan, 0.05, 0.6])
CORRECT = np.array([False, False, False, True, False, True, True])


def test_those_below_the_limit_are_counted_those_without_a_probability_are_not_hidden() -> None:
    found = AtLimit.of(0.2, SURVIVES, CORRECT)
    assert found == AtLimit(0.2, right=3, wrong=4, right_hidden=1, wrong_hidden=2)
    assert AtLimit.of(0.2, SURVIVES[:0], CORRECT[:0]) == AtLimit(0.2, 0, 0, 0, 0)
