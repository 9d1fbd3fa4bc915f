"""What follows exactly from the studies' own data and printed numbers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from lsp_calib.studies import exact
from lsp_calib.studies.exact import AS_PRINTED, CHOSEN, COSINE, RECALL, derive, record, sections
from lsp_calib.studies.published import VIRK, said
from lsp_calib.studies.tables import Picture, Table
from lsp_calib.studies.thresholds import read_ratings

needs_data = pytest.mark.skipif(
    "LSP_CALIB_DATA" not in os.environ, reason="LSP_CALIB_DATA does not say where the data are"
)


@needs_data
def test_the_committed_record_follows_from_the_ratings() -> None:
    """If not: python -m lsp_calib.studies.exact."""
    assert derive(read_ratings(None)) == record()


@pytest.mark.parametrize(
    ("criterion", "found"), [("high-precision", 0.894), ("best-f1", 0.494), ("high-recall", 0.805)]
)
def test_the_published_thresholds_are_found_again_to_two_decimals(criterion: str, found: float) -> None:
    one = record()["metrics"][CHOSEN[criterion]]["settings"][criterion]
    assert round(one["exact"], 3) == found
    assert one["threshold"] == said(VIRK, "thresholds")["values"][criterion][1]


def test_the_published_auc_is_found_again_and_high_recall_on_a_scale_from_0_to_1_alone() -> None:
    """0.80 is not reached with the column as it is published (0.61): it is (cosine + 1) / 2."""
    found = record()
    assert (found["pairs"], found["positives"]) == (210, 48)
    assert found["metrics"][RECALL]["auc"] == pytest.approx(0.864, abs=5e-4)
    assert round(found["metrics"][RECALL]["auc"], 2) == said(VIRK, "thresholds")["auc"]
    recalls = (found["metrics"][name]["settings"]["high-recall"] for name in (COSINE, AS_PRINTED))
    assert [one["threshold"] for one in recalls] == [0.8, 0.61]


def test_printed_numbers_follow_from_one_another_but_for_two_of_virk_et_al() -> None:
    (table,) = (part for part in sections()[1].parts if isinstance(part, Table) and not part.title)
    kept = [row[1] for row in table.rows]
    assert kept == ["33 of 33", "198 of 198", "118 of 120", "6 of 6", "28 of 30"]
    assert "Table 4 high precision, DeepSeek-Coder-33b, python" in table.rows[-1][2]
    assert "Table 4 high recall, GPT-3.5-Turbo, python" in table.rows[-1][2]


def test_a_skill_that_cannot_follow_from_its_brier_score_is_found() -> None:
    cell = {"brier": 0.27, "skill": -0.4}
    assert exact._is_skill(cell, (0.19, 0.2))
    assert not exact._is_skill({**cell, "skill": 0.4}, (0.19, 0.2))


def test_the_section_needs_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LSP_CALIB_DATA", raising=False)
    pictures = [part for one in sections() for part in one.parts if isinstance(part, Picture)]
    assert [picture.stem for picture in pictures] == ["virk-figure-3"]
    axes = pictures[0].draw().axes[0]
    recall = [np.asarray(line.get_ydata())[0] for line in axes.lines if line.get_marker() in ("s", "D")]
    assert recall == pytest.approx([17 / 48, 33 / 48], abs=1e-4), "at 0.89 and at 0.49"
