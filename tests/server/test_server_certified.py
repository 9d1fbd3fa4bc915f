"""Tiers by risk over the protocol: a certificate, its end by drift, and refits by themselves."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import Connect
from feedback_scene import in_haste, settle, show
from scripted_editor import MODEL, Editor, start, suggestions, until

from lsp_calib.feedback.store import FeedbackStore

SCRIPT: dict[str, Any] = {
    "answers": {
        "sure": {"text": " = 1", "logprobs": [-0.02] * 4},
        "poor": {"text": " = 2", "logprobs": [-1.6] * 4},
    },
    "afterLabels": {"soon": 0.05, "idle": 3600},
    "clock": True,
}
# The labels of `learn` have no features, which the preferred measure weighs.
RISK = {"trusted": {"tiers": {"policy": "risk"}, "confidence": {"measure": "geometric-mean"}}}
KEY = bytes(range(32))


def learn(home: Path, n: int, *, begin: int = 0, wrong: float = 0.0) -> None:
    """Labels of lines as in SCRIPT, by turns; of every 100 sure ones `wrong` are wrong."""
    first = time.time() - 86_400
    with closing(in_haste(FeedbackStore(home / "feedback.db"))) as store:
        (home / "feedback.key").write_bytes(KEY)  # decides which labels are set aside
        for number in range(begin, begin + n):
            sure = number % 2 == 0
            right = (number // 2) % 100 >= wrong if sure else number % 6 == 1
            logprobs = ((-0.02 if sure else -1.6) * (1 + number * 1e-6),) * 4
            name, at, line = f"s{number:05}", first + number, f"line {number}"
            show(store, name, model=MODEL, prompt="line-prefix-1", at=at, logprobs=logprobs, line=line)
            settle(store, name, right, at + 0.5)


async def label(editor: Editor) -> None:
    """Keep the suggestion of the first line: a label given since the start has the others read as well."""
    await editor.later(0.8)  # shorter would be too short to read
    editor.insert(0, 4, " = 1")
    editor.save()
    editor.change((1, 0), (1, 0), "#")
    await editor.later(31.0)
    editor.change((1, 0), (1, 1), "")
    editor.change((0, 4), (0, 8), "")


async def certificate(editor: Editor) -> dict[str, Any]:
    found: dict[str, Any] = (await editor.status())["certificate"]
    return found


async def until_certificate(editor: Editor, name: str, value: object) -> dict[str, Any]:
    for _ in range(600):
        found = await certificate(editor)
        if found is not None and found[name] == value:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} is not {value!r}: {found}")


async def certified(connect: Connect, **options: Any) -> Editor:
    """An editor whose calibrator has just got a certificate."""
    editor = await connect(SCRIPT, options=RISK | options, text="sure\npoor\n")
    await editor.suggestion(0, 4)
    learn(editor.home, 300)
    result = await editor.command("refit")
    assert result["certificate"]["certified"], result
    return editor


async def test_without_enough_labels_nothing_is_accepted_and_the_reason_counts_them(connect: Connect) -> None:
    editor = await connect(SCRIPT, options=RISK, text="sure\npoor\n")
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["tier"], suggestion["certified"]) == ("review", False)
    assert "nothing is certified to be accepted: not enough labels yet: 0 of 27" in suggestion["reason"]
    found = await certificate(editor)
    assert (found["certified"], found["threshold"], found["asked"]) == (False, None, 0)


async def test_a_certificate_is_earned_by_a_refit_and_said_with_each_suggestion(connect: Connect) -> None:
    editor = await certified(connect)
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["tier"], suggestion["certified"]) == ("accept", True), suggestion["reason"]
    assert "where at most 10 % are wrong (certified on" in suggestion["reason"]
    other = await editor.suggestion(1, 4)
    assert (other["tier"] == "accept", other["certified"]) == (False, False)
    found = await certificate(editor)
    assert found["certified"]
    assert found["reason"].startswith("at most 10 % of those at")
    assert (found["risk"], found["delta"], found["revoked"], found["asked"]) == (0.1, 0.1, False, 1)


async def test_drift_revokes_it_for_good_and_the_status_says_why(connect: Connect, tmp_path: Path) -> None:
    editor = await certified(connect)
    identity = (await editor.suggestion(0, 4))["calibrator"]["id"]
    learn(editor.home, 60, begin=300, wrong=100)
    await label(editor)
    found = await until_certificate(editor, "revoked", True)
    assert found["reason"].startswith("revoked: ")
    assert "since then not enough labels yet" in found["reason"]
    status = await editor.status()
    assert (status["calibrator"]["id"], status["calibrator"]["state"]) == (identity, "drifted")
    states = [told.calibrator.state for told in editor.client.statuses if told.calibrator]
    assert states[-1] == "drifted"
    await until(lambda: any("is revoked" in text for text in logged(editor)), "the line in the log")
    assert editor.messages == [], "no message interrupts"
    suggestion, *_ = suggestions(await editor.items(0, 4, by_hand=True))
    assert (suggestion["tier"], suggestion["certified"]) == ("review", False)
    assert suggestion["calibrator"]["state"] == "drifted"
    await editor.leave()
    again = await start(tmp_path, SCRIPT, options=RISK, calibrated=False)
    again.open("sure\n")
    assert (await again.suggestion(0, 4))["calibrator"]["state"] == "drifted"
    assert (await certificate(again))["revoked"] is True
    await again.leave()


async def test_by_threshold_nothing_is_promised(connect: Connect) -> None:
    editor = await connect(SCRIPT, text="sure\n")
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["tier"], suggestion["certified"]) == ("accept", False)
    assert await certificate(editor) is None
    learn(editor.home, 60)
    assert "certificate" not in await editor.command("refit")


def logged(editor: Editor) -> list[str]:
    return [message.message for message in editor.client.log_messages]


async def test_a_refit_by_itself_in_a_pause_is_a_line_in_the_log(connect: Connect, tmp_path: Path) -> None:
    """Also of labels from an earlier session."""
    learn(tmp_path / "home", 300)
    script = SCRIPT | {"afterLabels": {"soon": 0.05, "idle": 0.5}}
    editor = await connect(script, options=RISK, text="sure\npoor\n")
    before = await editor.suggestion(0, 4)
    await until(lambda: logged(editor), "a line in the log")
    (line,) = logged(editor)
    assert line.startswith("scripted, python: a new calibrator is in force (")
    assert "Certified: at most 10 % of those at" in line
    assert editor.messages == []
    after = await editor.suggestion(0, 4)
    assert after["calibrator"]["id"] != before["calibrator"]["id"]
    assert after["certified"] is True
    # Few labels more are no reason for another one.
    await label(editor)
    await editor.settled(301)
    await asyncio.sleep(1.0)
    assert logged(editor) == [line]


async def test_no_refit_by_itself_where_it_is_turned_off(connect: Connect, tmp_path: Path) -> None:
    learn(tmp_path / "home", 300)
    script = SCRIPT | {"afterLabels": {"soon": 0.05, "idle": 0.1}}
    editor = await connect(script, options={"autoRefit": False}, text="sure\npoor\n")
    before = await editor.suggestion(0, 4)
    await asyncio.sleep(1.0)
    assert logged(editor) == []
    assert (await editor.suggestion(0, 4))["calibrator"] == before["calibrator"]


async def test_overrides_are_stricter_where_language_or_path_fit(connect: Connect) -> None:
    mine = {"path": "crypto/**", "acceptFrom": 0.999}
    editor = await connect(SCRIPT, options={"tiers": {"overrides": [mine]}})
    secret, plain = "file:///project/crypto/keys.py", "file:///project/plain.py"
    for uri in (secret, plain):
        editor.open("sure\n", uri=uri)
    assert (await editor.suggestion(0, 4, plain))["tier"] == "accept"
    suggestion = await editor.suggestion(0, 4, secret)
    assert suggestion["tier"] == "review"
    assert "below 99.9 %, as tiers.overrides has it here" in suggestion["reason"]
