"""The handshake: what is offered to which editor, and how little it takes to answer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import capabilities

VSCODE = {"editor": "visual_studio_code", "inline": True, "pull": True}
NEOVIM = {"editor": "neovim", "inline": True}
OLD_NEOVIM = {"editor": "neovim@v0.9.1"}
HELIX = {"editor": "helix"}
EMACS = {"editor": "emacs"}


@pytest.mark.parametrize(
    ("editor", "menu", "pulls", "encoding"),
    [
        pytest.param(VSCODE, False, True, "utf-16", id="vscode"),
        pytest.param(NEOVIM, False, False, None, id="neovim"),
        pytest.param(OLD_NEOVIM, True, False, "utf-16", id="neovim-0.9"),
        pytest.param(HELIX, True, False, None, id="helix"),
        pytest.param(EMACS, True, False, None, id="emacs"),
    ],
)
async def test_what_is_offered_fits_the_editor(
    connect: Connect, editor: dict[str, object], menu: bool, pulls: bool, encoding: str | None
) -> None:
    """Ghost text for all; the menu only for editors without it; diagnostics pulled or pushed, not both."""
    client = capabilities(**editor)  # type: ignore[arg-type]
    connected = await connect(client=client)
    offered = connected.server
    assert offered.inline_completion_provider
    assert bool(offered.completion_provider) is menu
    assert bool(offered.diagnostic_provider) is pulls
    assert offered.hover_provider
    assert offered.execute_command_provider is not None
    reference = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`lsp-calib\.\w+`(?:, )?)+) \|", reference, re.M)
    documented = re.findall(r"`([^`]+)`", " ".join(rows))
    assert sorted(offered.execute_command_provider.commands) == sorted(documented)
    assert "lsp-calib.explain" in documented
    sync = offered.text_document_sync
    assert isinstance(sync, types.TextDocumentSyncOptions)
    assert sync.change is types.TextDocumentSyncKind.Incremental
    can = client.text_document.synchronization if client.text_document else None
    # Its reason tells a person's save from an editor's own.
    assert bool(sync.will_save) is bool(can and can.will_save)
    assert sync.save
    assert offered.position_encoding is not None
    declared = client.general.position_encodings if client.general else None
    assert offered.position_encoding in (declared or ["utf-16"])
    if encoding:
        assert offered.position_encoding == encoding


@pytest.mark.parametrize(("enabled", "offered"), [(True, True), (False, False), ("auto", False)])
async def test_the_menu_can_be_forced_on_and_off(connect: Connect, enabled: object, offered: bool) -> None:
    """`completion.enabled` true or false counts whatever the editor can do."""
    options = {"completion": {"enabled": enabled}}
    editor = await connect(client=capabilities(inline=True), options=options)
    assert bool(editor.server.completion_provider) is offered


async def test_the_menu_can_be_turned_off_in_editors_without_ghost_text(connect: Connect) -> None:
    """`completion.enabled: false` counts in an editor without ghost text too."""
    editor = await connect(client=capabilities(), options={"completion": {"enabled": False}})
    assert editor.server.completion_provider is None


async def test_a_client_that_pulls_without_refresh_is_pushed_to(connect: Connect) -> None:
    """Without `workspace/diagnostic/refresh` it would not know when to pull."""
    client = capabilities(pull=True)
    assert client.workspace is not None
    client.workspace.diagnostics = None
    assert (await connect(client=client)).server.diagnostic_provider is None


async def test_initialize_waits_for_nothing(connect: Connect) -> None:
    """The answer to `initialize` needs no engine and none of the imports that take long."""
    editor = await connect({"readyWhen": "/nowhere"}, initialized=False, forked=False)
    heavy = await editor.client.protocol.send_request_async("test/heavyModules", None)
    assert list(heavy) == []
    assert editor.engine.read() == []
    editor.client.initialized(None)  # type: ignore[arg-type]
    # The probe does see them once they are there.
    await editor.engine.until("loading")
    heavy = await asyncio.wait_for(editor.client.protocol.send_request_async("test/heavyModules", None), 20)
    assert "numpy" in heavy
    assert "sklearn" not in heavy
