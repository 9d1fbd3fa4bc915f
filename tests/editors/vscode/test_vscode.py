"""The packaged extension in a real VS Code, with the real server.

LSP_CALIB_SERVER: the server's program (default: `lsp-calib` beside the running Python).
LSP_CALIB_PATIENCE: how many times longer everything may take, on a machine that is busy.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from editor import (
    MISSING,
    MODEL_SECONDS,
    SECONDS,
    SERVER,
    SOURCE,
    TYPED,
    VSCode,
    server_behind,
)  # fmt: skip

pytestmark = [pytest.mark.model, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

MARKS = {"accept": "●", "review": "▲", "reject": "✗"}
# The marks on inserted suggestions, by their severities: hint, information.
RISING = Path(__file__).parents[1] / "rising_server.py"
SQUIGGLES = ".squiggly-hint, .squiggly-info"


def test_a_suggestion_has_a_badge_and_tab_accepts_it_and_its_mark_goes_with_an_edit(vscode: VSCode) -> None:
    """Ghost text and badge come with typing; Tab inserts and marks; changing the line takes the mark away."""
    seen = vscode.suggestion(TYPED)
    found = re.fullmatch(r"(\S) (accept|review|reject)", seen["badge"])
    assert found, seen
    assert found[1] == MARKS[found[2]], "a shape for each tier"
    assert not re.search(r"\d", seen["badge"]), "the number stands in the hover alone"
    assert seen["color"] != vscode.page.evaluate(
        "() => getComputedStyle(document.querySelector('.view-lines')).color"
    )
    vscode.until("the tier in the status bar", lambda: found[2] in vscode.drawn()["status"])
    label = vscode.drawn()["label"]  # what a screen reader says
    assert re.search(r"smollm2-135m.*calibrator", label), label
    assert re.search(r"\d %|no probability", label), label

    vscode.keys("Tab")
    vscode.until("the suggestion in the line", lambda: vscode.lines()[-1] == TYPED + seen["ghost"])
    vscode.until("a mark on it", lambda: vscode.page.locator(SQUIGGLES).count())
    vscode.type("  # changed")
    vscode.keys("Escape")
    vscode.until("no mark on what was changed", lambda: not vscode.page.locator(SQUIGGLES).count())


def test_escape_takes_ghost_text_and_badge_away(vscode: VSCode) -> None:
    vscode.suggestion(TYPED)
    vscode.keys("Escape")
    vscode.until("neither", lambda: not vscode.drawn()["ghost"] and not vscode.drawn()["badge"])


def test_typed_along_the_badge_changes_in_place_and_no_text_moves(
    editor: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """In every frame of the page there are ghost text and badge, and the ghost text ends where it did.

    The badge goes with the focus of the window.
    """
    workspace = tmp_path / "statistics"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    vscode: VSCode = editor(
        workspace,
        environment=environment,
        machine={"lspCalib.server.path": server_behind(tmp_path, [str(RISING), SERVER])},
        user={"lspCalib.badge.number": True},
    )
    vscode.install()
    vscode.start("averages.py")
    vscode.until_ready()
    vscode.to_end()
    seen = vscode.suggestion(TYPED)
    assert seen["badge"].startswith("✗ 10 %")
    vscode.until("it in the status bar", lambda: "✗ 10 %" in vscode.drawn()["status"])
    end = vscode.film()
    for pause, keys in ((0, seen["ghost"][:7]), (150, seen["ghost"][7:14])):
        for key in keys:
            vscode.page.keyboard.type(key)
            vscode.page.wait_for_timeout(pause)
    vscode.until("the last badge", lambda: "● 90 %" in vscode.drawn()["badge"])
    vscode.until("and in the status bar", lambda: "● 90 %" in vscode.drawn()["status"])
    frames = end()
    assert {frame["text"] for frame in frames} == {TYPED + seen["ghost"]}
    assert len({frame["ghost"] for frame in frames}) > 7
    assert frames[-1]["ghost"] == seen["ghost"][14:]
    assert len({frame["end"] for frame in frames}) == 1, [frame["end"] for frame in frames]
    badges = [re.match(r"[●▲✗] (\d+) %", frame["badge"]) for frame in frames]
    assert all(badges), [frame["badge"] for frame in frames]
    numbers = [int(badge[1]) for badge in badges if badge]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 5, numbers
    assert [one["status"] for one in frames if not re.search(r"[●▲✗] \d+ %$", one["status"])] == []

    vscode.page.evaluate("() => { document.hasFocus = () => false; dispatchEvent(new Event('blur')); }")
    vscode.until("no badge", lambda: not vscode.drawn()["badge"])


def test_the_hover_on_a_function_shows_its_summary(vscode: VSCode) -> None:
    """Summary, mark and tier, and the model that made it."""
    vscode.keys("Control+Home")
    name = vscode.page.locator(".editor-instance .view-line", has_text="def variance").first.bounding_box()
    place = [name["x"] + 60, name["y"] + name["height"] / 2]
    text = vscode.hovered(place, lambda text: "smollm2-135m" in text)
    assert re.search(r"(Likely says|May say|Unlikely to say) what its author would", text), text


def test_a_refit_from_the_palette_says_what_came_of_it(vscode: VSCode) -> None:
    vscode.clear_notifications()  # of tests before
    vscode.command("lsp-calib: Refit the calibrator")
    said = vscode.until(
        "an answer", lambda: re.search(r"alibrator.*label", vscode.notifications()), MODEL_SECONDS
    )
    assert said


def test_the_report_opens_in_the_editor_and_runs_no_script(vscode: VSCode) -> None:
    vscode.command("lsp-calib: Show report")
    vscode.until("its tab", lambda: vscode.page.locator(".tab", has_text="lsp-calib report").count())
    frame = vscode.until("the page", lambda: vscode.frame_with("probabilities"))
    element = frame.frame_element()
    assert "allow-scripts" not in element.get_attribute("sandbox").split()
    policy = frame.locator("meta[http-equiv=Content-Security-Policy]").first.get_attribute("content")
    assert policy.startswith("default-src 'none'")
    assert not frame.locator("script[src], img[src^=http], link").count()


def test_a_pause_and_its_end(vscode: VSCode) -> None:
    vscode.command("lsp-calib: Pause completions")
    vscode.page.locator(".quick-input-widget .monaco-list-row", has_text="Until I resume").first.click()
    vscode.until("the pause", lambda: "paused" in vscode.drawn()["status"])
    vscode.command("lsp-calib: Resume completions")
    vscode.until("its end", lambda: "paused" not in vscode.drawn()["status"])


def test_a_cell_of_a_notebook_knows_the_other_cells(vscode: VSCode, request: pytest.FixtureRequest) -> None:
    """A name that stands in the cell above alone is offered below, and typed in, saved and hovered there."""
    function = [
        "def weighted_harmonic_score(values: list[float], weights: list[float]) -> float:\n",
        '    """The weighted harmonic mean of the values."""\n',
        "    return sum(weights) / sum(w / v for v, w in zip(values, weights))",
    ]
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Scores"]},
            {**empty, "source": ["%matplotlib inline\n", "values, weights = [1.0, 2.0], [3.0, 4.0]"]},
            {**empty, "source": function},
            {**empty, "source": ["first = weighted_harmonic_score(values, weights)\n", "print(first)"]},
            {**empty, "source": ["print(values)"]},
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 2,
    }
    (vscode.workspace / "cells.ipynb").write_text(json.dumps(notebook))
    vscode.show(vscode.workspace / "cells.ipynb")
    vscode.page.locator(".notebookOverlay .code-cell-row .view-lines", has_text="print(values)").last.click()
    vscode.keys("Control+End", "Enter")
    typed = "second = weighted_h"
    seen = vscode.suggestion(typed)
    assert (typed + seen["ghost"]).startswith("second = weighted_harmonic_score("), seen
    picture = request.config.rootpath / "build" / "vscode-notebook.png"
    picture.parent.mkdir(exist_ok=True)
    vscode.page.screenshot(path=picture)
    vscode.keys("Tab")
    vscode.until(
        "a mark in the cell", lambda: vscode.page.locator(f".notebookOverlay :is({SQUIGGLES})").count()
    )
    vscode.keys("Control+s")
    vscode.until("no mark once it is saved", lambda: not vscode.page.locator(SQUIGGLES).count())
    assert "weighted_harmonic_score(" in "".join(
        json.loads((vscode.workspace / "cells.ipynb").read_text())["cells"][-1]["source"]
    )


@pytest.mark.parametrize("trusted", [False, True], ids=["restricted mode", "a trusted workspace"])
def test_the_users_own_settings_count_and_not_those_of_a_workspace(
    editor: Any, environment: dict[str, str], tmp_path: Path, trusted: bool
) -> None:
    """What the user has set that is gone is named once. A trusted workspace sets three keys, another none."""
    (tmp_path / ".vscode").mkdir()
    hostile = {
        "lspCalib.server.path": "/nonexistent/from-the-workspace",
        "lspCalib.trusted.model": "/nonexistent/from-the-workspace.gguf",
        "lspCalib.tiers.preset": "lenient",
        "lspCalib.tiers.acceptFrom": 0,
        "lspCalib.languages": ["go"],
    }
    (tmp_path / ".vscode" / "settings.json").write_text(json.dumps(hostile))
    (tmp_path / "averages.py").write_text(SOURCE)
    own = {"lspCalib.tiers.acceptFrom": 1, "lspCalib.tiers.rejectBelow": 1, "lspCalib.debounceMs": 40}
    vscode: VSCode = editor(
        tmp_path,
        environment=environment,
        user={**own, "security.workspace.trust.enabled": not trusted},
    )
    vscode.install()
    vscode.start("averages.py")
    said = vscode.until("a message", vscode.notifications, MODEL_SECONDS)
    assert said.count("debounceMs was removed") == 1
    if not trusted:
        vscode.until("restricted mode", lambda: vscode.page.get_by_text("Restricted Mode").count())
    vscode.to_end()
    vscode.until_ready()
    if trusted:
        vscode.type(TYPED)
        vscode.command("lsp-calib: Why is nothing here?")
        vscode.until("why", lambda: "languages" in vscode.notifications())
    else:
        assert vscode.suggestion(TYPED)["badge"].startswith("✗ reject")


def without_compilers(folder: Path) -> str:
    """A PATH with all programs of this machine but compilers and `lsp-calib`."""
    folder.mkdir()
    unwanted = re.compile(
        r"(.*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|c89|c99)(-[\d.]+|-gcc)?|python.*|lsp-calib"
    )
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not unwanted.fullmatch(program.name) and not link.exists():
                link.symlink_to(program)
    # A link to Python would not find its library: a script starts the real one.
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix) / "bin" / "python3"}" "$@"\n')
    python.chmod(0o755)
    return str(folder)


def test_from_the_package_of_the_extension_to_the_first_suggestion(
    editor: Any, environment: dict[str, str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """No server, no compiler: one question, one yes, then suggestions. Nothing is fetched before the yes."""
    workspace = tmp_path / "statistics"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    path = without_compilers(tmp_path / "bin")
    vscode: VSCode = editor(workspace, environment=environment | {"PATH": path}, machine={})
    begun = time.monotonic()
    vscode.install()
    vscode.start("averages.py")
    dialog = vscode.page.locator(".monaco-dialog-box")
    dialog.wait_for(timeout=1000 * MODEL_SECONDS)
    question = dialog.inner_text()
    assert "SmolLM2 135M Instruct is there already" in question
    assert len(re.findall(r"\d MB", question)) >= 2, question
    assert "this machine has no compiler" in question
    storage = vscode.folder / "data" / "User" / "globalStorage" / "lsp-calib.lsp-calib"
    assert not (storage / "server").exists(), "nothing is fetched before the yes"
    asked = time.monotonic()
    dialog.get_by_role("button", name=re.compile(r"Install \(")).click()
    ready = 10 * MODEL_SECONDS
    vscode.until("the server is ready", lambda: "smollm2" in vscode.drawn()["status"], ready)
    installed = time.monotonic()
    assert not dialog.count(), "one question is all"
    vscode.to_end()
    assert vscode.suggestion(TYPED)["badge"]
    assert (storage / "server" / "installed.json").exists()
    seconds = {
        "question": round(asked - begun, 1),
        "installed": round(installed - asked, 1),
        "suggestion": round(time.monotonic() - installed, 1),
    }
    record_property("seconds", seconds)
    print(f"install, yes, type: 3 steps, 1 confirmation; {seconds}")


@pytest.mark.parametrize(
    ("program", "words"),
    [(None, "Correct lspCalib.server.path"), ("read -r line", "it ended before it was ready")],
    ids=["missing", "ends at once"],
)
def test_a_server_that_does_not_start_is_said_once_and_editing_goes_on(
    editor: Any, environment: dict[str, str], tmp_path: Path, program: str | None, words: str
) -> None:
    workspace, path = tmp_path / "statistics", tmp_path / "some-lsp-calib"
    workspace.mkdir()
    (workspace / "averages.py").write_text(SOURCE)
    if program is not None:
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
    vscode: VSCode = editor(workspace, environment=environment, machine={"lspCalib.server.path": str(path)})
    vscode.install()
    vscode.start("averages.py")
    said = vscode.until("a message", vscode.notifications, SECONDS)
    assert str(path) in said
    assert words in said
    vscode.until("the state", lambda: "not working" in vscode.drawn()["status"])
    vscode.to_end()
    vscode.type("x = 1")
    vscode.until("what was typed", lambda: "x = 1" in vscode.lines()[-1])
    assert vscode.page.locator(".notifications-toasts .notification-list-item").count() == 1
