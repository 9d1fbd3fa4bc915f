"""What `calibrate` must show before its calibrator replaces the one in force."""

from __future__ import annotations

import functools
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from command_scene import document, refused, said
from test_runner_scores import HEADER
from test_runner_scores import made_up as of_projects

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.calibrators.refit import FEEDBACK
from lsp_calib.commands import calibrate as command
from lsp_calib.commands.calibration_trial import Judged
from lsp_calib.corpus.records import Record, write_records
from lsp_calib.errors import DataError

pytestmark = pytest.mark.usefixtures("home", "remembered")

PURPOSE = Purpose(HEADER.model, HEADER.prompt_version, "line", "python")
Calibrate = Callable[..., dict[str, Any]]
# Of few projects: a fit takes the longer the more there are.
made_up = functools.partial(of_projects, projects=4)


@pytest.fixture(scope="module")
def remembered() -> Iterator[None]:
    """What was fitted on some labels is fitted once: nearly all of these tests fit the same ones."""
    fit = command.fit_calibrator
    known: dict[bytes, Any] = {}

    @functools.wraps(fit)
    def once(*labels: Any, **about: Any) -> Any:
        key = pickle.dumps((labels, about))
        if key not in known:
            known[key] = fit(*labels, **about)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "fit_calibrator", once)
        yield


@pytest.fixture
def calibrate(tmp_path: Path) -> Calibrate:
    """`lsp-calib calibrate` on records: its document."""

    def run(records: Sequence[Record], *options: str) -> dict[str, Any]:
        write_records(tmp_path / "r.jsonl", HEADER, list(records))
        return document("calibrate", "--records", tmp_path / "r.jsonl", *options)

    return run


def in_force() -> Calibrator:
    return CalibratorStore.open().choose(PURPOSE).calibrator


def outcome(record: Record, right: bool) -> Record:
    return attrs.evolve(record, correct={"exact": right, "tests": right})


@pytest.mark.parametrize(("right", "word"), [(False, "wrong"), (True, "right")])
def test_answers_of_one_kind_are_installed_only_when_asked(
    calibrate: Calibrate, right: bool, word: str
) -> None:
    before = in_force()
    records = [outcome(record, right) for record in made_up(120)]
    document = calibrate(records)
    assert not document["promoted"]
    assert document["reason"] == f"all 108 labels are {word}: at least one other is needed"
    assert in_force().id == before.id
    installed = calibrate(records, "--install")
    assert installed["promoted"]
    assert f"although all 108 labels are {word}" in installed["reason"]


def test_nor_where_those_that_the_present_one_has_not_seen_are_of_one_kind(calibrate: Calibrate) -> None:
    """Of the others it knows the answers: they prove nothing."""
    known = [record for record in made_up(320) if record.group != "project-1.0"]
    assert calibrate(known)["promoted"]
    new = [outcome(record, False) for record in made_up(320) if record.group == "project-1.0"]
    n = sum(record.shown for record in new)
    document = calibrate([*known, *new])
    assert not document["promoted"]
    words = (
        "labels of projects that the present one was not fitted on are wrong: at least one other is needed"
    )
    assert document["reason"] == f"all {n} {words}"


def answered(n: int) -> list[Record]:
    """So many records with an answer."""
    return [record for record in made_up(2 * n) if record.shown][:n]


def again(records: Sequence[Record]) -> list[Record]:
    """The same lines at other places."""
    return [attrs.evolve(one, item=f"{one.group}/copy.py:{at}:1") for at, one in enumerate(records)]


