"""Servers for tests, each with its own state folder, all of them ended after the test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_editor import Editor, start

Connect = Callable[..., Awaitable[Editor]]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A file that is not there: scripted answers can be held until it is."""
    return tmp_path / "release"


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """A function that starts a server with a script and connects to it: `await connect({...}, **options)`.

    text: of a Python document that is opened at once.
    The server runs on a thread of this process, unless `process` is true or its options belong to one.
    A test fails if its server sent an invalid message, or one beyond the declared capabilities.
    """
    editors: list[Editor] = []

    patch = pytest.MonkeyPatch()

    async def make(
        script: dict[str, Any] | None = None,
        *,
        text: str | None = None,
        process: bool = False,
        **options: Any,
    ) -> Editor:
        script = script or {}
        if process or not options.get("forked", True) or "env" in options or "log" in script:
            editor = await start(tmp_path, script, **options)
        else:
            editor = await start(tmp_path, script, here=patch, **options)
        editors.append(editor)
        if text is not None:
            editor.open(text)
        return editor

    try:
        yield make
        for editor in editors:
            client = editor.client
            if client.process.returncode is None:
                client.cut()
            if not client.stopped or client.process.returncode is None:
                await client.gone()
            sys.stderr.write(client.stderr.decode("utf-8", "replace"))  # pytest shows it below a failure
            if client.process.stdin is not None:
                client.process.stdin.close()
    finally:
        patch.undo()
    for editor in editors:
        assert editor.client.complaints == []
