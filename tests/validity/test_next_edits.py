"""What the shipped curve of edits and its calibrator hold on projects set aside, by the committed records."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.edits.offers import EditCurve
from lsp_calib.studies.data import sets_named
from lsp_calib.studies.next_edit_fit import APART, FITTED, Judged, tables
from lsp_calib.studies.next_edits import read_cases
from lsp_calib.studies.tables import table_lines

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "models" / "records" / "edits"


@pytest.fixture(scope="module")
def judged() -> Judged:
    curve = EditCurve.shipped()
    calibrator = CalibratorStore.open().choose(curve.purpose, personal=False).calibrator
    return Judged.by(read_cases(RECORDS / APART), curve, calibrator)


def test_the_tiers_hold(judged: Judged) -> None:
    (share, right), (_, offered) = judged.tier(0.78), judged.tier(0.5)
    assert share.value is not None
    assert share.value > 0.12
    assert right.value is not None
    assert right.value > 0.90
    assert right.low is not None
    assert right.low > 0.86
    assert offered.value is not None
    assert offered.value > 0.72


def test_it_is_quiet_after_edits_that_are_not_repeated(judged: Judged) -> None:
    assert judged.once_in_all > 5000
    assert judged.once_offered() < 0.02 * judged.once_in_all


def test_the_page_has_these_tables(judged: Judged) -> None:
    page = (RECORDS / "README.md").read_text("utf-8")
    for one in tables(judged):
        part = "\n".join(table_lines(one.columns, one.rows))
        assert f"<!-- begin: {one.title} -->\n{part}\n" in page


def test_nothing_was_fitted_on_what_was_set_aside() -> None:
    apart = set().union(*(which.apart for which in sets_named("releases")))
    curve = EditCurve.shipped()
    assert not apart & {origin.name for origin in curve.provenance}
    assert {case.project for case in read_cases(RECORDS / APART)} <= apart
    fitted = read_cases(RECORDS / FITTED)
    assert not apart & {case.project for case in fitted}
    assert curve.n == sum(len(case.candidates) for case in fitted)
    assert len(curve.provenance) >= 80
