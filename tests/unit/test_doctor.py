"""The doctor says what is the matter and what to do; its bundle says nothing of the user."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from encoder_scene import CARD, install, needs_encoder
from feedback_scene import settle, show
from hypothesis import given
from hypothesis import strategies as st
from test_gguf import file_of, pair

from lsp_calib import lockfile
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, editing
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.certificates import Promise
from lsp_calib.cli import main
from lsp_calib.completion.prompt import Layout
from lsp_calib.errors import DataError, EngineDiedError, EngineError, LspCalibError, ModelError, SettingsError
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.backend import Acceleration, Hardware
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.models.demands import Speed, remember_speed
from lsp_calib.inference.models.inventory import inventory
from lsp_calib.inference.process.acceleration import AccelerationChoice
from lsp_calib.languages import name_of
from lsp_calib.settings import Settings
from lsp_calib.tools.doctor import checks, run
from lsp_calib.tools.doctor.bundle import safe_lines, scrubbed
from lsp_calib.tools.doctor.checks import Finding, Level, calibrators, certificate
from lsp_calib.tools.doctor.run import BUDGET_MS, recommend
from lsp_calib.values import ModelIdentity

REPORT: dict[str, Any] = {
    "latencyMs": {"typingModel": {"p50": [40.0], "p95": [90.0], "n": 30}, "cold": None},
    "threads": 2,
    "machine": {"processors": 2, "load": None},
}


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["doctor", "--quick", "--json", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, json.loads(result.stdout)


def about(report: dict[str, Any], what: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["about"] == what]


def found(what: str) -> dict[str, Any]:
    """The only finding about it."""
    [finding] = about(doctor()[1], what)
    return finding


@pytest.mark.usefixtures("home")
class TestFindings:
    @pytest.mark.parametrize(
        ("what", "level", "fatal", "name"),
        [("model", "problem", True, "smollm2-135m"), ("encoder", "note", False, "minilm-l6-v2")],
    )
    def test_without_a_model_it_names_the_command_that_gets_one(
        self, what: str, level: str, fatal: bool, name: str
    ) -> None:
        code, report = doctor()
        assert (code, report["usable"]) == (1, False)
        [finding] = about(report, what)
        assert (finding["level"], finding["fatal"]) == (level, fatal)
        assert f"lsp-calib models pull {name}" in finding["advice"]

    def test_it_says_which_model_and_window_are_used_and_that_the_model_is_slow(self, home: Path) -> None:
        for name in ("qwen2.5-coder-1.5b", "smollm2-135m"):
            card = load_cards()[name]
            card.path.parent.mkdir(exist_ok=True)
            card.path.write_bytes(b"GGUF")
        choice = found("choice")
        assert choice["data"] == {"model": "qwen2.5-coder-1.5b", "window": "large"}
        assert choice["says"] == "Completions come from qwen2.5-coder-1.5b with the large window."
        assert choice["level"] == "good"
        remember_speed(load_cards()["qwen2.5-coder-1.5b"], Speed(0.9, 40))
        slow = "qwen2.5-coder-1.5b is slow here: 900 ms a key; smollm2-135m is the smallest model."
        choice = found("choice")
        assert choice["says"].endswith(slow)
        assert choice["level"] == "note"
        (home / "config.toml").write_text('model = "smollm2-135m"\nwindow = "small"\n')
        assert found("choice")["data"] == {"model": "smollm2-135m", "window": "small"}

    @needs_encoder
    def test_an_encoder_is_verified(self, home: Path) -> None:
        install(home)
        assert found("encoder")["level"] == "good"
        CARD.model.path.unlink()
        CARD.model.path.write_bytes(b"x" * CARD.model.size)
        finding = found("encoder")
        assert finding["level"] == "problem"
        assert "lsp-calib models pull minilm-l6-v2" in finding["advice"]

    @pytest.mark.parametrize("name", ["own.gguf", "gpt-9"])
    def test_a_model_that_the_server_would_not_take_is_a_problem(
        self, name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A relative path is none, also where the file is there."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "own.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(16))
        (home / "config.toml").write_text(f'model = "{name}"\n')
        code, report = doctor()
        assert code == 1
        assert any("absolute path" in one["says"] for one in about(report, "model") if one["fatal"])

    @pytest.mark.model
    @pytest.mark.usefixtures("home_with_model")
    def test_with_a_model_all_is_well(self) -> None:
        code, report = doctor()
        assert (code, report["usable"], report["problems"]) == (0, True, 0)
        [model] = about(report, "model")
        assert model["data"]["name"] == "smollm2-135m"
        [calibrator] = about(report, "calibrator")
        assert calibrator["data"]["model"] == "smollm2-135m"
        assert {one["source"] for one in calibrator["data"]["calibrators"]} == {"shipped"}

    @pytest.mark.model
    @pytest.mark.usefixtures("home_with_model")
    def test_it_prints_the_same_for_people(self) -> None:
        result = CliRunner().invoke(main, ["doctor", "--quick"])
        assert result.exit_code == 0
        assert "smollm2-135m" in result.output
        assert "Nothing wrong was found. Not tried: loading a model" in result.output

    def test_the_calibrators_of_a_model_are_said_by_answers_and_origin(self) -> None:
        """Those of other languages and of summaries too, and of the prompts that the model gets here."""
        entry = next(one for one in inventory() if one.card.name == "smollm2-135m")
        [shipped] = calibrators([entry])
        assert shipped.level is Level.GOOD
        assert shipped.says.startswith(
            "smollm2-135m: calibrators for lines of C, C++, Go, Java, JavaScript, "
        )
        assert "and summaries of Java and Python (shipped, 732 labels)." in shipped.says
        assert (
            "Lines of C#, JavaScript with JSX, PHP, Ruby, languages without a grammar: pooled, "
            in shipped.says
        )
        assert shipped.says.endswith(" labels of other languages and windows.")
        sources = {language: one["source"] for language, one in shipped.data["languages"].items()}
        assert (sources["go"], sources["ruby"], sources["other"]) == ("shipped", "pooled", "pooled")
        assert "prior" not in sources.values()
        of_lines = [one for one in shipped.data["calibrators"] if one["task"] == "line"]
        assert len({one["language"] for one in of_lines}) == len(of_lines)
        store = CalibratorStore.open()
        python = next(one["id"] for one in of_lines if one["language"] == "python")
        [old] = [one.calibrator for one in store.listed()[0] if one.calibrator.id == python]
        store.promote(attrs.evolve(old, source="personal", state="learning", n=12, n_correct=5))
        [mine] = calibrators([entry])
        others = ", ".join(sorted(name_of(one["language"]) for one in of_lines if one["id"] != python))
        assert f"lines of Python (personal, learning, 12 labels); {others} (shipped, " in mine.says

    def test_a_calibrator_of_another_language_is_one(self) -> None:
        """For somebody who calibrated a model on Go alone, its tiers are no guess."""
        entry = next(one for one in inventory() if one.card.name == "granite-code-3b")
        [none] = calibrators([entry])
        assert none.level is Level.NOTE
        assert "granite-code-3b is not calibrated" in none.says
        assert "lsp-calib calibrate PATH --model granite-code-3b" in none.advice
        store = CalibratorStore.open()
        purpose = Purpose(entry.card.identity, Layout.of(entry.card).version, "line", "go")
        borrowed = store.choose(purpose).calibrator
        store.promote(attrs.evolve(borrowed, source="workspace", state="learning", n=40, n_correct=9))
        [own] = calibrators([entry])
        assert own.level is Level.GOOD
        go = "granite-code-3b: calibrators for lines of Go (workspace, learning, 40 labels). Lines of C, C#, "
        assert own.says.startswith(go)
        assert own.says.endswith("languages without a grammar: not calibrated, always marked review.")

    def test_what_is_promised_is_said_with_the_calibrator(self, home: Path) -> None:
        """And a ledger that cannot be read is a problem with its remedy."""
        purpose = Purpose(ModelIdentity("m", "Q4", "5c" * 32), "line-prefix-1", "line", "python")
        store = CalibratorStore.open()
        calibrator = store.choose(purpose).calibrator
        assert certificate(store, purpose, calibrator) == []
        with editing(store.ledger_path(purpose)) as held:
            held.ledger = held.ledger.opened(Promise(), key="k", used_until=0.0)
        [note] = certificate(store, purpose, calibrator)
        assert note.level is Level.NOTE
        assert "nothing is certified to be accepted: not enough labels yet: 0 of 27" in note.says
        with editing(store.ledger_path(purpose)) as held:
            held.ledger = held.ledger.asking(calibrator.id, [0.99] * 60, [True] * 60)
        [good] = certificate(store, purpose, calibrator)
        assert (good.level, good.data["accepted"]) == (Level.GOOD, 60)
        store.ledger_path(purpose).write_text("{}", "utf-8")
        [problem] = certificate(store, purpose, calibrator)
        assert problem.level is Level.PROBLEM
        assert str(home) in problem.says

    def test_a_wrong_setting_is_named(self, home: Path) -> None:
        (home / "config.toml").write_text("threads = 3\nnonsense = 1\n")
        _, report = doctor()
        good, *problems = about(report, "configuration")
        assert good["data"] == {"threads": 3}
        assert [problem["level"] for problem in problems] == ["problem"]
        assert "nonsense" in problems[0]["says"]

    def test_a_feedback_store_is_counted_and_left_alone(self, home: Path) -> None:
        path = home / "feedback.db"
        with closing(FeedbackStore(path)) as store:
            show(store, "a", at=1.0)
            settle(store, "a", True, 1.0)
        before = path.read_bytes()
        finding = found("feedback")
        assert (finding["level"], finding["data"]) == ("good", {"suggestions": 1, "labels": 1})
        assert finding["says"] == "1 suggestion remembered, 1 with a label."
        assert path.read_bytes() == before

    @pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "of another program"])
    def test_a_file_that_is_no_store_of_ours_is_a_problem_and_stays_where_it_is(
        self, home: Path, damaged: bool
    ) -> None:
        path = home / "feedback.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE other (x)")
        content = b"this is no database" * 100 if damaged else path.read_bytes()
        path.write_bytes(content)
        finding = found("feedback")
        assert finding["level"] == "problem"
        assert finding["advice"]
        assert path.read_bytes() == content

    def test_the_lock_of_a_model_process_tells_that_it_runs_while_it_is_held(self, home: Path) -> None:
        run = home / "run"
        run.mkdir(mode=0o700)
        (run / "dead.lock").write_text("12345\n")
        held = lockfile.take(run / "held.lock")
        assert held is not None
        data = found("process")["data"]
        held.release()
        assert data == {"pids": [os.getpid()]}

    def test_a_state_folder_that_cannot_be_had_ends_it_in_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "file"))
        code, report = doctor()
        assert code == 1
        [state] = about(report, "state")
        assert state["fatal"]
        assert "LSP_CALIB_HOME" in state["advice"]

    def test_a_remote_server_that_does_not_answer_is_a_problem(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LSP_CALIB_REMOTE_URL", "http://127.0.0.1:9/v1")
        code, report = doctor()
        assert code == 1
        [remote] = about(report, "remote")
        assert remote["fatal"]
        assert not [finding for finding in about(report, "model") if finding["fatal"]]


SMALL, LARGE = "smollm2-135m", "qwen2.5-coder-1.5b"


def measured(model: str, p50: float, *, quiet: bool = True) -> Finding:
    data = {"model": model, "p50": p50, "threads": 2, "quick": p50 <= BUDGET_MS, "words": "half of 30 keys"}
    return Finding("speed", "It was measured.", data=data | {"quiet": quiet})


class TestRecommendation:
    @pytest.mark.parametrize(
        ("speeds", "model", "quick"),
        [
            ({"large": 900.0, "good": BUDGET_MS, "small": 40.0}, "good", True),
            ({"large": 2000.0, "small": 800.0}, "small", False),
        ],
    )
    def test_the_best_that_is_quick_enough_else_the_fastest(
        self, speeds: dict[str, float], model: str, quick: bool
    ) -> None:
        found = recommend([measured(*one) for one in speeds.items()], Settings(), [])
        assert found.level is (Level.GOOD if quick else Level.NOTE)
        assert found.data == {"model": model, "threads": 2, "quickEnough": quick, "recommended": model}
        assert f"Recommended: {model}: half of 30 keys." in found.says
        assert ("None of the installed models answers within 700 ms" in found.says) != quick

    def test_a_setting_that_names_another_model_is_mentioned(self) -> None:
        found = recommend([measured("good", 100)], Settings(model="large"), [])
        assert found.advice == 'Set `model = "good"` in config.toml, or remove `model`.'

    @pytest.mark.parametrize(
        ("speeds", "named", "best"),
        [
            ({LARGE: 300.0, SMALL: 40.0}, LARGE, LARGE),
            ({SMALL: 40.0}, LARGE, SMALL),  # it is to be pulled
            ({LARGE: 900.0, SMALL: 40.0}, SMALL, SMALL),
            ({LARGE: 900.0}, SMALL, LARGE),
            ({"qwen2.5-coder-7b": 300.0, SMALL: 40.0}, LARGE, "qwen2.5-coder-7b"),
            ({LARGE: 900.0, SMALL: 800.0}, SMALL, SMALL),  # the fastest
        ],
    )
    @pytest.mark.usefixtures("home")
    def test_it_is_that_of_the_list_of_models_installed_or_not(
        self, speeds: dict[str, float], named: str, best: str
    ) -> None:
        known = [attrs.evolve(one, fits=True, installed=one.card.name in speeds) for one in inventory()]
        found = recommend([measured(*one) for one in speeds.items()], Settings(), known)
        assert (found.data["recommended"], found.data["model"]) == (named, best)
        assert f"Recommended: {named}" in found.says
        assert (f"lsp-calib models pull {named}" in found.advice) == (named != best)

    @pytest.mark.usefixtures("home")
    def test_what_was_measured_beside_busy_programs_speaks_against_no_model(self) -> None:
        known = [attrs.evolve(one, fits=True, installed=one.card.name == LARGE) for one in inventory()]
        found = recommend([measured(LARGE, 1900.0, quiet=False)], Settings(), known)
        assert (found.data["recommended"], found.data["model"]) == (LARGE, LARGE)
        assert "measure again" in found.says
        assert not found.advice


class TestModelsThatCannotRun:
    """doctor ends with 0 if completions work."""

    @pytest.mark.parametrize(
        ("error", "failing", "named", "usable"),
        [
            (EngineDiedError, {"small", "good"}, None, False),
            (ModelError, {"small", "good"}, None, False),
            (EngineDiedError, {"small"}, None, True),
            (EngineDiedError, {"small"}, "small", False),
            (EngineDiedError, {"small"}, "good", True),
            (EngineError, {"small", "good"}, None, True),  # its time was over
        ],
    )
    def test_it_is_a_problem_that_must_be_solved_if_no_other_answers(
        self,
        monkeypatch: pytest.MonkeyPatch,
        error: type[LspCalibError],
        failing: set[str],
        named: str | None,
        usable: bool,
    ) -> None:
        def bench(trusted: Settings, _progress: object) -> dict[str, Any]:
            if Path(trusted.model or "").stem in failing:
                raise error("The model process died.")
            return REPORT

        monkeypatch.setattr(run, "short_bench", bench)
        cards = [SimpleNamespace(name=name, path=Path(f"/{name}.gguf")) for name in ("small", "good")]
        entries: list[Any] = [SimpleNamespace(card=card, fits=True) for card in cards]
        found = run.speeds(entries, Settings(model=named), lambda _: None)
        assert run.to_json(found)["usable"] is usable
        assert sum("could not be measured" in one.says for one in found) == len(failing)
        elsewhere = run.speeds(entries, Settings(model=named, remote_url="http://h/v1"), lambda _: None)
        assert run.to_json(elsewhere)["usable"]


def test_all_that_is_set_is_listed(home: Path) -> None:
    """Less what is the user's own: a bundle is sent to others."""
    (home / "config.toml").write_text(
        "gpuLayers = 0\nexclude = ['acme/**', 'b']\n"
        "[feedback]\nenabled = false\nretentionDays = 7\n"
        "[tiers]\npolicy = 'risk'\n"
        "[remote]\nkeyFile = '/home/ada/key'\n"
    )
    finding = found("configuration")
    assert finding["says"].startswith("Settings of your own: ")
    set_to = (
        "gpuLayers = 0",
        "feedback.enabled = false",
        "feedback.retentionDays = 7",
        "tiers.policy = risk",
    )
    for one in (*set_to, "exclude = (2 set)", "remote.keyFile = (set)"):
        assert one in finding["says"]
    assert finding["data"]["feedback.enabled"] is False
    assert "acme" not in json.dumps(finding)
    assert "ada" not in json.dumps(finding)


