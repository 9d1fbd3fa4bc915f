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
from lsp_calib.calibration.calibrators.purpose import State

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


def test_the_status_bar_has_words_for_a_screen_reader(vscode: VSCode) -> None:
    """State, model, tier and probability in one label; nothing is said by colour or shape alone."""
    seen = vscode.suggestion(TYPED)
    tier = seen["badge"].split()[1]
    label = vscode.until("the label", lambda: tier in (found := vscode.drawn()["label"]) and found)
    assert re.search(r"\d %|no probability", label), label
    assert "smollm2-135m" in label
    assert "calibrator" in label


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
    ):
        assert any(wanted in row for row in rows), (wanted, rows)
    vscode.keys("Escape")
    vscode.clear_notifications()  # of tests before
    vscode.page.locator('.statusbar-item[id*="lspCalib.status"] a').first.click()
    vscode.choose("Why is nothing here")
    vscode.until("an answer", lambda: "lsp-calib" in vscode.notifications())


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


@pytest.mark.parametrize(("state", "words"), [("learning", "few labels"), ("drifted", "certificate revoked")])
def test_the_state_of_a_calibrator_is_seen_and_it_can_be_taken_back(
    vscode: VSCode, environment: dict[str, str], tmp_path: Path, state: State, words: str
) -> None:
    """The word stands in the status bar and its label, until the calibrator is taken back."""
    own = tmp_path / "own.json"
    attrs.evolve(Calibrator.load(SHIPPED), source="personal", state=state).save(own)
    command = [SERVER, "calibrators", "import", "--install", str(own)]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    before = {one.pid for one in vscode.servers()}
    vscode.command("lsp-calib: Restart the server")
    vscode.until("another", lambda: not before & ({one.pid for one in vscode.servers()} or before))
    vscode.until_ready()
    vscode.suggestion(TYPED)
    vscode.until("the word", lambda: f"smollm2-135m, {state}" in vscode.drawn()["status"])
    assert words in vscode.drawn()["label"]

    for said in ("line-smollm2-135m", "nothing to roll back"):
        vscode.clear_notifications()
        vscode.command("lsp-calib: Take back the last calibrator")
        vscode.until("an answer", lambda said=said: said in vscode.notifications())
    vscode.keys("Enter")  # VS Code indents the line
    vscode.suggestion(TYPED.lstrip())
    vscode.until("no such word", lambda: state not in vscode.drawn()["status"])


def test_the_walkthrough_has_its_steps(vscode: VSCode) -> None:
    vscode.command("lsp-calib: Get started")
    page = vscode.page.locator(".gettingStartedContainer")
    vscode.until("its page", lambda: "What the badge means" in " ".join(page.all_inner_texts()))
    assert page.locator(".getting-started-step").count() == 5


def test_a_summary_becomes_documentation_from_the_palette(vscode: VSCode) -> None:
    """At the function that the cursor is on: the sentence of the hover, as a docstring."""
    vscode.keys("Control+Home", *["ArrowDown"] * 8)  # def variance
    before = vscode.lines()
    vscode.command("lsp-calib: Insert the summary as documentation")
    vscode.until("a docstring", lambda: len(vscode.lines()) > len(before), MODEL_SECONDS)
    place = next(i for i, line in enumerate(vscode.lines()) if "def variance" in line)
    assert vscode.lines()[place + 1].strip().startswith('"""')


def test_calibrating_on_the_workspace_asks_first_and_can_be_cancelled(vscode: VSCode) -> None:
    """The progress is in the status bar; a click there shows the button."""
    for i in range(4):  # enough distinct lines to begin
        lines = (f"    part_{i}_{j} = sum(values[{i}:{j}])\n" for j in range(20))
        (vscode.workspace / f"enough_{i}.py").write_text(f"def parts_{i}(values):\n{''.join(lines)}")
    vscode.clear_notifications()
    vscode.command("lsp-calib: Calibrate on this workspace")
    dialog = vscode.page.locator(".monaco-dialog-box")
    dialog.wait_for()
    assert "minutes to hours" in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    vscode.until("no dialog", lambda: not dialog.count())

    progress = vscode.page.locator(".statusbar-item", has_text="calibrating on")
    assert not progress.count()
    vscode.command("lsp-calib: Calibrate on this workspace")
    dialog.wait_for()
    dialog.get_by_role("button", name="Calibrate").click()
    progress.first.click()
    vscode.press("Cancel")
    vscode.until("an answer", lambda: "was cancelled" in vscode.notifications(), MODEL_SECONDS)
    assert "lsp-calib: lsp-calib" not in vscode.notifications()


def test_a_model_is_picked_from_those_that_are_known(vscode: VSCode) -> None:
    """The list says what is installed and how large the others are; a new server starts with the choice."""
    before = {one.pid for one in vscode.servers()}
    vscode.command("lsp-calib: Pick a model")
    rows = vscode.until(
        "the models", lambda: any("SmolLM2" in row for row in vscode.rows()) and vscode.rows()
    )
    assert re.match(r"SmolLM2 135M.*installed", rows[0]), "what is there comes first"
    assert re.search(r"download \d+ MB", rows[1])
    assert not any("MiniLM" in row for row in rows), "an encoder completes nothing"
    vscode.choose("SmolLM2 135M")
    vscode.until(
        "another server",
        lambda: (now := {one.pid for one in vscode.servers()}) and not now & before,
        MODEL_SECONDS,
    )
    vscode.to_end()
    assert vscode.suggestion(TYPED)["badge"]
