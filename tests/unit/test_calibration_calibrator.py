"""A calibrator's record: exact on disk, strict when read, honest about what it is for."""

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

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve, Offset, Shift, Weighted, is_plain
from lsp_calib.calibration.calibrators.fitting import LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.certificates import certify
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, Prior
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.tiers import RiskPolicy, TierPolicy
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import geometric_mean
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
    measure = draw(
        st.sampled_from(["features-2", "features-2-without-entropies", "total", "geometric-mean-first-9"])
    )
    plain = Curve.of_measure(measure, draw(finite), draw(finite)) if is_plain(measure) else None
    return Curve(
        measure,
        plain.features
        if plain
        else tuple(draw(st.lists(weighted, min_size=1, max_size=4, unique_by=lambda f: f.name))),
        draw(finite),
        prior=draw(st.none() | st.builds(Prior, finite, finite, sd, sd)),
        spread=draw(st.none() | sd),
        offsets=tuple(
            draw(st.lists(st.builds(Offset, text, finite), max_size=3, unique_by=lambda one: one.place))
        ),
        shift=draw(
            st.none() | st.builds(Shift, slope=finite, intercept=finite, slope_sd=sd, intercept_sd=sd)
        ),
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
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"schema": NaN}',
        b'{"schema": 1, "schema": 1}',
        b"[" * 100_000,
        b"9" * 10_000,
        b" " * 1_000_001,
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
    fitted = fit_calibrator(
        LabelledAnswers(
            Purpose(MODEL, "1", "line", "python"),
            [Evidence(item) for item in items],
            correct,
            np.arange(200) // 10,
            source="workspace",
            state="ready",
            created="2026-11-20",
            provenance=[Origin("here", "1", 200)],
        ),
        candidates=[1, 4, 8],
    )
    calibrator = fitted.calibrator
    assert skill_score(fitted.confidence, correct) == calibrator.metrics["skill"].value
    assert calibrator.n == 200
    assert calibrator.n_correct == correct.sum()
    assert calibrator.first_tokens in (4, 8)
    raw = [geometric_mean(item, calibrator.first_tokens) for item in items]
    fit = PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)
    assert calibrator.curve(calibrator.raw_measure) == Curve.of_measure(
        calibrator.raw_measure, fit.slope, fit.intercept, LOOSE_PRIOR
    )
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