def test_without_settings_the_defaults_hold(home: Path) -> None:
    (home / "config.toml").write_text("threads = 0\n")
    finding = found("configuration")
    assert (finding["says"], finding["data"]) == ("All settings have their defaults.", {})


@pytest.mark.usefixtures("home")
class TestBundle:
    def bundled(self, path: Path) -> dict[str, str]:
        doctor("--bundle", str(path))
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name).decode() for name in archive.namelist()}

    def test_it_holds_what_was_found_and_nobody_else_can_read_it(self, home: Path, tmp_path: Path) -> None:
        log = home / "log"
        log.mkdir(mode=0o700)
        (log / "server.log").write_text(
            "2026-01-02 03:04:05,678 WARNING lsp_calib.server.completion: No completion: "
            "EngineError in secret_function(password)\n"
            "Traceback (most recent call last):\n  secret_line = 1\n"
        )
        texts = self.bundled(tmp_path / "bundle.zip")
        assert stat.S_IMODE((tmp_path / "bundle.zip").stat().st_mode) == 0o600
        assert set(texts) == {"README.txt", "doctor.json", "log.txt"}
        assert json.loads(texts["doctor.json"])["format"] == 1
        assert "secret" not in "".join(texts.values())
        assert "password" not in "".join(texts.values())
        assert "2026-01-02 03:04:05,678 WARNING lsp_calib.server.completion EngineError" in texts["log.txt"]

    def test_a_key_set_in_the_wrong_place_is_not_in_it(self, home: Path, tmp_path: Path) -> None:
        (home / "config.toml").write_text('threads = "sk-very-secret"\nkey = "sk-other"\n')
        text = self.bundled(tmp_path / "bundle.zip")["doctor.json"]
        assert "threads" in text
        assert "sk-" not in text

    @pytest.mark.parametrize(
        ("place", "error", "says"),
        [
            ("thesis.tex", SettingsError, "no bundle overwrites a file"),
            ("none/b.zip", DataError, "cannot be written: No such file or directory. Give another place"),
        ],
    )
    def test_a_place_where_no_bundle_can_be_is_an_error_in_words(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        place: str,
        error: type[LspCalibError],
        says: str,
    ) -> None:
        """Before the doctor runs: after minutes of measuring "Everything works" would be followed by it."""
        (tmp_path / "thesis.tex").write_text("years of work")
        monkeypatch.setattr(run, "examine", lambda **_: pytest.fail("the doctor ran first"))
        result = CliRunner().invoke(main, ["doctor", "--quick", "--bundle", str(tmp_path / place)])
        assert result.exit_code == error.exit_code
        assert says in result.stderr
        assert (tmp_path / "thesis.tex").read_text() == "years of work"

    def test_the_home_folder_and_the_name_of_the_user_are_gone(self) -> None:
        texts = {
            "/home/ada/models/x.gguf": "~/models/x.gguf",
            "/data/ada/y": "/data/user/y",
            "C:\\Users\\ada\\z": "C:\\Users\\user\\z",
            "ada@host: hello": "user@host: hello",
            "/home/adamant": "/home/adamant",
        }
        found = scrubbed({"a": [*texts], "b": "https://ada:pw@host/v1", "c": 1}, Path("/home/ada"))
        assert found == {"a": [*texts.values()], "b": "https://host/v1", "c": 1}

    def test_of_a_log_line_only_its_head_and_known_errors_remain(self) -> None:
        lines = [
            "2026-01-02 03:04:05,678 INFO lsp_calib.server.app: def leaked(): ValueError MySecretError",
            "any other line",
            "another one",
            "2026-01-02 03:04:06 ERROR pygls.server: oh",
            "2026-01-02 03:04:06 ERROR my_company.module: oh",
        ]
        assert list(safe_lines(lines)) == [
            "2026-01-02 03:04:05,678 INFO lsp_calib.server.app ValueError",
            "(2 lines left out)",
            "2026-01-02 03:04:06 ERROR pygls.server",
            "(1 line left out)",
        ]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_nothing_of_a_line_that_is_no_log_line_remains(lines: list[str]) -> None:
    assert all(line.startswith("(") and line.endswith(" left out)") for line in safe_lines(lines))


