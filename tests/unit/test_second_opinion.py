"""A second opinion: what two answers say of each other, the curve's file, and the choice between them."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    Calibrator,
    Curve,
    Weighted,
    write_document,
)
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import AGREED_MEASURE, ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import SECOND, OfTwo, SecondOpinion
from lsp_calib.calibration.calibrators.purpose import Purpose, Source
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.tiers import PRESETS, Policy, RiskPolicy, TierPolicy
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.completion.reasons import Nothing, Removal
from lsp_calib.completion.second import Witness, second_opinion
from lsp_calib.completion.service import Completion
from lsp_calib.errors import CalibratorError
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import Confidence, Evidence, ModelIdentity, Suggestion, Sure, Tier, Timing

CARD = load_cards()["smollm2-135m"]
MODEL = ModelIdentity("smollm2-135m", "Q4_1", CARD.sha256)
SMALL, LARGE = (Layout.of(CARD, size) for size in WindowSize)
CURVE = SecondOpinion(
    model=MODEL,
    prompt_version=SMALL.version,
    other_version=LARGE.version,
    agreed=OfTwo(10, 8, 0.0, 0.6, 0.4),
    chosen=OfTwo(10, 5, -0.5, 0.9, -0.1, -0.3),
    rest=OfTwo(10, 1, -1.0, 0.7, -0.2, 0.3),
)
PROBABILITIES = st.floats(0.0, 1.0)
WEIGHTS = st.floats(-3.0, 3.0)
OF_TWO = st.builds(OfTwo, st.just(9), st.just(4), WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS)
CURVES = st.builds(
    lambda agreed, chosen, rest: replace(CURVE, agreed=agreed, chosen=chosen, rest=rest),
    OF_TWO,
    OF_TWO,
    OF_TWO,
)


@given(CURVES, PROBABILITIES, PROBABILITIES)
def test_at_most_one_of_two_answers_that_differ_is_right(curve: SecondOpinion, p: float, q: float) -> None:
    """Whatever the curve, and the surer one is never the less likely one."""
    is_other, surer, rest = curve.surer(p, q)
    assert is_other == (q > p)
    assert 0.0 <= rest <= surer <= 1.0
    assert surer + rest <= 1.0


@given(PROBABILITIES, PROBABILITIES)
def test_by_whichever_prompt_is_the_first_the_surer_one_is_the_same(p: float, q: float) -> None:
    """But for a tie, which the first one wins."""
    without = replace(CURVE, chosen=replace(CURVE.chosen, other=0.0), rest=replace(CURVE.rest, other=0.0))
    (is_other, *one), (is_first, *other) = without.surer(p, q), without.surer(q, p)
    assert one == other
    assert is_other != is_first or p == q


@given(PROBABILITIES, PROBABILITIES, PROBABILITIES)
def test_what_either_prompt_is_surer_of_is_likelier_where_both_say_it(
    p: float, q: float, more: float
) -> None:
    """With the weights of the shipped curves, which are all positive."""
    higher = max(q, more)
    assert CURVE.both_say(p, q) <= CURVE.both_say(p, higher)
    assert CURVE.both_say(q, p) <= CURVE.both_say(higher, p)


def test_the_numbers_are_those_of_the_formula() -> None:
    assert CURVE.both_say(0.5, 0.8) == pytest.approx(1 / (1 + math.exp(-0.4 * math.log(4))))
    is_other, surer, rest = CURVE.surer(0.5, 0.8)
    assert is_other
    assert surer == pytest.approx(1 / (1 + math.exp(0.8 - 0.9 * math.log(4))))
    assert rest == pytest.approx(1 / (1 + math.exp(1.0 + 0.2 * math.log(4))))


def test_a_file_is_read_as_it_was_written_and_refused_if_it_contradicts_itself() -> None:
    document = written(CURVE)
    assert read(document, SecondOpinion, "file") == CURVE
    with pytest.raises(CalibratorError, match="nRight must be among n"):
        read(document | {"agreed": document["agreed"] | {"nRight": 11}}, SecondOpinion, "file")
    with pytest.raises(CalibratorError, match="own must be a finite number"):
        read(document | {"agreed": document["agreed"] | {"own": 1e200}}, SecondOpinion, "file")
    with pytest.raises(CalibratorError, match="rest"):
        read({key: one for key, one in document.items() if key != "rest"}, SecondOpinion, "file")


def test_each_window_is_the_other_one_s_other() -> None:
    for card in load_cards().values():
        for size in WindowSize:
            layout = Layout.of(card, size)
            other = layout.with_other_window(card)
            assert other is None or other.with_other_window(card) == layout
            assert (other is None) == (Layout.of(card) == Layout.of(card, WindowSize.LARGE))
    assert SMALL.with_other_window(CARD) == LARGE
    assert Layout.plain(CARD).with_other_window(CARD) is None


@pytest.mark.parametrize("name", ["line-qwen2.5-coder-1.5b", "line-smollm2-135m"])
def test_models_with_labels_of_both_windows_have_shipped_curves(name: str) -> None:
    folder = home.shipped_models()
    small, large = (SecondOpinion.load(folder / SECOND / f"{name}{end}.json") for end in ("", "-large"))
    assert (small.prompt_version, small.other_version) == (large.other_version, large.prompt_version)
    card = load_cards()[small.model.name]
    assert small.prompt_version == Layout.of(card).version
    assert large.prompt_version == Layout.of(card, WindowSize.LARGE).version
    assert small.agreed.n == large.agreed.n, "they are of the same places"
    for curve in (small, large):
        assert curve.model.sha256 == card.sha256
        assert min(curve.agreed.own, curve.agreed.beside) > 0, "what either is surer of is likelier"
        assert curve.chosen.own > curve.chosen.beside


def calibrator(version: str, source: Source = "shipped") -> Calibrator:
    """One whose probability is the feature "total"."""
    curve = Curve(FEATURES_MEASURE, (Weighted("total", 0.0, 1.0, 1.0),), 0.0)
    return Calibrator(
        purpose=Purpose(MODEL, version, "line", "python"),
        curves=(curve,),
        raw_measure="geometric-mean",
        n=1000,
        n_correct=500,
        source=source,
        state="shipped",
        created="2026-01-01",
    )


def evidence(p: float) -> Evidence:
    return Evidence((math.log(p),), {"total": math.log(p / (1.0 - p))}, "mid-line")


def store(folder: Path, *, other: bool = True, curve: SecondOpinion | None = CURVE) -> CalibratorStore:
    """With a calibrator of the small window, and of the other one if wanted."""
    shipped = folder / "calibrators"
    for layout in (SMALL, LARGE) if other else (SMALL,):
        calibrator(layout.version).save(shipped / f"{layout.version}.json")
    if curve is not None:
        write_document(folder / SECOND / "line.json", written(curve))
    return CalibratorStore(folder / "own", shipped)


class Scene:
    """A first answer, and what the other prompt's answer becomes beside it."""

    def __init__(self, store: CalibratorStore, policy: Policy = PRESETS["balanced"]) -> None:
        self.estimator = ConfidenceEstimator(store, policy)
        self.loaded = LoadedModel(MODEL, CARD)

    def completion(self, text: str, p: float, layout: Layout = SMALL, **more: object) -> Completion:
        purpose = Purpose(MODEL, layout.version, "line", "python")
        seen = evidence(p)
        confidence = self.estimator.of(purpose).assess(seen)
        suggestion = Suggestion(
            id=text,
            kind="line",
            text=text,
            confidence=confidence,
            model=MODEL.name,
            tokens=1,
            source="model",
            timing=Timing(),
        )
        cursor = Cursor.at(("x = ",), 0, 4, "python")
        made = Completion(suggestion, cursor, seen, MODEL, layout.version)
        return attrs.evolve(made, **more)

    def witness(self, first: Completion, present: Layout = SMALL) -> Witness | None:
        return Witness.for_(first, self.loaded, present, self.estimator, "")

    def judged(self, first: Completion, other: object, *, on_screen: bool = False) -> tuple[Completion, ...]:
        witness = self.witness(first)
        assert witness is not None

        async def ask(layout: Layout) -> object:
            assert layout == LARGE
            return other

        return asyncio.run(second_opinion(first, witness, ask, on_screen=on_screen))


