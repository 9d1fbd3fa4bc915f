"""A second opinion in a real VS Code: what is read stays, and the surer answer is the next one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from editor import MISSING
from two_answers import FIRST, SURER, TYPED, TwoAnswers, shown

pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


def test_a_surer_second_answer_is_the_next_one_and_never_in_the_place_of_what_is_read(
    editor: Any, tmp_path: Path
) -> None:
    """Frame by frame: one suggestion until the next one is asked for, and that is the surer one."""
    answers = TwoAnswers(tmp_path)
    vscode = editor(answers.workspace, **answers.options)
    answers.start(vscode)
    answers.type(vscode)
    assert (before := shown(vscode))[1].startswith("▲ review")
    film = vscode.film()
    answers.ask(vscode)
    vscode.page.wait_for_timeout(500)
    assert shown(vscode) == before, "while the model works nothing moves"
    answers.release()
    vscode.until("the badge of two", lambda: "2: ● accept" in shown(vscode)[1])
    vscode.page.wait_for_timeout(500)
    frames = film()
    assert [text for text, _ in itertools.groupby(one["text"] for one in frames)] == [TYPED + FIRST]
    assert shown(vscode)[1].startswith("1: ✗ reject"), "it says what it is worth beside the surer one"
    vscode.keys("Alt+BracketRight")
    vscode.until("the surer one", lambda: shown(vscode)[0] == SURER)
    vscode.keys("Tab")
    vscode.until("it in the line", lambda: vscode.lines()[-1] == TYPED + SURER)


def test_the_key_of_the_next_one_asks_by_itself(editor: Any, tmp_path: Path) -> None:
    """Without a request by hand before it: VS Code makes one, and shows the surer answer at once."""
    answers = TwoAnswers(tmp_path)
    answers.release()
    vscode = editor(answers.workspace, **answers.options)
    answers.start(vscode)
    answers.type(vscode)
    film = vscode.film()
    vscode.keys("Alt+BracketRight")
    vscode.until("the surer one", lambda: shown(vscode)[0] == SURER)
    vscode.until("the badge of two", lambda: shown(vscode)[1].startswith("1: ✗ reject"))
    seen = [text for text, _ in itertools.groupby(one["text"] for one in film())]
    assert seen == [TYPED + FIRST, TYPED + SURER]
