"""Curves over features: which one is used, what it gives, why, and files from before there were any."""

from __future__ import annotations

import json
import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_calibration_calibrator import MODEL, make, platt

from lsp_calib.calibration.calibrators.calibrator import SPEAKS, Calibrator, Curve, Offset, Shift, Weighted
from lsp_calib.calibration.calibrators.lent import borrowed_curve
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.logistic import log_odds, sigmoid
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.confidence.features import FEATURES, geometric_mean, total
from lsp_calib.values import Evidence, Tier

BEST = Curve(
    "features-2",
    (
        Weighted("total", -1.0, 2.0, 1.5),
        Weighted("entropy-sum", 3.0, 2.0, -1.0),
        Weighted("broken", 0.1, 0.3, -0.8),
        Weighted("new-names", 0.2, 0.4, -0.5),
    ),
    -0.2,
    spread=0.3,
    offsets=(Offset("mid-word", 0.4),),
)
POORER = Curve(
    "features-2-without-entropies", tuple(f for f in BEST.features if f.name != "entropy-sum"), -0.1
)
TOTAL = Curve.of_measure("total", 0.9, 0.3)
MEAN = Curve.of_measure("geometric-mean-first-2", 1.2, -1.0)
FULL = make(curves=(BEST, POORER, TOTAL, MEAN), raw_measure="geometric-mean-first-2")

LOGPROBS = (-0.1, -0.3, -0.2)
FEATURES_OF_ONE = {"entropy-sum": 2.0, "broken": 0.0, "new-names": 0.7}


def evidence(place: str = "mid-line", doubtful: str = "", **changes: float | None) -> Evidence:
    values = {**FEATURES_OF_ONE, **{name.replace("_", "-"): value for name, value in changes.items()}}
    known = {name: value for name, value in values.items() if value is not None}
    return Evidence(LOGPROBS, known, place, doubtful)


class TestScore:
    def test_it_is_the_weighted_sum(self) -> None:
        x = float(log_odds(total(LOGPROBS)))
        z = -0.2 + 1.5 * (x + 1) / 2 - (2 - 3) / 2 - 0.8 * -0.1 / 0.3 - 0.5 * (0.7 - 0.2) / 0.4
        assert BEST.score(evidence()) == pytest.approx(z)
        assert BEST.score(evidence("mid-word")) == pytest.approx(z + 0.4)
        assert BEST.score(evidence("never heard of")) == pytest.approx(z)
        assert FULL.assess(evidence(), TierPolicy()).calibrated == pytest.approx(float(sigmoid(z)))

    def test_many_at_once_are_the_same_as_one_by_one(self) -> None:
        several = [evidence(broken=x, entropy_sum=y) for x, y in ((0, 1), (1, 2), (None, 3))]
        scores = BEST.scores(several)
        assert [BEST.score(one) for one in several[:2]] == scores[:2].tolist()
        assert math.isnan(scores[2])
        assert FULL.probabilities(several).tolist() == [FULL.probability(one) for one in several]

    @given(slope=st.floats(-3, 3), intercept=st.floats(-5, 5))
    def test_a_shifted_curve_is_one_with_the_shifted_score(self, slope: float, intercept: float) -> None:
        moved = BEST.shifted(Shift(slope=slope, intercept=intercept, slope_sd=0.25, intercept_sd=0.5))
        for place in ("mid-word", "mid-line"):
            before = BEST.score(evidence(place))
            assert moved.score(evidence(place)) == pytest.approx(slope * before + intercept, abs=1e-9)
        assert moved.shift == Shift(slope=slope, intercept=intercept, slope_sd=0.25, intercept_sd=0.5)


class TestChoice:
    @pytest.mark.parametrize(
        ("changes", "used"),
        [
            ({}, "features-2"),
            ({"entropy_sum": None}, "features-2-without-entropies"),
            ({"entropy_sum": math.nan}, "features-2-without-entropies"),
            ({"entropy_sum": math.inf}, "features-2-without-entropies"),
            ({"broken": None}, "total"),
            ({"new_names": math.nan, "entropy_sum": None}, "total"),
            ({"broken": 1e308, "entropy_sum": 1e308}, "total"),  # their sum is no number
        ],
    )
    def test_the_first_curve_whose_features_are_known(
        self, changes: dict[str, float | None], used: str
    ) -> None:
        confidence = FULL.assess(evidence(**changes), TierPolicy())
        assert confidence.measure == used
        assert confidence.calibrated is not None
        assert confidence.raw == geometric_mean(LOGPROBS, 2)
        assert confidence.first_tokens == 2

    def test_what_is_wanted_comes_first(self) -> None:
        for wanted, curve in (("best", BEST), ("total", TOTAL), ("geometric-mean", MEAN)):
            confidence = FULL.assess(evidence(), TierPolicy(), wanted)
            assert (confidence.measure, confidence.calibrated) == (
                curve.measure,
                curve.probability(evidence()),
            )
        plain = make(**platt(0.9, -2.5))  # has no such curve
        assert plain.assess(evidence(), TierPolicy(), "total").measure == "geometric-mean-first-4"

    @given(
        logprobs=st.lists(st.floats(), max_size=3),
        features=st.dictionaries(st.sampled_from(sorted(FEATURES)), st.floats(), max_size=9),
    )
    def test_it_never_raises(self, logprobs: list[float], features: dict[str, float]) -> None:
        confidence = FULL.assess(Evidence(tuple(logprobs), features, "mid-word"), TierPolicy())
        assert confidence.calibrated is None or 0.0 <= confidence.calibrated <= 1.0
        assert confidence.calibrated is not None or confidence.tier is Tier.REVIEW

    def test_features_of_another_version_are_not_mixed_in(self) -> None:
        foreign = replace(BEST, measure="features-999")
        document = json.loads(json.dumps(attrs.evolve(FULL, curves=(foreign, TOTAL)).to_json()))
        assert Calibrator.from_json(document).assess(evidence(), TierPolicy()).measure == "total"


