"""`workspace/executeCommand`: arguments, results, and the state on disk when they are answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from feedback_scene import in_haste, settle, show
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from scripted_editor import MODEL, Editor, install_calibrator, until

from lsp_calib.feedback.store import FeedbackStore

SCRIPT = {"otherwise": {"text": "xy", "logprobs": [-0.1]}}


async def test_an_accepted_suggestion_is_on_disk_when_answered(connect: Connect) -> None:
    """The answer acknowledges the event: it is there if the server is killed the moment after."""
    editor = await connect(SCRIPT, process=True, text="a")
    suggestion = await editor.suggestion(0, 1)
    assert await editor.command("accepted", suggestion) is None
    editor.client.process.kill()
    await editor.client.gone()
    identity = suggestion["id"]
    assert editor.rows("SELECT suggestion_id FROM events WHERE kind = 'accepted'") == [(identity,)]
    assert editor.rows("SELECT id, tier FROM suggestions") == [(identity, suggestion["tier"])]


async def test_an_editor_that_drops_results_shows_them_as_messages(connect: Connect) -> None:
    """Helix shows nothing of what a command answers; in other editors the editor's part here does."""
    editor = await connect(SCRIPT, name="helix", text="a")
    await editor.suggestion(0, 1)
    for name, *arguments in (("status",), ("refit",), ("explain",), ("pause", {"minutes": 5}), ("resume",)):
        await editor.command(name, *arguments)
    status, refit, explained, paused, resumed = editor.messages
    assert status.startswith("lsp-calib: ready. ")
    assert refit == "Refit: not enough labels yet: 0 of 5."
    assert explained == "The last request was answered with a suggestion."
    assert paused == "Completions are paused for 5 minutes."
    assert resumed == "Completions are on again."
    path = (await editor.command("exportFeedback"))["path"]
    assert editor.messages[-1] == f"Exported: 1 suggestion, to {path}."


@pytest.mark.parametrize("name", [None, "Neovim", "Visual Studio Code", "Emacs"])
async def test_other_editors_show_results_themselves(connect: Connect, name: str | None) -> None:
    editor = await connect(SCRIPT, name=name)
    for command in ("status", "refit", "explain", "pause", "resume"):
        await editor.command(command)
    assert editor.messages == []


async def test_bad_arguments_are_invalid_params(connect: Connect) -> None:
    """Each command that needs an id says so, in an error for the program, not a message for the user."""
    editor = await connect(SCRIPT)
    wrong_ids = ("", "abc", "password = 'hunter2'", "0123456789ABCDEF", "0123456789abcdef\n", "a" * 100_000)
    wrong = [(), ("abc",), ({},), ({"id": 5},), (None,), ([],), *(({"id": one},) for one in wrong_ids)]
    for name in ("accepted", "rejected", "markReviewed"):
        for arguments in wrong:
            with pytest.raises(JsonRpcInvalidParams, match='"id"'):
                await editor.command(name, *arguments)
    with pytest.raises(JsonRpcInvalidParams):
        await editor.command("noSuchCommand")
    assert await editor.command("markReviewed", {"id": "0123456789abcdef"}) is None
    assert editor.messages == []
    assert editor.rows("SELECT * FROM events") == []


async def test_the_status_object(connect: Connect) -> None:
    """State, model, calibrator, counts by tier and latencies: as a command and as a notification."""
    editor = await connect(SCRIPT, text="a")
    await editor.suggestion(0, 1)
    status = await editor.status()
    counts = {"tiers", "hidden", "withheld", "cut", "latencyMs", "ahead"}
    what = {"state", "message", "model", "window", "slow", "calibrator", "note", "certificate"}
    assert set(status) == what | counts
    assert (status["state"], status["model"]) == ("ready", "scripted")
    assert status["message"] == "The script is ready."
    assert set(status["calibrator"]) == {"id", "source", "state", "n"}
    assert status["calibrator"]["source"] == "personal"
    assert status["tiers"] == {"accept": 1, "review": 0, "reject": 0}
    assert status["latencyMs"] == {"p50": 7.1, "p95": 7.1}
    told = editor.client.statuses[-1]
    assert set(told._fields) == set(status)
    assert [s.state for s in editor.client.statuses][-1] == "ready"


async def test_that_another_language_has_another_calibrator_is_told(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, text="a")
    await editor.suggestion(0, 1)
    assert editor.client.statuses[-1].calibrator is not None
    other = "file:///elsewhere/other.go"
    editor.open("a", other, "go")
    await editor.inline(0, 1, uri=other)
    assert editor.client.statuses[-1].calibrator is None, "this home has one of Python alone"


async def test_a_model_that_can_be_loaded_later_is_named(connect: Connect, tmp_path: Path) -> None:
    """It is pulled, or a remote server is started, while the editor runs."""
    there = tmp_path / "there"
    script = {"failure": ["EngineError", "The server does not answer."], "worksAgainAt": str(there)}
    editor = await connect({**script, "otherwise": {"text": "xy"}}, text="a = ")
    assert await editor.inline(0, 4) is None
    assert (await editor.status())["model"] is None
    there.touch()
    await editor.suggestion(0, 4)
    for _ in range(100):
        status = await editor.status()
        if status["model"]:
            break
        await asyncio.sleep(0.01)
    assert (status["state"], status["model"]) == ("ready", "scripted")