class TestFewOrRepeatedLines:
    def test_it_takes_two_hundred(self, calibrate: Calibrate) -> None:
        document = calibrate(answered(199))
        assert not document["promoted"]
        assert document["reason"] == "it rests on 199 different lines, and 200 are needed"
        assert calibrate(answered(200))["promoted"]

    def test_fewer_are_installed_only_when_asked(self, calibrate: Calibrate) -> None:
        assert not calibrate(answered(40))["promoted"]
        document = calibrate(answered(40), "--install")
        assert document["promoted"]
        assert document["reason"].endswith("although it rests on 40 different lines, and 200 are needed")

    @pytest.mark.parametrize("copies", [20, 300])
    def test_one_line_over_and_over_is_one_line(self, tmp_path: Path, copies: int) -> None:
        """Of a model with probabilities that vary not at all; --install does not help."""
        records = again(answered(1) * copies)
        write_records(tmp_path / "r.jsonl", HEADER, records)
        before = in_force().id
        for options in ([], ["--install"]):
            complaint = refused(DataError, "calibrate", "--records", tmp_path / "r.jsonl", *options)
            assert f"The {copies} answers are to 1 different lines; at least 20 are needed" in complaint
        assert in_force().id == before

    def test_repeated_ones_count_once(self, calibrate: Calibrate, tmp_path: Path) -> None:
        lines = answered(180)
        once, twice = calibrate(lines), calibrate([*lines, *again(lines[:60])])
        assert (twice["asked"], twice["repeated"]) == (180, 60)
        assert not twice["promoted"]
        assert twice["reason"] == "it rests on 180 different lines, and 200 are needed"
        assert twice["calibrator"] == once["calibrator"]
        text = said("calibrate", "--records", tmp_path / "r.jsonl")
        assert "180 of 180 lines had an answer" in text
        assert "60 of the same lines again did not count." in text
        assert re.search(r"The same \d+ answers", text), "they may be summaries"

    def test_another_verdict_or_answer_is_another_line(self, calibrate: Calibrate) -> None:
        lines = answered(40)
        others = [outcome(one, not one.correct["exact"]) for one in again(lines[:10])]
        others += [attrs.evolve(one, tokens=(7,) * len(one.tokens)) for one in again(lines[20:30])]
        assert calibrate([*lines, *others])["calibrator"]["n"] == 60

    def test_what_is_for_others_rests_on_the_records_as_they_are(
        self, calibrate: Calibrate, tmp_path: Path
    ) -> None:
        lines = answered(40)
        document = calibrate([*lines, *again(lines)], "--output", str(tmp_path / "c.json"))
        assert (document["calibrator"]["n"], document["repeated"]) == (80, 0)


def test_one_of_lower_skill_is_refused_although_its_log_loss_is_lower() -> None:
    """The present one is a little better at each line, and absurdly sure of two that are wrong."""
    fitted, shown = command.fit_records(HEADER, made_up(240), shipped=False, created="2026-11-22")
    judged = Judged.of(fitted, HEADER, shown, in_force(), {})
    assert judged.proof()[0]
    old = judged.new + 0.05 * (judged.correct - judged.new)
    old[np.flatnonzero(~judged.correct)[:2]] = 1.0
    promoted, reason = attrs.evolve(judged, old=old).proof()
    assert not promoted
    assert re.fullmatch(r"its skill is lower: \+0\.\d{3} against \+0\.\d{3} on 216 lines", reason)


class TestMadeFrom:
    """What the present one was made from has seen its projects, and so has it."""

    @staticmethod
    def put_in_force(*origins: Origin) -> None:
        """A calibrator with these origins in the place of the present one."""
        made = attrs.evolve(in_force(), source="personal", provenance=origins, parent=None)
        CalibratorStore.open().promote(made)

    @pytest.mark.parametrize("prefix", ["", "imported ", "carried over from "])
    def test_projects_of_its_base_are_not_new(self, calibrate: Calibrate, prefix: str) -> None:
        base = calibrate(made_up(240))["calibrator"]
        # A refit of a refit: the projects are two steps away.
        self.put_in_force(Origin(base["id"], base["created"], base["n"]))
        second = in_force()
        self.put_in_force(
            Origin(FEEDBACK, "2026-11-01T00:00:00.000+00:00", 60),
            Origin(f"{prefix}{second.id}", second.created, second.n),
        )
        document = calibrate(made_up(240))
        assert not document["promoted"]
        assert document["reason"].startswith(
            "too few lines to compare it with the present calibrator: 0 of 216"
        )
        assert not document["comparison"]["fresh"]

    def test_so_are_those_of_a_shipped_one_and_of_what_is_borrowed(
        self, calibrate: Calibrate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        shipped = Calibrator.load(Path(calibrate(made_up(240), "--output", str(tmp_path / "s.json"))["path"]))
        go = attrs.evolve(PURPOSE, language="go")
        attrs.evolve(shipped, purpose=go).save(tmp_path / "shipped" / "go.json")
        store = CalibratorStore(state.state_dir() / "calibrators", tmp_path / "shipped")
        monkeypatch.setattr(CalibratorStore, "open", classmethod(lambda _: store))
        assert in_force().source == "prior"
        assert not calibrate(made_up(240))["comparison"]["fresh"], "borrowed from the one for Go"
        self.put_in_force(Origin(in_force().id, "", 0))
        assert not calibrate(made_up(240))["comparison"]["fresh"], "refitted from what was borrowed"

    def test_one_that_is_not_there_is_no_project(self, calibrate: Calibrate) -> None:
        self.put_in_force(Origin("line-m-00000000", "2026-11-01", 1000))
        assert calibrate(made_up(240))["comparison"]["fresh"]