class TestAsFarAsLabelsTell:
    """A probability of 8.3e-9 was once told from 1,250 labels."""

    @pytest.mark.parametrize(
        ("n", "low", "words", "high", "more"),
        [
            (1250, 1 / 1252, "less than 1 %", 1 - 1 / 1252, "more than 99 %"),
            (50, 0.02, "less than 2 %", 0.98, "more than 98 %"),
            (70, 0.02, "less than 2 %", 0.98, "more than 98 %"),
        ],
    )
    def test_it_ends_where_the_labels_end(
        self, n: int, low: float, words: str, high: float, more: str
    ) -> None:
        calibrator = make(**platt(1.0, 0.0, "total"), n=n, n_correct=n // 2, provenance=())
        for logprob, told, said in ((-18.6, low, words), (-1e-12, high, more)):
            confidence = calibrator.assess(Evidence((logprob,)), TierPolicy())
            assert confidence.calibrated == told
            assert said in confidence.reason
        between = calibrator.assess(Evidence((-0.5,)), TierPolicy())
        assert between.calibrated == calibrator.probability(Evidence((-0.5,)))

    def test_labels_of_what_it_was_drawn_towards_count(self) -> None:
        base = (Origin("feedback", "", 5), Origin("line-m-12345678", "2026-11-25", 1834))
        young = make(**platt(1.0, 0.0, "total"), n=5, n_correct=2, provenance=base)
        assert young.told(0.999) == (0.999, "")
        assert young.told(None) == (None, "")


class TestReason:
    def reason(self, of: Evidence, policy: TierPolicy | None = None) -> str:
        return FULL.assess(of, policy or TierPolicy()).reason

    def test_what_pulls_most_towards_the_tier_is_named(self) -> None:
        broken = self.reason(evidence(broken=1.0))
        assert broken.startswith("the code around it would be broken; ")
        assert "about " in broken
        assert self.reason(evidence(new_names=3.0)).startswith("names used here are new to this file; ")
        sure = attrs.evolve(evidence(entropy_sum=0.1, new_names=0.0), logprobs=(-0.01,))
        assert self.reason(sure, TierPolicy(0.5, 0.1)).startswith(
            "the model gave every word a high probability; "
        )

    def test_the_doubtful_word_is_quoted(self) -> None:
        unsure = attrs.evolve(evidence(entropy_sum=3.0, new_names=0.2), logprobs=(-4.0, -3.0))
        assert self.reason(unsure).startswith("the model was unsure of one of its words; ")
        named = attrs.evolve(unsure, doubtful="timeout")
        assert self.reason(named).startswith("the model was unsure of `timeout`; ")

    def test_the_word_in_doubt_stands_beside_another_cause(self) -> None:
        """It is the one that is marked: nothing else than what is marked is said to be in doubt."""
        broken = attrs.evolve(evidence(broken=1.0), doubtful="return")
        words = "the code around it would be broken; least sure of `return`"
        assert self.reason(broken).startswith(f"{words}; ")
        assert FULL.assess(broken, TierPolicy()).cause == words
        at_the_end = attrs.evolve(
            evidence(entropy_sum=3.0, new_names=0.2), logprobs=(-0.1, -7.0), doubtful="return"
        )
        ends = "the model was unsure where the line ends; least sure of `return`; "
        assert self.reason(at_the_end).startswith(ends)

    @given(
        logprobs=st.lists(st.floats(-20.0, -0.001), min_size=1, max_size=6),
        entropy=st.floats(0.0, 9.0),
        broken=st.booleans(),
        names=st.floats(0.0, 3.0),
    )
    def test_what_is_not_accepted_has_a_cause_beside_the_thresholds(
        self, logprobs: list[float], entropy: float, broken: bool, names: float
    ) -> None:
        """17 of 25 suggestions once said no more than "between 25 % and 78 %"."""
        of = attrs.evolve(
            evidence(entropy_sum=entropy, broken=float(broken), new_names=names),
            logprobs=tuple(logprobs),
            doubtful="timeout",
        )
        confidence = FULL.assess(of, TierPolicy())
        if confidence.tier is not Tier.ACCEPT:
            assert "`timeout`" in confidence.cause
            assert confidence.reason.startswith(f"{confidence.cause}; ")

    def test_a_small_pull_is_no_reason_but_the_least_sure_word_is_named(self) -> None:
        average = attrs.evolve(
            evidence(entropy_sum=3.0, broken=0.1, new_names=0.3), logprobs=(-math.log1p(math.e),)
        )
        likely = attrs.evolve(average, logprobs=(-math.log1p(math.e) / 2,) * 2)
        assert self.reason(likely, TierPolicy(0.9, 0.0)).startswith("about ")
        named = self.reason(attrs.evolve(likely, doubtful="timeout"), TierPolicy(0.9, 0.0))
        assert named.startswith("the model was least sure of `timeout`; about ")

    def test_without_a_pull_a_token_less_likely_than_not_is_the_reason_not_to_accept(self) -> None:
        average = evidence(entropy_sum=3.0, broken=0.1, new_names=0.3)
        unsure = attrs.evolve(average, logprobs=(-math.log1p(math.e) + 0.01, -0.01), doubtful="timeout")
        assert self.reason(unsure, TierPolicy(0.9, 0.0)).startswith("the model was unsure of `timeout`; ")
        at_the_end = attrs.evolve(unsure, logprobs=unsure.logprobs[::-1])
        assert self.reason(at_the_end, TierPolicy(0.9, 0.0)).startswith(
            "the model was unsure where the line ends; "
        )

    def test_words_that_contradict_the_tier_are_not_used(self) -> None:
        """A weight with the sign that its words do not expect: an unsure word is no reason to accept."""
        odd = Curve("features-2", (Weighted("largest-surprisal", 1.0, 1.0, 2.0),), 3.0)
        confidence = make(curves=(odd,)).assess(Evidence((-3.0,), {"largest-surprisal": 3.0}), TierPolicy())
        assert confidence.tier is Tier.ACCEPT
        assert "unsure" not in confidence.reason

    def test_every_feature_with_words_is_known_to_speak_for_or_against(self) -> None:
        assert set(SPEAKS) == {name for name, feature in FEATURES.items() if feature.high or feature.low}


def other(name: str, *curves: Curve) -> Calibrator:
    purpose = attrs.evolve(make().purpose, model=attrs.evolve(MODEL, name=name, sha256=name[0] * 64))
    return make(purpose=purpose, curves=curves)


NEW = attrs.evolve(make().purpose, model=attrs.evolve(MODEL, name="new", sha256="0" * 64))


class TestBorrowed:
    def test_the_mean_curve_has_the_mean_score(self) -> None:
        second = Curve(
            "features-2",
            (Weighted("total", 0.5, 3.0, 2.5), Weighted("broken", 0.3, 0.45, -1.8)),
            0.7,
            offsets=(Offset("line-start", -0.6),),
        )
        borrowed = borrowed_curve(NEW, [other("a", BEST, TOTAL), other("b", second, TOTAL)])
        assert [curve.measure for curve in borrowed.curves] == ["features-2", "total"]
        for one in (evidence(), evidence("mid-word", broken=1.0), evidence("line-start", new_names=2.0)):
            scores = [BEST.score(one), second.score(one)]
            assert borrowed.curves[0].score(one) == pytest.approx(np.mean(scores))  # type: ignore[arg-type]
        assert borrowed.assess(evidence(), TierPolicy(0.0, 0.0)).tier is Tier.REVIEW

    def test_a_models_own_calibrators_for_other_languages_come_before_those_of_other_models(self) -> None:
        """Only they lend, with the doubt of one calibrator."""
        steeper = BEST.shifted(Shift(slope=3.0, intercept=0.0, slope_sd=1, intercept_sd=1))
        purpose = attrs.evolve(make().purpose, language="java")
        borrowed = borrowed_curve(purpose, [make(curves=(BEST,)), other("e", steeper), other("f", steeper)])
        (curve,) = borrowed.curves
        assert curve.score(evidence()) == pytest.approx(BEST.score(evidence()))  # type: ignore[arg-type]
        assert curve.shift == Shift(slope_sd=0.5, intercept_sd=2.0)

    @pytest.mark.parametrize(("wanted", "lender"), [("javascriptreact", "javascript"), ("python", "python")])
    def test_the_language_and_its_family_come_before_other_languages(self, wanted: str, lender: str) -> None:
        """Of the same model for a dialect, and of other models for a new one."""
        steeper = BEST.shifted(Shift(slope=3.0, intercept=0.0, slope_sd=1, intercept_sd=1))

        def of(language: str, curve: Curve) -> Calibrator:
            return make(purpose=attrs.evolve(make().purpose, language=language), curves=(curve,))

        pool = [of(lender, BEST), of("go", steeper), of("rust", steeper)]
        model = MODEL if wanted != lender else NEW.model
        borrowed = borrowed_curve(attrs.evolve(make().purpose, language=wanted, model=model), pool)
        assert borrowed.curves[0].score(evidence()) == pytest.approx(BEST.score(evidence()))  # type: ignore[arg-type]
        assert [origin.name for origin in borrowed.provenance] == [pool[0].id]
