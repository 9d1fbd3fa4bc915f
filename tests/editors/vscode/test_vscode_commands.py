"""What the extension offers beside ghost text: the palette, the status bar's menu, alternatives, words."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
from editor import MISSING, MODEL_SECONDS, ROOT, SERVER, TYPED, VSCode

from lsp_calib.calibration.calibrators.calibrator import Calibrator

pytestmark = [pytest.mark.model, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

SHIPPED = ROOT / "models" / "calibrators" / "line-smollm2-135m-large.json"
SQUIGGLES = ".squiggly-hint, .squiggly-info"


def feedback(environment: dict[str, str]) -> list[dict[str, Any]]:
    """What the store of the state folder holds, oldest first."""
    out = subprocess.run(
        [SERVER, "feedback", "export"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return [json.loads(line) for line in out.splitlines()]


def test_why_this_tier_is_said_in_sentences_with_the_probability(vscode: VSCode) -> None:
    vscode.clear_notifications()
    seen = vscode.suggestion(TYPED)
    tier = seen["badge"].split()[1]
    # From the keyboard: a click beside the line would take the suggestion away, and with it the question.
    vscode.command("lsp-calib: Why this tier?")
    said = vscode.until("an answer", lambda: tier in vscode.notifications() and vscode.notifications())
    assert re.search(r"\d %|no probability", said), said
    assert "calibrator" in said


def test_the_menu_of_the_status_bar_leads_to_everything(vscode: VSCode) -> None:
    vscode.page.locator('.statusbar-item[id*="lspCalib.status"] a').first.click()
    rows = vscode.until("the menu", lambda: len(found := vscode.rows()) > 8 and found)
    for wanted in (
        "Why is nothing here",
        "Why this tier",
        "Pause",
        "report",
        "Refit",
        "Take back",
        "Terminal",
        "model",
        "Settings",
    ):
        assert any(wanted in row for row in rows), (wanted, rows)
    vscode.keys("Escape")
    vscode.clear_notifications()  # of tests before
    vscode.page.locator('.statusbar-item[id*="lspCalib.status"] a').first.click()
    vscode.choose("Why is nothing here")
    vscode.until("an answer", lambda: "lsp-calib" in vscode.notifications())


def test_the_page_of_the_status_begins_with_what_the_status_bar_says(vscode: VSCode) -> None:
    vscode.command("lsp-calib: Show status")
    frame = vscode.until("the page", lambda: vscode.frame_with("Since the server was started"))
    rows = frame.locator("table").first.locator("tr").all()
    page = [": ".join(row.locator("th, td").all_inner_texts()) for row in rows]
    assert [row.partition(":")[0] for row in page] == ["Model", "Calibrator", "State", "Settings file"]
    assert page[0] == "Model: smollm2-135m"
    assert page[3].endswith("/config.toml")
    assert vscode.drawn()["label"] == ". ".join(row.removesuffix(".") for row in page)
    assert "{" not in frame.locator("body").inner_text()
    vscode.command("View: Close Editor")


def test_the_models_to_pick_begin_with_the_current_one(vscode: VSCode) -> None:
    vscode.command("lsp-calib: Pick a model")
    rows = vscode.until(
        "the models", lambda: any("SmolLM2" in row for row in vscode.rows()) and vscode.rows(), MODEL_SECONDS
    )
    vscode.keys("Escape")
    assert re.search(r"SmolLM2.*current.*0\.\d GB of memory.*\d\d % of \d+ Python lines right", rows[0]), rows
    assert not [row for row in rows[1:] if "current" in row]
    assert not [row for row in rows if "GB of memory" not in row]


def test_marking_as_reviewed_takes_the_mark_away(vscode: VSCode) -> None:
    seen = vscode.suggestion(TYPED)
    vscode.keys("Tab")
    vscode.until("the suggestion in the line", lambda: vscode.lines()[-1] == TYPED + seen["ghost"])
    vscode.until("a mark on it", lambda: vscode.page.locator(SQUIGGLES).count())
    vscode.command("lsp-calib: Mark as reviewed")
    vscode.until("no mark", lambda: not vscode.page.locator(SQUIGGLES).count())
    assert vscode.lines()[-1] == TYPED + seen["ghost"], "the text stays"


def test_alternatives_are_numbered_in_the_badge_and_can_be_stepped_through(vscode: VSCode) -> None:
    vscode.suggestion("    re")
    vscode.command("Trigger Inline Suggestion")
    badge = vscode.until(
        "a badge of several", lambda: "2:" in (found := vscode.drawn()["badge"]) and found, MODEL_SECONDS
    )
    # How far the model is sure of each differs between processors.
    one = r"\d: \S (accept|review|reject)(, sure up to \S+)?"
    assert re.fullmatch(rf"{one}(\s+{one})+", badge), badge
    assert re.findall(r"\d(?=: )", badge) == [*"123"][: badge.count(": ")]
    first = vscode.drawn()["ghost"]
    vscode.keys("Alt+BracketRight")
    vscode.until("the next one", lambda: vscode.drawn()["ghost"] not in ("", first))
    second = vscode.drawn()["ghost"]
    vscode.keys("Tab")
    vscode.until("it in the line", lambda: vscode.lines()[-1] == "    re" + second)


def test_a_suggestion_that_is_accepted_word_by_word_counts_as_right(
    vscode: VSCode, environment: dict[str, str]
) -> None:
    """VS Code runs no command for a word; the label comes from the text, once the document is saved."""
    known = {row["id"] for row in feedback(environment)}
    seen = vscode.suggestion(TYPED)
    whole = TYPED + seen["ghost"]
    vscode.page.wait_for_timeout(1500)  # a suggestion that nobody can have read says nothing
    for _ in range(len(whole)):
        if vscode.lines()[-1] == whole:
            break
        before = vscode.lines()
        vscode.keys("Control+ArrowRight")
        vscode.until("a word more", lambda before=before: vscode.lines() != before)
    assert vscode.lines()[-1] == whole
    vscode.keys("Escape", "Control+s")

    def labelled() -> Any:
        return [row for row in feedback(environment) if row["id"] not in known and row["label"]]

    labels = [row["label"] for row in vscode.until("a label", labelled)]
    assert any(label["correct"] for label in labels), labels
    assert {label["how"] for label in labels} <= {"kept", "kept in parts", "typed", "unread", "superseded"}, (
        labels
    )


def test_a_calibrator_that_has_drifted_is_seen_and_can_be_taken_back(
    vscode: VSCode, environment: dict[str, str], tmp_path: Path
) -> None:
    """The word stands in the status bar and its label, until the calibrator is taken back."""
    own = tmp_path / "own.json"
    attrs.evolve(Calibrator.load(SHIPPED), source="personal", state="drifted").save(own)
    command = [SERVER, "calibrators", "import", "--install", str(own)]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    before = {one.pid for one in vscode.servers()}
    vscode.command("lsp-calib: Restart the server")
    vscode.until("another", lambda: not before & ({one.pid for one in vscode.servers()} or before))
    vscode.until_ready()
    vscode.suggestion(TYPED)
    vscode.until("the word", lambda: "smollm2-135m, drifted" in vscode.drawn()["status"])
    assert "certificate revoked" in vscode.drawn()["label"]

    for said in ("line-smollm2-135m", "nothing to roll back"):
        vscode.clear_notifications()
        vscode.command("lsp-calib: Take back the last calibrator")
        vscode.until("an answer", lambda said=said: said in vscode.notifications())
    vscode.keys("Enter")  # VS Code indents the line
    vscode.suggestion(TYPED.lstrip())
    vscode.until("no such word", lambda: "drifted" not in vscode.drawn()["status"])


def test_a_summary_becomes_documentation_from_the_palette(vscode: VSCode) -> None:
    """At the function that the cursor is on: the sentence of the hover, as a docstring."""
    vscode.keys("Control+Home", *["ArrowDown"] * 8)  # def variance
    before = vscode.lines()
    vscode.command("lsp-calib: Insert the summary as documentation")
    vscode.until("a docstring", lambda: len(vscode.lines()) > len(before), MODEL_SECONDS)
    place = next(i for i, line in enumerate(vscode.lines()) if "def variance" in line)
    assert vscode.lines()[place + 1].strip().startswith('"""')


def test_a_terminal_has_the_command_that_calibrates_typed_and_not_run(vscode: VSCode) -> None:
    """In the folder of the workspace, with the server's program on the PATH."""
    vscode.command("lsp-calib: Terminal for lsp-calib")
    rows = vscode.page.locator(".terminal-wrapper.active .xterm-rows")

    def text() -> str:
        return "\n".join(rows.all_inner_texts()).replace("\u00a0", " ")

    vscode.until("the command", lambda: text().rstrip().endswith("lsp-calib calibrate ."))
    vscode.keys("Control+u")
    vscode.type('echo "$(command -v lsp-calib) in $PWD"')
    vscode.keys("Enter")
    vscode.until("the program", lambda: f"{SERVER} in {vscode.workspace}" in text().replace("\n", ""))
    vscode.command("Terminal: Kill All Terminals")