def learn(editor: Editor, n: int, language: str = "python", days_ago: float = 1.0) -> None:
    """Fill the store with labels: mostly correct where the model was confident."""
    chance = random.Random(1)
    start = time.time() - days_ago * 86_400
    with closing(in_haste(FeedbackStore(editor.home / "feedback.db"))) as store:
        for number in range(n):
            right = chance.random() < 0.5
            logprobs = (-chance.random() * (0.5 if right else 3.0),)
            name, at = f"{language}{number}", start + number
            show(
                store, name, model=MODEL, prompt="line-prefix-1", language=language, at=at, logprobs=logprobs
            )
            settle(store, name, right, at)


SHAPE = {"promoted", "reason", "n", "before", "after", "calibrator", "model"}


async def test_a_refit_without_enough_labels(connect: Connect) -> None:
    """The answer says how many there are and how many are needed; nothing changes."""
    editor = await connect(SCRIPT, calibrated=False)
    result: dict[str, Any] = await editor.command("refit")
    assert set(result) == SHAPE
    assert result["promoted"] is False
    assert result["n"] == 0
    assert result["reason"] == "not enough labels yet: 0 of 5"
    assert (result["before"], result["after"], result["calibrator"]) == (None, None, None)


async def test_a_refit_that_is_promoted_is_in_force_at_once(connect: Connect) -> None:
    """The new calibrator applies to all later suggestions, also to remembered ones."""
    editor = await connect(SCRIPT, calibrated=False, text="a")
    assert (await editor.suggestion(0, 1))["calibrator"] is None
    learn(editor, 40)
    learn_nothing = editor.rows("SELECT COUNT(*) FROM labels")
    assert learn_nothing == [(40,)]
    result: dict[str, Any] = await editor.command("refit")
    assert set(result) == SHAPE
    assert result["promoted"] is True, result["reason"]
    assert result["n"] == 40
    for quality in (result["before"], result["after"]):
        assert set(quality) == {"logLoss", "brier", "skill", "ece", "meanConfidence"}
    assert result["after"]["logLoss"] <= result["before"]["logLoss"]
    assert result["calibrator"]["source"] == "personal"
    assert result["calibrator"]["n"] == 40
    assert (await editor.status())["calibrator"] == result["calibrator"]
    assert (await editor.suggestion(0, 1))["calibrator"] == result["calibrator"]
    (file,) = (editor.home / "calibrators").glob("*.json")
    assert result["calibrator"]["id"] in file.read_text("utf-8")
    await until(lambda: editor.client.statuses[-1].calibrator.source == "personal", "the news of it")


async def test_feedback_older_than_the_retention_is_deleted_in_pieces(connect: Connect) -> None:
    """Several pieces, beginning when a suggestion is shown; newer feedback stays."""
    editor = await connect(SCRIPT, options={"trusted": {"feedback": {"retentionDays": 30}}})
    learn(editor, 10, days_ago=1.5)
    learn(editor, 450, language="rust", days_ago=33)
    editor.open("a")
    await editor.suggestion(0, 1)
    await until(lambda: editor.rows("SELECT COUNT(*) FROM suggestions") == [(11,)], "the old to be deleted")
    assert editor.rows("SELECT COUNT(*) FROM labels") == [(10,)]


async def test_it_is_deleted_while_no_feedback_is_kept_as_well(connect: Connect) -> None:
    options = {"feedback": {"enabled": False, "retentionDays": 30}}
    editor = await connect(SCRIPT, options=options)
    learn(editor, 10, days_ago=1.5)
    learn(editor, 450, language="rust", days_ago=33)
    editor.open("a")
    await editor.suggestion(0, 1)
    await until(lambda: editor.rows("SELECT COUNT(*) FROM suggestions") == [(10,)], "the old to be deleted")


async def test_every_language_with_labels_is_refitted(connect: Connect) -> None:
    """Not only Python. The answer keeps its shape; where there are several, a list has them all."""
    editor = await connect(SCRIPT, calibrated=False)
    editor.open("a", uri="file:///a.rs", language="rust")
    assert (await editor.suggestion(0, 1, "file:///a.rs"))["calibrator"] is None
    learn(editor, 40, language="rust")
    result: dict[str, Any] = await editor.command("refit")
    assert set(result) == SHAPE
    assert (result["promoted"], result["n"]) == (True, 40)
    suggestion = await editor.suggestion(0, 1, "file:///a.rs")
    assert suggestion["calibrator"] == result["calibrator"]
    learn(editor, 60)
    result = await editor.command("refit")
    assert set(result) == SHAPE | {"languages"}
    assert (result["promoted"], result["n"]) == (True, 60)
    python, rust = result["languages"]
    assert (python["language"], python["promoted"], python["n"]) == ("python", True, 60)
    assert (rust["language"], rust["promoted"], rust["n"]) == ("rust", False, 40)
    assert python["calibrator"] == result["calibrator"]
    assert len(list((editor.home / "calibrators").glob("*.json"))) == 2


