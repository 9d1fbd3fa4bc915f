"""`lsp-calib calibrators`: what is in force or kept, in words; taken back, shared, tried before it counts."""

from __future__ import annotations

import errno
import functools
import json
import math
import os
import random
import re
import stat
from pathlib import Path
from typing import Any

import attrs
import command_scene
import pytest
from command_scene import document
from feedback_scene import in_haste, settle, show

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE, Calibrator, Curve, Offset, Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, editing
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.calibrators.refit import COMMITS, FEEDBACK
from lsp_calib.calibration.certificates import Promise
from lsp_calib.calibration.document import read
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import FEATURES, VERSION
from lsp_calib.errors import DataError, LspCalibError, SettingsError
from lsp_calib.feedback.importing import OTHERS
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.models.inventory import inventory

pytestmark = pytest.mark.usefixtures("home")

CALIBRATORS = state.shipped_models() / "calibrators"
SHIPPED = [Calibrator.load(path) for path in sorted(CALIBRATORS.glob("*.json"))]
SMALL = Calibrator.load(CALIBRATORS / "line-smollm2-135m.json")
SUMMARIES = [c for c in SHIPPED if c.purpose.task == "summary"]
PLAIN = Curve.of_measure("total", 1.0, 0.0)
CURVE = Curve(
    FEATURES_MEASURE,
    (Weighted("total", -1.0, 2.5, 1.25), Weighted("broken", 0.06, 0.25, -0.7), Weighted("in-word", 0, 1, 0)),
    -0.5,
    spread=1.0,
    offsets=(Offset("mid-word", 0.3),),
)


invoke = functools.partial(command_scene.invoke, "calibrators")
said = functools.partial(command_scene.said, "calibrators")


def refused(*arguments: object, error: type[LspCalibError] = DataError) -> str:
    return command_scene.refused(error, "calibrators", *arguments)


def listed() -> list[dict[str, Any]]:
    return document("calibrators", "list")["calibrators"]


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
    printed = said("list")
    assert f"{first.id}  kept\n" in printed, "an id stands on one line, to be copied"
    assert "personal, learning; 12 labels; features-" in printed


def test_answers_and_prompt_tell_the_shipped_ones_apart() -> None:
    """One model has calibrators of lines in several languages and for two windows, and of summaries."""
    printed = said("list").splitlines()
    about = [line.partition(";")[0] for line in printed if line.startswith("  ")]
    assert len(set(about)) == len(about) == len(SHIPPED)
    order = [(one["model"], one["task"], one["language"]) for one in listed()]
    assert order == sorted(order)
    assert "  smollm2-135m, lines of C++, prompt line-prefix-large-1" in about
    assert "  smollm2-135m, summaries of Java and Python, prompt summary-bm25-1" in about


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one.id)
def test_the_answers_that_one_is_about_are_named(one: Calibrator) -> None:
    name = one.purpose.language_name
    answers = {"line": f"Lines of {name}", "summary": f"Summaries of {name}", "edit": "Edits"}
    shown = said("show", one.id).replace("\n", " ")
    assert f"{answers[one.purpose.task]} by {one.purpose.model.name}" in shown


def test_the_weights_are_shown_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    calibrator = personal("2026-11-22")
    CalibratorStore.open().promote(calibrator)
    printed = said("show", calibrator.id)
    for words in (
        *("odds × 3.49, raises the probability", "odds × 0.50, lowers the probability", "no effect"),
        *("the cursor's place: mid-word", "5 right"),
    ):
        assert words in printed
    strongest = next(line for line in printed.splitlines() if "odds ×" in line)
    assert FEATURES["total"].words in strongest


@pytest.mark.parametrize("wanted", [SMALL.id, SMALL.id[:-2], "smollm2-135m"])
def test_a_calibrator_is_found_by_id_its_beginning_or_its_model(wanted: str) -> None:
    # Of a model there is one for each prompt.
    shown = [entry["id"] for entry in document("calibrators", "show", wanted)]
    of_model = [one.id for one in SHIPPED if one.purpose.model.name == wanted]
    assert sorted(shown) == sorted(of_model or [SMALL.id])


