"""A real server of the bench's own: `lsp-calib serve` in a scratch state folder, with the user's model."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import ModelError
from lsp_calib.inference.models.cards import ModelCard, card_for_file, choose
from lsp_calib.server.settings import Trusted
from lsp_calib.tools.client import Editor

# Seconds; generous, for a machine that has other things to do.
LOAD = 300.0
_STATES = ("ready", "noModel", "error")


@attrs.frozen
class Scratch:
    """Where a bench leaves its traces: nothing of the user's is touched, and no feedback is recorded.

    home: the server's state folder. project: where the documents lie. chosen: the user's card. card: what the
    server makes of the file, which is the same for a model whose card says how large it is.
    """

    home: Path
    project: Path
    chosen: ModelCard
    card: ModelCard
    model: Path
    trusted: Trusted


@contextlib.contextmanager
def scratch_folder(trusted: Trusted) -> Iterator[Scratch]:
    """A fresh state folder that knows the user's model and its checksum. Raises ModelError without one."""
    chosen, path = choose(trusted.model)
    path = path.absolute()
    with tempfile.TemporaryDirectory(prefix="lsp-calib-bench-", ignore_cleanup_errors=True) as name:
        state, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        models = home.private_folder(home.private_folder(state) / "models")
        # What is known of the files (checksums by path, time and size) spares reading them through again.
        for known in (home.home() / "models").glob(".*.json"):
            shutil.copyfile(known, models / known.name)
        with state_folder(state):
            card = card_for_file(path)
        yield Scratch(state, project, chosen, card, path, trusted)


@contextlib.contextmanager
def state_folder(folder: Path) -> Iterator[None]:
    """For a while, another state folder for this process."""
    before = os.environ.get("LSP_CALIB_HOME")
    os.environ["LSP_CALIB_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LSP_CALIB_HOME"]
        else:
            os.environ["LSP_CALIB_HOME"] = before


@contextlib.asynccontextmanager
async def serving(scratch: Scratch) -> AsyncIterator[tuple[Editor, float]]:
    """A server whose model is ready, and the milliseconds from its start until then."""
    editor = Editor()
    # Of the user's own settings, those that were resolved already count, and nothing names a remote server.
    env = {name: value for name, value in os.environ.items() if not name.startswith("LSP_CALIB_REMOTE")}
    # A model process that stayed would keep its memory while another one is started.
    env |= {
        "LSP_CALIB_HOME": str(scratch.home),
        "LSP_CALIB_MODEL": str(scratch.model),
        "LSP_CALIB_LINGER": "0",
    }
    trusted = scratch.trusted
    options = {
        "feedback": {"enabled": False},
        "diagnostics": {"enabled": False},
        "trusted": {
            "threads": trusted.threads,
            "gpuLayers": trusted.gpu_layers,
            "mlock": trusted.mlock,
        },
    }
    began = time.perf_counter()
    await editor.start([sys.executable, "-P", "-m", "lsp_calib", "serve"], env=env, cwd=scratch.project)
    try:
        await editor.open_session(scratch.project, options)
        await editor.until(lambda: editor.state in _STATES, "loading the model", LOAD)
        if editor.state != "ready":
            raise ModelError(" ".join(editor.messages) or editor.state_message)
        yield editor, 1e3 * (time.perf_counter() - began)
        await editor.quit()
    finally:
        await editor.close()
