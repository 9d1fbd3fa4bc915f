"""`lsp-calib feedback`: what was learned from is seen in numbers, exported without text, and removed."""

from __future__ import annotations

import functools
import json
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_scene import document, invoke, refused
from command_scene import said as said_by_command
from feedback_scene import settle, show
from msgspec.structs import replace

from lsp_calib import home as state
from lsp_calib.calibration.binomial import least_rate
from lsp_calib.calibration.calibrators import calibrator_store
from lsp_calib.calibration.calibrators.calibrator_store import editing, read_ledger
from lsp_calib.calibration.certificates import Ledger, Promise
from lsp_calib.commands.feedback import spellings
from lsp_calib.errors import CalibratorError, DataError, SettingsError
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import ModelIdentity

pytestmark = pytest.mark.usefixtures("home")
DAY = 86_400.0
TEXT = "the_text_of_a_suggestion"


said = functools.partial(said_by_command, "feedback")


def keep(
    name: str,
    correct: bool | None = None,
    *,
    days: float = 0.0,
    model: str = "m",
    episode: str = "",
    **more: Any,
) -> None:
    at = time.time() - days * DAY - 60.0
    about = {"text": TEXT, "line": f"{name} = {TEXT}", "features": {"total": 1.0}}
    with closing(FeedbackStore(state.state_dir() / "feedback.db")) as store:
        show(store, name, model=ModelIdentity(model, "Q8_0", "abc"), at=at, **about, **more)
        if correct is not None:
            settle(store, name, correct, at + 30.0, episode)


def statistics() -> dict[str, Any]:
    return document("feedback", "stats")


def purged(*arguments: object) -> Any:
    return document("feedback", "purge", "--yes", *arguments)


def one_visit_that_was_wrong_and_three_that_were_right() -> None:
    """Ten keystrokes of one visit count once."""
    for number in range(10):
        keep(f"visit-{number}", False, episode="visit")
    for number in range(3):
        keep(f"right-{number}", True)


class TestStats:
    def test_nothing_yet(self) -> None:
        found = statistics()
        assert (found["suggestions"], found["first"], found["languages"]) == (0, None, [])
        assert [tier["n"] for tier in found["tiers"]] == [0, 0, 0]
        assert "No suggestion has been shown yet" in said("stats")

    def test_by_language_model_and_age(self) -> None:
        keep("a", True)
        keep("b", False, days=3, language="rust")
        keep("c", days=400, model="other")
        found = statistics()
        assert (found["suggestions"], found["labelled"], found["correct"]) == (3, 2, 1)
        one = {"suggestions": 1, "visits": 1, "right": 0}
        assert {"name": "rust", **one} in found["languages"]
        assert [(part["name"], part["suggestions"]) for part in found["models"]] == [("m", 2), ("other", 1)]
        ages = [part["name"] for part in found["ages"]]
        assert ages == ["under 1 day", "under 7 days", "365 days and more"]
        assert found["labels"] == {"edited": 1, "kept": 1}
        assert found["first"] < found["last"]

    def test_a_tier_promises_and_keeps_by_visits(self) -> None:
        """The interval is the exact one of Clopper and Pearson."""
        one_visit_that_was_wrong_and_three_that_were_right()
        (tier,) = [tier for tier in statistics()["tiers"] if tier["n"]]
        assert (tier["tier"], tier["n"], tier["promised"]) == ("review", 4, pytest.approx(0.5))
        assert tier["kept"] == pytest.approx(0.75)
        assert tier["low"] == pytest.approx(least_rate(3, 4, 0.975))
        assert tier["high"] == pytest.approx(1 - least_rate(1, 4, 0.975))

    def test_a_language_a_model_and_an_age_count_as_a_tier_does(self) -> None:
        """The same labels were 75 % by tier and 23 % by language."""
        one_visit_that_was_wrong_and_three_that_were_right()
        keep("unsettled")
        found = statistics()
        for parts in ("languages", "models", "ages"):
            ((part),) = found[parts]
            assert (part["suggestions"], part["visits"], part["right"]) == (14, 4, 3), parts
        text = said("stats")
        assert "14 suggestions shown" in text
        assert "by language: 14 python" in text
        assert "`lsp-calib report` shows whether the tiers kept their promises." in text

    def test_what_had_no_probability_is_no_visit(self) -> None:
        """The tiers do not count it either."""
        keep("a", True)
        keep("b", True)
        with closing(sqlite3.connect(state.state_dir() / "feedback.db")) as store, store:
            store.execute("UPDATE suggestions SET kind = 'summary' WHERE id = 'b'")
        found = statistics()
        assert found["languages"] == [{"name": "python", "suggestions": 2, "visits": 1, "right": 1}]
        assert sum(tier["n"] for tier in found["tiers"]) == 1


