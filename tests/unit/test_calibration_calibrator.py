"""A calibrator's record and curves: exact on disk, strict when read, honest about what it is for, and why."""

from __future__ import annotations

import copy
import json
import math
import os
import stat
import subprocess
import sys

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lsp_calib.calibration.calibrators.calibrator import (
    SPEAKS,
    Calibrator,
    Curve,
    Offset,
    Shift,
    Weighted,
    is_plain,
)
from lsp_calib.calibration.calibrators.fitting import LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.lent import borrowed_curve
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.certificates import certify
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, Prior, log_odds, sigmoid
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.tiers import RiskPolicy, TierPolicy
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import FEATURES, geometric_mean, total
from lsp_calib.errors import CalibratorError
from lsp_calib.values import Evidence, ModelIdentity, Tier

MODEL = ModelIdentity("SmolLM2 135M/Instruct", "Q4_1", "b" * 64)
PRIOR = Prior(1.0, 0.0, 0.5, 2.0)


def platt(slope, intercept, measure="geometric-mean-first-4", prior=PRIOR, **changes):
    """The fields of a calibrator whose only curve is Platt scaling of one measure."""
    curve = replace(Curve.of_measure(measure, slope, intercept, prior), **changes)
    return {"curves": (curve,), "raw_measure": measure}


def predict(calibrator, raw, measure=None):
    """The probability of answers with these raw confidences by a curve over one measure."""
    (feature,) = (calibrator.curve(measure or calibrator.raw_measure)).features
    curve = calibrator.curve(measure or calibrator.raw_measure)
    return PlattCalibrator(feature.weight, curve.intercept).predict(raw)


def make(**changes):
    values = {
        "purpose": Purpose(MODEL, "prefix-1", "line", "python"),
        **platt(0.9, -2.5),
        "n": 400,
        "n_correct": 48,
        "metrics": {
            "skill": Interval(0.13, 0.05, 0.2),
            "auc": Interval(None, None, None),
            "ece": Interval(0.04, 0.01, 0.06, "calibrated-band"),
        },
        "strata": {"indentation": 300, "midWord": 100},
        "provenance": (Origin("cpython-lib", "3.11.7", 400),),
        "source": "shipped",
        "state": "shipped",
        "created": "2026-11-20",
    }
    return Calibrator(**{**values, **changes})


finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e50, max_value=1e50)
sd = st.floats(1e-6, 1e6)
text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
estimate = st.none() | finite


intervals = st.dictionaries(
    st.sampled_from(["skill", "auc", "logLoss"]), st.builds(Interval, estimate, estimate, estimate)
)
weighted = st.builds(Weighted, text, finite, st.floats(1e-6, 1e6), finite)


@st.composite
def curves(draw):
    kinds = ["features-2", "features-2-without-entropies", "total", "geometric-mean-first-9"]
    measure = draw(st.sampled_from(kinds))
    shifts = st.builds(Shift, slope=finite, intercept=finite, slope_sd=sd, intercept_sd=sd)
    if is_plain(measure):
        features = Curve.of_measure(measure, draw(finite), draw(finite)).features
    else:
        features = draw(st.lists(weighted, min_size=1, max_size=4, unique_by=lambda one: one.name))
    offsets = draw(st.lists(st.builds(Offset, text, finite), max_size=3, unique_by=lambda one: one.place))
    return Curve(
        measure,
        tuple(features),
        draw(finite),
        prior=draw(st.none() | st.builds(Prior, finite, finite, sd, sd)),
        spread=draw(st.none() | sd),
        offsets=tuple(offsets),
        shift=draw(st.none() | shifts),
    )


@st.composite
def calibrators(draw):
    n = draw(st.integers(0, 10**7))
    return make(
        purpose=Purpose(
            ModelIdentity(draw(text), draw(st.text(max_size=3)), draw(st.sampled_from(["", "a" * 64]))),
            draw(text),
            draw(st.sampled_from(["line", "summary"])),
            draw(text),
        ),
        curves=tuple(draw(st.lists(curves(), min_size=1, max_size=4, unique_by=lambda c: c.measure))),
        raw_measure=draw(st.sampled_from(["total", "geometric-mean", "geometric-mean-first-9"])),
        n=n,
        n_correct=draw(st.integers(0, n)),
        metrics=draw(intervals),
        by_place=draw(st.dictionaries(text, intervals, max_size=2)),
        strata=draw(st.dictionaries(text, st.integers(0, 99), max_size=3)),
        provenance=tuple(draw(st.lists(st.builds(Origin, text, text, st.integers(0, 99)), max_size=3))),
        source=draw(st.sampled_from(["prior", "shipped", "workspace", "personal"])),
        state=draw(st.sampled_from(["shipped", "learning", "ready", "drifted"])),
        created=draw(st.dates()).isoformat(),
        parent=draw(st.none() | text),
    )


