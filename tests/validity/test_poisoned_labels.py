"""Labels that are wrong, repeated or absurd do not cost the user what the shipped calibrator gives.

The truth is known: a user for whom the shipped calibrator is exactly right, on answers of its records. There
is nothing to gain for this user, so that whatever a refit changes is a loss. It is computed without labels:
the expected Brier score is the mean of (promised - truth)^2 plus what nobody can avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.refit import RefitResult, refit
from lsp_calib.corpus.records import read_records
from lsp_calib.values import Evidence

MODELS = Path(__file__).parents[2] / "models"
LABELS, LATER, COPIES = 2000, 1000, 10_000
MOST_COST = 0.002
# z of a two-sided interval of 95 %.
Z = 1.96


@attrs.frozen(eq=False)
class Labels:
    """n labels with what tells their lines apart."""

    answers: list[Evidence]
    correct: BoolArray
    lines: list[int]


Poison = Callable[[Labels, FloatArray, np.random.Generator], Labels]
"""From labels, the probability that each answer is right, and chance, to worse labels."""


def flipped(labels: Labels, _truth: FloatArray, rng: np.random.Generator) -> Labels:
    """One label in twenty says the opposite."""
    return attrs.evolve(labels, correct=labels.correct ^ (rng.random(len(labels.answers)) < 0.05))


def copied(labels: Labels, truth: FloatArray, _rng: np.random.Generator) -> Labels:
    """Ten thousand visits to one line, of which the calibrator is surest, and which is wrong each time."""
    surest = int(np.argmax(truth))
    return Labels(
        labels.answers + [labels.answers[surest]] * COPIES,
        np.concatenate([labels.correct, np.zeros(COPIES, bool)]),
        labels.lines + [labels.lines[surest]] * COPIES,
    )


def absurd(labels: Labels, _truth: FloatArray, rng: np.random.Generator) -> Labels:
    """In one label of ten a feature is no number, or an enormous one."""
    answers = []
    for answer in labels.answers:
        if rng.random() < 0.1:
            name = str(rng.choice(sorted(answer.features)))
            value = float(rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e9]))
            answer = attrs.evolve(answer, features={**answer.features, name: value})
        answers.append(answer)
    return attrs.evolve(labels, answers=answers)


def untouched(labels: Labels, _truth: FloatArray, _rng: np.random.Generator) -> Labels:
    """Nothing is wrong."""
    return labels


@pytest.fixture(scope="module")
def world() -> tuple[Calibrator, list[Evidence]]:
    """The shipped calibrator of a model, and the evidence of its records."""
    header, records = read_records(MODELS / "records" / "lines" / "line-smollm2-135m.jsonl")
    found = (Calibrator.load(path) for path in (MODELS / "calibrators").glob("*.json"))
    shipped = next(one for one in found if one.purpose.model.name == "smollm2-135m")
    evidences = [record.evidence(header) for record in records]
    return shipped, [one for one in evidences if shipped.probability(one) is not None and one.features]


def refitted(shipped: Calibrator, labels: Labels) -> RefitResult:
    weights = LabelWeights.of(len(labels.answers), lines=labels.lines)
    of = {"created": "2026-12-01", "base": shipped, "seen": 0}
    return refit(shipped, labels.answers, labels.correct, weights, **of)


def costs(world: tuple[Calibrator, list[Evidence]], poison: Poison, seeds: int) -> tuple[FloatArray, int]:
    """By how much the Brier score on later answers is higher after a refit, for each seed, shape (seeds,);
    and how many refits were promoted."""
    shipped, pool = world
    truth = shipped.probabilities(pool)
    found, promoted = [], 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(pool), LABELS)
        correct = rng.random(LABELS) < truth[chosen]
        clean = Labels([pool[i] for i in chosen], correct, list(range(LABELS)))
        dirty = poison(clean, truth[chosen], rng)
        result = refitted(shipped, dirty)
        later = [pool[i] for i in rng.choice(len(pool), LATER)]
        if result.calibrator is None:
            found.append(0.0)
            continue
        promoted += 1
        before, after = shipped.probabilities(later), result.calibrator.probabilities(later)
        found.append(float(np.mean((after - before) ** 2)))
    return np.array(found), promoted


def upper(values: FloatArray) -> float:
    """The upper end of the 95 % interval of the mean."""
    return float(values.mean() + Z * values.std(ddof=1) / np.sqrt(values.size))


@pytest.mark.long
@pytest.mark.parametrize("poison", [untouched, flipped, copied, absurd])
def test_the_promoted_calibrator_costs_next_to_nothing(
    world: tuple[Calibrator, list[Evidence]], poison: Poison
) -> None:
    found, promoted = costs(world, poison, 20)
    print(f"{poison.__name__}: {found.mean():.5f}, at most {upper(found):.5f}, {promoted} of 20 promoted")
    assert upper(found) <= MOST_COST


@pytest.mark.parametrize("poison", [flipped, copied, absurd])
def test_a_few_poisoned_sets(world: tuple[Calibrator, list[Evidence]], poison: Poison) -> None:
    """The same in short: each of three sets."""
    found, _ = costs(world, poison, 3)
    assert found.max() <= 2 * MOST_COST


@pytest.mark.parametrize("outcome", [True, False])
@pytest.mark.parametrize("n", [5, 50, LABELS])
def test_one_class_is_never_promoted(world: tuple[Calibrator, list[Evidence]], outcome: bool, n: int) -> None:
    shipped, pool = world
    rng = np.random.default_rng(n)
    for _ in range(5):
        answers = [pool[i] for i in rng.choice(len(pool), n)]
        result = refitted(shipped, Labels(answers, np.full(n, outcome), list(range(n))))
        assert not result.promoted
        assert "at least one other is needed" in result.reason
