"""The shipped calibrators are what the committed records make of them, and as good as they say."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confidence_rendering import (
    IN_USE,
    RECORDS,
    SHIPPED,
    ablations,
    fitted_on,
    in_use,
    name_of,
    records_of,
)
from PIL import Image
from write_confidence import FIGURE, PAGES, README_FIGURE, ROOT, readme_checksum, written

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.line_curves import SECOND, SecondOpinion
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import bootstrap_difference, out_of_fold
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.commands.engine import layouts_for
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.confidence.features import FEATURES, by_name
from lsp_calib.corpus.places import INSERTING, STRATA
from lsp_calib.corpus.records import FeatureList, read_records
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import Settings
from lsp_calib.studies.ablation import SHIPPED as SHIPPED_ROW
from lsp_calib.studies.ablation import checksum
from lsp_calib.studies.data import SETS
from lsp_calib.values import Stop

read = functools.cache(read_records)  # no test changes what it gets
LINES = [file for file in RECORDS if file.stem.startswith("line-")]
NOTEBOOK = RECORDS[0].with_name("README.md")
INFILLING = [file for file in RECORDS if file.stem.startswith("infill-")]


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_it_is_for_the_model_and_the_prompt_of_today(shipped: Path) -> None:
    """A changed prompt or model file leaves the calibrator behind: it must be fitted again."""
    calibrator = Calibrator.load(shipped)
    card = load_cards()[calibrator.purpose.model.name]
    assert calibrator.purpose.model.sha256 == card.sha256
    assert Layout.named(calibrator.purpose.prompt_version, card) is not None
    assert calibrator.source == "shipped"


def test_it_says_what_it_was_fitted_on(shipped: Path) -> None:
    """Sources with versions, n, t, and skill with its interval stand in the file itself."""
    calibrator = Calibrator.load(shipped)
    assert calibrator.n >= 500
    assert sum(origin.items for origin in calibrator.provenance) == calibrator.n
    assert all(origin.name and origin.version for origin in calibrator.provenance)
    skill = calibrator.metrics["skill"]
    assert skill.low < skill.value < skill.high
    assert skill.low > 0, "a calibrator without skill says nothing: ship none"


def test_the_records_make_it(shipped: Path) -> None:
    """Fitted again from the records, without a model, it is the same."""
    calibrator = Calibrator.load(shipped)
    header, records = read(records_of(shipped))
    again = fit_records(header, records, shipped=True, created=header.created)[0].calibrator
    assert_same(again.to_json(), calibrator.to_json())


def test_the_command_makes_it_byte_for_byte_where_no_model_is_installed(
    shipped: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made.json"
    command = [sys.executable, "-m", "lsp_calib", "calibrate", "--quiet"]
    command += ["--records", str(records_of(shipped)), "--output", str(made)]
    env = {**os.environ, "LSP_CALIB_HOME": str(tmp_path / "home"), "LSP_CALIB_MODEL": "not-installed"}
    subprocess.run(command, env=env, cwd=tmp_path, check=True, timeout=300)
    assert made.read_bytes() == shipped.read_bytes()


def test_records_are_small() -> None:
    """500 bytes for what every record holds."""
    assert sum(file.stat().st_size for file in RECORDS) < 20_000_000
    for file in RECORDS:
        assert file.stat().st_size < 500 * len(read(file)[1])


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_records_hold_no_source(file: Path) -> None:
    """Ids, numbers and words of the format: nothing that was read or written by a model."""
    _, *lines = file.read_text("utf-8").splitlines()
    texts = {"item": r"[\w.+-]+/[\w./+@-]+(:\d+:\d+)?", "group": r"[\w.+-]+(/\w+)?", "prompt": "[0-9a-f]{16}"}
    texts |= {"stratum": "|".join(STRATA), "stop": "|".join(Stop), "condition": "writing-on|new-line"}
    numbers = {"tokens", "surprisal", "typed", "entropy", "margin", "newline", "agreement"}
    features = {"features", "features_above"}
    counts = {"added", "characters", "referenceCharacters"}
    others = {"state", "alternatives"}
    known = {*texts, *numbers, *features, *counts, *others, "at", "correct", "shown", "doubt"}
    records = [json.loads(line) for line in lines]
    answers = [other for record in records for other in record.get("alternatives", ())]
    for row in [*records, *answers]:
        assert row.keys() <= known
        # 64 numbers with their scale.
        scale, values = row.get("state", (0.0, "A" * 88))
        assert type(scale) is float
        assert re.fullmatch(r"[A-Za-z0-9+/=]{88}", values)
        for key in row.keys() & texts.keys():
            assert re.fullmatch(texts[key], row[key])
        for key in row.keys() & numbers:
            assert all(type(value) is int for value in row[key])
        assert all(type(row[key]) is int for key in row.keys() & counts)
        for key in row.keys() & features:
            assert all(value is None or type(value) is int for value in row[key])
        assert all(type(value) is bool for value in row["correct"].values())


@pytest.mark.parametrize("file", LINES, ids=lambda file: file.stem)
def test_lines_are_of_many_pinned_projects_and_none_is_held_out(file: Path) -> None:
    header, records = read(file)
    assert len(records) >= 1200
    pinned = {project.folder for project in SETS["projects"].projects}
    projects = {record.group for record in records}
    assert len(projects) >= 60
    assert projects <= pinned
    assert sum(source.items for source in header.sources) == len(records)
    assert header.held_out == ()
    # New lines are whole ones; half of them have nothing below, as others that write on.
    asked = [record for record in records if record.condition == INSERTING]
    for stratum, share in STRATA.items():
        drawn = sum(record.stratum == stratum for record in asked) / len(asked)
        assert drawn == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("file", LINES, ids=lambda file: file.stem)
def test_lines_that_were_offered_have_the_text_features_of_today(file: Path) -> None:
    header, records = read(file)
    assert header.features == FeatureList.present()
    for record in records:
        assert bool(record.features) == record.shown
        assert len(record.features_above) == len(record.features)
        assert record.doubt or record.evidence(header).features.keys() == FEATURES.keys() or not record.shown


@pytest.mark.parametrize("file", INFILLING, ids=lambda file: file.stem)
def test_infilling_is_judged_exactly_and_by_tests(file: Path) -> None:
    _, records = read(file)
    assert len(records) >= 300
    assert all(set(record.correct) == {"exact", "tests"} for record in records)
    # The line that was there passes the tests; but for its indentation, which `exact` leaves aside.
    exact = [record for record in records if record.correct["exact"]]
    failing = sum(not record.correct["tests"] for record in exact)
    assert failing <= max(1, len(exact) // 50)


@pytest.mark.usefixtures("home")
def test_the_tables_of_what_is_in_use_are_of_the_default_window() -> None:
    layouts = layouts_for(Settings(), CalibratorStore.open())
    cards = [load_cards()[name.removesuffix("-large")] for name in IN_USE]
    for name, card in zip(IN_USE, cards, strict=True):
        is_large = layouts.size(card, card.identity) is WindowSize.LARGE
        assert name == f"{card.name}{'-large' * is_large}"
    assert [card.recommended for card in cards] == [True, False], "as the README has it"


def test_the_notebook_says_how_many_rejected_lines_pass_the_tests() -> None:
    """Reject says that a line is not the one that was written, not that it is wrong."""
    found = []
    for name in ("qwen2.5-coder-1.5b-large", "qwen2.5-coder-1.5b", "smollm2-135m-large"):
        header, records = read(RECORDS[0].with_name(f"infill-{name}.jsonl"))
        offered = [record for record in records if record.shown and record.logprobs]
        calibrator = Calibrator.load(SHIPPED[0].with_name(f"line-{name}.json"))
        p = calibrator.probabilities([record.evidence(header) for record in offered])
        below = PRESETS["balanced"].reject_below
        passed = [record.correct["tests"] for record, one in zip(offered, p, strict=True) if one < below]
        found += [sum(passed), len(passed)]
    said = "{} of {} (large window) and {} of {} pass the tests, of SmolLM2's {} of {}".format(*found)
    assert said in NOTEBOOK.read_text("utf-8")


def test_lines_and_infilling_are_there_for_both_models() -> None:
    models = {"smollm2-135m", "qwen2.5-coder-1.5b"}
    assert "line-smollm2-135m" in [path.stem for path in SHIPPED], "the default model's"
    assert {read(file)[0].model.name for file in LINES} == models
    assert {read(file)[0].model.name for file in INFILLING} == models
    assert {file.stem for file in LINES} == {path.stem for path in SHIPPED}


# The claims of the studies are test_results.py's, where the studies are repeated.
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_documentation_says_what_records_and_calibrators_say(page: Path) -> None:
    """If not: make confidence."""
    text = page.read_text("utf-8")
    assert written(text, PAGES[page]()) == text


@pytest.mark.parametrize(
    ("figure", "shown"),
    [(FIGURE, lambda: checksum(in_use())), (README_FIGURE, readme_checksum)],
    ids=["ablation", "reliability"],
)
def test_the_figures_show_todays_calibrators(figure: Path, shown: Callable[[], str]) -> None:
    with Image.open(figure) as image:
        assert image.info["Description"] == shown(), "Draw it again: make confidence"


def test_what_ships_is_the_last_row_of_the_ablation(shipped: Path) -> None:
    """The calibrator's own figures, and the ablation's, are of the same predictions."""
    calibrator = Calibrator.load(shipped)
    ablation = ablations()[name_of(shipped)]
    row = ablation.stages[-1].row
    assert row.measure == SHIPPED_ROW
    assert (row.n, row.right) == (calibrator.n, calibrator.n_correct)
    for name in ("skill", "auc", "ece"):
        assert getattr(row, name).value == pytest.approx(calibrator.metrics[name].value, rel=1e-8)


def test_it_is_better_than_every_plain_measure(shipped: Path) -> None:
    ablation = ablations()[name_of(shipped)]
    first, total, *_, last = ablation.stages
    for plain in (first, total):
        both = last.row.confidence, plain.row.confidence
        difference = bootstrap_difference(
            skill_score, *both, ablation.correct, ablation.groups, resamples=200
        )
        assert difference.low > 0.0


def test_they_are_calibrated_at_every_place() -> None:
    """A calibrated score has a place outside in 1 of 20 cases, and two of four scores have in 1.4 %."""
    errors = [ablation.stages[-1].errors for ablation in ablations().values()]
    assert all(of_one["all"].inside for of_one in errors)
    assert sum(not all(error.inside for error in of_one.values()) for of_one in errors) < 2, errors


@pytest.mark.parametrize(
    "file", sorted((SHIPPED[0].parents[1] / SECOND).glob("*.json")), ids=lambda f: f.stem
)
def test_a_second_opinion_is_fitted_on_the_places_of_both_windows(file: Path) -> None:
    """As many as the records have, and of each window as many right ones."""
    curve = SecondOpinion.load(file)
    stem = file.stem.removesuffix("-large")
    windows = []
    for name in (f"{stem}-large", stem):
        header, records = read(RECORDS[0].with_name(f"{name}.jsonl"))
        offered = (one for one in records if one.shown and not one.doubt and one.entropies)
        windows.append({(one.item, one.condition): one.correct["exact"] for one in offered})
        assert header.prompt_version in (curve.prompt_version, curve.other_version)
    large, small = windows
    places = large.keys() & small.keys()
    assert curve.agreed.n + curve.chosen.n == len(places)
    assert curve.rest.n == curve.chosen.n
    right = sum(large[place] + small[place] for place in places)
    assert 2 * curve.agreed.n_right + curve.chosen.n_right + curve.rest.n_right == right


def test_what_is_typed_is_known(shipped: Path) -> None:
    """Probabilities given the typed characters rank suggestions no worse than unconditional ones.

    In the middle of a word, where they differ most, they rank better.
    """
    measure = by_name(Calibrator.load(shipped).raw_measure)
    records = fitted_on(shipped)
    correct = np.array([record.correct["exact"] for record in records])
    groups = [record.group for record in records]
    mid_word = np.array([record.stratum == "mid-word" for record in records])
    plain = np.array([measure(record.logprobs) for record in records])
    given = np.array([measure(record.logprobs_given_typed) for record in records])
    assert auc(given[mid_word], correct[mid_word]) > auc(plain[mid_word], correct[mid_word])
    fit = partial(PlattCalibrator.fit, prior=LOOSE_PRIOR)
    assert skill_score(out_of_fold(given, correct, groups, fit), correct) > skill_score(
        out_of_fold(plain, correct, groups, fit), correct
    )


def assert_same(left: Any, right: Any, where: str = "") -> None:
    """Equal, numbers to nine digits: another processor may round the last ones (and so make another id)."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left.keys() - {"id"}:
            assert_same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list):
        assert len(left) == len(right), where
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            assert_same(one, other, f"{where}[{at}]")
    elif isinstance(left, float) and isinstance(right, float):
        assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12), (where, left, right)
    else:
        assert left == right, where
