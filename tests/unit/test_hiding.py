"""Which completions are hidden, when their generation is stopped, and which are shown nevertheless."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion import service
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import (
    EXPLORED,
    FIRST_TOKENS,
    MOST_TOKENS,
    Completion,
    CompletionService,
    Hidden,
    Hiding,
    is_explored,
)
from lsp_calib.confidence.measures import by_name
from lsp_calib.inference.engine import EarlyStop, LoadedModel, Request
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

logprobs = st.lists(st.floats(-5.0, 0.0), min_size=FIRST_TOKENS, max_size=MOST_TOKENS)


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


@pytest.mark.parametrize("measure", ["total", "geometric-mean-first-16", "geometric-mean"])
@given(logprobs=logprobs, below=st.floats(0.05, 0.95))
def test_no_generation_is_stopped_that_could_have_been_shown(
    measure: str, logprobs: list[float], below: float
) -> None:
    """Whatever comes after the first tokens, by a measure of the probabilities alone."""
    hiding = Hiding(below, by(measure), "", MOST_TOKENS, explored=False)
    ceiling = hiding.ceiling(tuple(logprobs[:FIRST_TOKENS])).calibrated
    assert ceiling is not None
    assert by_name(measure)(logprobs) <= ceiling + 1e-12
    stop = hiding.early_stop
    assert stop is not None
    assert stop.worth_finishing(tuple(logprobs[: stop.first])) == (ceiling >= below)


def test_numbers_that_cannot_be_judged_do_not_stop_a_generation() -> None:
    nothing = attrs.evolve(suggestion("").confidence, calibrated=None)
    hiding = Hiding(0.5, lambda _: nothing, "", MOST_TOKENS, explored=False)
    stop = hiding.early_stop
    assert stop is not None
    assert stop.worth_finishing((math.nan,) * FIRST_TOKENS)
    assert not hiding.hides(_generation([-9.0] * 9), nothing)


class Scripted:
    """An engine with one answer, which it stops early when it is told to."""

    def __init__(self, logprobs: Sequence[float]) -> None:
        self.logprobs = logprobs
        self.generated = 0

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), load_cards()["smollm2-135m"])

    async def generate(self, _request: Request, early_stop: EarlyStop | None = None) -> Generation:
        kept, stop = list(self.logprobs), Stop.LINE
        if early_stop is not None and len(kept) >= early_stop.first:
            first = tuple(kept[: early_stop.first])
            if not early_stop.worth_finishing(first):
                kept, stop = list(first), Stop.EARLY
        self.generated = len(kept)
        return _generation(kept, stop)

    def score(self, _request: object) -> None: ...

    async def restart(self) -> None: ...

    async def close(self) -> None: ...


def _generation(logprobs: Sequence[float], stop: Stop = Stop.LINE) -> Generation:
    tokens = tuple(Token(1, value, 0.0, "y") for value in logprobs)
    return Generation("y" * len(tokens), tokens, stop, Timing(total_ms=7.0))


UNSURE = [-0.1, -3.0, -3.0, -3.0, -0.1, -0.1, -0.1, -0.1]
LATE = [-0.1, -0.1, -0.1, -0.1, -3.0, -3.0, -3.0, -3.0]
SURE = [-0.01] * 8


@pytest.mark.parametrize(
    ("logprobs", "identity", "hidden", "generated"),
    [
        (UNSURE, HIDDEN_ID, True, FIRST_TOKENS),
        (LATE, HIDDEN_ID, True, 8),
        (SURE, HIDDEN_ID, False, 8),
        (UNSURE, EXPLORED_ID, False, 8),
        (LATE, EXPLORED_ID, False, 8),
        (SURE, EXPLORED_ID, False, 8),
    ],
    ids=["stopped", "finished", "shown", "explored unstopped", "explored", "explored but sure"],
)
async def test_what_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    logprobs: list[float],
    identity: str,
    hidden: bool,
    generated: int,
) -> None:
    """What would be stopped early is decoded completely if it is drawn to be shown."""
    monkeypatch.setattr(service, "new_suggestion_id", lambda: identity)
    engine = Scripted(logprobs)
    estimator = ConfidenceEstimator(CalibratorStore(tmp_path / "mine", tmp_path / "shipped"))
    estimator.assess = lambda *arguments, **_: by("total")(arguments[1])  # type: ignore[method-assign]
    completion = await CompletionService(engine, estimator).complete(CURSOR, hide_below=0.5)
    assert isinstance(completion, Hidden if hidden else Completion)
    assert engine.generated == generated
    if isinstance(completion, Completion):
        marked = identity == EXPLORED_ID and logprobs is not SURE
        assert completion.suggestion.id == identity
        assert completion.shown_probability == (EXPLORED if marked else 1.0)
        assert (
            "shown although it is below hideBelow (0.5)" in completion.suggestion.confidence.reason
        ) == marked
    else:
        assert completion is not None
        assert completion.timing.total_ms == 7.0
        # Without a limit the same completion is shown.
        assert isinstance(await CompletionService(engine, estimator).complete(CURSOR), Completion)