@pytest.mark.parametrize(("wanted", "words"), [("nope", "no calibrator"), ("line-", "Several")])
def test_an_unknown_and_an_ambiguous_name_are_settings_errors(wanted: str, words: str) -> None:
    text = refused("show", wanted, error=SettingsError)
    assert words in text
    assert SMALL.id in text


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
    assert f"Certified: {words}." in said("list")
    assert f"Certified: {words}." in said("show", mine.id)
    with editing(store.ledger_path(mine.purpose)) as held:
        held.ledger = held.ledger.read(0, confidence, [False] * 60, until=1.0)
    entry = next(entry for entry in listed() if entry["id"] == mine.id)
    assert (entry["certificate"]["revoked"], entry["state"]) == (True, "drifted")
    assert "Nothing is certified to be accepted: revoked: " in said("list")


def test_a_damaged_ledger_is_named_and_everything_else_listed() -> None:
    store = CalibratorStore.open()
    path = store.ledger_path(SMALL.purpose)
    path.parent.mkdir(parents=True)
    path.write_text("{}", "utf-8")
    (store.personal / "broken.json").write_text("{}")
    result = document("calibrators", "list")
    assert {entry["id"] for entry in result["calibrators"]} == {c.id for c in SHIPPED}
    for name in (str(path), "broken.json"):
        assert any(name in sentence for sentence in result["skipped"])
        assert name in said("list").replace("\n", "")


