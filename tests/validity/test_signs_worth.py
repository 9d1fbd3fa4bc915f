"""What the documentation says of signs, held to the committed records."""

from __future__ import annotations

import pytest
import signs_worth
from signs_worth import FILES, PAGE, RECORDS, SIGNS, WITH, WITHOUT, blind_of, elsewhere, offered, worth

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.validation import bootstrap_difference

QWEN = "Qwen2.5-Coder-1.5B, large window"


def test_the_two_families_of_recipes_differ_by_the_signs_alone() -> None:
    assert len(WITH) == len(WITHOUT) > 0
    for one, other in zip(WITH, WITHOUT, strict=True):
        assert set(one.features) - set(other.features) == {SIGNS}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FILES if "TSX" in name])
def test_the_table_is_what_the_records_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rows are made in the same way; each takes minutes."""
    monkeypatch.setattr(signs_worth, "FILES", {name: FILES[name]})
    _, _, *rows = worth()
    assert "\n".join(rows) in PAGE.read_text("utf-8")
    assert rows


@pytest.mark.long
def test_on_projects_that_nothing_was_fitted_on_signs_help() -> None:
    """With Qwen and the large window: the whole interval of the gain lies above 0."""
    lines, blind = offered(RECORDS / f"{FILES[QWEN]}.jsonl"), offered(blind_of(FILES[QWEN]))
    without, with_signs = (elsewhere(lines, blind, recipes) for recipes in (WITHOUT, WITH))
    with quietly():
        gained = bootstrap_difference(skill_score, with_signs, without, blind.correct, blind.codes)
    assert gained.low is not None
    assert gained.low > 0.0
