"""Raw confidence measures: the papers' definitions, exact in log space, loud about impossible input."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.confidence.features import (
    arithmetic_mean,
    by_name,
    first_tokens,
    geometric_mean,
    lowest_mean,
    measure_name,
    minimum,
    total,
)
from lsp_calib.errors import DataError

LN2 = math.log(2.0)
MEANS = ["geometric-mean", "geometric-mean-first-3", "geometric-mean-lowest-3"]
NAMES = ["total", "minimum", "arithmetic-mean", "arithmetic-mean-first-3", *MEANS]
logprobs = st.lists(st.floats(max_value=0.0, allow_nan=False), min_size=1, max_size=40)


def test_definitions_on_a_hand_computed_case():
    values = [math.log(0.5), math.log(0.8), math.log(0.1)]
    assert total(values) == pytest.approx(0.04, rel=1e-12)
    assert arithmetic_mean(values) == pytest.approx(1.4 / 3, rel=1e-12)
    assert geometric_mean(values) == pytest.approx(0.04 ** (1 / 3), rel=1e-12)
    assert geometric_mean(values, 2) == pytest.approx(math.sqrt(0.4), rel=1e-12)
    assert minimum(values) == pytest.approx(0.1, rel=1e-12)


def test_first_looks_at_no_more_and_no_less_than_there_is():
    values = [-LN2, -LN2, -50.0]
    for mean in (geometric_mean, arithmetic_mean):
        assert mean(values, 2) == pytest.approx(0.5)
        assert mean(values, 99) == mean(values)
        with pytest.raises(DataError, match="at least 1"):
            mean(values, 0)


def test_the_least_likely_tokens_are_found_wherever_they_stand():
    values = [math.log(0.9), math.log(0.1), math.log(0.8), math.log(0.4)]
    assert lowest_mean(values, 2) == pytest.approx(0.2, rel=1e-12)
    with pytest.raises(DataError, match="at least 1"):
        lowest_mean(values, 0)


def test_a_long_generation_does_not_underflow():
    assert total([-LN2] * 5000) == 0.0
    assert geometric_mean([-LN2] * 5000) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [[], [math.nan], [-1.0, 2e-6], [math.inf], ["x"], [None]])
def test_impossible_log_probabilities_are_refused(name, bad):
    with pytest.raises(DataError):
        by_name(name)(bad)


@pytest.mark.parametrize("name", NAMES)
@given(values=logprobs)
def test_every_measure_is_a_probability(name, values):
    assert 0.0 <= by_name(name)(values) <= 1.0


@given(values=logprobs, count=st.integers(1, 40))
def test_the_lowest_tokens_lie_between_the_least_one_and_all(values, count):
    assert lowest_mean(values, 1) == minimum(values)
    assert lowest_mean(values, len(values)) == geometric_mean(values)
    assert lowest_mean(values, count) <= lowest_mean(values, count + 1) * (1 + 1e-12)


def test_names_and_functions_are_inverse():
    values = [-0.1 * i for i in range(30)]
    for first in (None, 1, 4, 24):
        name = measure_name(first)
        assert first_tokens(name) == first
        assert by_name(name)(values) == geometric_mean(values, first)
    assert (measure_name(4), measure_name()) == ("geometric-mean-first-4", "geometric-mean")
    assert by_name("arithmetic-mean-first-4")(values) == arithmetic_mean(values, 4)
    assert first_tokens("arithmetic-mean-first-4") == 4
    assert by_name("geometric-mean-lowest-4")(values) == lowest_mean(values, 4)
    assert first_tokens("geometric-mean-lowest-4") is None, "it has to wait for all"


@pytest.mark.parametrize(
    "name",
    ["", "mean", "geometric-mean-first-0", "geometric-mean-first-4x", "geometric-mean-lowest", "minimum-2"],
)
def test_an_unknown_name_is_refused_by_name(name):
    with pytest.raises(DataError, match="Unknown confidence measure"):
        by_name(name)
