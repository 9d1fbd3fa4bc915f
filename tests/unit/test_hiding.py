"""Which completions are hidden, and which are shown nevertheless."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import values
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator, InForce
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import EXPLORED, Completion, CompletionService, Hiding, is_explored
from lsp_calib.confidence.features import by_name
from lsp_calib.inference.engine import LoadedModel, Request
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import (
    Confidence,
    Evidence,
    Generation,
    ModelIdentity,
    Stop,
    Timing,
    Token,
    new_suggestion_id,
)

CURSOR = Cursor.at(("x = ",), 0, 4, "python")
HIDDEN_ID = next(name for name in map(str, range(1000)) if not is_explored(name))
EXPLORED_ID = next(name for name in map(str, range(100_000)) if is_explored(name))


def by(measure: str) -> Callable[[Evidence], Confidence]:
    """Assesses by a plain measure alone."""
    return lambda evidence: attrs.evolve(
        suggestion("").confidence, calibrated=by_name(measure)(evidence.logprobs)
    )


def test_one_id_in_a_hundred_is_explored_always_the_same_ones() -> None:
    ids = [new_suggestion_id() for _ in range(40_000)]
    explored = [one for one in ids if is_explored(one)]
    # Binomial: five standard deviations on either side.
    assert abs(len(explored) - EXPLORED * len(ids)) < 5 * math.sqrt(EXPLORED * len(ids))
    assert [one for one in ids if is_explored(one)] == explored


@given(
    survives=st.none() | st.floats(0.0, 1.0),
    unchanged=st.none() | st.floats(0.0, 1.0),
    below=st.floats(0.0, 0.99),
)
def test_the_larger_probability_counts_and_without_labels_of_survival_nothing_is_hidden(
    survives: float | None, unchanged: float | None, below: float
) -> None:
    """A line that ends unchanged survives: what is typed along it may say more than was known at first."""
    hides = Hiding(below).hides(survives, unchanged)
    if survives is None:
        assert not hides
    else:
        assert hides == (survives < below and (unchanged is None or unchanged < below))


class Scripted:
    """An engine with one answer."""

    def __init__(self, logprobs: Sequence[float]) -> None:
        self.logprobs = logprobs

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), load_cards()["smollm2-135m"])

    async def generate(self, _request: Request) -> Generation:
        return _generation(self.logprobs)

    def score(self, _request: object) -> None: ...

    async def restart(self) -> None: ...

    async def close(self) -> None: ...


def _generation(logprobs: Sequence[float]) -> Generation:
    tokens = tuple(Token(1, value, 0.0, "y") for value in logprobs)
    return Generation("y" * len(tokens), tokens, Stop.LINE, Timing(total_ms=7.0))


UNSURE = [-0.1, -3.0, -3.0, -3.0, -0.1, -0.1, -0.1, -0.1]
LATE = [-0.1, -0.1, -0.1, -0.1, -3.0, -3.0, -3.0, -3.0]
SURE = [-0.01] * 8


@pytest.mark.parametrize(
    ("logprobs", "identity", "hidden"),
    [
        (UNSURE, HIDDEN_ID, True),
        (LATE, HIDDEN_ID, True),
        (SURE, HIDDEN_ID, False),
        (UNSURE, EXPLORED_ID, False),
        (LATE, EXPLORED_ID, False),
        (SURE, EXPLORED_ID, False),
    ],
    ids=["unsure at first", "unsure at last", "shown", "explored", "explored too", "explored but sure"],
)
async def test_what_is_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, logprobs: list[float], identity: str, hidden: bool
) -> None:
    monkeypatch.setattr(values, "new_suggestion_id", lambda: identity)
    engine = Scripted(logprobs)
    estimator = ConfidenceEstimator(CalibratorStore(tmp_path / "mine", tmp_path / "shipped"))
    monkeypatch.setattr(InForce, "assess", lambda _, evidence, *_doubt: by("total")(evidence))
    monkeypatch.setattr(InForce, "survives", lambda _, _evidence, confidence: confidence.calibrated)
    completion = await CompletionService(engine, estimator).complete(CURSOR, hide_below=0.5)
    assert isinstance(completion, Completion)
    assert (completion.hidden_by is not None) == hidden
    if not hidden:
        marked = identity == EXPLORED_ID and logprobs is not SURE
        assert completion.suggestion.id == identity
        assert completion.shown_probability == (EXPLORED if marked else 1.0)
        assert (
            "shown although it is below hideBelow (0.5)" in completion.suggestion.confidence.reason
        ) == marked
    else:
        assert completion.suggestion.timing.total_ms == 7.0
        # Without a limit the same completion is shown.
        shown = await CompletionService(engine, estimator).complete(CURSOR)
        assert completion.shown == shown