def probability(one: Completion) -> float:
    p = one.suggestion.confidence.calibrated
    assert p is not None
    return p


def test_the_same_answer_is_evidence(tmp_path: Path) -> None:
    scene = Scene(store(tmp_path))
    first = scene.completion("f(a)", 0.7)
    (found,) = scene.judged(first, scene.completion(" f(a) ", 0.95, LARGE))
    assert probability(found) == pytest.approx(CURVE.both_say(0.7, 0.95))
    confidence = found.suggestion.confidence
    assert (confidence.measure, confidence.tier) == (AGREED_MEASURE, Tier.ACCEPT)
    assert found.evidence == first.evidence, "its label counts as before"
    assert found.suggestion.id == first.suggestion.id


@pytest.mark.parametrize("is_other", [True, False])
def test_of_two_the_surer_one_is_first_and_labels_of_the_models_own_answer_count(
    tmp_path: Path, is_other: bool
) -> None:
    scene = Scene(store(tmp_path))
    first = scene.completion("f(a)", 0.5 if is_other else 0.9)
    other = scene.completion("g(b)", 0.9 if is_other else 0.5, LARGE)
    surer, behind = scene.judged(first, other)
    texts = ["g(b)", "f(a)"] if is_other else ["f(a)", "g(b)"]
    assert [one.suggestion.text for one in (surer, behind)] == texts
    assert [one.suggestion.rank for one in (surer, behind)] == [1, 2]
    assert probability(surer) + probability(behind) <= 1.0
    own, brought = (behind, surer) if is_other else (surer, behind)
    assert own.evidence == first.evidence
    assert own.stands_behind == is_other
    assert (brought.evidence, brought.prompt_version) == (Evidence(), SMALL.version)
    assert surer.behind is not None
    assert surer.behind.cursor.lines == ("",), "what is remembered holds no document"