async def test_a_calibrator_put_in_force_by_a_command_is_noticed(connect: Connect) -> None:
    """By the next request: suggestions assessed by the old one are not served again."""
    editor = await connect(SCRIPT, text="a\nb\n")
    old = await editor.suggestion(0, 1)
    assert (await editor.suggestion(0, 1))["source"] == "memory"
    file = install_calibrator(editor.home, intercept=-9.0)
    new = await editor.suggestion(0, 1)
    assert new["calibrator"]["id"] != old["calibrator"]["id"]
    assert new["calibrator"]["id"] in file.read_text("utf-8")
    assert (old["tier"], new["tier"]) == ("accept", "reject")
    assert (await editor.status())["calibrator"] == new["calibrator"]


async def test_a_rollback_is_in_force_at_once_and_can_be_undone(connect: Connect) -> None:
    """The answer says what changed; another window of the editor notices at its next request."""
    editor, other = await connect(SCRIPT), await connect(SCRIPT)
    for one in (editor, other):
        one.open("a\n")
    mine = (await editor.suggestion(0, 1))["calibrator"]
    assert (await other.suggestion(0, 1))["calibrator"] == mine
    answer = await editor.command("rollbackCalibrator")
    assert answer["before"] == mine
    assert answer["calibrator"] is None
    assert f"{mine['id']} (personal, 100 labels) is no longer in force" in answer["message"]
    for one in (editor, other):
        assert (await one.suggestion(0, 1))["calibrator"] == answer["calibrator"]
        assert (await one.status())["calibrator"] == answer["calibrator"]
    with pytest.raises(JsonRpcException, match="nothing to roll back"):
        await editor.command("rollbackCalibrator")
    assert b"Exception" not in editor.client.stderr, "an answer that the user reads is no fault of the server"
    again = await editor.command("rollbackCalibrator", {"id": mine["id"]})
    assert again["calibrator"] == mine
    assert (await other.suggestion(0, 1))["calibrator"] == mine
    for wrong in ({"id": 5}, "text"):
        with pytest.raises(JsonRpcInvalidParams, match="calibrator"):
            await editor.command("rollbackCalibrator", wrong)
    with pytest.raises(JsonRpcException, match="There is no calibrator 'nonsense'"):
        await editor.command("rollbackCalibrator", {"id": "nonsense"})


async def test_a_refit_without_a_model_fails_with_a_message(connect: Connect) -> None:
    """The error says what to do, and carries no traceback."""
    editor = await connect({"failure": ["NoModelError", "Run `lsp-calib models pull smollm2-135m`."]})
    with pytest.raises(JsonRpcException) as caught:
        await editor.command("refit")
    assert caught.value.code == -32803  # RequestFailed
    assert caught.value.message == "Run `lsp-calib models pull smollm2-135m`."
    assert caught.value.data is None


async def test_restart_model(connect: Connect) -> None:
    """The engine starts again, and a problem that persists is reported again."""
    editor = await connect(SCRIPT)
    await editor.engine.until("loading")
    assert await editor.command("restartModel") is None
    await editor.engine.until("loading", 2)
    assert len(editor.engine.read("restarted")) == 1
    assert len(editor.engine.read("made")) == 1
    failing = await connect({"failure": ["NoModelError", "None."]})
    await until(lambda: failing.messages == ["None."], "a message")
    await failing.command("restartModel")
    await until(lambda: failing.messages == ["None."] * 2, "another")


async def test_a_model_that_dies_just_after_it_was_ready_is_no_unhandled_error(connect: Connect) -> None:
    """The known problem is reported; the next request fails with a message, without a traceback."""
    script = {**SCRIPT, "failure": ["EngineDiedError", "The model process is gone."], "failsAfter": 1}
    editor = await connect(script)
    statuses = editor.client.statuses
    await until(lambda: statuses and statuses[-1].calibrator, "the news of the calibrator")
    with pytest.raises(JsonRpcException, match="The model process is gone"):
        await editor.command("refit")
    assert await editor.leave() == 0
    assert b"Traceback" not in editor.client.stderr


@pytest.mark.parametrize("quiet", [True, False])
async def test_the_server_times_its_own_answers(connect: Connect, quiet: bool) -> None:
    """Neither those of its memory nor what is timed under load count."""
    editor = await connect({"otherwise": {"text": " + b"}, "quiet": quiet})
    editor.open("\n".join(f"a{number}" for number in range(20)))
    file = editor.home / "models" / ".speed.json"
    for number in range(20):
        assert not file.exists()
        await editor.suggestion(number, len(f"a{number}"))
    for _ in range(30):
        await editor.suggestion(3, 2)
    if not quiet:
        assert not file.exists()
        return
    await until(file.exists, "the measurement")
    (speed,) = json.loads(file.read_text("utf-8")).values()
    assert (speed["p50"], speed["n"]) == (pytest.approx(7.1e-3), 20)
