"""The shipped file for Emacs in a real Emacs (30 or later), with the real server and model, in a terminal.

By Eglot alone, by Eglot with rassumfrassum and ruff beside lsp-calib, and by lsp-mode. LSP_CALIB_EMACS: the
emacs to use. The server is the `lsp-calib` beside the running Python.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

pytest.importorskip("pyte", reason="the extra `editors` is not installed")
from editor_terminal import ELSEWHERE, PATH, SOURCE, EditorTerminal, servers_of

HERE = Path(__file__).parent
CONFIGURATION = HERE.parents[2] / "editor-configs" / "emacs" / "lsp-calib.el"
MODEL_SECONDS = 120.0  # the first answer waits for the model to load
BADGE = r"  (?:● accept|▲ review|✗ reject)"
WORDS = {"accept": "Usually used as it is", "review": "Read it first", "reject": "Rarely used as it is"}


EMACS = os.environ.get("LSP_CALIB_EMACS", "")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not EMACS, reason="LSP_CALIB_EMACS names no Emacs 30 or later: see .ci/emacs"),
]


def has_lsp_mode() -> bool:
    if not EMACS:
        return False
    asked = [EMACS, "--batch", "--eval", '(kill-emacs (if (locate-library "lsp-inline-completion") 0 1))']
    return subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0


class Emacs(EditorTerminal):
    def command(self, name: str) -> None:
        self.keys("\x1bx")
        self.sees(r"^(\d+ )?M-x")
        self.keys(f"{name}\r")


Start = Callable[..., Emacs]
MANAGED = r"\[eglot:project"


@pytest.fixture
def start(tmp_path: Path, home_with_summaries: Path) -> Iterator[Start]:
    """A function that opens a document in an Emacs with this client, and waits until the server is there, or
    until the screen shows something else."""
    opened: list[Emacs] = []

    def make(
        client: str, *, home: Path = home_with_summaries, path: str = PATH, until: str = MANAGED
    ) -> Emacs:
        project = tmp_path / "project"
        project.mkdir()
        file = project / "arithmetic.py"
        file.write_text(SOURCE)
        folder = tmp_path / "emacs.d"
        folder.mkdir()
        environment = {
            "PATH": path,
            "LSP_CALIB_CLIENT": client,
            "LSP_CALIB_HOME": str(home),
        }
        command = [EMACS, "-nw", "-Q", f"--init-directory={folder}", "-l", str(HERE / "init.el"), str(file)]
        editor = Emacs(command, environment, project)
        opened.append(editor)
        editor.sees(r"LSP\[lsp-calib:\d+" if client == "lsp-mode" else until, MODEL_SECONDS)
        return editor

    yield make
    for editor in opened:
        editor.close()


def suggested(emacs: Emacs) -> tuple[str, str]:
    """Types the beginning of the last line; (line with the suggestion, tier) once both are on the screen."""
    emacs.keys("\x1b>    retu")
    emacs.sees(r"^..  +retu|^ +retu")
    pattern = rf"^!* *(retu.*?){BADGE}$"

    def asked(screen: str) -> re.Match[str] | None:
        if found := re.search(pattern, screen, re.M):
            return found
        emacs.keys("\x7fu")  # a request is never held up: what comes too late is there at the next key
        try:
            return emacs.sees(pattern, 3.0)
        except AssertionError:
            return None

    found: re.Match[str] = emacs.until("a suggestion with its badge", asked, MODEL_SECONDS)
    return found[1], found[0].split()[-1]


def test_it_compiles_without_warnings(tmp_path: Path) -> None:
    """Package managers compile it, with neither client loaded."""
    shutil.copy(CONFIGURATION, tmp_path)
    command = [EMACS, "-Q", "--batch", "--eval", "(setq byte-compile-error-on-warn t)"]
    command += ["-f", "batch-byte-compile", str(tmp_path / CONFIGURATION.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


ASK = """
(let (argument)
  (cl-letf (((symbol-function 'lsp-calib--execute)
             (lambda (_ asked then) (setq argument asked) (funcall then nil))))
    (lsp-calib-explain))
  (princ (format "%S\\n" (equal (plist-get argument :uri) client-uri))))
"""
EGLOT = "(progn (require 'eglot) (setq client-uri (plist-get (eglot--TextDocumentIdentifier) :uri)))"


def test_explain_names_a_file_behind_a_link_as_eglot_does(tmp_path: Path) -> None:
    """The server knows documents by the names they were opened under. That nothing was asked for is said."""
    real = tmp_path / "a folder"
    real.mkdir()
    (real / "a.py").write_text(SOURCE)
    (tmp_path / "link").symlink_to(real)
    command = [EMACS, "-Q", "--batch", "--eval", "(defvar client-uri nil)", "-l", str(CONFIGURATION)]
    command += ["--visit", str(tmp_path / "link" / "a.py"), "--eval", EGLOT, "--eval", ASK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "t\n", done.stderr
    assert "answered with a suggestion, or none has been asked for yet." in done.stderr


@pytest.mark.parametrize("client", ["eglot", "rass"])
def test_the_preview_shows_the_tier_and_tab_accepts(start: Start, client: str) -> None:
    """A badge stands behind the grey text; Tab inserts that; Flymake marks the line until it is changed."""
    emacs = start(client)
    text, tier = suggested(emacs)
    emacs.keys("\t")
    emacs.sees(rf"^!* *{re.escape(text)}$")
    emacs.command("flymake-show-buffer-diagnostics")
    emacs.sees(rf"\b{WORDS[tier]}\b")
    emacs.keys(" + 1")
    emacs.sees(rf"^!* *{re.escape(text)} \+ 1$")
    emacs.until("no diagnostic on a changed line", lambda screen: WORDS[tier] not in screen)


def test_the_menu_annotates_each_item_with_its_tier(start: Start) -> None:
    """Where completions are listed, tier and number stand beside each, by Eglot's own annotation."""
    emacs = start("eglot")
    suggested(emacs)
    emacs.keys("\x1b:")
    emacs.sees("^Eval:")
    emacs.keys("(setq completion-auto-help 'always)\r")
    emacs.command("completion-help-at-point")
    emacs.sees(r"^return\b.* (accept|review|reject) · \d{1,3} %")


def test_eldoc_shows_the_summary_with_its_tier_and_an_action_inserts_it(start: Start) -> None:
    """The echo area has the summary, C-h . all of the hover; eglot-code-actions puts it into the document."""
    emacs = start("eglot")
    emacs.keys("\x1b<\x0e\x0e\x0e\x06\x06\x06\x06\x06")
    keys = itertools.cycle(("\x06", "\x08.", "\x02", "\x08."))

    def described(screen: str) -> bool:
        if re.search(r"\bwhat its author would\b", screen):
            return True
        # What is not ready in time is there at the next hover; ElDoc asks where point has moved.
        emacs.keys(next(keys))
        try:
            return bool(emacs.sees(r"\bwhat its author would\b", 1.5))
        except AssertionError:
            return False

    emacs.until("a summary with its tier", described, MODEL_SECONDS)
    emacs.command("eglot-code-actions")
    emacs.sees("Insert summary as docstring")
    emacs.keys("Insert summary as docstring\r")
    emacs.sees(r'^ *def add\(first, second\):\n!* +"""')


def test_a_key_typed_meanwhile_does_not_end_what_sends_a_change() -> None:
    """`while-no-input` throws at the next check once a key is there; Eglot would lose the change."""
    interrupted = """(let (sent)
      (catch 'typed
        (let ((throw-on-input 'typed))
          (lsp-calib--to-its-end (lambda () (setq quit-flag 'typed) (ignore) (setq sent t)))
          (dotimes (_ 1000) (ignore))))
      (princ (format "%s %s" sent
        (mapcar (lambda (one) (and (advice-member-p #'lsp-calib--to-its-end one) t))
                '(eglot--track-changes-fetch eglot--signal-textDocument/didChange)))))"""
    start = ["--eval", "(lsp-calib-eglot 'python-base-mode)", "--eval", interrupted]
    said = subprocess.run(
        [EMACS, "--batch", "-l", str(CONFIGURATION), *start],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said.stdout == "t (t t)"


def batch(*arguments: str) -> str:
    """What Emacs prints."""
    command = [EMACS, "--batch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_the_preview_goes_when_eglot_stops() -> None:
    """Eglot runs its hook then too, and has no server to ask for a mark."""
    stopped = """(progn
      (require 'eglot) (require 'completion-preview)
      (add-hook 'eglot-managed-mode-hook #'lsp-calib-preview-mode)
      (with-temp-buffer
        (eglot--managed-mode-off)
        (princ (list (eglot-managed-p) lsp-calib-preview-mode completion-preview-mode
                     (lsp-calib--mark "review")))))"""
    assert batch("-l", str(CONFIGURATION), "--eval", stopped) == "(nil nil nil )"


@pytest.mark.skipif(not has_lsp_mode(), reason="no lsp-mode here")
def test_lsp_mode_works_where_only_the_autoloads_are_loaded(tmp_path: Path) -> None:
    """As a package manager leaves it until something of the package is called."""
    shutil.copy(CONFIGURATION, tmp_path)
    loads = tmp_path / "lsp-calib-autoloads.el"
    generate = f'(progn (require \'loaddefs-gen) (loaddefs-generate "{tmp_path}" "{loads}"))'
    batch("--eval", generate)
    asked = """(with-temp-buffer
      (setq buffer-file-name "/tmp/x.py") (python-mode)
      (princ (condition-case error (progn (lsp--find-clients) 'found) (error error)))
      (set-buffer-modified-p nil))"""
    said = batch("-L", str(tmp_path), "-l", str(loads), "--eval", "(require 'lsp-mode)", "--eval", asked)
    assert said.endswith("found")


@pytest.mark.parametrize("client", ["eglot", "rass"])
def test_commands(start: Start, client: str) -> None:
    """Status, refit, explain, pause and report say what the server answers."""
    emacs = start(client)
    suggested(emacs)
    emacs.command("lsp-calib-status")
    emacs.sees(r"^lsp-calib: ready\. ")
    emacs.command("lsp-calib-refit")
    emacs.sees(r"^Refit: not enough labels yet: 0 of 5\.")
    emacs.command("lsp-calib-explain")
    emacs.sees(r"^The last request was answered with a suggestion, or none has been asked for yet\.")
    emacs.command("lsp-calib-report")
    emacs.sees(r"^(The report is|Opened: file://)")
    emacs.keys("\x1b5")
    emacs.command("lsp-calib-pause")
    emacs.sees(r"^lsp-calib is paused for 5 minutes\.")


@pytest.mark.skipif(not has_lsp_mode(), reason="no lsp-mode with inline completion in this Emacs")
def test_lsp_mode_shows_ghost_text_with_the_tier(start: Start, home_with_summaries: Path) -> None:
    """lsp-mode asks for inline completions: C-return accepts, and the server is told at once."""
    emacs = start("lsp-mode")
    text, _ = suggested(emacs)
    emacs.keys("\x1b[27;5;13~")  # C-return, as xterm sends it
    emacs.sees(rf"^!* *{re.escape(text)}$")
    database = home_with_summaries / "feedback.db"

    def accepted(_: str) -> int:
        # The store is made after the first suggestion is on the screen.
        with suppress(sqlite3.OperationalError):
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
                (count,) = store.execute("SELECT count(*) FROM events WHERE kind = 'accepted'").fetchone()
            return int(count)
        return 0

    assert emacs.until("an event in the store", accepted) == 1
    emacs.command("lsp-calib-refit")
    emacs.sees(r"^Refit: not enough labels yet: 0 of 5\.")


def test_a_server_that_dies_is_started_again(start: Start) -> None:
    """By Eglot itself, or by its command; what is typed meanwhile stays."""
    emacs = start("eglot")
    suggested(emacs)
    for server in servers_of(emacs):
        server.kill()
    emacs.sees("Server exited|Reconnecting|Reconnected")
    emacs.keys("rn 1")
    emacs.sees(r"^!* *return 1$")
    emacs.command("eglot-reconnect")
    emacs.sees("Connected!|Reconnected", 60)
    emacs.keys("\x01\x0b")  # to the line's start, and all of it away
    suggested(emacs)


def test_without_a_model_it_says_what_to_do(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "empty"
    home.mkdir(mode=0o700)
    emacs = start("eglot", home=home, until="lsp-calib models pull")
    emacs.keys("\x1b>    return 1")
    emacs.sees(r"^!* *return 1$")


def test_without_the_server_editing_goes_on_and_emacs_names_what_is_missing(start: Start) -> None:
    emacs = start("eglot", path=ELSEWHERE, until="lsp-calib")
    emacs.keys("\x1b>    return 1")
    emacs.sees(r"^!* *return 1$")