class TestQuick:
    """`--quick` loads no model: it says so, and finds what a file's front and its known checksum show."""

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize("fault", ["damaged", "truncated", "wrong architecture", "wrong checksum"])
    def test_a_model_that_cannot_be_loaded_is_a_problem(self, fault: str) -> None:
        """Before, all but the truncated one were good, and "everything works"."""
        card = load_cards()["smollm2-135m"]
        good = file_of([pair("general.architecture", "llama" if fault != "wrong architecture" else "clip")])
        content = {"damaged": b"\0" * card.size, "truncated": good}.get(fault, good.ljust(card.size, b"\0"))
        card.path.parent.mkdir(parents=True, exist_ok=True)
        card.path.write_bytes(content)
        if fault == "wrong checksum":
            sidecar.sha256_of(card.path)
        code, report = doctor()
        problem = next(one for one in about(report, "model") if one["level"] == "problem")
        assert "smollm2-135m cannot be used" in problem["says"]
        assert "lsp-calib models pull smollm2-135m" in problem["advice"]
        assert (code, report["usable"]) == (1, False)

    def test_without_a_fault_it_says_what_it_did_not_try(self, capsys: pytest.CaptureFixture[str]) -> None:
        for quick in (True, False):
            run._print([], run.to_json([]), quick=quick)
        first, second = [line for line in capsys.readouterr().out.split("\n\n") if line.strip()]
        assert "Nothing wrong was found. Not tried: loading a model" in " ".join(first.split())
        assert "Everything works." in second


@pytest.mark.parametrize(
    ("hardware", "accelerations", "exact", "says"),
    [
        (Hardware("b", exact=True), [Acceleration()], True, "to the last bit"),
        (Hardware("b", exact=True), [], True, "to the last bit"),
        (Hardware("b"), [Acceleration()], False, "evaluated together"),
        (Hardware("b", gpu=True, exact=True), [Acceleration(gpu_layers=99)], False, "uses the GPU"),
        (Hardware("b", amx=True, exact=True), [Acceleration(eight_bit=True)], True, "weights of 8 bits"),
    ],
    ids=["processor", "nothing tried yet", "prebuilt", "GPU", "8 bits with AMX"],
)
def test_it_says_whether_the_same_text_gives_the_same_probability(
    hardware: Hardware, accelerations: list[Acceleration], exact: bool, says: str
) -> None:
    found = checks.described(hardware, [AccelerationChoice(one) for one in accelerations])
    assert found.data["exact"] is exact
    assert says in found.says
