"""The estimator uses the calibrator in force now, whichever process put it there."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
from msgspec.structs import replace
from test_calibration_calibrator import make, platt
from test_prefixes import curve as prefix_curve

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import PREFIXES
from lsp_calib.calibration.tiers import Policy, RiskPolicy, TierPolicy
from lsp_calib.values import CalibratorRef, Confidence, Evidence, Override, Sure, Tier

PURPOSE = make().purpose


def personal(intercept: float, language: str = "python") -> Calibrator:
    purpose = attrs.evolve(PURPOSE, language=language)
    return make(purpose=purpose, **platt(0.9, intercept), source="personal", state="learning")


@pytest.fixture
def store(tmp_path: Path) -> CalibratorStore:
    store = CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")
    make().save(store.shipped / "shipped.json")
    store.personal.mkdir(parents=True)
    return store


class Watching:
    def __init__(self, store: CalibratorStore) -> None:
        self.changes: list[CalibratorRef] = []
        self.estimator = ConfidenceEstimator(store, on_change=self.changes.append)

    def intercept(self) -> float:
        """As at a request."""
        self.estimator.reload()
        return self.estimator.calibrator(PURPOSE).curves[0].intercept


def test_another_process_promotes_and_rolls_back(store: CalibratorStore) -> None:
    watching = Watching(store)
    shipped = watching.intercept()
    assert watching.changes == []
    other = CalibratorStore(store.personal, store.shipped)
    mine = personal(-3.0)
    other.promote(mine)
    assert watching.intercept() == -3.0
    assert watching.changes == [mine.ref]
    other.rollback(PURPOSE)
    assert watching.intercept() == shipped
    assert watching.changes[1:] == [make().ref]


def test_nothing_is_read_again_as_long_as_nothing_changes(
    store: CalibratorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching(store)
    watching.intercept()

    def refuse(_path: Path) -> Calibrator:
        raise AssertionError("read again")

    monkeypatch.setattr(Calibrator, "load", refuse)
    for _ in range(3):
        watching.intercept()
        watching.estimator.reload()


def test_alternatives_have_their_share_of_what_the_first_one_leaves(store: CalibratorStore) -> None:
    """Even a certain one is no more than review."""
    make().save(store.shipped / "shipped.json")
    others = [(0.99, Evidence((-1.0,))), (0.001, Evidence((-5.0,)))]
    in_force = ConfidenceEstimator(store).of(PURPOSE)
    second, third = in_force.alternatives(0.001, others)
    assert second.calibrated == pytest.approx(0.999 * 0.99)
    assert second.tier is Tier.REVIEW
    assert third.calibrated == 1 / 402, "as far as 400 labels tell"
    assert "no labels of its own" in third.reason
    assert second.measure == "share-of-the-rest-1"
    assert not second.certified
    assert [one.calibrated for one in in_force.alternatives(None, others)] == [None, None]


LENGTH = 10
PLACES = (Sure(4, 0.9), Sure(LENGTH, 0.5))


class TestTypedAlong:
    """Tier and reason of a later moment, by the same rules as those of the first one."""

    def estimator(self, store: CalibratorStore, policy: Policy, **changes: object) -> ConfidenceEstimator:
        calibrator = make(**{**platt(1.0, 0.0), **changes})
        calibrator.save(store.shipped / "shipped.json")
        of = replace(prefix_curve(), model=PURPOSE.model, prompt_version=PURPOSE.prompt_version)
        of.save(store.shipped.parent / PREFIXES)
        return ConfidenceEstimator(store, policy)

    def moment(self, estimator: ConfidenceEstimator, first: Confidence, typed: int = 5) -> Confidence:
        places = tuple(attrs.evolve(one, confidence=max(one.confidence, first.calibrated)) for one in PLACES)
        return estimator.of(PURPOSE, "file:///a.py").typed_along(first, places, typed, LENGTH)[0]

    @pytest.mark.parametrize("p", [0.2, 0.6, 0.9, 0.995])
    def test_the_tier_never_falls(self, store: CalibratorStore, p: float) -> None:
        """Nor where labels cannot tell as much as its threshold asks for: 48 of one kind end at 98 %."""
        estimator = self.estimator(store, TierPolicy(0.99, 0.3), n=48, n_correct=20, provenance=())
        first = estimator.of(PURPOSE).assess(Evidence((math.log(p),)))
        order = [Tier.REJECT, Tier.REVIEW, Tier.ACCEPT]
        assert (first.tier is Tier.ACCEPT) == (p > 0.99)
        for typed in range(1, LENGTH):
            now = self.moment(estimator, first, typed)
            assert now.calibrated is not None
            assert first.calibrated is not None
            assert now.calibrated >= first.calibrated
            assert order.index(now.tier) >= order.index(first.tier)
            assert now.reason.startswith(f"typed along for {typed} character")

    def test_overrides_hold_for_it(self, store: CalibratorStore) -> None:
        estimator = self.estimator(store, TierPolicy(0.6, 0.3))
        first = estimator.of(PURPOSE, "file:///a.py").assess(Evidence((math.log(0.5),)))
        assert self.moment(estimator, first).tier is Tier.ACCEPT
        estimator.overrides = (Override(language="python", accept_from=0.99),)
        now = self.moment(estimator, first)
        assert (now.tier, "as tiers.overrides has it here" in now.reason) == (Tier.REVIEW, True)

    def test_without_a_certificate_nothing_is_accepted(self, store: CalibratorStore) -> None:
        estimator = self.estimator(store, RiskPolicy())
        first = estimator.of(PURPOSE).assess(Evidence((math.log(0.9),)))
        now = self.moment(estimator, first)
        assert (now.tier, now.certified) == (Tier.REVIEW, False)

    def test_whose_labels_it_rests_on_is_said_as_at_first(self, store: CalibratorStore) -> None:
        estimator = self.estimator(store, TierPolicy(), source="pooled", state="shipped")
        first = estimator.of(PURPOSE).assess(Evidence((math.log(0.5),)))
        said = "calibrated on 400 lines in other languages and windows"
        assert [one.reason.count(said) for one in (first, self.moment(estimator, first))] == [1, 1]
