"""A real server with a real model, in a state folder of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from real_server import PATIENCE, SERVER

from lsp_calib.tools.client import Document, Editor


@pytest.fixture
def environment(model_path: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a server whose home is empty but for what it makes itself."""
    return {**os.environ, "LSP_CALIB_HOME": str(tmp_path / "home"), "LSP_CALIB_MODEL": str(model_path)}


Start = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Start:
    """Start a server; `wait` until its model is ready."""

    @asynccontextmanager
    async def started(*, wait: bool = True, **changes: str) -> AsyncIterator[Editor]:
        editor = Editor()
        await editor.start(SERVER, env={**environment, **changes}, cwd=tmp_path)
        try:
            await editor.open_session(tmp_path, {})
            if wait:
                await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)
            yield editor
        finally:
            await editor.close()

    return started


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Editor, str], tuple[Document, int, int]]:
    """Write a document with a cursor (‸) and open it; gives it with the cursor's line and column."""
    names = iter(range(1000))

    def written(editor: Editor, marked: str) -> tuple[Document, int, int]:
        before, after = marked.split("‸")
        path = tmp_path / f"module_{next(names)}.py"
        path.write_text(before + after, "utf-8")
        return Document(editor, path, "python"), before.count("\n"), len(before.rpartition("\n")[2])

    return written
