"""The tier of a summary in a sentence: what it says agrees with the number."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import home
from lsp_calib.badges import tier_sentence, tier_words
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.tiers import SUMMARY_PRESETS
from lsp_calib.confidence.features import FIT_FEATURES
from lsp_calib.values import CalibratorRef, Confidence, Evidence, Tier

CONFIDENCE: Confidence = suggestion("x").confidence


def sentence(probability: float | None, n: int = 812) -> str:
    ref = CalibratorRef("c", "shipped" if n else "prior", "shipped", n)
    changes = {"calibrated": probability, "calibrator": ref, "reason": "no labels yet"}
    return tier_sentence(attrs.evolve(CONFIDENCE, **changes))


@pytest.mark.parametrize(
    ("probability", "share"),
    [(0.53, "about 5 in 10"), (0.02, "fewer than 1 in 20"), (0.99, "more than 19 in 20")],
)
def test_the_sentence(probability: float, share: str) -> None:
    """Without labels in the language it is a guess."""
    said = f"{share} summaries like this match what a person wrote"
    assert sentence(probability) == f"{said} (812 checked)"
    assert sentence(None) == "no labels yet"
    assert "a guess" in sentence(probability, n=0)
    assert "checked" not in sentence(probability, n=0)


@given(st.floats(0, 1))
def test_the_share_is_the_probability_rounded(probability: float) -> None:
    found = re.match(r"(about|fewer than|more than) (\d+) in (\d+) ", sentence(probability))
    assert found is not None
    share = int(found[2]) / int(found[3])
    assert {
        "about": abs(share - probability) <= 0.05 + 1e-9,
        "fewer than": probability <= share,
        "more than": probability >= share,
    }[found[1]]


def shipped(model: str = "smollm2-135m") -> Calibrator:
    return Calibrator.load(home.shipped_models() / "calibrators" / f"summary-{model}.json")


def evidence(calibrator: Calibrator, away: float, *, fit: bool = True) -> Evidence:
    """An answer whose features lie so many standard deviations from the mean."""
    values = {
        one.name: one.mean + away * one.scale * (one.weight > 0.0 or -1.0)
        for curve in calibrator.curves[:3]
        for one in curve.features
        if fit or one.name not in FIT_FEATURES
    }
    return Evidence((-0.3, -0.2), values)


@pytest.mark.parametrize(("away", "words"), [(-3.0, "1 in 20"), (0.0, "5 in 10"), (2.0, "9 in 10")])
def test_the_fit_to_the_code_has_its_own_sentence(away: float, words: str) -> None:
    calibrator = shipped()
    found = calibrator.assess(evidence(calibrator, away), SUMMARY_PRESETS["balanced"])
    assert found.notes == (f"Its words fit the code better than those of {words} summaries by this model.",)
    alone = calibrator.assess(evidence(calibrator, away, fit=False), SUMMARY_PRESETS["balanced"])
    assert alone.notes == ()
    assert alone.calibrated is not None


def test_a_summary_that_only_repeats_the_name_is_not_green() -> None:
    """Its probability stays, which is right as often as it says: its author may have written no more."""
    calibrator, policy = shipped("qwen2.5-coder-1.5b"), SUMMARY_PRESETS["balanced"]
    good = evidence(calibrator, 2.0)
    usual = calibrator.assess(Evidence(good.logprobs, {**good.features, "beyond-name": 1.0}), policy)
    assert usual.tier is Tier.ACCEPT
    assert not any("name" in note for note in usual.notes)
    empty = calibrator.assess(Evidence(good.logprobs, {**good.features, "beyond-name": 0.0}), policy)
    assert (empty.tier, empty.calibrated) == (Tier.REVIEW, usual.calibrated)
    assert "it says little beyond the function's name" in empty.reason
    assert empty.notes == ("It says little beyond the function's name.", *usual.notes)


def test_a_calibrator_that_knows_little_says_so() -> None:
    calibrator = shipped()
    skill = attrs.evolve(calibrator.metrics["skill"], value=0.04, low=-0.02, high=0.1)
    unsure = attrs.evolve(calibrator, metrics={**calibrator.metrics, "skill": skill})
    (_, note) = unsure.assess(evidence(unsure, 0.0), SUMMARY_PRESETS["balanced"]).notes
    assert "hardly tells good summaries from others: skill +0.04, 95 % interval -0.02 to +0.10" in note


@pytest.mark.parametrize("tier", list(Tier))
def test_no_summary_is_rejected_in_words(tier: Tier) -> None:
    words = tier_words(tier)
    assert words.endswith("what its author would")
    assert not {"reject", "wrong", "right"} & set(words.lower().split())


def test_one_calibrator_serves_both_languages_and_one_criterion(tmp_path: Path) -> None:
    """A calibrator of another criterion says nothing of this one."""
    store = CalibratorStore(tmp_path, home.shipped_models() / "calibrators")
    of = shipped().purpose
    for language in ("python", "java"):
        purpose = attrs.evolve(of, language=language)
        assert store.choose(purpose).calibrator == shipped()
        assert not store.choose(attrs.evolve(purpose, criterion="best-f1")).calibrator.has_evidence
    go = store.choose(attrs.evolve(of, language="go")).calibrator
    assert (go.source, go.has_evidence, go.purpose.language_name) == ("prior", True, "Go")
    assert of.language_name == "Java and Python"
    other = attrs.evolve(shipped(), purpose=attrs.evolve(of, criterion="best-f1"))
    assert Calibrator.from_json(other.to_json()).purpose.criterion == "best-f1"
    assert other.id != shipped().id
    assert other.purpose.answers == "summaries of Java and Python, criterion best-f1"
