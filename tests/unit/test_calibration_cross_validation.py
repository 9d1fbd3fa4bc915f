"""Cross-validation: no group on both sides, no choice made on what it is judged by."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.validation import grouped_folds, out_of_fold, select_first_t
from lsp_calib.confidence.features import geometric_mean
from lsp_calib.errors import DataError

fit = partial(PlattCalibrator.fit, prior=LOOSE_PRIOR)

many_groups = st.lists(st.integers(0, 12), min_size=2, max_size=80).filter(lambda g: len(set(g)) > 1)


@given(groups=many_groups, folds=st.integers(2, 7), seed=st.integers(0, 5))
def test_folds_are_disjoint_by_group_and_all_used(groups, folds, seed):
    fold = grouped_folds(groups, folds, seed=seed)
    assert len({(g, f) for g, f in zip(groups, fold, strict=True)}) == len(set(groups))
    assert set(fold) == set(range(min(folds, len(set(groups)))))
    # Largest first into the emptiest: no two folds differ by more than the largest group.
    counts = np.bincount(fold)
    assert counts.max() - counts.min() <= max(groups.count(g) for g in groups)


@given(groups=many_groups, data=st.data())
def test_folds_do_not_depend_on_the_order_of_items(groups, data):
    order = data.draw(st.permutations(range(len(groups))))
    assert list(grouped_folds(np.array(groups)[order])) == list(grouped_folds(groups)[order])


def test_what_cannot_be_split_is_refused():
    with pytest.raises(DataError, match="2 groups"):
        grouped_folds(["a", "a"])
    with pytest.raises(DataError, match="2 folds"):
        grouped_folds(["a", "b"], 1)
    with pytest.raises(DataError, match="groups"):
        out_of_fold([0.5, 0.5], [True, False], ["a"], fit)


def test_each_prediction_comes_from_a_fit_on_other_groups():
    raw = np.linspace(0.1, 0.9, 30)
    groups = np.arange(30) // 3

    class Spy:
        def __init__(self, seen):
            self.seen = set(seen)

        def predict(self, raw):
            for value in raw:
                group = groups[np.flatnonzero(raw_all == value)[0]]
                assert not self.seen & set(raw_all[groups == group])
            return np.full(raw.shape, len(self.seen) / 30)

    raw_all = raw
    predicted = out_of_fold(raw, raw > 0.5, groups, lambda r, _: Spy(r))
    assert list(predicted) == [0.8] * 30


def generations(n, informative, seed):
    """Token log-probabilities of which only those from position `informative` on tell right from wrong."""
    rng = np.random.default_rng(seed)
    correct = rng.random(n) < 0.5
    items = []
    for right in correct:
        values = -rng.exponential(1.0, rng.integers(6, 14))
        values[informative:] *= 0.3 if right else 1.5
        items.append(list(values))
    return items, correct, np.arange(n) // 10


def test_the_informative_tokens_are_found():
    items, correct, groups = generations(300, 2, 0)
    result = select_first_t(items, correct, groups, [1, 2, 8, None], fit=fit)
    assert result.first in (8, None)
    assert [t for t, _ in result.skill_by_first] == [1, 2, 8, None]
    by_first = dict(result.skill_by_first)
    assert by_first[8] > 0.2 > 0.05 > by_first[2]
    assert len(result.per_fold) == 5
    assert skill_score(result.confidence, correct) == pytest.approx(max(by_first.values()), abs=0.05)


def test_the_honest_estimate_is_made_of_the_choices_of_each_fold():
    items, correct, groups = generations(120, 2, 1)
    result = select_first_t(items, correct, groups, [1, 4, 8], fit=fit)
    fold = grouped_folds(groups)
    for k, t in enumerate(result.per_fold):
        raw = np.array([geometric_mean(item, t) for item in items])
        test = fold == k
        expected = fit(raw[~test], correct[~test]).predict(raw[test])
        assert list(result.confidence[test]) == list(expected)
        # The labels of a fold have no say in the t that predicts it.
        flipped = np.where(test, ~correct, correct)
        assert select_first_t(items, flipped, groups, [1, 4, 8], fit=fit).per_fold[k] == t


def test_choosing_among_many_on_noise_is_optimistic_and_the_estimate_is_not():
    rng = np.random.default_rng(2)
    best, honest = [], []
    for _ in range(20):
        items = [list(-rng.exponential(1.0, 12)) for _ in range(60)]
        correct = rng.random(60) < 0.5
        result = select_first_t(items, correct, np.arange(60) // 3, [1, 2, 3, 4, 6, 8, 10, 12], fit=fit)
        best.append(max(skill for _, skill in result.skill_by_first))
        honest.append(skill_score(result.confidence, correct))
    assert np.mean(honest) < np.mean(best)
    assert np.mean(honest) < 0.0


def test_short_sequences_use_all_they_have_and_ties_take_the_smallest():
    items = [[-0.1 * (i % 7 + 1)] for i in range(30)]
    result = select_first_t(items, [i % 7 < 3 for i in range(30)], np.arange(30) // 3, [5, 2, None], fit=fit)
    assert result.first == 2


def test_too_little_to_choose_from_is_refused():
    with pytest.raises(DataError, match="3 groups"):
        select_first_t([[-0.1]] * 4, [True, False] * 2, [0, 0, 1, 1], [1, 2], fit=fit)
    assert select_first_t([[-0.1]] * 4, [True, False] * 2, [0, 0, 1, 1], [2], fit=fit).first == 2
    with pytest.raises(DataError, match="no candidate"):
        select_first_t([[-0.1]], [True], [0], [], fit=fit)
    with pytest.raises(DataError):
        select_first_t([[-0.1], []], [True, False], [0, 1], [2], fit=fit)
