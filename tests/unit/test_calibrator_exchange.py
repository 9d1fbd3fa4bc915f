"""`lsp-calib calibrators rollback|export|import`: taken back, shared, and tried before it counts."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import re
import stat
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result
from feedback_scene import in_haste, settle, show

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE, Calibrator, Curve
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.calibrators.refit import COMMITS, FEEDBACK
from lsp_calib.calibration.document import read
from lsp_calib.calibration.validation import Interval
from lsp_calib.cli import main
from lsp_calib.confidence.features import VERSION
from lsp_calib.errors import DataError
from lsp_calib.feedback.importing import OTHERS
from lsp_calib.feedback.store import FeedbackStore

pytestmark = pytest.mark.usefixtures("home")

CALIBRATORS = state.shipped_models() / "calibrators"
SHIPPED = [Calibrator.load(path) for path in sorted(CALIBRATORS.glob("*.json"))]
SMALL = Calibrator.load(CALIBRATORS / "line-smollm2-135m.json")
SUMMARIES = [c for c in SHIPPED if c.purpose.task == "summary"]
PLAIN = Curve.of_measure("total", 1.0, 0.0)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["calibrators", *arguments])


def test_an_export_numbers_the_projects(tmp_path: Path) -> None:
    sources = (Origin("home/me/acme/src", "", 20), Origin("bravo", "", 30), Origin(COMMITS, "", 5))
    own = mine(0.5, source="workspace", provenance=(*sources, Origin(SMALL.id, SMALL.created, SMALL.n)))
    CalibratorStore.open().promote(own)
    path = tmp_path / "shared.json"
    said("export", own.id, str(path))
    assert "acme" not in path.read_text("utf-8")
    assert "bravo" not in path.read_text("utf-8")
    names = [origin.name for origin in Calibrator.load(path).provenance]
    assert names == ["project 1", "project 2", COMMITS, SMALL.id]
    # One that was fitted anew is moved from no other: the last one is a project, too.
    alone = attrs.evolve(own, provenance=sources[:2])
    CalibratorStore.open().promote(alone)
    other = tmp_path / "alone.json"
    said("export", alone.id, str(other))
    assert [origin.name for origin in Calibrator.load(other).provenance] == ["project 1", "project 2"]


def said(*arguments: str) -> str:
    """What a command says that ends well."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def imported(file: Path, *options: str) -> dict[str, Any]:
    """What `import FILE --json` says."""
    return json.loads(invoke("import", str(file), *options, "--json").stdout)


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
        assert "shipped" in invoke("rollback").stdout
        assert in_force() == SMALL
        nothing = invoke("rollback")
        assert nothing.exit_code == 3
        assert "none of your own calibrators is in force" in nothing.stderr
        wire = json.loads(invoke("rollback", second.id, "--json").stdout)
        assert (wire["calibrator"]["id"], wire["before"]["id"]) == (second.id, SMALL.id)
        assert in_force() == second

    def test_the_beginning_of_an_id_is_enough_and_a_wrong_one_is_explained(self) -> None:
        CalibratorStore.open().promote(mine(-1.0))
        said("rollback", SMALL.id[:-2])
        assert in_force() == SMALL
        again = invoke("rollback", SMALL.id)
        assert again.exit_code == 3
        assert "in force already" in again.stderr
        unknown = invoke("rollback", "line-x")
        assert unknown.exit_code == 2
        assert SMALL.id in unknown.stderr

    def test_with_several_it_asks_which(self) -> None:
        store = CalibratorStore.open()
        store.promote(mine(-1.0))
        store.promote(mine(-1.0, purpose=attrs.evolve(SMALL.purpose, language="rust")))
        result = invoke("rollback")
        assert result.exit_code == 3
        assert "2 calibrators in force" in result.stderr
        assert "(rust)" in result.stderr

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
        named = re.findall(r"(line-\S+) \(", invoke("rollback").stderr)
        assert set(named) == {SMALL.id, borrowed.id}
        text = said("rollback", borrowed.id[: len(borrowed.id) - shortened])
        assert f"{own.id} (personal, 60 labels) is no longer in force; the pooled calibrator" in text
        assert CalibratorStore.open().choose(elixir).calibrator == borrowed
        assert in_force() == mine(-1.0), "the other one stays"
        said("rollback", own.id)  # the way back


