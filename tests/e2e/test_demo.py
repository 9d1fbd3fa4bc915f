"""`lsp-calib demo`, run as a user runs it: what it says is checked against what can be known without it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import lsp_calib
from lsp_calib.errors import LspCalibError
from lsp_calib.tools.client import Editor
from lsp_calib.tools.demo.user import FILE, PLACES, Action, Shown, decide

COMMAND = [sys.executable, "-m", "lsp_calib", "demo"]
PATIENCE = 600.0  # a machine that does other things as well
WIDTH = 80
SOURCE = (Path(lsp_calib.__file__).parent / FILE).read_text("utf-8").splitlines()
STEPS = {
    *("initialize", "load model", "complete", "diagnose", "hover", "settle"),
    *("keep", "type over", "edit", "leave alone", "refit", "ask again", "shutdown"),
}


def environment(home: Path, **more: str) -> dict[str, str]:
    changed = {"LSP_CALIB_MODEL", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return {**kept, "LSP_CALIB_HOME": str(home), **more}


def demo(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(home, **more),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a user with a setting of their own: the machine has other things to do."""
    home = tmp_path_factory.mktemp("user")
    (home / "config.toml").write_text("threads = 1\n")
    return home


@pytest.fixture(scope="module")
def document(user_home: Path, model_path: Path) -> dict[str, Any]:
    """What `demo --json` printed, alone on standard output; it ended with exit code 0."""
    result = demo(user_home, "--json", "--model", str(model_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.mark.model
class TestReport:
    def test_every_step_happened(self, document: dict[str, Any]) -> None:
        """Each step is there once, is ok, and took time; a step that cannot be is not passed over."""
        names = [step["name"] for step in document["steps"]]
        assert len(names) == len(set(names))
        assert set(names) >= STEPS - {"ask again"}
        assert ("ask again" in names) == document["refit"]["promoted"]
        assert all(step["ok"] is True and step["ms"] >= 0.0 for step in document["steps"])
        assert "error" not in document

    def test_suggestions_are_those_of_the_file(self, document: dict[str, Any]) -> None:
        """`expected` is what really stands there, and `right` is whether the model said just that."""
        shown = document["suggestions"]
        assert 6 <= len(shown) <= 10
        assert len({one["id"] for one in shown}) == len(shown)
        for one in shown:
            assert one["expected"] == SOURCE[one["line"] - 1][one["column"] - 1 :]
            assert one["right"] == (one["text"].rstrip() == one["expected"].rstrip())
            assert one["kind"] == "line"
            assert one["roundTripMs"] > 0.0

    def test_what_the_server_hides_is_named_with_its_reason_and_asked_for_by_hand(
        self, document: dict[str, Any]
    ) -> None:
        """By the default limit. By hand all are shown."""
        shown = {one["line"]: one for one in document["suggestions"]}
        hidden = document["hidden"]
        assert len(hidden) >= 1
        for one in hidden:
            assert "hideBelow is 12.5 %" in one["message"]
            assert (shown[one["line"]]["tier"], one["byHand"]) == ("reject", None)

    def test_the_model_knows_something(self, document: dict[str, Any]) -> None:
        """Some suggestions are right, and they are more confident than the wrong ones. Noise would not be."""
        right = [one["confidence"] for one in document["suggestions"] if one["right"]]
        wrong = [one["confidence"] for one in document["suggestions"] if not one["right"]]
        assert len(right) >= 1
        assert len(wrong) >= 3
        assert sum(right) / len(right) > sum(wrong) / len(wrong)

    def test_labels_say_what_the_user_did(self, document: dict[str, Any]) -> None:
        """Every suggestion has one label; kept is correct, all else is not; all four cases are there."""
        labels = {one["id"]: one for one in document["labels"]}
        assert len(labels) == len(document["labels"])
        assert set(labels) == {one["id"] for one in document["suggestions"]}
        due = {
            "kept": ("kept", True),
            "keptAnyway": ("kept", True),
            "typedOver": ("typed over", False),
            "edited": ("edited", False),
            "leftAlone": ("ignored", False),
        }
        for one in document["suggestions"]:
            label = labels[one["id"]]
            assert (label["how"], label["correct"]) == due[one["action"]]
            # What was kept stands in the file as meant, what was typed over does not.
            assert one["right"] or one["action"] != "kept"
            assert not one["right"] or one["action"] in ("kept", "leftAlone")
        assert {label["how"] for label in labels.values()} == {"kept", "typed over", "edited", "ignored"}

    def test_hover_has_a_summary_with_its_tier(self, document: dict[str, Any]) -> None:
        hover = document["hover"]
        assert SOURCE[hover["line"] - 1].startswith(f"def {hover['function']}(")
        assert hover["tier"] in ("accept", "review", "reject")
        words = {"accept": "Likely says", "review": "May say", "reject": "Unlikely to say"}
        assert f"{words[hover['tier']]} what its author would" in hover["markdown"]
        assert len(hover["summary"].split()) >= 3

    def test_refit_is_on_the_labels(self, document: dict[str, Any]) -> None:
        """n counts the lines whose labels say something; the changes are those of just these suggestions."""
        refit = document["refit"]
        known = {one["id"]: one["correct"] for one in document["labels"] if one["correct"] is not None}
        n = len({one["episode"] for one in document["labels"] if one["id"] in known})
        assert refit["n"] == n
        assert refit["before"]["logLoss"] > 0.0
        assert refit["after"]["logLoss"] > 0.0
        if not refit["promoted"]:
            worse = refit["after"]["logLoss"] > refit["before"]["logLoss"]
            assert ("not enough evidence" in refit["reason"]) is not worse
            assert refit["changes"] == []
            return
        assert refit["after"]["logLoss"] <= refit["before"]["logLoss"]
        assert (refit["calibrator"]["source"], refit["calibrator"]["n"]) == ("personal", n)
        suggestions = {one["id"]: one for one in document["suggestions"]}
        assert {one["id"]: one["correct"] for one in refit["changes"]} == known
        for change in refit["changes"]:
            # Computed afresh from the stored log-probabilities: the same as the server had said.
            assert change["before"] == pytest.approx(suggestions[change["id"]]["confidence"], abs=1e-3)
            assert change["raw"] == pytest.approx(suggestions[change["id"]]["rawConfidence"], abs=1e-3)
        # A refit moves the shipped score as a whole: what was more likely to be right still is.
        changes = sorted((change["before"], change["after"]) for change in refit["changes"])
        assert [after for _, after in changes] == sorted(after for _, after in changes)
        assert any(abs(change["after"] - change["before"]) > 1e-4 for change in refit["changes"])

    @pytest.mark.usefixtures("document")
    def test_the_users_own_state_is_left_alone(self, user_home: Path, model_path: Path) -> None:
        """Neither feedback nor calibrators nor checksums of the demo end up in the user's folder."""
        files = {path.name: path for path in user_home.rglob("*") if path.is_file()}
        remembered = json.loads(files.pop(".sha256.json").read_text("utf-8"))
        assert set(files) == {"config.toml"}
        # That the user's own model file has a sound header is remembered, and nothing else.
        assert set(remembered) <= {str(model_path)}
        assert "sha256" not in remembered.get(str(model_path), {})


@pytest.mark.model
@pytest.mark.long
def test_in_a_terminal(user_home: Path, model_path: Path) -> None:
    """In a terminal of 80 columns nothing is wider, and what matters is said."""
    code, text = in_terminal([*COMMAND, "--model", str(model_path)], environment(user_home, TERM="xterm"))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert code == 0, plain[-3000:]
    assert "\x1b[31m" in text  # there is a red badge
    for line in re.split(r"[\r\n]+", plain):
        assert cell_len(line) <= WIDTH, line
    words = " ".join(plain.split())
    for expected in (
        "Start the server",
        "Write code",
        "Diagnostics",
        "Hover over a function",
        "suggestions become labels",
        "Refit",
        "What this means",
        "✗ reject",
        "lsp-calib(",
        "typed over",
        "edited",
        "kept",
        "ignored",
        "marked reject",
        "lsp-calib serve",
        "steps happened",
    ):
        assert expected in words, expected
    assert "Traceback" not in words


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_model(tmp_path: Path, as_json: bool) -> None:
    """What the server said is passed on, once, with the command that helps; exit code 4."""
    result = demo(tmp_path / "empty", *(["--json"] if as_json else []), COLUMNS=str(WIDTH))
    assert result.returncode == 4
    if not as_json:
        for name in ("qwen2.5-coder-1.5b", "smollm2-135m"):
            assert result.stdout.count(f"lsp-calib models pull {name}") == 1
        assert result.stderr == ""
        return
    document = json.loads(result.stdout)
    assert "lsp-calib models pull smollm2-135m" in document["error"]
    happened = {step["name"]: step["ok"] for step in document["steps"]}
    assert happened == {"initialize": True, "load model": False}
    assert (document["suggestions"], document["labels"]) == ([], [])
    assert "lsp-calib models pull smollm2-135m" in result.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('this server is broken')", "this server is broken"),
        ("import time; time.sleep(600)", "within 1 s"),
    ],
)
async def test_a_dead_or_silent_server_is_reported(tmp_path: Path, program: str, said: str) -> None:
    """No wait is for ever: the server's last words, or that it said nothing, within seconds."""
    editor = Editor()
    started = time.monotonic()
    await editor.start([sys.executable, "-c", program], env=os.environ, cwd=tmp_path)
    try:
        with pytest.raises(LspCalibError, match=said):
            await editor.ask("shutdown", None, seconds=1.0 if "600" in program else 30.0)
    finally:
        await editor.close()
    assert time.monotonic() - started < 20.0


