"""The next edit in a real VS Code: drawn at its place, gone to, applied and dismissed by keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from editor import MISSING, MODEL_SECONDS, ROOT, VSCode, server_behind
from edits_offered import EditsOffered

pytestmark = [pytest.mark.model, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
SCRIPTED = ROOT / "tests" / "server" / "scripted_server.py"
SOURCE = """\
size = 3
print(size)
other = 4
area = size * size
"""
FAR = SOURCE + "\n" * 200 + "last = size\n"
# What is struck through, what stands behind the lines, and the status bar.
_DRAWN = """() => {
  const all = [...document.querySelectorAll('.editor-instance .view-lines span')];
  const spans = all.filter((one) => !one.children.length);
  const struck = spans.filter((one) => getComputedStyle(one).textDecorationLine === 'line-through');
  const added = (side) => spans
    .map((one) => getComputedStyle(one, side).content)
    .filter((one) => !['none', 'normal'].includes(one))
    .join('').replaceAll('"', '');
  const item = document.querySelector('.statusbar-item[id*="lspCalib.nextEdit"]');
  const text = struck.map((one) => one.textContent).join('');
  return [text, added('::before'), added('::after'), item?.textContent.trim() ?? ''];
}"""


@pytest.fixture
def offered(tmp_path: Path) -> EditsOffered:
    (tmp_path / "shapes").mkdir()
    file = tmp_path / "shapes" / "shapes.py"
    file.write_text(FAR)
    return EditsOffered(tmp_path, file)


@pytest.fixture
def begin(editor: Any, environment: dict[str, str], tmp_path: Path, offered: EditsOffered) -> Any:
    """Opens the document, with a server that offers the edits that are named, or its own (not offering)."""

    def begin_(*, offering: bool = True) -> VSCode:
        script = tmp_path / "lsp-calib-script.json"
        script.write_text(json.dumps({}))
        words = [sys.executable, str(SCRIPTED), str(script)]
        program = server_behind(tmp_path, (offered.behind(*words) if offering else words)[1:])
        machine = {"lspCalib.server.path": program}
        vscode: VSCode = editor(offered.file.parent, environment=environment, machine=machine)
        vscode.install()
        vscode.start("shapes.py")
        vscode.until("a server", lambda: "scripted" in vscode.drawn()["status"], MODEL_SECONDS)
        return vscode

    return begin_


@pytest.fixture
def vscode(begin: Any) -> VSCode:
    return begin()


def drawn(vscode: VSCode) -> list[str]:
    """What is struck through, the new text, the badge, the item of the status bar."""
    return [str(one).replace("\xa0", " ") for one in vscode.page.evaluate(_DRAWN)]


def appears(vscode: VSCode, *expected: str) -> None:
    vscode.until(f"{expected} is drawn", lambda: drawn(vscode) == list(expected))


def change(vscode: VSCode) -> None:
    """The change by hand in the first line, after which the cursor goes down."""
    vscode.page.locator(".editor-instance .view-lines").first.click()
    vscode.keys("Control+Home", "Control+Shift+ArrowRight")
    vscode.type("width")
    vscode.keys("Escape", "ArrowDown", "ArrowDown")


def test_it_is_drawn_gone_to_applied_and_undone_step_by_step(vscode: VSCode, offered: EditsOffered) -> None:
    offered.offers((2, "size"), (4, "size"), (205, "size"))
    change(vscode)
    appears(vscode, "size", "→ width", "● accept", "")
    assert vscode.lines()[1] == "print(size)"
    vscode.keys("Alt+j", "Alt+j")
    vscode.until("the first one", lambda: vscode.lines()[1] == "print(width)")
    appears(vscode, "size", "→ width", "● accept", "")
    vscode.keys("Alt+u")
    vscode.until("the second one", lambda: ("editApplied", "edit-4") in offered.settled())
    vscode.until("the third is gone to", lambda: "last = size" in vscode.lines())
    appears(vscode, "size", "→ width", "● accept", "")
    assert len(offered.settled()) == 2
    vscode.keys("Escape")
    appears(vscode, "", "", "", "")
    vscode.until("the server knows", lambda: offered.settled()[2:] == [("editDismissed", "edit-205")])
    vscode.keys("Control+z")
    vscode.until("one undone", lambda: vscode.lines()[:4][1::2] == ["print(width)", "area = size * size"])
    vscode.keys("Control+z")
    vscode.until("another one undone", lambda: vscode.lines()[1] == "print(size)")
    assert vscode.lines()[0] == "width = 3"


def test_out_of_sight_it_stands_in_the_status_bar_and_typing_takes_it_away(
    vscode: VSCode, offered: EditsOffered
) -> None:
    offered.offers((205, "size"))
    change(vscode)
    appears(vscode, "", "", "", "next edit: `size` to `width`, line 205 ●")
    assert vscode.lines()[0] == "width = 3", "the text has not moved"
    vscode.type("x")
    appears(vscode, "", "", "", "")
    vscode.keys("Backspace", "Alt+j", "Alt+u")
    assert vscode.lines()[2] == "other = 4", "without an edit the keys do nothing"


def test_the_keys_are_nobody_elses(vscode: VSCode) -> None:
    """In VS Code's own table of keys."""
    vscode.command("Preferences: Open Default Keyboard Shortcuts (JSON)")
    vscode.until("the table", lambda: any("key" in line for line in vscode.lines()))
    counts = {}
    for key in ("alt+j", "alt+u"):
        vscode.keys("Control+f")
        vscode.page.locator(".find-widget textarea").first.fill(f'"{key}"')
        found = vscode.page.locator(".find-widget .matchesCount").first
        vscode.page.wait_for_timeout(1000)
        counts[key] = str(found.text_content()).split(" of ")[-1]
        vscode.keys("Escape")
    assert counts == {"alt+j": "1", "alt+u": "1"}, "the extension's own"


def test_changes_by_hand_lead_to_the_next_one(begin: Any, offered: EditsOffered) -> None:
    """With the answers of the server itself: three lines by hand, the fourth by a key."""
    offered.file.write_text("".join(f"canvas.line(box.size, {at})\nbreak_{at}()\n" for at in range(5)))
    vscode = begin(offering=False)
    vscode.page.locator(".editor-instance .view-lines").first.click()
    vscode.keys("Control+Home")
    for _ in range(3):
        vscode.keys("Home", *["ArrowRight"] * len("canvas.line(box."), *["Shift+ArrowRight"] * len("size"))
        vscode.type("width")
        vscode.keys("Escape", "ArrowDown", "ArrowDown")
    vscode.until("the third by hand", lambda: vscode.lines()[4] == "canvas.line(box.width, 2)")
    # Until the extension hears of the last keys, it strikes out what they have typed over.
    found = vscode.until("the fourth", lambda: drawn(vscode)[0] == "size" and drawn(vscode))
    old, new, badge, status = found
    assert (old, new, status) == ("size", "→ width", "")
    assert badge in ("● accept", "▲ review")
    vscode.keys("Alt+u")
    vscode.until("the fourth line", lambda: vscode.lines()[6] == "canvas.line(box.width, 3)")
    assert vscode.lines()[8] == "canvas.line(box.size, 4)"
    vscode.until("the fifth is drawn", lambda: drawn(vscode)[:2] == ["size", "→ width"])