class TestExport:
    def test_what_is_exported_can_be_imported(self, tmp_path: Path) -> None:
        file = tmp_path / "team.json"
        assert f"{SMALL.n} labels" in invoke("export", SMALL.id, str(file)).stderr
        assert Calibrator.load(file) == SMALL
        again = invoke("export", SMALL.id, str(file))
        assert again.exit_code == 2
        assert "no export overwrites" in again.stderr
        assert invoke("export", "line-none", str(tmp_path / "x")).exit_code == 2

    def test_on_a_full_disk_nothing_is_left_in_the_way(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        file = tmp_path / "team.json"
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            failed = invoke("export", SMALL.id, str(file))
        assert failed.exit_code == DataError.exit_code
        assert "No space left on device" in failed.stderr
        assert not file.exists()
        said("export", SMALL.id, str(file))
        assert Calibrator.load(file) == SMALL


class TestImport:
    def test_one_that_predicts_better_is_put_in_force_and_can_be_taken_back(self, tmp_path: Path) -> None:
        label(200)
        result = invoke("import", str(written(tmp_path / "team.json", mine(0.0))))
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
        assert invoke("import", str(written(tmp_path / "team.json", late)), "--install").exit_code == 0
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
            said("export", own.id, str(file))
            said("rollback")
            few = f"not enough new labels yet: {n_new} of 5 since {own.id}"
            assert f"kept, not in force: {few}" in said("import", str(file))
            assert in_force() == SMALL
        assert {one.source for one in store.fitted_for(SMALL.purpose)} == {"personal"}
        # It is not another's afterwards: a refit knows which labels it has seen.
        said("import", str(file), "--install")
        assert in_force() == own

    def test_one_that_predicts_worse_is_kept_unless_it_is_installed(self, tmp_path: Path) -> None:
        label(200)
        file = written(tmp_path / "team.json", mine(-6.0))
        assert "is kept, not in force: the present calibrator is better" in said("import", str(file))
        assert in_force() == SMALL
        wire = imported(file)
        assert wire["inForce"] is False
        assert wire["after"]["logLoss"] > wire["before"]["logLoss"]
        said("rollback", wire["id"])
        assert in_force().curves == mine(-6.0).curves
        invoke("rollback")
        assert "installed as asked" in invoke("import", str(file), "--install").stdout
        assert in_force().curves == mine(-6.0).curves
        assert "in force already" in invoke("import", str(file)).stdout

    def test_of_what_is_in_force_nothing_is_advised_that_fails(self, tmp_path: Path) -> None:
        label(3)
        shipped = said("import", str(written(tmp_path / "shipped.json", SMALL)))
        assert "in force already" in shipped
        assert "rollback" not in shipped
        file = str(written(tmp_path / "team.json", mine(-6.0)))
        invoke("import", file, "--install")
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
        wires = []
        for intercept in (-0.05, 0.05):
            wires.append(imported(written(tmp_path / "team.json", mine(intercept))))
        better = [wire for wire in wires if wire["after"]["logLoss"] <= wire["before"]["logLoss"]]
        assert len(better) == 1
        assert "not enough evidence yet that the present calibrator is wrong for you" in better[0]["reason"]
        assert in_force() == present

    def test_one_without_skill_for_its_maker_is_kept(self, tmp_path: Path) -> None:
        label(200)
        poor = mine(0.0, metrics={"skill": Interval(-0.45, -0.9, 0.1)})
        text = said("import", str(written(tmp_path / "team.json", poor)))
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
        said("export", made.id, str(file))
        assert Calibrator.load(file).id == made.id
        said("rollback")
        assert imported(file, "--install")["id"] == made.id
        assert in_force() == made, "one's own is as it was, with its names"

        elsewhere = tmp_path / "elsewhere"
        monkeypatch.setenv("LSP_CALIB_HOME", str(elsewhere))
        label(60)
        assert imported(file, "--install")["id"] == made.id
        assert (in_force().id, in_force().parent) == (made.id, SMALL.id)
        assert in_force() != made
        said("export", made.id, str(again))
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
            result = invoke("import", str(written(tmp_path / "f.json", shared, id=wrong)), "--install")
            assert result.exit_code == 3
            assert "id is not line-smollm2-135m- and eight hexadecimal digits" in result.stderr
        changed = invoke("import", str(written(tmp_path / "f.json", shared, n=61)), "--install")
        assert "contentId is not that of the content" in changed.stderr

    @pytest.mark.parametrize("shared", SUMMARIES, ids=lambda one: one.id)
    def test_one_of_summaries_is_kept_until_it_is_asked_for(self, tmp_path: Path, shared: Calibrator) -> None:
        """Their labels are no trial: no refit learns from them either."""
        of_model = [c for c in SHIPPED if c.purpose.model == shared.purpose.model]
        label(5, calibrator=next(c for c in of_model if c.purpose.task == "line"))
        team = attrs.evolve(shared, created="2026-11-01")
        CalibratorStore.open().keep(team)
        file = tmp_path / "s.json"
        exported = invoke("export", team.id, str(file)).stderr
        assert f"for summaries of {shared.purpose.language_name} by" in exported
        next((state.state_dir() / "calibrators" / "history").glob("*.json")).unlink()
        assert "is kept, not in force: only summaries that somebody wanted" in said("import", str(file))
        assert CalibratorStore.open().choose(shared.purpose).calibrator == shared
        wire = imported(file, "--install")
        assert (wire["inForce"], wire["n"], wire["before"]) == (True, 0, None)
        assert CalibratorStore.open().choose(shared.purpose).calibrator.curves == shared.curves

    def test_summaries_by_another_criterion_are_refused(self, tmp_path: Path) -> None:
        """It would be kept, said to be in force, and never used."""
        shared = SUMMARIES[0]
        of_model = [c for c in SHIPPED if c.purpose.model == shared.purpose.model]
        label(5, calibrator=next(c for c in of_model if c.purpose.task == "line"))
        former = attrs.evolve(shared, purpose=attrs.evolve(shared.purpose, criterion="best-f1"))
        file = str(written(tmp_path / "former.json", former))
        refused = invoke("import", file, "--install")
        assert refused.exit_code == 3
        assert "by the criterion best-f1; here they are judged by most-agree" in refused.stderr

    def test_features_and_prompts_are_those_of_the_task(self, tmp_path: Path) -> None:
        label(5)
        summary = next(c for c in SUMMARIES if c.purpose.model == SMALL.purpose.model)
        lines, summaries = SMALL.purpose.prompt_version, summary.purpose.prompt_version
        prompt_of_lines = attrs.evolve(summary.purpose, prompt_version=lines)
        prompt_of_summaries = attrs.evolve(SMALL.purpose, prompt_version=summaries)
        asked_otherwise = attrs.evolve(summary, purpose=prompt_of_lines)
        for foreign, words in (
            (asked_otherwise, f"is for the prompt {lines}; .* with {summaries}"),
            (mine(0.0, purpose=prompt_of_summaries), f"is for the prompt {summaries}; .* with {lines}"),
            (mine(0.0, curves=summary.curves), "features that are not known: "),
            (attrs.evolve(summary, curves=SMALL.curves, by_place={}), "features that are not known: "),
        ):
            result = invoke("import", str(written(tmp_path / "f.json", foreign)))
            assert result.exit_code == 3
            assert re.search(words, result.stderr), result.stderr

    def test_for_another_model_prompt_or_feature_version(self, tmp_path: Path) -> None:
        label(5)
        file = tmp_path / "team.json"
        model = attrs.evolve(SMALL.purpose.model, name="other", sha256="0" * 64)
        newer = Curve(f"features-{VERSION + 1}", SMALL.curves[0].features, SMALL.curves[0].intercept)
        for foreign, words in (
            (mine(0.0, purpose=attrs.evolve(SMALL.purpose, model=model)), "other .*is not used here"),
            (mine(0.0, purpose=attrs.evolve(SMALL.purpose, prompt_version="p9")), "is for the prompt p9"),
            (mine(0.0, curves=(newer, PLAIN)), "features of another version"),
        ):
            written(file, foreign)
            result = invoke("import", str(file))
            assert result.exit_code == 3
            assert re.search(words, result.stderr), result.stderr
        assert list((state.state_dir() / "calibrators").rglob("*.json")) == []

    def test_hostile_files_are_refused_in_words(self, tmp_path: Path) -> None:
        label(5)
        good = mine(0.0).to_json()
        curve = good["curves"][0]
        feature = {**curve["features"][0], "name": "x" * 999}
        unknown = {**curve, "measure": FEATURES_MEASURE, "features": [feature]}
        valid = attrs.evolve(mine(0.0), curves=(read(unknown, Curve, "test"),))
        files = {
            "huge": " " * 1_000_001,
            "deep": "[" * 200_000,
            "deep object": '{"a":' * 100_000,
            "nan": json.dumps(good).replace('"weight": 1.0', '"weight": NaN'),
            "infinite": json.dumps(good).replace('"weight": 1.0', '"weight": 1e999'),
            "enormous": json.dumps(good).replace('"weight": 1.0', '"weight": 1e200'),
            "countless": json.dumps(good).replace('"n": 60', f'"n": {"9" * 400}'),
            "many digits": json.dumps(good).replace('"n": 60', f'"n": {"9" * 100_000}'),
            "twice": json.dumps(good).replace('"n": 60', '"n": 60, "n": 61'),
            "more": json.dumps({**good, "run": "rm"}),
            "changed": json.dumps({**good, "n": 1000}),
            "list": "[]",
            "empty": "",
            "binary": "\udcff\udcfe\0",
            "unknown feature": json.dumps(valid.to_json()),
        }
        for name, text in files.items():
            file = tmp_path / f"{name}.json"
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
            result = invoke("import", str(file), "--install")
            assert result.exit_code == 3, (name, result.output)
            assert result.stderr.startswith("lsp-calib: "), name
            assert len(result.stderr) < 2000, name
            assert result.stderr.count("\n") == 1, name
        for place in (tmp_path, tmp_path / "none.json"):
            assert invoke("import", str(place)).exit_code == 3
        assert in_force() == SMALL