async def test_a_server_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    editor = Editor()
    with pytest.raises(LspCalibError, match="could not be started"):
        await editor.start([str(tmp_path / "nothing")], env=os.environ, cwd=tmp_path)
    await asyncio.wait_for(editor.close(), 5)


def test_places_are_in_the_file() -> None:
    """Every place exists once, from the top of the file to its end, with something left to write."""
    found = [place.find(SOURCE) for place in PLACES]
    assert 6 <= len(found) <= 10
    assert found == sorted(found)
    assert len({line for line, _ in found}) == len(found)
    befores = [SOURCE[line][:column] for line, column in found]
    assert all(len(SOURCE[line]) - column >= 4 for line, column in found)
    assert any(not before.strip() for before in befores), "none after an indentation"
    assert any(before.endswith(".") for before in befores), "none after a dot"
    assert any(re.search(r"\w\Z", before) for before in befores), "none in a word"


def test_the_user_keeps_types_over_and_edits() -> None:
    """What is right is kept; the first wrong one is typed over; one that begins well is edited, once."""
    past: list[Shown] = []
    taken = []
    for text, expected, last_chance in (
        ("right", "right", False),
        ("begins otherwise", "begins well", False),
        ("quite wrong", "right", False),
        ("begins otherwise", "begins well", False),
        ("begins otherwise", "begins well", True),
    ):
        shown = Shown(0, 0, "", expected, {"id": str(len(past)), "text": text}, 1.0)
        shown.action = decide(shown, past, last_chance=last_chance)
        taken.append(shown.action)
        past.append(shown)
    assert taken == [Action.KEPT, Action.TYPED_OVER, Action.TYPED_OVER, Action.EDITED, Action.TYPED_OVER]
    last = Shown(0, 0, "", "right", {"id": "last", "text": "wrong"}, 1.0)
    assert decide(last, past[:2], last_chance=True) is Action.EDITED


def in_terminal(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command that believes itself to be in a terminal of 80 columns."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    pieces = []
    try:
        # Linux reports the end as an error, others as an empty read.
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass
    finally:
        watchdog.cancel()
        os.close(ours)
    return process.wait(timeout=60), b"".join(pieces).decode("utf-8", "replace")