@settings(deadline=None)
@given(calibrator=calibrators())
def test_json_round_trip_is_exact(calibrator):
    text = json.dumps(calibrator.to_json(), allow_nan=False)
    assert Calibrator.from_json(json.loads(text)) == calibrator
    assert Calibrator.from_json(json.loads(text)).id == calibrator.id


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_personal_files_are_their_owners_alone(tmp_path):
    make(source="personal").save(tmp_path / "mine.json")
    make().save(tmp_path / "shipped.json")
    assert stat.S_IMODE((tmp_path / "mine.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "shipped.json").stat().st_mode) == 0o644


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    make().save(path)
    before = path.read_bytes()

    def full(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CalibratorError, match="no space left"):
        make(n=401).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_id_is_readable_and_follows_the_content_but_not_the_state():
    calibrator = make()
    assert calibrator.id.startswith("line-smollm2-135m-instruct-")
    assert len(calibrator.id.rsplit("-", 1)[1]) == 8
    assert make().id == calibrator.id
    assert make(state="drifted").id == calibrator.id
    assert make(**platt(0.9, np.nextafter(-2.5, 0))).id != calibrator.id


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", "a\\b:c*", "ключ", "x" * 500])
def test_no_model_name_makes_an_id_that_leaves_its_folder(name):
    identifier = make(purpose=Purpose(ModelIdentity(name, "", ""), "1", "line", "python")).id
    assert not any(part in identifier for part in ("/", "\\", ".."))
    assert len(identifier) < 90


def changed(path, value):
    document = copy.deepcopy(make().to_json())
    *parents, last = path
    at = document
    for key in parents:
        at = at[key]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return document


FIELDS = list(make().to_json())


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [KeyError, [1], math.nan, True, {"x": None}, -1.5])
def test_every_missing_or_wrong_field_is_named(field, value):
    # Some of these values have the right type for a field; then the id no longer matches.
    with pytest.raises(CalibratorError, match=r"here\.json.*(" + field + "|id)"):
        Calibrator.from_json(changed([field], value), file="here.json")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["schema"], 3, "schema: Invalid value 3 .* newer files need a newer lsp-calib"),
        (["model", "sha256"], 5, r"model\.sha256: Expected `str`, got `int`"),
        (["curves", 0, "prior", "slope"], KeyError, r"curves\[0\]\.prior: .* missing required field `slope`"),
        (["curves"], [], "must have curves"),
        (["curves", 0, "measure"], "features-x", "measure 'features-x' is not known"),
        (["curves", 0, "measure"], "total", "features of 'total' must be 'total' alone"),
        (["curves", 0, "features"], [], "at least one"),
        (["curves", 0, "features", 0, "scale"], 0, "scale must be a number in"),
        (["curves", 0, "offsets"], [{"place": "a", "offset": 1}] * 2, "one number for each place"),
        (["curves", 0, "shift"], {"slope": 1}, r"curves\[0\]\.shift: .* missing required field `slopeSd`"),
        (["metrics", "f1"], {"value": 1, "low": 1, "high": 1, "kind": "bootstrap"}, "f1"),
        (["strata", "midWord"], -1, r"strata\[...\]"),
        (["nCorrect"], 401, "nCorrect 401 above n 400"),
        (["task"], "token", "task: Invalid enum value .token."),
        (["rawMeasure"], "os.system", "measure"),
        (["firstTokens"], 5, "firstTokens does not go with"),
        (["created"], "2026-13-01", "created"),
        (["curves", 0, "intercept"], 10**400, "intercept"),
        (["curves", 0, "features", 0, "weight"], 1e200, "weight must be a finite number"),
        (["n"], 10**400, "n: "),
        (["curves", 0, "intercept"], 1.1, "id is not that of the content"),
        (["extra"], 1, "unknown field `extra`"),
    ],
)
def test_what_is_wrong_is_said(path, value, complaint):
    with pytest.raises(CalibratorError, match=complaint):
        Calibrator.from_json(changed(path, value), file="c.json")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"schema": NaN}', b'{"schema": 1, "schema": 1}'),
        *(b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b'{"schema": 1e999}', b" " * 1_000_001),
        b"cos\nsystem\n(S'true'\ntR.",
    ],
)
def test_files_that_are_no_calibrators_are_refused_by_name(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    for wrong in (path, tmp_path / "none.json", tmp_path):
        with pytest.raises(CalibratorError, match=wrong.name):
            Calibrator.load(wrong)


def test_it_fits_what_it_was_fitted_for():
    calibrator = make()
    unknown = ModelIdentity(MODEL.name, MODEL.quantisation, "")
    for changes, fits in (
        ({}, True),
        ({"model": ModelIdentity("renamed", "?", "b" * 64)}, True),
        ({"model": unknown}, True),
        ({"model": attrs.evolve(MODEL, sha256="c" * 64)}, False),
        ({"model": attrs.evolve(unknown, quantisation="Q8_0")}, False),
        ({"prompt_version": "prefix-2"}, False),
        ({"task": "summary"}, False),
        ({"language": "java"}, False),
    ):
        assert calibrator.purpose.fits(attrs.evolve(calibrator.purpose, **changes)) is fits, changes


def test_assess_walks_from_log_probabilities_to_a_tier():
    calibrator = make()
    logprobs = [-0.01, -0.02, -0.3, -0.1, -9.0]
    confidence = calibrator.assess(Evidence(tuple(logprobs)), TierPolicy())
    assert confidence.raw == geometric_mean(logprobs, 4)
    assert confidence.calibrated == pytest.approx(predict(calibrator, confidence.raw), abs=1e-15)
    assert (confidence.tier, confidence.certified) == (Tier.REVIEW, False)
    assert (confidence.measure, confidence.first_tokens) == ("geometric-mean-first-4", 4)
    assert confidence.calibrator == calibrator.ref


@pytest.mark.parametrize(
    ("logprobs", "reason"),
    [([], "gave no probabilities"), ([math.nan], "are invalid"), ([0.5], "are invalid")],
)
def test_no_or_impossible_probabilities_mean_review_never_accept(logprobs, reason):
    confidence = make(**platt(1.0, 9.0)).assess(Evidence(tuple(logprobs)), TierPolicy())
    assert (confidence.calibrated, confidence.raw, confidence.tier) == (None, None, Tier.REVIEW)
    assert reason in confidence.reason


def test_certified_is_what_is_accepted_under_a_promise_made_for_this_calibrator():
    calibrator = make(**platt(1.0, 0.0), source="personal", state="ready")
    promised = RiskPolicy(certificate=certify([0.85] * 40, [True] * 40, calibrator=calibrator.id))
    accepted = calibrator.assess(Evidence((-0.1,)), promised)
    assert (accepted.tier, accepted.certified) == (Tier.ACCEPT, True)
    assert "certified on 40 labels" in accepted.reason
    reviewed = calibrator.assess(Evidence((-0.5,)), promised)
    assert (reviewed.tier, reviewed.certified) == (Tier.REVIEW, False)
    other = attrs.evolve(calibrator, **platt(1.0, 1.0)).assess(Evidence((-0.1,)), promised)
    assert (other.tier, other.certified) == (Tier.REVIEW, False)
    assert calibrator.id in other.reason
    nothing = calibrator.assess(Evidence(()), promised)
    assert (nothing.tier, nothing.certified) == (Tier.REVIEW, False)


def test_fitting_puts_quality_choice_and_origin_on_record():
    rng = np.random.default_rng(0)
    correct = rng.random(200) < 0.4
    items = [tuple(-rng.exponential(0.3 if right else 1.2, 8)) for right in correct]
    answers = LabelledAnswers(
        Purpose(MODEL, "1", "line", "python"),
        [Evidence(item) for item in items],
        correct,
        np.arange(200) // 10,
        source="workspace",
        state="ready",
        created="2026-11-20",
        provenance=[Origin("here", "1", 200)],
    )
    fitted = fit_calibrator(answers, candidates=[1, 4, 8])
    calibrator = fitted.calibrator
    assert skill_score(fitted.confidence, correct) == calibrator.metrics["skill"].value
    assert calibrator.n == 200
    assert calibrator.n_correct == correct.sum()
    assert calibrator.first_tokens in (4, 8)
    raw = [geometric_mean(item, calibrator.first_tokens) for item in items]
    fit = PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)
    measure = calibrator.raw_measure
    assert calibrator.curve(measure) == Curve.of_measure(measure, fit.slope, fit.intercept, LOOSE_PRIOR)
    skill = calibrator.metrics["skill"]
    assert 0.5 < skill.low < skill.value < skill.high < 1.0
    assert calibrator.metrics["baseRate"].value == pytest.approx(correct.mean())
    assert Calibrator.from_json(json.loads(json.dumps(calibrator.to_json()))) == calibrator


