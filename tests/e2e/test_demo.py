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
from lsp_calib.feedback.events import How
from lsp_calib.tools.client import Editor
from lsp_calib.tools.demo.scenario import busy_processors
from lsp_calib.tools.demo.user import FILE, FUNCTION, Written, decide, pauses, scene_of

COMMAND = [sys.executable, "-m", "lsp_calib", "demo"]
PATIENCE = 600.0  # a machine that does other things as well
WIDTH = 80
SOURCE = (Path(lsp_calib.__file__).parent / FILE).read_text("utf-8").splitlines()
STEPS = [
    *("initialize", "load model", "complete", "diagnose", "hover", "settle", "refit", "shutdown"),
]


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
        assert [step["name"] for step in document["steps"]] == STEPS
        assert all(step["ok"] is True and step["ms"] >= 0.0 for step in document["steps"])
        assert document["error"] is None
        assert document["model"] == "smollm2-135m"

    def test_the_function_is_written_as_it_is(self, document: dict[str, Any]) -> None:
        """`expected` is what really stands there, and `right` is whether the model said just that."""
        _, body, _ = scene_of(SOURCE)
        written = document["lines"]
        assert len(written) == len(body)
        shown = [one for one in written if "id" in one]
        assert len(shown) >= 5
        assert len({one["id"] for one in shown}) == len(shown)
        for one, target in zip(written, body, strict=True):
            if "id" not in one:
                continue
            assert target.endswith(one["expected"])
            assert one["column"] - 1 == len(target) - len(one["expected"])
            assert one["right"] == (one["text"].rstrip() == one["expected"].rstrip())

    def test_the_model_knows_something(self, document: dict[str, Any]) -> None:
        """Some suggestions are right, and they are more confident than the wrong ones. Noise would not be."""
        judged = [one for one in document["lines"] if one.get("confidence") is not None]
        right = [one["confidence"] for one in judged if one["right"]]
        wrong = [one["confidence"] for one in judged if not one["right"]]
        assert len(right) >= 1
        assert len(wrong) >= 3
        assert sum(right) / len(right) > sum(wrong) / len(wrong)

    def test_a_badge_turns_while_its_line_is_typed(self, document: dict[str, Any]) -> None:
        """Along one suggestion the confidence never falls, and it ends in another tier."""
        kept = [one for one in document["lines"] if one["action"] == "kept"]
        for one in kept:
            along = [moment["confidence"] for moment in one["moments"] if moment["tier"]]
            assert along == sorted(along)
        assert any(len({moment["tier"] for moment in one["moments"]}) > 1 for one in kept)

    def test_labels_say_what_the_user_did(self, document: dict[str, Any]) -> None:
        """Every suggestion has one label, which is what was done; kept is correct, all else is not."""
        shown = [one for one in document["lines"] if "id" in one]
        for one in shown:
            assert one["label"]["how"] == one["action"]
            assert one["label"]["correct"] == (one["action"] in ("kept", "typed"))
        assert {"kept", "typed over"} <= {one["action"] for one in shown}

    def test_the_small_model_names_the_one_that_summarises(self, document: dict[str, Any]) -> None:
        assert document["hover"]["tier"] is None
        assert "`lsp-calib models pull qwen2.5-coder-1.5b`" in document["hover"]["markdown"]

    def test_refit_is_on_the_labels(self, document: dict[str, Any]) -> None:
        """n counts the lines whose labels say something."""
        refit = document["refit"]
        labels = [one["label"] for one in document["lines"] if one.get("confidence") is not None]
        assert refit["n"] == len({one["episode"] for one in labels if one["correct"] is not None})
        assert refit["before"]["logLoss"] > 0.0
        assert refit["after"]["logLoss"] > 0.0
        assert refit["reason"]

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
        "Sure, and right",
        "Wrong, and it says so",
        "The badge turns while you type",
        "The hover says",
        "A refit on what was kept and changed",
        "All lines",
        "What this means",
        "✗ reject",
        "Tab takes it",
        "typed over",
        "the user meant:",
        "smollm2-135m wrote 24 % exactly right",
        "A better model: `lsp-calib models pull qwen2.5-coder-1.5b`",
        "lsp-calib serve",
        "8 of 8 steps happened",
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
    assert document["lines"] == []
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


def test_the_body_is_taken_out_without_its_documentation() -> None:
    """With the signature above and the next function below; each line of code has places to wait at."""
    above, body, below = scene_of(SOURCE)
    assert above[-1].startswith(f"def {FUNCTION}(")
    assert above[-1].endswith(":")
    assert below[0] == ""
    assert not any('"""' in line for line in body)
    assert all(line.startswith("    ") for line in body)
    assert SOURCE[-len(below) - len(body) : -len(below)] == list(body)
    for line in body:
        waits = pauses(line)
        assert bool(waits) != line.lstrip().startswith("#")
        assert waits == sorted(set(waits))
        assert all(len(line) - len(line.lstrip()) <= column < len(line) for column in waits)


def test_the_user_keeps_types_over_and_edits() -> None:
    """What is right is kept; what begins well is edited, once; other wrong ones are typed over."""
    past: list[Written] = []
    for text, target, last in (
        ("right", "right", False),
        ("no", "no", False),
        ("quite wrong", "right", False),
        ("begins otherwise", "begins well", False),
        ("begins otherwise", "begins well", False),
        ("right", "right", True),
    ):
        written = Written(0, target, wire={"text": text})
        written.action = decide(written, past, last=last)
        past.append(written)
    taken = [How.KEPT, How.TYPED, How.TYPED_OVER, How.EDITED, How.TYPED_OVER, How.IGNORED]
    assert [one.action for one in past] == taken


async def test_a_busy_machine_is_noticed() -> None:
    """At most all of its processors; more with a program at work than without, if it is measured at all."""
    program = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(program) as process:
        busy = await busy_processors(1.0)
        process.kill()
    if busy is not None:
        assert 0.3 < busy <= (os.cpu_count() or 1)


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
    os.write(ours, b"\n")  # what is asked for between the two screens
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