def test_the_list_separates_the_calibrators_of_installed_models(monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = "Of installed models:", "Of models that are not installed here:"
    lines = said("list").splitlines()
    assert (lines[0], here in lines) == (elsewhere, False)
    installed = [attrs.evolve(one, installed=one.card.name == "smollm2-135m") for one in inventory()]
    monkeypatch.setattr("lsp_calib.commands.calibrators.inventory", lambda: installed)
    lines = said("list").splitlines()
    ids = [line for line in lines[: lines.index(elsewhere)] if line.startswith(("line-", "summary-"))]
    assert lines[0] == here
    assert ids
    assert all("smollm2-135m" in line for line in ids)
    assert any("qwen" in line for line in lines[lines.index(elsewhere) :])


def test_an_export_numbers_the_projects(tmp_path: Path) -> None:
    sources = (Origin("home/me/acme/src", "", 20), Origin("bravo", "", 30), Origin(COMMITS, "", 5))
    own = mine(0.5, source="workspace", provenance=(*sources, Origin(SMALL.id, SMALL.created, SMALL.n)))
    CalibratorStore.open().promote(own)
    path = tmp_path / "shared.json"
    said("export", own.id, path)
    assert "acme" not in path.read_text("utf-8")
    assert "bravo" not in path.read_text("utf-8")
    names = [origin.name for origin in Calibrator.load(path).provenance]
    assert names == ["project 1", "project 2", COMMITS, SMALL.id]
    # One that was fitted anew is moved from no other: the last one is a project, too.
    alone = attrs.evolve(own, provenance=sources[:2])
    CalibratorStore.open().promote(alone)
    other = tmp_path / "alone.json"
    said("export", alone.id, other)
    assert [origin.name for origin in Calibrator.load(other).provenance] == ["project 1", "project 2"]


def imported(file: Path, *options: str) -> dict[str, Any]:
    """What `import FILE --json` says."""
    return json.loads(said("import", file, *options, "--json"))


def mine(intercept: float, **changes: Any) -> Calibrator:
    """A calibrator of this user that looks at the total probability alone."""
    made = attrs.evolve(
        SMALL,
        curves=(Curve.of_measure("total", 1.0, intercept),),
        source="personal",
        state="ready",
        n=60,
        n_correct=30,
        metrics={},
        by_place={},
        strata={},
        provenance=(Origin(FEEDBACK, "2026-11-01T00:00:00.000+00:00", 60),),
        created="2026-11-02",
        parent=SMALL.id,
    )
    return attrs.evolve(made, **changes)


def label(n: int, intercept: float = 0.0, *, calibrator: Calibrator = SMALL) -> None:
    """n labels of a user for whom the total, moved by the intercept, is the truth."""
    chance, of = random.Random(5), calibrator.purpose
    store = in_haste(FeedbackStore(state.state_dir() / "feedback.db"))
    for number in range(n):
        logprob = -3.0 * chance.random() - 0.01
        odds = math.log(math.exp(logprob) / (1 - math.exp(logprob))) + intercept
        right = number == 1 or chance.random() < 1 / (1 + math.exp(-odds))
        name, at = f"{number:016x}", 1.7e9 + number
        show(store, name, model=of.model, prompt=of.prompt_version, logprobs=(logprob,), at=at)
        settle(store, name, right, at)
    store.close()


def of_lines(one: Calibrator) -> Calibrator:
    """The first shipped one of lines by the same model."""
    return next(c for c in SHIPPED if c.purpose.task == "line" and c.purpose.model == one.purpose.model)


def in_force() -> Calibrator:
    return CalibratorStore.open().choose(SMALL.purpose).calibrator


def written(path: Path, calibrator: Calibrator, **changes: Any) -> Path:
    """The file of a calibrator with fields changed by hand."""
    path.write_text(json.dumps({**calibrator.to_json(), **changes}))
    return path


class TestRollback:
    def test_back_to_the_one_before_and_forward_again(self) -> None:
        store = CalibratorStore.open()
        first, second = mine(-1.0), mine(-2.0, parent=mine(-1.0).id)
        store.promote(first)
        store.promote(second)
        assert f"{second.id} (personal, 60 labels) is no longer in force; {first.id}" in said("rollback")
        assert in_force() == first
        assert "shipped" in said("rollback")
        assert in_force() == SMALL
        assert "none of your own calibrators is in force" in refused("rollback")
        wire = json.loads(said("rollback", second.id, "--json"))
        assert (wire["calibrator"]["id"], wire["before"]["id"]) == (second.id, SMALL.id)
        assert in_force() == second

    def test_the_beginning_of_an_id_is_enough_and_a_wrong_one_is_explained(self) -> None:
        CalibratorStore.open().promote(mine(-1.0))
        said("rollback", SMALL.id[:-2])
        assert in_force() == SMALL
        assert "in force already" in refused("rollback", SMALL.id)
        assert SMALL.id in refused("rollback", "line-x", error=SettingsError)

    def test_with_several_it_asks_which(self) -> None:
        store = CalibratorStore.open()
        store.promote(mine(-1.0))
        store.promote(mine(-1.0, purpose=attrs.evolve(SMALL.purpose, language="rust")))
        text = refused("rollback")
        assert "2 calibrators in force" in text
        assert "(rust)" in text

    @pytest.mark.parametrize("shortened", [0, 2])
    def test_what_it_asks_for_can_be_given_also_where_no_file_holds_it(self, shortened: int) -> None:
        """The calibrator before the one for Elixir was made of the curves of all languages."""
        store = CalibratorStore.open()
        elixir = attrs.evolve(SMALL.purpose, language="elixir")
        borrowed = store.choose(elixir).calibrator
        assert borrowed.source == "pooled"
        own = mine(-1.0, purpose=elixir, parent=borrowed.id)
        store.promote(own)
        store.promote(mine(-1.0))
        named = re.findall(r"(line-\S+) \(", refused("rollback"))
        assert set(named) == {SMALL.id, borrowed.id}
        text = said("rollback", borrowed.id[: len(borrowed.id) - shortened])
        assert f"{own.id} (personal, 60 labels) is no longer in force; the pooled calibrator" in text
        assert CalibratorStore.open().choose(elixir).calibrator == borrowed
        assert in_force() == mine(-1.0), "the other one stays"
        said("rollback", own.id)  # the way back


class TestExport:
    def test_what_is_exported_can_be_imported(self, tmp_path: Path) -> None:
        file = tmp_path / "team.json"
        assert f"{SMALL.n} labels" in invoke("export", SMALL.id, file).stderr
        assert Calibrator.load(file) == SMALL
        assert "no export overwrites" in refused("export", SMALL.id, file, error=SettingsError)
        refused("export", "line-none", tmp_path / "x", error=SettingsError)

    def test_on_a_full_disk_nothing_is_left_in_the_way(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        file = tmp_path / "team.json"
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            assert "No space left on device" in refused("export", SMALL.id, file)
        assert not file.exists()
        said("export", SMALL.id, file)
        assert Calibrator.load(file) == SMALL


class TestImport:
    def test_one_that_predicts_better_is_put_in_force_and_can_be_taken_back(self, tmp_path: Path) -> None:
        label(200)
        result = invoke("import", written(tmp_path / "team.json", mine(0.0)))
        assert result.exit_code == 0, result.output
        assert "60 labels, 30 right" in result.stderr
        assert "is in force: the present calibrator is not right for you" in result.stdout
        used = in_force()
        assert (used.source, used.parent, used.curves) == ("workspace", SMALL.id, mine(0.0).curves)
        assert [origin.name for origin in used.provenance] == [f"imported {mine(0.0).id}", OTHERS]
        assert stat.S_IMODE(next((state.state_dir() / "calibrators").glob("*.json")).stat().st_mode) == 0o600
        said("rollback")
        assert in_force() == SMALL

    def test_its_makers_labels_are_not_taken_for_the_users(self, tmp_path: Path) -> None:
        """Its maker's last label is newer than all of the user's: these are unseen nevertheless."""
        label(60)
        late = mine(0.0, provenance=(Origin(FEEDBACK, "2030-01-01T00:00:00.000+00:00", 60),))
        said("import", written(tmp_path / "team.json", late), "--install")
        worse = imported(written(tmp_path / "w", mine(-5.0)))
        assert (worse["inForce"], worse["n"]) == (False, 60)

    def test_ones_own_is_not_judged_by_the_labels_that_it_was_fitted_on(self, tmp_path: Path) -> None:
        """An own one comes back from its export."""
        label(200)
        file, store = tmp_path / "mine.json", CalibratorStore.open()
        # The labels' times are 1.7e9 seconds and up: all of them are older than its last one, or all but 4.
        for last, n_new in (("2026-11-01T00:00:00.000+00:00", 0), ("2023-11-14T22:16:35.000+00:00", 4)):
            own = mine(0.0, provenance=(Origin(FEEDBACK, last, 60),))
            store.promote(own)
            file.unlink(missing_ok=True)
            said("export", own.id, file)
            said("rollback")
            few = f"not enough new labels yet: {n_new} of 5 since {own.id}"
            assert f"kept, not in force: {few}" in said("import", file)
            assert in_force() == SMALL
        assert {one.source for one in store.fitted_for(SMALL.purpose)} == {"personal"}
        # It is not another's afterwards: a refit knows which labels it has seen.
        said("import", file, "--install")
        assert in_force() == own

    def test_one_that_predicts_worse_is_kept_unless_it_is_installed(self, tmp_path: Path) -> None:
        label(200)
        file = written(tmp_path / "team.json", mine(-6.0))
        assert "is kept, not in force: the present calibrator is better" in said("import", file)
        assert in_force() == SMALL
        wire = imported(file)
        assert wire["inForce"] is False
        assert wire["after"]["logLoss"] > wire["before"]["logLoss"]
        said("rollback", wire["id"])
        assert in_force().curves == mine(-6.0).curves
        said("rollback")
        assert "installed as asked" in said("import", file, "--install")
        assert in_force().curves == mine(-6.0).curves
        assert "in force already" in said("import", file)

    def test_of_what_is_in_force_nothing_is_advised_that_fails(self, tmp_path: Path) -> None:
        label(3)
        shipped = said("import", written(tmp_path / "shipped.json", SMALL))
        assert "in force already" in shipped
        assert "rollback" not in shipped
        file = written(tmp_path / "team.json", mine(-6.0))
        said("import", file, "--install")
        assert "in force already. `lsp-calib calibrators rollback` takes it back" in said("import", file)
        said("rollback")
        assert in_force() == SMALL

    def test_six_labels_put_nothing_of_others_in_force(self, tmp_path: Path) -> None:
        """Of 20 lines, and better on the six labels here: a shipped one of 1,800 lines stays."""
        label(6)
        wire = imported(written(tmp_path / "team.json", mine(0.0, n=20, n_correct=8)))
        assert (wire["inForce"], wire["n"]) == (False, 6)
        assert wire["reason"] == "not enough labels to try it on: 6 of 20"
        assert in_force() == SMALL

    def test_one_that_is_no_worse_needs_evidence_against_the_present_one(self, tmp_path: Path) -> None:
        """The present one's line a little higher: better on these labels, by chance as likely as not."""
        label(60)
        present = mine(0.0, provenance=(Origin(FEEDBACK, "2020-01-01T00:00:00.000+00:00", 60),))
        CalibratorStore.open().promote(present)
        wires = [imported(written(tmp_path / "team.json", mine(one))) for one in (-0.05, 0.05)]
        (better,) = [wire for wire in wires if wire["after"]["logLoss"] <= wire["before"]["logLoss"]]
        assert "not enough evidence yet that the present calibrator is wrong for you" in better["reason"]
        assert in_force() == present

    def test_one_without_skill_for_its_maker_is_kept(self, tmp_path: Path) -> None:
        label(200)
        poor = mine(0.0, metrics={"skill": Interval(-0.45, -0.9, 0.1)})
        text = said("import", written(tmp_path / "team.json", poor))
        assert "kept, not in force: its skill on the labels of its maker is -0.45" in text
        assert in_force() == SMALL

    def test_it_has_one_id_for_its_maker_in_the_file_and_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its projects are numbered in the file, and its labels are another's here."""
        label(60)
        own_labels = Origin(FEEDBACK, "2026-11-01T00:00:00.000+00:00", 40)
        made = mine(0.0, source="workspace", provenance=(Origin("acme", "", 20), own_labels))
        CalibratorStore.open().promote(made)
        file, again = tmp_path / "team.json", tmp_path / "again.json"
        said("export", made.id, file)
        assert Calibrator.load(file).id == made.id
        said("rollback")
        assert imported(file, "--install")["id"] == made.id
        assert in_force() == made, "one's own is as it was, with its names"

        monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "elsewhere"))
        label(60)
        assert imported(file, "--install")["id"] == made.id
        assert (in_force().id, in_force().parent) == (made.id, SMALL.id)
        assert in_force() != made
        said("export", made.id, again)
        assert Calibrator.load(again).id == made.id

    def test_the_shipped_one_comes_back_as_itself(self, tmp_path: Path) -> None:
        label(30)
        CalibratorStore.open().promote(mine(-6.0))
        wire = imported(written(tmp_path / "s", SMALL), "--install")
        assert (wire["inForce"], wire["id"]) == (True, SMALL.id)
        assert in_force() == SMALL

    def test_an_id_from_a_file_names_no_path_and_no_other_model(self, tmp_path: Path) -> None:
        label(5)
        shared = mine(0.0).shared(source="workspace")
        for wrong in ("../../x-12345678", "line-other-model-12345678", f"{SMALL.id}0", "x"):
            text = refused("import", written(tmp_path / "f.json", shared, id=wrong), "--install")
            assert "id is not line-smollm2-135m- and eight hexadecimal digits" in text
        changed = refused("import", written(tmp_path / "f.json", shared, n=61), "--install")
        assert "contentId is not that of the content" in changed

    @pytest.mark.parametrize("shared", SUMMARIES, ids=lambda one: one.id)
    def test_one_of_summaries_is_kept_until_it_is_asked_for(self, tmp_path: Path, shared: Calibrator) -> None:
        """Their labels are no trial: no refit learns from them either."""
        label(5, calibrator=of_lines(shared))
        team = attrs.evolve(shared, created="2026-11-01")
        CalibratorStore.open().keep(team)
        file = tmp_path / "s.json"
        exported = invoke("export", team.id, file).stderr
        assert f"for summaries of {shared.purpose.language_name} by" in exported
        next((state.state_dir() / "calibrators" / "history").glob("*.json")).unlink()
        assert "is kept, not in force: only summaries that somebody wanted" in said("import", file)
        assert CalibratorStore.open().choose(shared.purpose).calibrator == shared
        wire = imported(file, "--install")
        assert (wire["inForce"], wire["n"], wire["before"]) == (True, 0, None)
        assert CalibratorStore.open().choose(shared.purpose).calibrator.curves == shared.curves

    def test_what_says_nothing_here_is_refused(self, tmp_path: Path) -> None:
        """One of summaries by another criterion would be kept, said to be in force, and never used.

        Prompts and features are those of the task.
        """
        label(5)
        summary = next(c for c in SUMMARIES if c.purpose.model == SMALL.purpose.model)
        lines, summaries = SMALL.purpose.prompt_version, summary.purpose.prompt_version
        other = attrs.evolve(SMALL.purpose.model, name="other", sha256="0" * 64)
        newer = Curve(f"features-{VERSION + 1}", SMALL.curves[0].features, SMALL.curves[0].intercept)

        def of(one: Calibrator, **changes: Any) -> Calibrator:
            return attrs.evolve(one, purpose=attrs.evolve(one.purpose, **changes))

        for foreign, words in (
            (
                of(summary, criterion="best-f1"),
                "by the criterion best-f1; here they are judged by most-agree",
            ),
            (of(summary, prompt_version=lines), f"is for the prompt {lines}; .* with {summaries}"),
            (of(mine(0.0), prompt_version=summaries), f"is for the prompt {summaries}; .* with {lines}"),
            (of(mine(0.0), prompt_version="p9"), "is for the prompt p9"),
            (of(mine(0.0), model=other), "other .*is not used here"),
            (mine(0.0, curves=summary.curves), "features that are not known: "),
            (attrs.evolve(summary, curves=SMALL.curves, by_place={}), "features that are not known: "),
            (mine(0.0, curves=(newer, PLAIN)), "features of another version"),
        ):
            for options in ((), ("--install",)):
                text = refused("import", written(tmp_path / "f.json", foreign), *options)
                assert re.search(words, text), text
        assert list((state.state_dir() / "calibrators").rglob("*.json")) == []

    def test_hostile_files_are_refused_in_words(self, tmp_path: Path) -> None:
        """In one line, however long what is wrong with them is."""
        label(5)
        good = mine(0.0).to_json()
        text = json.dumps(good)
        curve = good["curves"][0]
        feature = {**curve["features"][0], "name": "x" * 999}
        unknown = {**curve, "measure": FEATURES_MEASURE, "features": [feature]}
        valid = attrs.evolve(mine(0.0), curves=(read(unknown, Curve, "test"),))
        files = {
            "many digits": text.replace('"n": 60', f'"n": {"9" * 100_000}'),
            "changed": json.dumps({**good, "n": 1000}),
            "binary": "\udcff\udcfe\0",
            "unknown feature": json.dumps(valid.to_json()),
        }
        for name, content in files.items():
            file = tmp_path / f"{name}.json"
            file.write_bytes(content.encode("utf-8", "surrogateescape"))
            assert len(refused("import", file, "--install")) < 2000, name
        for place in (tmp_path, tmp_path / "none.json"):
            refused("import", place)
        assert in_force() == SMALL
