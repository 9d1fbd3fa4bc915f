"""By which moment the report judges: true probabilities, which move as one types along, look true there,
whatever the user does; judged at the moment that the user's line chooses, they do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
import numpy as np
import pytest
from feedback_scene import in_haste, show, tier_of
from numpy.random import Generator

from lsp_calib.feedback.comparison import Share
from lsp_calib.feedback.events import Event, EventKind, How, Label, Moment
from lsp_calib.feedback.report_data import statistics, typed_ranges
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.tracked import Moments
from lsp_calib.values import Tier

LINES, STORED, LONG = 6000, 1500, 20


@attrs.frozen
class Line:
    """A suggestion of LONG characters. parts_at: the first character that the user's line has another of;
    LONG: none. probabilities: that it is right, given that the first k characters agree: true ones."""

    parts_at: int
    probabilities: tuple[float, ...]

    @classmethod
    def drawn(cls, rng: Generator) -> Line:
        """One that is wrong parts at each character alike: of it k/LONG are gone after k of them."""
        p = float(rng.beta(1.2, 1.2))
        parts_at = LONG if rng.random() < p else int(rng.integers(LONG))
        agree = [1.0 - k / LONG for k in range(LONG)]
        return cls(parts_at, tuple(p / (p + (1.0 - p) * one) for one in agree))


Accepts = Callable[[Moment, Generator], bool]
USERS: dict[str, Accepts] = {
    "types all of it": lambda *_: False,
    "accepts what is accept": lambda moment, _: moment.tier is Tier.ACCEPT,
    "accepts now and then": lambda _, rng: rng.random() < 0.1,
}


def shown(line: Line, accepts: Accepts, rng: Generator) -> Moments:
    """What a user sees of a suggestion, at each character until the line parts from it or it is accepted."""
    found: Moments | None = None
    for typed in range(min(line.parts_at + 1, LONG)):
        moment = Moment(typed, line.probabilities[typed], tier_of(line.probabilities[typed]))
        if found is None:
            found = Moments(moment)
        else:
            found.shown(moment)
        if accepts(moment, rng):
            found.accept()
            break
    assert found is not None
    return found


def errors(pairs: list[tuple[float, bool]]) -> float:
    """By how many standard errors the mean of what was promised is above what was right."""
    promised, right = (np.array(one, dtype=float) for one in zip(*pairs, strict=True))
    return float((promised - right).sum() / math.sqrt((promised * (1.0 - promised)).sum()))


def record(store: FeedbackStore, number: int, line: Line, moments: Moments) -> None:
    right = line.parts_at == LONG
    name, at = f"{number:016x}", 1e9 + number
    label = Label(name, right, How.KEPT if right else How.TYPED_OVER, at + 1.0)
    more = {"moments": moments.news(), "accepted": moments.accepted}
    show(store, name, at=at, p=moments.first.confidence)
    store.record_events([Event(name, EventKind.SETTLED, at + 1.0, label=label, **more)])


@pytest.mark.parametrize("user", USERS)
def test_true_probabilities_look_true_in_each_row(tmp_path: Path, user: str) -> None:
    rng = np.random.default_rng(20)
    with closing(in_haste(FeedbackStore(tmp_path / "feedback.db"))) as store:
        for number in range(STORED):
            line = Line.drawn(rng)
            record(store, number, line, shown(line, USERS[user], rng))
        rows = [*statistics(store, 2e9).tiers, *typed_ranges(store)]
    assert sum(one.share.n > 100 for one in rows) >= 4
    for one in rows:
        if one.share.n:
            assert one.promised is not None
            assert one.share.value is not None
            error = math.sqrt(one.promised * (1.0 - one.promised) / one.share.n)
            assert abs(one.promised - one.share.value) < 3.5 * error, one


@pytest.mark.parametrize("user", USERS)
def test_the_moment_that_the_line_chooses_makes_true_probabilities_look_false(user: str) -> None:
    """Judged once, at the accept, else at what was shown last: the reason for the rule above."""
    rng = np.random.default_rng(20)
    pairs: list[tuple[float, bool]] = []
    for _ in range(LINES):
        line = Line.drawn(rng)
        moments = shown(line, USERS[user], rng)
        judged = moments.accepted or moments.last
        pairs.append((judged.confidence or 0.0, line.parts_at == LONG))
    promised, right = (float(np.mean(one)) for one in zip(*pairs, strict=True))
    assert errors(pairs) > 10.0
    assert Share.of(right * LINES, LINES).high < promised - 0.05  # type: ignore[operator]


@pytest.mark.parametrize("user", USERS)
def test_the_first_moment_above_a_threshold_is_one_that_keeps_its_promise(user: str) -> None:
    """As certificates count: a suggestion is above it if its highest probability is."""
    rng = np.random.default_rng(21)
    pairs: list[tuple[float, bool]] = []
    for _ in range(LINES):
        line = Line.drawn(rng)
        moments = shown(line, USERS[user], rng)
        best = moments.best.confidence or 0.0
        if best >= 0.8:
            passed = next(p for p in line.probabilities if p >= 0.8)
            pairs.append((passed, line.parts_at == LONG))
    assert len(pairs) > 1000
    assert abs(errors(pairs)) < 3.5
