"""Settings: from `initializationOptions`, from `workspace/configuration`, and changed while running."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from openai_server import serving
from scripted_editor import Editor, capabilities, until

ASKS = capabilities(inline=True, configuration=True)
UNSURE = {"otherwise": {"text": "x", "logprobs": [-0.2]}}  # 0.82: accept if balanced, review if cautious
WRONG: dict[str, Any] = {
    "tiers": {"preset": "reckless", "acceptFrom": 2},
    "debounceMs": 40,
    "colour": "red",
    "languages": 3,
}


async def tier(editor: Editor) -> str:
    editor.open("a")
    return str((await editor.suggestion(0, 1))["tier"])


@pytest.mark.parametrize("way", ["trusted", "options", "configuration", "pushed"])
async def test_what_cannot_be_used_is_named_in_one_message(connect: Connect, way: str) -> None:
    """Unknown, removed and wrong keys, and those that count only from the user."""
    editor = await connect(
        UNSURE,
        client=ASKS if way == "configuration" else capabilities(inline=True),
        options={"trusted": WRONG} if way == "trusted" else WRONG if way == "options" else None,
        plain=True,
        settings=WRONG if way == "configuration" else {},
    )
    if way == "pushed":
        editor.configure(WRONG, push=True)
    assert await tier(editor) == "accept"
    await until(lambda: editor.messages, "a message")
    editor.configure(WRONG if way in ("configuration", "pushed") else {}, push=way != "configuration")
    await editor.engine.until("asked")
    await editor.status()
    (message,) = editor.messages
    for key in ("tiers.preset", "tiers.acceptFrom", "debounceMs", "colour", "lspCalib.*languages must"):
        assert len(re.findall(key, message)) == 1, key
    assert ("'reckless'" in message) == (way == "trusted")


async def test_the_users_settings_are_applied(connect: Connect) -> None:
    """Nested keys and dotted ones mean the same."""
    editor = await connect(UNSURE, options={"tiers.acceptFrom": 0.9, "tiers": {"rejectBelow": 0.85}})
    assert await tier(editor) == "reject"
    assert editor.messages == []


async def test_the_configuration_of_the_workspace_applies_from_the_start(connect: Connect) -> None:
    """What `workspace/configuration` answers counts, also for documents opened before the answer came."""
    off = {"inlineCompletion": {"enabled": False}}
    editor = await connect(UNSURE, client=ASKS, settings=off, initialized=False)
    editor.client.initialized(None)  # type: ignore[arg-type]
    editor.open("a")  # in the same breath
    await editor.engine.until("loading")
    assert await editor.inline(0, 1) is None


async def test_configuration_goes_over_options_and_changes_later(connect: Connect) -> None:
    """A change is fetched again; what is no longer set falls back to the options of the start."""
    options = {"tiers": {"preset": "cautious"}, "inlineCompletion.enabled": False}
    on = {"inlineCompletion": {"enabled": True}}
    editor = await connect(UNSURE, client=ASKS, options=options, settings=on)
    await editor.engine.until("loading")
    assert await tier(editor) == "review"
    editor.configure({})
    await until_off(editor)
    editor.configure(on)
    await until_on(editor)
    editor.configure(None)
    await until_off(editor)
    assert editor.messages == []


HOSTILE: dict[str, Any] = {
    "tiers": {"acceptFrom": 0, "rejectBelow": 0, "preset": "lenient", "policy": "threshold"},
    "diagnostics": {"enabled": False},
    "confidence": {"measure": "geometric-mean"},
    "feedback": {"enabled": True, "retentionDays": 1},
    "autoRefit": True,
    "hideBelow": 0.9,
    "exclude": [],
}
MINE: dict[str, Any] = {"feedback": {"enabled": False}, "autoRefit": False, "exclude": ["secret/**"]}
POOR = {"otherwise": {"text": "x", "logprobs": [-1.0]}}  # 0.37: review, as by no preset it is accepted


@pytest.mark.parametrize("way", ["configuration", "pushed", "options"])
async def test_a_workspace_cannot_make_badges_green_nor_hide_marks(connect: Connect, way: str) -> None:
    """Whichever way its settings come; one message names each key, and says where the user sets it."""
    mine = {"trusted": MINE}
    editor = await connect(
        POOR,
        client=ASKS if way == "configuration" else capabilities(inline=True),
        options={**HOSTILE, **mine} if way == "options" else mine,
        plain=True,
        settings=HOSTILE if way == "configuration" else {},
    )
    if way == "pushed":
        editor.configure(HOSTILE, push=True)
    await until(lambda: editor.messages, "a message")
    editor.open("a")
    assert (await editor.suggestion(0, 1))["tier"] == "review"
    (message,) = editor.messages
    for key in ("acceptFrom", "rejectBelow", "preset", "policy"):
        assert message.count(f"tiers.{key}") == 1
    for key in (
        "diagnostics.enabled",
        "confidence.measure",
        "feedback.retentionDays",
        "autoRefit",
        "hideBelow",
    ):
        assert message.count(key) == 1
    assert "config.toml" in message
    assert not (editor.home / "feedback.db").exists()


async def until_off(editor: Editor) -> None:
    for _ in range(100):
        if await editor.inline(0, 1) is None:
            return
    pytest.fail("the setting had no effect")


async def until_on(editor: Editor) -> None:
    for _ in range(100):
        if await editor.inline(0, 1) is not None:
            return
    pytest.fail("the setting had no effect")


async def test_a_workspace_cannot_choose_the_model(connect: Connect) -> None:
    """Settings from a checkout name no file, host or command: `model` and `trusted` are ignored."""
    file = "/tmp/evil.gguf"
    evil = {"model": file, "trusted": {"model": file}, "trusted.model": file}
    editor = await connect(UNSURE, client=ASKS, options={"model": file}, plain=True, settings=evil)
    await editor.engine.until("loading")
    await tier(editor)
    editor.configure(evil)
    await editor.command("restartModel")
    await editor.engine.until("loading", 2)
    assert {entry["model"] for entry in editor.engine.read("made")} == {None}
    assert "do not count here, where a workspace could bring them along: model." in editor.messages[0]


async def test_settings_that_come_late_hold_from_then_on(connect: Connect) -> None:
    """A document that they exclude is no longer shown to the model."""
    editor = await connect({**UNSURE, "settingsWithin": 0.2}, client=ASKS, initialized=False)

    async def late(_params: types.ConfigurationParams) -> list[object]:
        await asyncio.sleep(2.0)
        return [{"exclude": ["*.py"]}]

    editor.client.protocol.fm.features[types.WORKSPACE_CONFIGURATION] = late
    editor.client.initialized(types.InitializedParams())
    editor.open("a")
    await until(lambda: editor.messages, "the message that they are late")
    assert "within 0.2 seconds" in editor.messages[0]
    assert await editor.inline(0, 1) is not None
    await asyncio.sleep(2.0)

    async def excluded() -> bool:
        return (await editor.command("explain") or {}).get("reason") == "excluded"

    for _ in range(100):
        if await editor.inline(0, 1) is None and await excluded():
            return
        await asyncio.sleep(0.05)
    pytest.fail("The document is still completed.")


async def test_an_editor_that_may_pass_on_a_workspaces_settings_is_not_trusted(connect: Connect) -> None:
    """Kate merges what `.kateproject` says into the options: only the command line makes them count."""
    evil = {"trusted": {"model": "/tmp/evil.gguf", "remote": {"url": "http://127.0.0.1:9/"}}}
    editor = await connect({**UNSURE, "trustsEditor": False}, options=evil, plain=True)
    await editor.engine.until("loading")
    assert {entry["model"] for entry in editor.engine.read("made")} == {None}
    (message,) = editor.messages
    assert "lspCalib.trusted is ignored" in message
    assert "config.toml" in message


async def test_a_workspace_cannot_choose_where_code_is_sent(connect: Connect) -> None:
    """Neither `workspace/configuration`, nor a push, nor plain options may name a server or a key file."""
    async with serving() as thief:
        remote = {"url": thief.url, "model": "smollm2-135m", "keyFile": "/etc/passwd"}
        evil: dict[str, Any] = {"remote": remote, "trusted": {"remote": remote}, "remote.url": thief.url}
        plain = {key: value for key, value in evil.items() if key != "trusted"}
        editor = await connect(UNSURE, client=ASKS, options=plain, plain=True, settings=evil)
        await editor.engine.until("loading")
        await tier(editor)
        editor.configure(evil)
        editor.configure(evil, push=True)
        await editor.command("restartModel")
        await editor.engine.until("loading", 2)
        assert {entry["remote"] for entry in editor.engine.read("made")} == {None}
        assert "remote.url, remote.model, remote.keyFile" in editor.messages[0]
        assert thief.connections == 0


async def test_who_may_choose_the_model(connect: Connect, tmp_path: Any) -> None:
    """The environment over the editor's machine scope over `config.toml`; a broken file is named."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('model = "from-file"\nthreads = 2\n')
    options = {"trusted": {"model": "from-editor"}}
    environment = {"LSP_CALIB_MODEL": "from-environment"}
    for given, expected in (
        ({"options": options, "env": environment}, "from-environment"),
        ({"options": options}, "from-editor"),
        ({}, "from-file"),
    ):
        editor = await connect(**given)
        made = (await editor.engine.until("made"))[-1]
        assert made["model"] == expected
        editor.engine.path.unlink()
    (home / "config.toml").write_text("model = [")
    editor = await connect(UNSURE)
    assert await tier(editor) == "accept"
    (message,) = editor.messages
    assert "config.toml" in message


async def test_a_client_that_fails_to_answer(connect: Connect) -> None:
    """An error instead of settings: the server says so, and keeps the settings of the start."""
    editor = await connect(UNSURE, client=ASKS, options={"tiers": {"preset": "cautious"}}, initialized=False)

    def fails(**_named: object) -> object:
        raise RuntimeError("no settings today")

    editor.client.get_configuration = fails  # type: ignore[method-assign]
    editor.client.initialized(None)  # type: ignore[arg-type]
    await editor.engine.until("loading")
    assert await tier(editor) == "review"
    (message,) = editor.messages
    assert "no settings today" in message
    editor.client.complaints.clear()
