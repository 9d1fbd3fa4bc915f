"""Excluded documents: no prompt contains text of a file with secrets, or of one that `exclude` names."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from openai_server import OpenAIServer, serving, spoken
from scripted_editor import PATIENCE, Editor, capabilities
from test_server_remote import Start, start_fixture, trusted  # noqa: F401 - a fixture

ASKS = capabilities(inline=True, configuration=True)
# With a function, so that a hover has something to read.
TEXT = "PASSWORD = 'hunter2'\n\n\ndef login(name):\n    return PASSWORD\n\n\nx = 1\n"
SECRETS = (
    "file:///project/.env",
    "file:///project/%2Eenv.local",
    "file:///home/me/.ssh/id_ed25519",
    "untitled:.env",
    "vscode-remote://ssh-remote%2Bhost/project/server.key",
    "vscode-notebook-cell:/project/credentials.json#W0sZmlsZQ%3D%3D",
    "git:/project/.npmrc?%7B%22ref%22%3A%22~%22%7D",
)
USED = "file:///project/module.py"


async def everything(editor: Editor, uri: str) -> list[Any]:
    """Type and hover in a document, and check that every answer is empty."""
    editor.open(TEXT, uri)
    answers: list[Any] = [await editor.inline(7, 5, uri)]
    for n, char in enumerate("PASS"):
        editor.insert(8, n, char, uri)
        answers += [await editor.inline(8, n + 1, uri), (await editor.complete(8, n + 1, uri)).items]
    answers += [await editor.hover(3, 5, uri), await editor.pull(uri)]
    return [answer for answer in answers if answer]


async def is_used(editor: Editor, uri: str = USED) -> bool:
    editor.open("y = 1\n", uri)
    answer = await editor.inline(0, 5, uri)
    return answer is not None and bool(answer.items)


def seen(server: OpenAIServer) -> str:
    return str([(one.path, one.headers, one.body) for one in server.asked])


async def test_a_file_with_secrets_is_never_sent_to_a_remote_engine(start: Start) -> None:
    async with serving(tokens=lambda _: spoken(" # yes\n")) as server:
        editor = await start(options={**trusted(server.url), "completion": {"enabled": True}})
        for uri in SECRETS:
            assert await everything(editor, uri) == [], uri
        assert server.completions == []
        assert await is_used(editor), "another document is completed"
        assert server.completions != []
        assert "hunter2" not in seen(server)
        assert await editor.leave() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize(
    ("real", "link", "name"),
    [
        (".env", "settings.py", "settings.py"),
        (".ssh", "notes", "notes/config.py"),
        ("private", "open", "open/a.py"),
        ("gone/.env", "settings.py", "settings.py"),
        ("loop.py", "loop.py", ""),
    ],
    ids=["a file", "a folder", "a pattern", "a missing drive", "a loop"],
)
async def test_what_a_link_leads_to_decides_as_well(
    start: Start, tmp_path: Path, real: str, link: str, name: str
) -> None:
    (root := tmp_path / "project").mkdir()
    (root / link).symlink_to(root / real)
    async with serving(tokens=lambda _: spoken(" # yes\n")) as server:
        options = {**trusted(server.url), "completion": {"enabled": True}, "exclude": ["private"]}
        editor = await start(options=options)
        if name:
            assert await everything(editor, (root / name).as_uri()) == []
            assert server.completions == []
        assert await is_used(editor, (root / "loop.py").as_uri())
        assert "hunter2" not in seen(server)


@pytest.mark.parametrize("way", ["configuration", "pushed", "config.toml"])
async def test_an_excluded_file_is_never_sent_wherever_the_setting_is_made(
    start: Start, tmp_path: Path, way: str
) -> None:
    exclude = {"exclude": ["**/private/**"]}
    if way == "config.toml":
        (tmp_path / "home").mkdir(mode=0o700)
        (tmp_path / "home" / "config.toml").write_text('exclude = ["**/private/**"]\n')
    async with serving(tokens=lambda _: spoken(" # yes\n")) as server:
        editor = await start(
            options={**trusted(server.url), "completion": {"enabled": True}},
            client_can=ASKS if way == "configuration" else None,
            settings=exclude if way == "configuration" else {},
        )
        if way == "pushed":
            editor.configure(exclude, push=True)
        assert await everything(editor, "file:///project/private/keys.py") == []
        assert await is_used(editor)
        assert "hunter2" not in seen(server)


async def test_a_workspace_cannot_include_a_file_that_the_user_has_excluded(start: Start) -> None:
    async with serving(tokens=lambda _: spoken(" # yes\n")) as server:
        editor = await start(
            options=trusted(server.url) | {"exclude": ["private/"]},
            client_can=ASKS,
            settings={"exclude": []},
        )
        assert not await is_used(editor, "file:///project/private/a.py")
        editor.configure({"exclude": ["*.gen.py"]})
        for name in ("private/b.py", "b.gen.py"):
            assert not await is_used(editor, f"file:///project/{name}"), name
        assert server.completions == []
        assert await is_used(editor)


async def test_the_model_is_not_asked_before_the_exclusions_are_known(connect: Connect) -> None:
    """An editor opens its last document at once, and gives its settings only when it is asked for them."""
    settings = {"exclude": ["module.py"]}
    editor = await connect({"otherwise": {"text": "x"}}, client=ASKS, settings=settings, initialized=False)
    editor.open("def f():\n    pass\na")
    asked = asyncio.gather(editor.inline(2, 1), editor.hover(0, 4))
    await asyncio.sleep(0)
    editor.client.initialized(types.InitializedParams())
    assert await asyncio.wait_for(asked, PATIENCE) == [None, None]
    assert editor.engine.read("asked") == []
    assert await is_used(editor, "file:///project/other.py")