def test_using_this_room_costs_numpy_only():
    code = (
        "import sys\n"
        "from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator\n"
        "from lsp_calib.calibration.validation import summarise\n"
        "PlattCalibrator.fit([0.1, 0.9], [0, 1], prior=LOOSE_PRIOR).predict(0.5)\n"
        "summarise([0.1, 0.9], [0, 1])\n"
        "heavy = {'sklearn', 'scipy', 'pandas', 'matplotlib', 'pygls', 'llama_cpp'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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
            assert confidence.measure == curve.measure
            assert confidence.calibrated == curve.probability(evidence())
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
        words = "the model gave every word a high probability; "
        assert self.reason(sure, TierPolicy(0.5, 0.1)).startswith(words)

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
        unsure = evidence("mid-line", "return", entropy_sum=3.0, new_names=0.2)
        at_the_end = attrs.evolve(unsure, logprobs=(-0.1, -7.0))
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
        of = evidence("mid-line", "timeout", entropy_sum=entropy, broken=float(broken), new_names=names)
        confidence = FULL.assess(attrs.evolve(of, logprobs=tuple(logprobs)), TierPolicy())
        if confidence.tier is not Tier.ACCEPT:
            assert "`timeout`" in confidence.cause
            assert confidence.reason.startswith(f"{confidence.cause}; ")

    def test_a_small_pull_is_no_reason_but_the_least_sure_word_is_named(self) -> None:
        average = evidence(entropy_sum=3.0, broken=0.1, new_names=0.3)
        likely = attrs.evolve(average, logprobs=(-math.log1p(math.e) / 2,) * 2)
        assert self.reason(likely, TierPolicy(0.9, 0.0)).startswith("about ")
        named = self.reason(attrs.evolve(likely, doubtful="timeout"), TierPolicy(0.9, 0.0))
        assert named.startswith("the model was least sure of `timeout`; about ")

    def test_without_a_pull_a_token_less_likely_than_not_is_the_reason_not_to_accept(self) -> None:
        average = evidence(entropy_sum=3.0, broken=0.1, new_names=0.3)
        unsure = attrs.evolve(average, logprobs=(-math.log1p(math.e) + 0.01, -0.01), doubtful="timeout")
        assert self.reason(unsure, TierPolicy(0.9, 0.0)).startswith("the model was unsure of `timeout`; ")
        at_the_end = attrs.evolve(unsure, logprobs=unsure.logprobs[::-1])
        ends = "the model was unsure where the line ends; "
        assert self.reason(at_the_end, TierPolicy(0.9, 0.0)).startswith(ends)

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


STEEPER = BEST.shifted(Shift(slope=3.0, intercept=0.0, slope_sd=1, intercept_sd=1))
NEW = attrs.evolve(make().purpose, model=attrs.evolve(MODEL, name="new", sha256="0" * 64))


class TestBorrowed:
    def test_the_mean_curve_has_the_mean_score(self) -> None:
        weights = (Weighted("total", 0.5, 3.0, 2.5), Weighted("broken", 0.3, 0.45, -1.8))
        second = Curve("features-2", weights, 0.7, offsets=(Offset("line-start", -0.6),))
        borrowed = borrowed_curve(NEW, [other("a", BEST, TOTAL), other("b", second, TOTAL)])
        assert [curve.measure for curve in borrowed.curves] == ["features-2", "total"]
        for one in (evidence(), evidence("mid-word", broken=1.0), evidence("line-start", new_names=2.0)):
            scores = [BEST.score(one), second.score(one)]
            assert borrowed.curves[0].score(one) == pytest.approx(np.mean(scores))  # type: ignore[arg-type]
        assert borrowed.assess(evidence(), TierPolicy(0.0, 0.0)).tier is Tier.REVIEW

    def test_a_models_own_calibrators_for_other_languages_come_before_those_of_other_models(self) -> None:
        """Only they lend, with the doubt of one calibrator."""
        purpose = attrs.evolve(make().purpose, language="java")
        borrowed = borrowed_curve(purpose, [make(curves=(BEST,)), other("e", STEEPER), other("f", STEEPER)])
        (curve,) = borrowed.curves
        assert curve.score(evidence()) == pytest.approx(BEST.score(evidence()))  # type: ignore[arg-type]
        assert curve.shift == Shift(slope_sd=0.5, intercept_sd=2.0)

    @pytest.mark.parametrize(("wanted", "lender"), [("javascriptreact", "javascript"), ("python", "python")])
    def test_the_language_and_its_family_come_before_other_languages(self, wanted: str, lender: str) -> None:
        """Of the same model for a dialect, and of other models for a new one."""

        def of(language: str, curve: Curve) -> Calibrator:
            return make(purpose=attrs.evolve(make().purpose, language=language), curves=(curve,))

        pool = [of(lender, BEST), of("go", STEEPER), of("rust", STEEPER)]
        model = MODEL if wanted != lender else NEW.model
        borrowed = borrowed_curve(attrs.evolve(make().purpose, language=wanted, model=model), pool)
        assert borrowed.curves[0].score(evidence()) == pytest.approx(BEST.score(evidence()))  # type: ignore[arg-type]
        assert [origin.name for origin in borrowed.provenance] == [pool[0].id]