@pytest.mark.parametrize("is_other", [True, False])
def test_one_that_is_on_the_screen_stays_first(tmp_path: Path, is_other: bool) -> None:
    """With the same probabilities."""
    scene = Scene(store(tmp_path))
    first = scene.completion("f(a)", 0.5 if is_other else 0.9)
    other = scene.completion("g(b)", 0.9 if is_other else 0.5, LARGE)
    before, after = scene.judged(first, other), scene.judged(first, other, on_screen=True)
    assert [one.suggestion.text for one in after] == ["f(a)", "g(b)"]
    assert [one.suggestion.rank for one in after] == [1, 2]
    assert {one.suggestion.text: probability(one) for one in after} == {
        one.suggestion.text: probability(one) for one in before
    }
    assert after[0].is_less_sure == is_other
    assert not any(one.stands_behind for one in after), "its label is that of a first one anyway"


def test_beginnings_keep_what_they_are_if_the_whole_is_wrong(tmp_path: Path) -> None:
    """And the sure one is that of the new probability."""
    scene = Scene(store(tmp_path))
    places = (Sure(1, 0.97), Sure(4, 0.85), Sure(8, 0.6))
    first = scene.completion("f(a, b)", 0.5, beginnings=places)
    (found,) = scene.judged(first, scene.completion("f(a, b)", 0.55, LARGE))
    p = probability(found)
    for before, after in zip(places, found.beginnings, strict=True):
        assert (1 - after.confidence) / (1 - p) == pytest.approx((1 - before.confidence) / 0.5)
    assert found.suggestion.sure is not None
    assert found.suggestion.sure.end == 4


def test_where_tiers_are_certified_it_is_not_asked(tmp_path: Path) -> None:
    """No certificate covers a choice: what is accepted without a second opinion would be for review."""
    scene = Scene(store(tmp_path), RiskPolicy(risk=0.1))
    assert scene.witness(scene.completion("f", 0.9)) is None


def test_the_one_behind_is_never_accepted(tmp_path: Path) -> None:
    scene = Scene(store(tmp_path), TierPolicy(0.2, 0.1))
    _, behind = scene.judged(scene.completion("f", 0.6), scene.completion("g", 0.55, LARGE))
    assert probability(behind) > 0.2
    assert behind.suggestion.confidence.tier is Tier.REVIEW


@pytest.mark.parametrize(
    "other", [None, Nothing(Removal.NEVER_ENDED), "prose"], ids=["none", "nothing", "prose"]
)
def test_without_a_second_answer_nothing_is_said(tmp_path: Path, other: object) -> None:
    scene = Scene(store(tmp_path))
    first = scene.completion("f", 0.9)
    if other == "prose":
        found = scene.completion("g", 0.9, LARGE)
        none = attrs.evolve(found.suggestion.confidence, calibrated=None)
        other = found.with_confidence(none)
    assert scene.judged(first, other) == ()


def none(confidence: Confidence) -> Confidence:
    return attrs.evolve(confidence, calibrated=None)


def test_it_is_asked_where_labels_say_what_it_means_alone(tmp_path: Path) -> None:
    scene = Scene(store(tmp_path))
    first = scene.completion("f", 0.9)
    assert scene.witness(first) is not None
    for unlike in (
        attrs.evolve(first, lead="f"),
        attrs.evolve(first, typed=2),
        attrs.evolve(first, suggestion=attrs.evolve(first.suggestion, rank=2)),
        attrs.evolve(first, prompt_version="line-prefix-0"),
        first.with_confidence(none(first.suggestion.confidence)),
        first.with_confidence(attrs.evolve(first.suggestion.confidence, measure=AGREED_MEASURE)),
    ):
        assert scene.witness(unlike) is None
    assert scene.witness(first, LARGE) is None, "no curve is for that window"
    scene.estimator.measure = "total"
    assert scene.witness(first) is None


def test_without_labels_or_a_curve_for_both_windows_it_is_not_asked(tmp_path: Path) -> None:
    for folder, known in (
        ("one", {"other": False}),
        ("two", {"curve": None}),
        ("three", {"curve": replace(CURVE, other_version="line-fim-2")}),
        ("four", {"curve": replace(CURVE, model=attrs.evolve(MODEL, sha256="0" * 64))}),
    ):
        (tmp_path / folder).mkdir()
        scene = Scene(store(tmp_path / folder, **known))  # type: ignore[arg-type]
        assert scene.witness(scene.completion("f", 0.9)) is None
