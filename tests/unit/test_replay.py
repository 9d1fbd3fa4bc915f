"""What a limit of confidence would have hidden, in numbers."""

from __future__ import annotations

from lsp_calib.feedback.report import Replay

CONFIDENCES = [0.1, 0.19, 0.2, 0.9, None, 0.05, 0.6]
CORRECT = [False, False, False, True, False, True, True]


def test_those_below_the_limit_are_counted_those_without_a_confidence_are_not_hidden() -> None:
    assert Replay.of(0.2, CONFIDENCES, CORRECT) == Replay(
        0.2, right=3, wrong=4, right_hidden=1, wrong_hidden=2
    )
    assert Replay.of(0.2, [], []) == Replay(0.2, 0, 0, 0, 0)
