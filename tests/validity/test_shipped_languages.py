"""The shipped calibrators of other languages than Python are what their records make of Python's."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import attrs
import pytest
from language_transfer import table
from marks import repetitions
from test_shipped import assert_same

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.fitting import TIMES
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.corpus.places import STRATA
from lsp_calib.corpus.records import FeatureList, read_records
from lsp_calib.languages import name_of
from lsp_calib.studies.data import SETS

read = functools.cache(read_records)  # no test changes what it gets
FOLDER = home.shipped_models()
RECORDS = sorted((FOLDER / "records" / "languages").glob("line-*.jsonl"))
PAGE = FOLDER / "records" / "languages" / "README.md"


@pytest.fixture(params=RECORDS, ids=lambda path: path.stem)
def records(request: pytest.FixtureRequest) -> Path:
    return request.param


def calibrator_of(records: Path) -> Calibrator:
    return Calibrator.load(FOLDER / "calibrators" / records.with_suffix(".json").name)


def test_each_language_but_python_has_records() -> None:
    shipped = map(Calibrator.load, (FOLDER / "calibrators").glob("line-*.json"))
    languages = {one.purpose.language for one in shipped} - {"python"}
    assert languages == {read(path)[0].language for path in RECORDS}


def test_they_are_300_lines_of_15_pinned_projects(records: Path) -> None:
    header, found = read(records)
    pinned = {project.folder for project in SETS[f"projects-{header.language}"].projects}
    groups = {record.group for record in found}
    assert len(found) >= 300
    assert len(groups) >= 15
    assert groups <= pinned
    assert header.held_out == ()
    assert header.features == FeatureList.present()
    assert {record.stratum for record in found} <= set(STRATA)
    writing_on = sum(record.condition == "writing-on" for record in found)
    # Half of the places behind openers, which only the larger records have, have nothing below them.
    assert 0.25 < writing_on / len(found) < (0.4 if len(found) < 400 else 0.45)


def test_the_records_make_it(records: Path) -> None:
    header, found = read(records)
    again = fit_records(header, found, shipped=True, created=header.created)[0].calibrator
    assert_same(again.to_json(), calibrator_of(records).to_json())


def test_it_is_pythons_moved_unless_it_has_a_quarter_as_many_lines(records: Path) -> None:
    calibrator = calibrator_of(records)
    model = calibrator.purpose.model.name
    base = Calibrator.load(FOLDER / "calibrators" / f"line-{model}-large.json")
    is_moved = base.n >= TIMES * calibrator.n
    assert (calibrator.provenance[-1].name == base.id) is is_moved
    assert sum(origin.items for origin in calibrator.provenance[: -1 if is_moved else None]) == calibrator.n
    assert (calibrator.curves[0].shift is not None) is is_moved


def test_it_has_skill_and_is_calibrated(records: Path) -> None:
    """By lines that no fit has seen: ECE at most what 19 of 20 calibrated scores would show, or nearly."""
    metrics = calibrator_of(records).metrics
    skill, ece = metrics["skill"], metrics["ece"]
    assert skill.low > 0.25
    assert ece.value < 1.2 * ece.high


def test_an_editor_is_served_with_it(records: Path) -> None:
    """And a dialect without one of its own is served by the pooled curve, with the offset of its language."""
    header, _ = read(records)
    store = CalibratorStore(Path("/nowhere"), FOLDER / "calibrators")
    purpose = Purpose(header.model, header.prompt_version, "line", header.language)
    mine = calibrator_of(records)
    assert store.choose(purpose).calibrator == mine
    if header.language == "javascript":
        dialect = attrs.evolve(purpose, language="javascriptreact")
        served = store.choose(dialect).calibrator
        assert served.source == "pooled"
        assert mine.id in [origin.name for origin in served.provenance]


def of_model(name: str) -> list[Path]:
    found = [path for path in RECORDS if read(path)[0].model.name == name]
    assert found
    return found


def test_the_page_says_the_least_and_the_most_skill() -> None:
    values = [calibrator_of(path).metrics["skill"].value for path in of_model("smollm2-135m")]
    known = [value for value in values if value is not None]
    assert len(known) == len(values)
    assert f"skill of {min(known):+.2f} to {max(known):+.2f} on lines" in PAGE.read_text("utf-8")


def test_the_page_says_what_qwens_are_worth() -> None:
    """The shares as the table has them, which a long test computes."""
    paths = of_model("qwen2.5-coder-1.5b")
    _, _, rest = PAGE.read_text("utf-8").partition("<!-- begin: transfer of Qwen -->")
    moved = [row for row in rest.partition("<!-- end")[0].split("\n") if "of Python, moved" in row]
    assert len(moved) == len(paths)
    skills, shares, rights = (
        [float(found) for row in moved for found in re.findall(pattern, row)]
        for pattern in (r"moved \| ([+-][\d.]+)", r"(\d+)% @", r"@ (\d+)%")
    )
    *names, last = (name_of(read(path)[0].language) for path in paths)
    said = (
        f"Qwen has them for {', '.join(names)} and {last}, with {min(skills):+.2f} to {max(skills):+.2f}: "
        f"{min(shares):.0f} to {max(shares):.0f} % of its suggestions there are marked accept, "
        f"of which {min(rights):.0f} to {max(rights):.0f} % were right"
    )
    assert said in PAGE.read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize("model", ["smollm2-135m", "qwen2.5-coder-1.5b"][: repetitions(thorough=2, long=1)])
def test_the_documentation_says_what_python_is_worth_elsewhere(model: str) -> None:
    paths = of_model(model)[: repetitions(thorough=len(RECORDS), long=1)]
    assert "\n".join(table(paths)) in PAGE.read_text("utf-8")
