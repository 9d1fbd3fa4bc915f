"""`lsp-calib calibrators`: what is in force, what is kept, and what a calibrator weighs, in words."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE, Calibrator, Curve, Offset, Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, editing
from lsp_calib.calibration.certificates import Promise
from lsp_calib.cli import main
from lsp_calib.confidence.features import FEATURES
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models.inventory import inventory

pytestmark = pytest.mark.usefixtures("home")

CALIBRATORS = state.shipped_models() / "calibrators"
SHIPPED = [Calibrator.load(path) for path in sorted(CALIBRATORS.glob("*.json"))]
SMALL = Calibrator.load(CALIBRATORS / "line-smollm2-135m.json")
CURVE = Curve(
    FEATURES_MEASURE,
    (Weighted("total", -1.0, 2.5, 1.25), Weighted("broken", 0.06, 0.25, -0.7), Weighted("in-word", 0, 1, 0)),
    -0.5,
    spread=1.0,
    offsets=(Offset("mid-word", 0.3),),
)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["calibrators", *arguments])


def listed() -> list[dict[str, Any]]:
    result = invoke("list", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["calibrators"]


def personal(created: str) -> Calibrator:
    return attrs.evolve(
        SMALL,
        curves=(CURVE, *(curve for curve in SMALL.curves if curve.measure != CURVE.measure)),
        source="personal",
        state="learning",
        n=12,
        n_correct=5,
        created=created,
    )


def test_without_own_ones_the_shipped_are_in_force() -> None:
    entries = listed()
    assert {entry["id"] for entry in entries} == {c.id for c in SHIPPED}
    assert all(entry["inForce"] and entry["source"] == "shipped" for entry in entries)


def test_own_ones_take_the_place_of_shipped_ones_and_earlier_ones_are_kept() -> None:
    store = CalibratorStore.open()
    first, second = personal("2026-11-21"), personal("2026-11-22")
    store.promote(first)
    store.promote(second)
    entries = {entry["id"]: entry for entry in listed()}
    assert entries.keys() == {first.id, second.id, *(c.id for c in SHIPPED)}
    in_force = {name for name, entry in entries.items() if entry["inForce"]}
    assert in_force == {second.id, *(c.id for c in SHIPPED if c != SMALL)}
    assert next(iter(entries)) == second.id, "what is in force comes first, the newest first"
    printed = invoke("list").stdout
    assert f"{first.id}  kept\n" in printed, "an id stands on one line, to be copied"
    assert "personal, learning; 12 labels; features-" in printed


def test_answers_and_prompt_tell_the_shipped_ones_apart() -> None:
    """One model has calibrators of lines in several languages and for two windows, and of summaries."""
    printed = invoke("list").stdout.splitlines()
    about = [line.partition(";")[0] for line in printed if line.startswith("  ")]
    assert len(set(about)) == len(about) == len(SHIPPED)
    order = [(one["model"], one["task"], one["language"]) for one in listed()]
    assert order == sorted(order)
    assert "  smollm2-135m, lines of C++, prompt line-prefix-large-1" in about
    assert "  smollm2-135m, summaries of Java and Python, prompt summary-bm25-1" in about


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one.id)
def test_the_answers_that_one_is_about_are_named(one: Calibrator) -> None:
    answers = {"line": "Lines of ", "summary": "Summaries of "}[one.purpose.task]
    shown = invoke("show", one.id).stdout.replace("\n", " ")
    assert f"{answers}{one.purpose.language_name} by {one.purpose.model.name}" in shown


def test_the_weights_are_shown_in_words() -> None:
    calibrator = personal("2026-11-22")
    CalibratorStore.open().promote(calibrator)
    result = CliRunner(env={"COLUMNS": "140"}).invoke(main, ["calibrators", "show", calibrator.id])
    assert result.exit_code == 0, result.output
    for words in (
        *("odds × 3.49, raises the probability", "odds × 0.50, lowers the probability", "no effect"),
        *("the cursor's place: mid-word", "5 right"),
    ):
        assert words in result.stdout
    lines = [line for line in result.stdout.splitlines() if "odds ×" in line]
    assert FEATURES["total"].words in lines[0], "the strongest first"


@pytest.mark.parametrize("wanted", [SMALL.id, SMALL.id[:-2], "smollm2-135m"])
def test_a_calibrator_is_found_by_id_its_beginning_or_its_model(wanted: str) -> None:
    # Of a model there is one for each prompt.
    shown = [entry["id"] for entry in json.loads(invoke("show", wanted, "--json").stdout)]
    of_model = [one.id for one in SHIPPED if one.purpose.model.name == wanted]
    assert sorted(shown) == sorted(of_model or [SMALL.id])


@pytest.mark.parametrize(("wanted", "words"), [("nope", "no calibrator"), ("line-", "Several")])
def test_an_unknown_and_an_ambiguous_name_are_settings_errors(wanted: str, words: str) -> None:
    result = invoke("show", wanted)
    assert result.exit_code == SettingsError.exit_code
    assert words in result.stderr
    assert SMALL.id in result.stderr


def test_the_refits_of_one_day_stand_in_their_order() -> None:
    """A later one has seen more labels; its id says nothing."""
    store = CalibratorStore.open()
    refits = [attrs.evolve(personal("2026-11-22"), n=12 + at, parent=str(at)) for at in range(6)]
    for one in refits:
        store.promote(one)
    assert next(entry["id"] for entry in listed()) == refits[-1].id
    kept = [entry["id"] for entry in listed() if entry["source"] == "personal" and not entry["inForce"]]
    assert kept == [one.id for one in reversed(refits[:-1])]


def test_what_is_promised_is_listed_with_the_calibrator_and_drift_is_its_state() -> None:
    store = CalibratorStore.open()
    mine = personal("2026-11-22")
    store.promote(mine)
    assert all(entry["certificate"] is None for entry in listed())
    confidence, right = [0.99] * 60, [True] * 60
    with editing(store.ledger_path(mine.purpose)) as held:
        held.ledger = held.ledger.opened(Promise(), key="k", used_until=0.0)
        held.ledger = held.ledger.asking(mine.id, confidence, right)
    entry = next(entry for entry in listed() if entry["id"] == mine.id)
    assert (entry["certificate"]["certified"], entry["state"]) == (True, "learning")
    words = "at most 10 % of those at 99.0 % and above are wrong, with 90 % confidence: 0 of 60 labels were"
    assert f"Certified: {words}." in invoke("list").stdout
    assert f"Certified: {words}." in invoke("show", mine.id).stdout
    with editing(store.ledger_path(mine.purpose)) as held:
        held.ledger = held.ledger.read(0, confidence, [False] * 60, until=1.0)
    entry = next(entry for entry in listed() if entry["id"] == mine.id)
    assert (entry["certificate"]["revoked"], entry["state"]) == (True, "drifted")
    assert "Nothing is certified to be accepted: revoked: " in invoke("list").stdout


def test_a_damaged_ledger_is_named_and_everything_else_listed() -> None:
    store = CalibratorStore.open()
    path = store.ledger_path(SMALL.purpose)
    path.parent.mkdir(parents=True)
    path.write_text("{}", "utf-8")
    (store.personal / "broken.json").write_text("{}")
    result = json.loads(invoke("list", "--json").stdout)
    assert {entry["id"] for entry in result["calibrators"]} == {c.id for c in SHIPPED}
    for name in (str(path), "broken.json"):
        assert any(name in sentence for sentence in result["skipped"])
        assert name in invoke("list").stdout.replace("\n", "")


def test_the_list_separates_the_calibrators_of_installed_models(monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = "Of installed models:", "Of models that are not installed here:"
    lines = invoke("list").stdout.splitlines()
    assert (lines[0], here in lines) == (elsewhere, False)
    installed = [attrs.evolve(one, installed=one.card.name == "smollm2-135m") for one in inventory()]
    monkeypatch.setattr("lsp_calib.commands.calibrators.inventory", lambda: installed)
    lines = invoke("list").stdout.splitlines()
    ids = [line for line in lines[: lines.index(elsewhere)] if line.startswith(("line-", "summary-"))]
    assert lines[0] == here
    assert ids
    assert all("smollm2-135m" in line for line in ids)
    assert any("qwen" in line for line in lines[lines.index(elsewhere) :])