class TestExport:
    def test_json_lines_for_the_owner_without_text(self, tmp_path: Path) -> None:
        keep("a", True, workspace="file:///home/somebody")
        keep("b")
        file = tmp_path / "feedback.jsonl"
        assert "Exported: 2 suggestions" in invoke("feedback", "export", file).stderr
        text = file.read_text("utf-8")
        first, second = (json.loads(line) for line in text.splitlines())
        assert (first["id"], first["label"]["how"], first["features"]) == ("a", "kept", {"total": 1.0})
        assert second["label"] is None
        assert TEXT not in text
        assert "somebody" not in text
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [json.loads(line) for line in said("export").splitlines()] == [first, second]

    def test_no_file_is_overwritten(self, tmp_path: Path) -> None:
        file = tmp_path / "notes"
        file.write_text("mine")
        assert "no export overwrites" in refused(SettingsError, "feedback", "export", file)
        assert file.read_text() == "mine"

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        assert "cannot be written" in refused(DataError, "feedback", "export", tmp_path / "none" / "file")


class TestPurge:
    def test_it_asks_first(self) -> None:
        keep("a", True)
        assert "Nothing was removed" in invoke("feedback", "purge", answer="n\n").output
        assert statistics()["suggestions"] == 1
        export = state.state_dir() / "feedback-20261125T090128.jsonl"
        export.touch()
        result = invoke("feedback", "purge", answer="y\n")
        assert "Remove all feedback and empty the logs?" in result.output
        assert f"An export of them stays: {export}" in "".join(result.output.splitlines())
        assert export.exists()
        assert "Removed: 1 suggestion." in result.output
        assert statistics()["suggestions"] == 0

    def test_everything_leaves_nothing_behind(self) -> None:
        """Neither in the file nor in its journal, nor in logs; calibrators stay unless they are named."""
        keep("0123456789abcdef", True)
        (state.state_dir() / "log").mkdir()
        log = state.state_dir() / "log" / "model.log"
        log.write_text("2026-11-22 WARNING lsp_calib: 0123456789abcdef\n")
        for name in ("mine.json", "history/before.json", "prefixes/moved.json"):
            file = state.state_dir() / "calibrators" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
        assert purged() == {"n": 1, "calibrators": 0}
        content = b"".join(file.read_bytes() for file in state.state_dir().rglob("*") if file.is_file())
        assert b"0123456789abcdef" not in content
        assert log.read_text() == ""
        assert purged("--calibrators")["calibrators"] == 3
        assert list((state.state_dir() / "calibrators").iterdir()) == []

    def test_learning_begins_anew_and_the_number_of_certificates_stays(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The promise of certificates is over all there will ever be; how many labels a refit had is over."""

        def full(*_: object) -> None:
            raise CalibratorError("The file cannot be written: No space left on device.")

        folder = state.state_dir() / "calibrators" / "certificates"
        used = Ledger(promise=Promise(), key="k", read_until=5.0, aside=45, tried_n=2000, tried_until=9.0)
        for name, ledger in (("asked", replace(used, asked=3, asked_n=40)), ("none", used)):
            with editing(folder / f"{name}.json") as held:
                held.ledger = ledger
        (folder / "damaged.json").write_text("{}")
        purged("--calibrators")
        assert {path.name for path in folder.glob("*.json")} == {"asked.json"}
        left = Ledger(promise=Promise(), key="k", used_until=9.0, asked=3)
        assert read_ledger(folder / "asked.json") == left
        (folder.parent / "mine.json").write_text("{}")
        with editing(folder / "asked.json") as held:
            held.ledger = replace(left, tried_n=50)
        monkeypatch.setattr(calibrator_store, "write_document", full)
        removal = ("feedback", "purge", "--yes", "--json", "--calibrators")
        assert "No space left" in refused(CalibratorError, *removal)
        assert read_ledger(folder / "asked.json").asked == 3, "an error forgets nothing"

    def test_before_a_day(self) -> None:
        keep("old", True, days=10)
        keep("new", True)
        day = time.strftime("%Y-%m-%d", time.localtime(time.time() - 5 * DAY))
        assert purged("--before", day)["n"] == 1
        assert json.loads(said("export"))["id"] == "new"

    @pytest.mark.parametrize("date", ["yesterday", "2026-13-01", "", "20260101T00"])
    def test_a_date_that_is_none(self, date: str) -> None:
        assert "2026-01-31" in refused(SettingsError, "feedback", "purge", "--before", date, "--yes")

    def test_of_a_workspace_whatever_way_leads_there(self, tmp_path: Path) -> None:
        project = tmp_path / "a project"
        project.mkdir()
        (tmp_path / "link").symlink_to(project)
        keep("real", True, workspace=f"file://{project}")
        keep("linked", True, workspace=f"file://{tmp_path}/link")
        keep("other", True, workspace="file:///other")
        assert purged("--workspace", tmp_path / "link")["n"] == 2
        assert json.loads(said("export"))["id"] == "other"

    def test_json_does_not_ask(self) -> None:
        assert "--yes" in refused(SettingsError, "feedback", "purge", "--json")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///C:/a%20b", ["file:///C:/a b", "file:///c:/a b"]),
        ("file:///c%3A/a", ["file:///c:/a", "file:///C:/a"]),
        ("file:///home/c:/a", ["file:///home/c:/a"]),
    ],
)
def test_the_letter_of_a_drive_is_found_in_either_case(uri: str, expected: list[str]) -> None:
    assert sorted(spellings(uri)) == sorted(expected)
