"""Alternatives: what labels of a rank make of the share that the model gives to it."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from alternatives import ranks_out_of_fold
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.ranks import RankCurve, Ranked, fit_ranks, rank_probabilities
from lsp_calib.calibration.logistic import log_odds, sigmoid
from lsp_calib.errors import CalibratorError

SHIPPED = home.shipped_models() / "calibrators" / "line-smollm2-135m.json"

unit = st.floats(0.0, 1.0)
curves = st.lists(
    st.builds(RankCurve, st.floats(0.1, 3), st.floats(-5, 5), st.just(200), st.just(20)), max_size=2
)


def made_up(n: int, seed: int, intercept: float = 1.0) -> tuple[list[Ranked], np.ndarray]:
    """Places whose second answers are right more often than their share says, by so many nats."""
    rng = np.random.default_rng(seed)
    first = rng.random(n) < 0.4
    places: list[Ranked] = []
    for wrong in ~first:
        share = float(rng.uniform(0.02, 0.6))
        truth = sigmoid(log_odds(np.array([share])) + intercept)[0]
        places.append([(share, bool(wrong and rng.random() < truth)), (share / 3, False)])
    return places, first


@given(curves, unit, st.lists(unit, max_size=3))
def test_with_the_first_they_add_up_to_one_at_most(
    ranks: list[RankCurve], first: float, shares: list[float]
) -> None:
    found = rank_probabilities(ranks, first, shares)
    assert len(found) == len(shares)
    known = [p for p in found if p is not None]
    assert len(known) == len(shares)
    assert all(p >= 0.0 for p in known)
    assert first + sum(known) <= 1.0 + 1e-9


@given(curves, st.lists(unit, max_size=3))
def test_without_a_confidence_of_the_first_there_is_none(ranks: list[RankCurve], shares: list[float]) -> None:
    assert rank_probabilities(ranks, None, shares) == (None,) * len(shares)


def test_a_rank_that_is_right_more_often_than_its_share_is_promised_more() -> None:
    places, first = made_up(20_000, 0)
    second, *rest = fit_ranks(places, first)
    assert rest == [], "the third is never right: it says nothing of how often"
    assert second.slope == pytest.approx(1.0, abs=0.15)
    assert second.intercept == pytest.approx(1.0, abs=0.15)
    assert (second.n, second.n_correct) == ((~first).sum(), sum(place[0][1] for place in places))


@pytest.mark.parametrize(("n", "right"), [(0, 0), (99, 50), (400, 4)])
def test_few_labels_make_no_curve(n: int, right: int) -> None:
    assert fit_ranks([[(0.3, at < right)] for at in range(n)], np.zeros(n, np.bool_)) == ()


def test_out_of_fold_a_place_does_not_know_its_own_projects_labels() -> None:
    places, first = made_up(1200, 2)
    groups = np.arange(1200) % 12
    p = np.full(1200, 0.4)
    before = ranks_out_of_fold(places, p, first, groups)
    # All labels of one project turned round.
    turned = [
        [(share, bool(not right and not first[at])) for share, right in place] if groups[at] == 5 else place
        for at, place in enumerate(places)
    ]
    after = ranks_out_of_fold(turned, p, first, groups)
    assert [after[at] for at in np.flatnonzero(groups == 5)] == [
        before[at] for at in np.flatnonzero(groups == 5)
    ]
    assert after != before


def test_a_calibrator_keeps_its_ranks_in_its_file() -> None:
    base = attrs.evolve(Calibrator.load(SHIPPED), ranks=())
    assert "ranks" not in base.to_json()
    with_ranks = attrs.evolve(base, ranks=(RankCurve(0.8, 0.5, 500, 40), RankCurve(0.9, -0.5, 450, 9)))
    document = with_ranks.to_json()
    assert Calibrator.from_json(document) == with_ranks
    assert with_ranks.id != base.id
    document["ranks"][0]["n"] = 3
    with pytest.raises(CalibratorError, match="nCorrect 40"):
        Calibrator.from_json(document)
