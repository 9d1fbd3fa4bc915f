"""What a limit of confidence would have hidden, in numbers and in words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.errors import EngineError
from lsp_calib.feedback.report import Replay
from lsp_calib.server.history import HidingNotice

CONFIDENCES = [0.1, 0.19, 0.2, 0.9, None, 0.05, 0.6]
CORRECT = [False, False, False, True, False, True, True]


def test_those_below_the_limit_are_counted_those_without_a_confidence_are_not_hidden() -> None:
    assert Replay.of(0.2, CONFIDENCES, CORRECT) == Replay(
        0.2, right=3, wrong=4, right_hidden=1, wrong_hidden=2
    )
    assert Replay.of(0.2, [], []) == Replay(0.2, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("replay", "words"),
    [
        (
            Replay(0.2, right=3, wrong=4, right_hidden=1, wrong_hidden=2),
            "hideBelow is 0.2. Of your last 7 labelled suggestions it would have hidden "
            "50 % of the wrong ones (2 of 4) and 33 % of the right ones (1 of 3).",
        ),
        (
            Replay(0.25, right=0, wrong=1, right_hidden=0, wrong_hidden=1),
            "hideBelow is 0.25. Of your last labelled suggestion it would have hidden "
            "100 % of the wrong ones (1 of 1).",
        ),
        (
            Replay(0.2, 0, 0, 0, 0),
            "hideBelow is 0.2. No suggestion of this model has a label yet, so its effect is not known.",
        ),
    ],
)
def test_the_sentence(replay: Replay, words: str) -> None:
    assert replay.sentence == words


async def test_without_a_model_nothing_is_said_and_the_next_start_tries_again(tmp_path: Path) -> None:
    async def fails(_: object) -> None:
        raise EngineError("There is no model.")

    async def works(_: object) -> None:
        """There is no history."""

    shown: list[str] = []
    for purpose, messages in ((fails, 0), (works, 1), (works, 1)):
        fakes: Any = SimpleNamespace(purpose=purpose, learn=works, inform=shown.append)
        notice = HidingNotice(fakes, fakes, fakes, fakes, fakes, tmp_path / "hide-below")
        notice.apply(0.2)
        if notice._task is not None:
            await asyncio.wait({notice._task})
        assert len(shown) == messages
