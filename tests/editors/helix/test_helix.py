"""The shipped configuration of Helix in a real Helix (25.01 or later), with the real server and model.

LSP_CALIB_HELIX: the hx to use. The server is the `lsp-calib` beside the running Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyte", reason="the extra `editors` is not installed")
from editor_terminal import ELSEWHERE, PATH, SOURCE, EditorTerminal, servers_of

SHIPPED = Path(__file__).parents[3] / "editor-configs" / "helix" / "languages.toml"
MODEL_SECONDS = 120.0  # the first answer waits for the model to load
TIERS = {"●": "accept", "▲": "review", "✗": "reject"}


HELIX = os.environ.get("LSP_CALIB_HELIX", "")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not HELIX, reason="LSP_CALIB_HELIX names no Helix 25.01 or later: see .ci/helix"),
]


class Helix(EditorTerminal):
    def normal(self) -> None:
        """Back to normal mode. What follows an Escape before that is read would be read as Alt and a key."""
        self.keys("\x1b")
        self.until("Escape to be read", lambda _: not self.unread())
        time.sleep(0.3)
        self.sees(r"^ NOR ")

    def command(self, line: str) -> None:
        self.normal()
        self.keys(":")
        self.sees(r"^:")
        self.keys(f"{line}\r")

    def line(self, number: int) -> str:
        """A line of the document, without what Helix shows beside it."""
        found = re.search(rf"^.? +{number} +(\S.*?)(?:  .*)?$", self.text(), re.M)
        return found[1] if found else ""


Start = Callable[[Path, str], Helix]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that opens a document in a Helix with this state folder and this PATH."""
    opened: list[Helix] = []

    def make(home: Path, path: str) -> Helix:
        folder = tmp_path / "config" / "helix"
        folder.mkdir(parents=True)
        shutil.copy(SHIPPED, folder)
        file = tmp_path / "arithmetic.py"
        file.write_text(SOURCE)
        environment = {
            "PATH": path,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "LSP_CALIB_HOME": str(home),
        }
        editor = Helix([HELIX, str(file)], environment, tmp_path)
        opened.append(editor)
        editor.sees(r"^ NOR ")
        return editor

    yield make
    for editor in opened:
        editor.close()


@pytest.fixture
def helix(start: Start, home_with_summaries: Path) -> Helix:
    return start(home_with_summaries, PATH)


def suggested(helix: Helix) -> tuple[str, str]:
    """Types the beginning of the last line; (text of the suggestion, its tier) once the menu shows both."""
    helix.keys("geA    ret")
    helix.sees(r"^ INS ")

    def offered(screen: str) -> re.Match[str] | None:
        return re.search(rf"([{''.join(TIERS)}]) (\S.*?) +text$", screen, re.M)

    def asked(screen: str) -> re.Match[str] | None:
        if found := offered(screen):
            return found
        helix.keys(
            "\x7ft"
        )  # the menu never waits for the model: what comes too late is there at the next key
        try:
            return helix.until("a menu", offered, 2.0)
        except AssertionError:
            return None

    found = helix.until("a suggestion in the menu", asked, MODEL_SECONDS)
    return found[2], TIERS[found[1]]


def test_the_menu_shows_the_tier_and_return_accepts(helix: Helix) -> None:
    """The mark is in the menu, tier and number beside the selected item; the inserted line is marked."""
    text, tier = suggested(helix)
    helix.keys("\x0e")  # Ctrl-n selects
    helix.sees(rf"{tier} · \d{{1,3}} %")
    helix.keys("\r")
    helix.until("the suggestion in the line", lambda _: helix.line(15) == text)
    helix.sees(r"^\W* 15 .*(Usually used as it is|Read it first|Rarely used as it is)\b")

    helix.normal()
    helix.keys("A + 1")
    helix.until("what was typed", lambda _: helix.line(15).startswith(f"{text} + 1"))
    helix.until("no diagnostic on a changed line", lambda _: helix.line(15) == f"{text} + 1")


def test_a_suggestion_is_marked_as_reviewed(helix: Helix) -> None:
    """The action is offered on the diagnostic, to which [d goes; the diagnostic goes, the line stays."""
    text, _ = suggested(helix)
    helix.keys("\x0e\r")
    marked = r"^\W* 15 .*(Usually used as it is|Read it first|Rarely used as it is)\b"
    helix.sees(marked)
    helix.normal()
    helix.keys("[d a")
    helix.sees("Mark suggestion as reviewed")
    helix.keys("\r")
    helix.until("no diagnostic", lambda screen: not re.search(marked, screen, re.M))
    assert helix.line(15) == text


def test_hover_shows_the_summary_with_its_tier_and_an_action_inserts_it(helix: Helix) -> None:
    """Space k on a name shows the summary; Space a offers it as a docstring."""
    helix.keys("4ggw")
    helix.sees(r"4:\d+$")

    def hovered(screen: str) -> str:
        if found := re.search(r"\b(what its author would)\b", screen):
            return found[1]
        helix.normal()
        helix.keys(" k")
        try:
            return str(helix.sees(r"\b(what its author would)\b", 2.0)[1])
        except AssertionError:
            return ""

    assert helix.until("a summary", hovered, MODEL_SECONDS)
    helix.sees(r"smollm2-135m, lsp-calib")

    def inserted(_: str) -> bool:
        if helix.line(5).startswith('"""'):
            return True
        # A hover that was asked for above may come only now, in the place of the menu.
        helix.normal()
        helix.keys(" a")
        try:
            helix.sees("Insert summary as docstring", 2.0)
            helix.keys("\r")
            helix.until("a docstring", lambda _: helix.line(5).startswith('"""'), 2.0)
        except AssertionError:
            return False
        return helix.line(5).startswith('"""')

    helix.until("a docstring", inserted, MODEL_SECONDS)


def test_commands_say_what_they_have_done(helix: Helix) -> None:
    """Helix drops what a command answers: the server shows it as a message."""
    suggested(helix)
    helix.command("lsp-workspace-command lsp-calib.status")
    helix.sees(r"lsp-calib: ready\. ")
    helix.command("lsp-workspace-command lsp-calib.refit")
    helix.sees(r"Refit: not enough labels yet: 0 of 5\.")
    helix.command('lsp-workspace-command lsp-calib.pause {"minutes":5}')
    helix.sees(r"Completions are paused for 5 minutes\.")


def test_a_server_that_dies_leaves_editing_alone_and_a_command_starts_it_again(helix: Helix) -> None:
    suggested(helix)
    for server in servers_of(helix):
        server.kill()
    helix.keys("urn 1")
    helix.until("what was typed", lambda _: helix.line(15) == "return 1")
    helix.normal()
    helix.keys("ghvgld")  # the line stays, empty
    helix.command("lsp-restart")
    suggested(helix)


def test_without_a_model_it_says_what_to_do(start: Start, home: Path) -> None:
    helix = start(home, PATH)
    helix.sees(r"lsp-calib models pull", 60)
    helix.keys("geA    return 1")
    helix.until("what was typed", lambda _: helix.line(15) == "return 1")


def test_without_the_server_editing_goes_on_and_health_names_what_is_missing(
    start: Start, home: Path
) -> None:
    helix = start(home, ELSEWHERE)
    helix.keys("geA    return 1")
    helix.until("what was typed", lambda _: helix.line(15) == "return 1")
    environment = {**os.environ, "PATH": ELSEWHERE, "XDG_CONFIG_HOME": str(home.parent / "config")}
    command = [HELIX, "--health", "python"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert re.search(r"lsp-calib.*not found", done.stdout), done.stdout
