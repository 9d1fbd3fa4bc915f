"""Verdicts on the studies' claims: by one cell named before, and against the published size."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_paper import studied, study_of

from lsp_calib.calibration.scores import expected_calibration_error
from lsp_calib.calibration.validation import Interval
from lsp_calib.studies import spiess, verdicts
from lsp_calib.studies.spiess import EXACT, TESTS
from lsp_calib.studies.verdicts import CANNOT, DID_NOT, HELD, NOT_RUN, Measured, Rule, claims_of, decided

NUMBERS = st.floats(-2.0, 2.0).map(lambda value: round(value, 3))


def interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("rule", "bounds", "verdict"),
    [
        (Rule("more"), (0.01, 0.2), HELD),
        (Rule("more"), (-0.2, 0.0), DID_NOT),
        (Rule("more"), (-0.1, 0.1), CANNOT),
        (Rule("more", sizes=(0.2, 0.4)), (-0.1, 0.19), DID_NOT),
        (Rule("more", sizes=(0.2, 0.4)), (-0.1, 0.2), CANNOT),
        (Rule("more", sizes=(0.2, 0.4), rounding=0.005), (-0.1, 0.196), CANNOT),
        (Rule("more", sizes=(0.2, 0.4)), (0.01, 0.1), HELD),
        (Rule("less", sizes=(-0.4, -0.2)), (-0.19, 0.1), DID_NOT),
        (Rule("less", sizes=(-0.4, -0.2)), (-0.3, -0.01), HELD),
        (Rule("at least", 0.3), (0.31, 0.5), HELD),
        (Rule("at least", 0.3), (0.1, 0.29), DID_NOT),
        (Rule("at least", 0.3, (0.3, 0.4)), (0.2, 0.35), CANNOT),
        (Rule("at most", 0.05), (-0.2, 0.04), HELD),
        (Rule("at most", 0.05), (0.06, 0.2), DID_NOT),
        (Rule("at most", 0.05), (0.0, 0.06), CANNOT),
        (Rule("about", sizes=(0.5, 0.5), margin=0.1), (0.41, 0.59), HELD),
        (Rule("about", sizes=(0.5, 0.5), margin=0.1), (0.3, 0.6), CANNOT),
        (Rule("about", sizes=(0.5, 0.5), margin=0.1), (0.2, 0.49), DID_NOT),
    ],
)
def test_an_interval_is_judged_against_no_effect_and_against_the_published_size(
    rule, bounds, verdict
) -> None:
    assert rule.verdict(interval(*bounds)) == verdict


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_less_is_more_mirrored(a: float, b: float, c: float, d: float) -> None:
    (low, high), sizes = sorted((a, b)), tuple(sorted((c, d)))
    mirrored = interval(-high, -low), (-sizes[1], -sizes[0])
    assert Rule("more", sizes=sizes).verdict(interval(low, high)) == Rule("less", sizes=mirrored[1]).verdict(
        mirrored[0]
    )
    assert Rule("at least", c).verdict(interval(low, high)) == Rule("at most", -c).verdict(mirrored[0])


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_wider_interval_never_decides_what_a_narrower_one_leaves_open(
    middle: float, half: float, bound: float
) -> None:
    half = abs(half)
    for kind in ("more", "less", "at least", "at most"):
        rule = Rule(kind, bound if kind.startswith("at") else 0.0)
        narrow, wide = interval(middle - half, middle + half), interval(middle - 2 * half, middle + 2 * half)
        if rule.verdict(narrow) == CANNOT:
            assert rule.verdict(wide) == CANNOT


def test_the_first_cell_decides_and_the_others_are_told() -> None:
    measured = [Measured("large: 9, 3", interval(0.1, 0.3)), Measured("small: 9, 1", interval(-0.4, -0.2))]
    claim = decided("spiess", "1", "More.", Rule("more", sizes=(0.4, 0.5)), measured)
    assert (claim.verdict, claim.primary) == (HELD, "large: 9, 3")
    assert claim.found == "+0.20 (+0.10 to +0.30), below what was published"
    assert claim.elsewhere == "small: −0.30 (−0.40 to −0.20)"
    # Half of the interval is 1.96 standard errors; 2.80 of them are found four times in five.
    assert claim.least == "0.14"
    assert decided("spiess", "1", "More.", Rule("more"), []).verdict == NOT_RUN


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Lines of two models, with docstring and without, judged twice; and MBPP of the larger one."""
    folder = tmp_path_factory.mktemp("records")
    for model, seed in (("small-135m", 1), ("large-1.5b", 2)):
        studied(folder, f"line-{model}", "line", model=model, seed=seed)
        studied(folder, f"none-{model}", "line", model=model, seed=seed, condition="no-docstring", right=40)
        studied(folder, f"tests-{model}", "line", model=model, seed=seed, n=120, judges=(EXACT, TESTS))
    studied(folder, "mbpp", "synthesis", "mbpp", model="large-1.5b", judges=(TESTS,), talks=True)
    studied(folder, "served", "line", model="large-1.5b", prompt="line-fim-large-2", condition="inserting")
    return study_of(folder).cells


