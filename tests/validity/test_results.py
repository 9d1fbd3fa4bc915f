"""The claims in models/records, the page of the studies, and numbers on the records found another way."""

from __future__ import annotations

import numpy as np
import pytest
from confidence_rendering import MODELS, claims_blocks, studies
from sklearn.linear_model import LogisticRegression
from write_confidence import CLAIMS, STUDIES, written

from lsp_calib.calibration.scores import skill_score
from lsp_calib.studies import page, spiess, virk
from lsp_calib.studies.measures import REFLECTIVE
from lsp_calib.studies.score import APART, Cell, File, answers_of, find_files, largest
from lsp_calib.studies.verdicts import Claim

# Asked, right: those of the study's conditions.
COUNTS = {
    ("line", "exact", "prefix", "qwen2.5-coder-1.5b"): (837, 245),
    ("line", "exact", "no-docstring", "qwen2.5-coder-1.5b"): (837, 215),
    ("line", "exact", "prefix", "smollm2-135m"): (837, 81),
    ("line", "exact", "no-docstring", "smollm2-135m"): (837, 80),
    ("defects4j", "exact", "", "qwen2.5-coder-1.5b"): (138, 10),
    ("defects4j", "exact", "", "smollm2-135m"): (138, 2),
    ("manysstubs4j", "exact", "", "qwen2.5-coder-1.5b"): (499, 79),
    ("manysstubs4j", "exact", "", "smollm2-135m"): (499, 7),
    ("humaneval", "tests", "", "qwen2.5-coder-1.5b"): (164, 87),
    ("mbpp", "tests", "", "qwen2.5-coder-1.5b"): (974, 439),
}


def cells_of(name: str) -> list[Cell]:
    (study,) = [study for study in studies().studies if study.name == name]
    return list(study.cells)


def claim(study: str, begins: str) -> Claim:
    (found,) = [one for one in studies().claims if one.study == study and one.says.startswith(begins)]
    return found


def records_named(name: str) -> File:
    (file,) = [one for one in find_files(MODELS / "records") if one.name == name]
    return file


@pytest.mark.long
def test_every_item_asked_counts_and_repairs_that_show_their_answer_do_not() -> None:
    found = {}
    for cell in cells_of("spiess"):
        answers = cell.answers
        if answers.profile == "paper" and not answers.file.tested:
            source = answers.header.sources[0].name if answers.header.task != "line" else "line"
            found[source, answers.judge, answers.condition, cell.model] = answers.n, answers.right
    assert {key: found[key] for key in COUNTS} == COUNTS


@pytest.mark.long
def test_rescaled_summaries_are_scikit_learns_on_the_judged_tokens() -> None:
    seen = 0
    for cell in cells_of("virk"):
        if cell.why or cell.answers.judge != "best-f1":
            continue
        records = cell.answers.found
        raw = [
            np.exp(np.mean(record.logprobs[: record.judged_tokens])) for record in records if record.logprobs
        ]
        if len(raw) < cell.answers.n:
            continue
        p, y, fold = np.array(raw), cell.answers.correct, cell.maker.folds[APART]
        assert cell.known(virk.HEADLINE).skill.value == pytest.approx(skill_score(p, y), abs=1e-6)
        predicted = np.empty(p.size)
        for k in np.unique(fold):
            fitted = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
            fitted.fit(p[fold != k][:, None], y[fold != k])
            predicted[fold == k] = fitted.predict_proba(p[fold == k][:, None])[:, 1]
        found = cell.known(virk.HEADLINE, virk.LINE, APART).skill.value
        assert found == pytest.approx(skill_score(predicted, y), abs=1e-4)
        seen += 1
    assert seen >= 7


@pytest.mark.long
def test_docstrings_and_asap_are_compared_on_the_same_items() -> None:
    found = claim("spiess", "Docstrings raise").value
    assert found.value == pytest.approx((245 - 215) / 837)
    both = [
        {record.item: record.correct["best-f1"] for record in records_named(name).records}
        for name in ("augmented/summary-smollm2-135m-java.jsonl", "summaries/summary-smollm2-135m-java.jsonl")
    ]
    items = both[0].keys() & both[1].keys()
    points = 100 * (sum(both[0][one] for one in items) - sum(both[1][one] for one in items)) / len(items)
    said = f"smollm2-135m, Java, ASAP and BM25, best-f1: {points:+.1f}".replace("-6", "−6")
    assert said in claim("virk", "ASAP raises the share").elsewhere


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
    assert "lines/line-qwen2.5-coder-1.5b-large.jsonl" in used
    (smallest,) = answers_of(records_named("lines/infill-smollm2-135m.jsonl"), ["tests"])
    assert (smallest.right_of_asked, smallest.asked) == (3, 320)


@pytest.mark.long
def test_the_pages_say_what_the_records_say() -> None:
    """If not: make confidence."""
    claims = CLAIMS.read_text("utf-8")
    assert written(claims, claims_blocks()) == claims
    assert STUDIES.read_text("utf-8") == page.markdown(studies(), pictures=False)


@pytest.mark.long
def test_every_claim_that_records_decide_has_a_verdict_a_cell_and_its_power() -> None:
    claims = studies().claims
    assert len(claims) >= 25
    assert {claim.verdict for claim in claims} == {"held", "did not hold", "cannot tell"}
    for one in claims:
        assert one.primary != "–", one.says
        assert (one.least == "–") == (one.value is None), one.says
        if one.value is not None:
            assert one.value.low is not None, one.says


@pytest.mark.long
def test_no_claim_rests_on_the_editors_answers() -> None:
    served = {
        cell.answers.header.prompt_version for cell in cells_of("spiess") if cell.answers.profile == "editor"
    }
    assert served
    text = " ".join(" ".join(one.cells()) for one in studies().claims)
    assert not any(version in text for version in served)
    assert spiess.LINE == "Platt on ln p"
