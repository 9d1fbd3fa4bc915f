"""Measures and token selections are compared on the same items."""

import numpy as np
import pytest

from lsp_calib.calibration import auc
from lsp_calib.confidence import SELECTIONS, TokenSelection
from lsp_calib.errors import DataError
from lsp_calib.evaluation.measure_ablation import compare_choices

ALL, NO_NEWLINE = TokenSelection(), TokenSelection(newline=False)


def generations(n=300, seed=3):
    """The first token knows whether it is right; the newline's probability is noise."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, n)
    correct = rng.random(n) < p
    noise = rng.uniform(0.01, 1.0, n)
    groups = [f"repository-{at % 12}" for at in range(n)]
    return [["x", "\n"]] * n, [list(item) for item in np.log(np.column_stack([p, noise]))], correct, groups


def test_leaving_out_a_token_that_tells_nothing_helps():
    texts, logprobs, correct, groups = generations()
    everything, without = compare_choices(
        texts, logprobs, correct, groups, measures=["geometric-mean"], selections=[ALL, NO_NEWLINE]
    )
    assert without.skill > everything.skill
    assert without.auc == auc([np.exp(first) for first, _ in logprobs], correct)
    assert without.confidence.shape == (without.n,) == (300,)


def test_every_combination_is_there_in_order():
    texts, logprobs, correct, groups = generations(60)
    choices = compare_choices(texts, logprobs, correct, groups, measures=["total", "minimum"])
    assert [(c.measure, c.selection) for c in choices] == [
        (measure, selection) for measure in ("total", "minimum") for selection in SELECTIONS
    ]


def test_an_item_without_tokens_under_one_selection_is_left_out_for_all():
    texts, logprobs, correct, groups = generations(60)
    texts[0], logprobs[0] = ["\n"], [-0.1]
    choices = compare_choices(
        texts, logprobs, correct, groups, measures=["total"], selections=[ALL, NO_NEWLINE]
    )
    assert [choice.n for choice in choices] == [59, 59]


def test_input_that_does_not_fit_together_is_refused():
    texts, logprobs, correct, groups = generations(20)
    for bad in (
        (texts[:-1], logprobs, correct, groups),
        (texts, logprobs, correct[:-1], groups),
        (texts, logprobs, correct, groups[:-1]),
        ([["\n"]] * 20, [[-0.1]] * 20, correct, groups),
    ):
        with pytest.raises(DataError):
            compare_choices(*bad)
    with pytest.raises(DataError, match="Unknown confidence measure"):
        compare_choices(texts, logprobs, correct, groups, measures=["mean"])