def claims_by_text(cells) -> dict[str, verdicts.Claim]:
    return {claim.says: claim for claim in claims_of({"spiess": cells}, ())}


def test_the_larger_models_cell_decides_and_none_of_the_editors(cells) -> None:
    claims = claims_by_text(cells)
    primaries = [claim.primary for claim in claims.values() if claim.primary != "–"]
    assert len(primaries) >= 10
    assert all(primary.startswith("large-1.5b") for primary in primaries)
    for claim in claims.values():
        assert "line-fim" not in " ".join(claim.cells())
    assert any(cell.answers.profile == "editor" for cell in cells), "there are some"


def test_docstrings_are_compared_on_the_same_lines(cells) -> None:
    claim = next(claim for says, claim in claims_by_text(cells).items() if says.startswith("Docstrings"))
    shown, hidden = spiess.docstring_pairs(cells, EXACT)["large-1.5b"]
    assert claim.value is not None
    assert claim.value.value == pytest.approx(
        np.mean(shown.answers.correct) - np.mean(hidden.answers.correct)
    )
    assert (claim.verdict, claim.primary) == (HELD, "large-1.5b, lines by exact: 240 lines of both")


def test_a_fall_in_ece_has_an_interval_over_groups(cells) -> None:
    claim = next(
        claim for says, claim in claims_by_text(cells).items() if says.startswith("Rescaling lowers ECE")
    )
    (cell,) = spiess.chosen(cells, "MBPP", TESTS)
    rows = cell.known("total"), cell.known("total", spiess.LINE, "random")
    raw, rescaled = (expected_calibration_error(row.confidence, cell.answers.correct) for row in rows)
    assert claim.value is not None
    assert claim.value.value == pytest.approx(raw - rescaled)
    assert claim.value.low < claim.value.value < claim.value.high


def test_rescaled_skills_are_less_what_chance_labels_give(cells) -> None:
    claim = next(claim for says, claim in claims_by_text(cells).items() if says.startswith("By exact match"))
    cell = spiess.chosen(cells, "DyPyBench", EXACT)[0]
    found = cell.corrected("total", spiess.LINE, "random")
    assert claim.value == found.skill
    assert found.bias < 0.0
    row = cell.known("total", spiess.LINE, "random")
    assert found.skill.value == pytest.approx(row.skill.value - found.bias)


def test_no_interval_is_given_over_rows_that_share_their_answers(cells) -> None:
    claim = next(claim for claim in claims_of({"spiess": cells}, ()) if claim.where == "Figure 8")
    assert claim.value is None
    assert "no interval" in claim.found
    # By the same rule the study's own numbers say different things of its models.
    assert "published GPT-3.5: +0.83 (30 points) and +0.77 (8), held" in claim.elsewhere
    assert "published Codex: +0.82 (30 points) and +0.88 (8), did not hold" in claim.elsewhere
    assert claim.least == "–"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (("m-1b", 0.4, 0.1, (0.6, 0.9), 0.1), HELD),
        (("m-1b", 0.27, 0.45, (0.6, 0.9), 0.8), CANNOT),
        (("m-1b", 0.27, 0.45, (0.6, 0.9), 0.2), DID_NOT),
    ],
)
def test_a_deviation_that_counting_noise_may_make_decides_nothing(found, verdict) -> None:
    (claim,) = claims_of({"full-ece": ()}, [("m-10m", 0.4, 0.01, (0.6, 0.9), 0.0), found])
    assert (claim.verdict, claim.primary) == (verdict, "m-1b")
    assert "60 to 90 %" in claim.found
    assert claim.elsewhere.startswith("m-10m: ")


def test_a_study_without_records_is_not_run() -> None:
    claims = list(claims_of({"spiess": (), "virk": (), "full-ece": ()}, ()))
    assert len(claims) >= 25
    assert {claim.verdict for claim in claims} == {NOT_RUN}
    assert {claim.study for claim in claims} == {"spiess", "virk", "full-ece"}


def test_a_share_that_no_answer_reaches_has_an_interval() -> None:
    low, high = attrs.astuple(verdicts.share_of(0.0, 112))[1:3]
    assert (low, high) == (pytest.approx(0.0), pytest.approx(0.033, abs=0.001))
