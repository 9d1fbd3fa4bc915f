"""docs/results.md and the studies' numbers on the committed records, which were found independently."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from confidence_rendering import MODELS, results_blocks, studies
from write_confidence import written

from lsp_calib.studies.measures import REFLECTIVE
from lsp_calib.studies.page import Compared
from lsp_calib.studies.paper import repeat_studies
from lsp_calib.studies.score import (
    APART,
    FIRST_T,
    Cell,
    File,
    adjusted_p_values,
    answers_of,
    find_files,
    largest,
)
from lsp_calib.studies.spiess import pairs_judged_twice, scored
from lsp_calib.studies.virk import LINE

# Seed 0, Platt on p by plain maximum likelihood, repositories apart, best F1: answers, right ones; the
# geometric mean's raw skill and ECE, its rescaled skill; the t of each fold, and the skill with them.
SUMMARIES = {
    ("qwen2.5-coder-1.5b", "python"): (478, 111, -0.66, 0.35, 0.027, (9, 9, 9, 8, 8), 0.043),
    ("qwen2.5-coder-1.5b", "java"): (506, 137, -0.58, 0.34, 0.005, (11, 7, 14, 14, 7), -0.002),
    ("smollm2-135m", "python"): (478, 34, -1.60, 0.32, 0.009, None, None),
    ("smollm2-135m", "java"): (505, 73, -0.54, 0.25, -0.003, None, None),
}


def of_summaries() -> list[tuple[Compared, Cell]]:
    """The cells of Virk et al."""
    (virk,) = [study for study in studies().studies if study.name == "virk"]
    return scored(virk.compared)


@pytest.mark.long
@pytest.mark.parametrize("key", SUMMARIES, ids="-".join)
def test_summaries(key: tuple[str, str]) -> None:
    n, right, raw_skill, raw_ece, skill, per_fold, first_skill = SUMMARIES[key]
    (cell,) = [
        one
        for _, one in of_summaries()
        if (one.answers.header.model.name, one.answers.header.language) == key
        and (one.answers.judge, one.answers.header.prompt_version) == ("best-f1", "summary-bm25-1")
    ]
    assert (cell.answers.n, cell.answers.right) == (n, right)
    raw, rescaled = cell.row("geometric-mean"), cell.row("geometric-mean", LINE, APART)
    assert raw.skill.value == pytest.approx(raw_skill, abs=0.006)
    assert raw.ece.value == pytest.approx(raw_ece, abs=0.006)
    assert rescaled.skill.value == pytest.approx(skill, abs=0.0011)
    assert rescaled.ece is None
    if per_fold is not None:
        chosen = cell.row(FIRST_T, LINE, APART)
        assert cell.first[FIRST_T].per_fold == per_fold
        assert chosen.skill.value == pytest.approx(first_skill, abs=0.0011)


@pytest.mark.long
def test_no_gain_of_the_first_tokens_is_significant() -> None:
    """Eleven cells: four files by three criteria, but for the one with five right answers."""
    pairs = [
        (one, cell) for one, cell in of_summaries() if cell.answers.header.prompt_version == "summary-bm25-1"
    ]
    found = adjusted_p_values([cell for _, cell in pairs])
    assert len(found) == 11
    assert min(found.values()) == pytest.approx(0.28, abs=0.006)


def test_lines_of_human_eval(tmp_path: Path) -> None:
    """Qwen, small window, the text above first: the total on ln p, raw and rescaled with functions apart."""
    packed = MODELS / "records" / "prefix-first" / "infill-qwen2.5-coder-1.5b.jsonl.gz"
    (tmp_path / "infill.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
    (spiess,) = repeat_studies("spiess", tmp_path, None, lambda _: None).studies
    pairs = pairs_judged_twice([cell for _, cell in scored(spiess.compared)])
    ((exact, tests),) = pairs
    wanted = {"exact": (0.30, 0.320), "tests": (-0.71, 0.223)}
    for cell in (exact, tests):
        raw, rescaled = cell.row("total"), cell.row("total", "Platt on ln p", APART)
        assert raw.skill.value == pytest.approx(wanted[cell.answers.judge][0], abs=0.006)
        assert rescaled.skill.value == pytest.approx(wanted[cell.answers.judge][1], abs=0.0011)
    a, b = exact.answers.correct, tests.answers.correct
    assert [int(np.sum(x)) for x in (a & b, a & ~b, ~a & b, ~a & ~b)] == [211, 1, 63, 42]


def test_verbalised_confidences_without_every_half() -> None:
    """SmolLM2 fell back on 108 of 215; some more stated one half."""
    file = records_named("observed/summary-smollm2-135m-python.jsonl")
    listed = file.header.observations
    seen = [listed.named(record.observed) for record in file.records]
    stated = [one for one in seen if "verbalised.confidence" in one]
    assert (len(stated), sum(bool(one["verbalised.fell-back"]) for one in stated)) == (215, 108)
    half = sum(one["verbalised.confidence"] == 0.5 for one in stated)
    assert half >= 108
    _, form = REFLECTIVE["verbalised-stated"]
    assert sum(form(one) is not None for one in stated) == 215 - half


def test_records_that_are_kept_for_other_things_are_left_out() -> None:
    used = {file.name for file in largest(find_files(MODELS / "records"))}
    assert not any(name.startswith(("blind/", "history/", "personal/")) for name in used)
    assert "line-qwen2.5-coder-1.5b-large.jsonl" in used
    (smallest,) = answers_of(records_named("infill-smollm2-135m.jsonl"), ["tests"])
    assert (smallest.right_of_asked, smallest.asked) == (3, 320)


def records_named(name: str) -> File:
    (file,) = [one for one in find_files(MODELS / "records") if one.name == name]
    return file


@pytest.mark.long
def test_the_page_says_what_the_records_say() -> None:
    """If not: make confidence."""
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    assert written(page, results_blocks()) == page


@pytest.mark.long
def test_there_are_at_most_fifteen_claims_each_with_a_verdict() -> None:
    claims = studies().claims
    assert 10 <= len(claims) <= 15
    assert {claim.verdict for claim in claims} <= {"held", "did not hold", "cannot tell", "not run"}
    assert all((claim.found == "–") == (claim.verdict == "not run") for claim in claims)
