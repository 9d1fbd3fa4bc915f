"""A real server for the bench: `lsp-calib serve` in a scratch state folder, with the user's model."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs

from lsp_calib import home, lockfile
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.completion.prompt import Layout, LayoutChooser
from lsp_calib.errors import EngineError, LspCalibError, ModelError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.models.cards import ModelCard, card_for_file, choose
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.inference.process.protocol import Stats
from lsp_calib.server.ahead import AHEAD_PAUSE, REST
from lsp_calib.server.model import Ahead
from lsp_calib.settings import Settings
from lsp_calib.tools.client import Editor

# Seconds; enough on a busy machine: to load the model, and to end the work that is under way.
_LOAD, _PATIENCE = 300.0, 120.0
_POLL = 0.004
_STATES = ("ready", "noModel", "error")
# `client.SERVER` without the limit on what is evaluated ahead: a bench goes to more places in two minutes
# than people do. What the limit makes of a reading hour is calculated.
_COMMAND = (
    *(sys.executable, "-P", "-c"),
    "from lsp_calib.server import ahead; ahead.BUDGET = 1e9;from lsp_calib.__main__ import main; main()",
    *("serve", "--trust-editor"),
)
# For a busy server to end after it is stopped, and then for the model process to end.
_END = 5.0


@attrs.frozen
class Scratch:
    """The folders of a bench; the user's files do not change, and no feedback is recorded.

    home: the server's state folder. project: the folder of the documents. chosen: the user's card. card: the
    card that the server makes from the file; it is the same if the user's card states the size. layout: of
    the prompts that it makes.
    """

    home: Path
    project: Path
    chosen: ModelCard
    card: ModelCard
    model: Path
    trusted: Settings
    layout: Layout


@contextlib.contextmanager
def scratch_folder(trusted: Settings) -> Iterator[Scratch]:
    """A fresh state folder that knows the user's model and its checksum. Raises ModelError without one."""
    chosen, path = choose(trusted.model)
    path = path.absolute()
    with tempfile.TemporaryDirectory(prefix="lsp-calib-bench-", ignore_cleanup_errors=True) as name:
        state, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        models = home.private_folder(home.private_folder(state) / "models")
        # Known checksums (by path, time and size) save reading the files again.
        for known in (home.state_dir() / "models").glob(".*.json"):
            shutil.copyfile(known, models / known.name)
        with state_folder(state):
            card = card_for_file(path)
            layout = LayoutChooser(CalibratorStore.open().has_labels).of_card(card, card.identity)
        yield Scratch(state, project, chosen, card, path, trusted, layout)


def _end_models(state: Path) -> None:
    """Wait until the model processes of a state folder have ended; they end with their last client."""
    deadline = time.monotonic() + _END
    for lock in (state / "run").glob("*.lock"):
        while (pid := lockfile.holder(lock)) is not None:
            if time.monotonic() > deadline:
                lockfile.kill_holder(lock, pid)
            time.sleep(0.02)


@contextlib.contextmanager
def state_folder(folder: Path) -> Iterator[None]:
    """Use another state folder in this process for a while."""
    before = os.environ.get("LSP_CALIB_HOME")
    os.environ["LSP_CALIB_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LSP_CALIB_HOME"]
        else:
            os.environ["LSP_CALIB_HOME"] = before


@attrs.frozen
class Served:
    """A server whose model is ready. probe: of its model process. start_ms: from its start until then."""

    scratch: Scratch
    editor: Editor
    probe: ModelProcess
    start_ms: float


def options(own: Settings, *, ahead: bool) -> dict[str, object]:
    """The settings of the server, by key."""
    return {
        "comments": "on",  # a quarter of the typing is in some: all models are asked for the same places
        "feedback": {"enabled": False},
        "diagnostics": {"enabled": False},
        "prefetch": {"enabled": ahead},
        "threads": own.threads,
        "gpuLayers": own.gpu_layers,
    }


@contextlib.asynccontextmanager
async def served(scratch: Scratch, *, ahead: bool = True) -> AsyncIterator[Served]:
    """Start a server; its model process has ended afterwards too. Raises ModelError if it has no model.

    ahead: whether the server completes the next line ahead, in pauses.
    """
    editor = Editor()
    # The user's settings are already resolved and passed as options. No variable may name a remote server.
    env = {name: value for name, value in os.environ.items() if not name.startswith("LSP_CALIB_REMOTE")}
    # Do not linger: a remaining model process would keep its memory while the next one starts.
    env |= {
        "LSP_CALIB_HOME": str(scratch.home),
        "LSP_CALIB_MODEL": str(scratch.model),
        "LSP_CALIB_LINGER": "0",
    }
    began = time.perf_counter()
    await editor.start(_COMMAND, env=env, cwd=scratch.project, own_group=True)
    try:
        await editor.open_session(scratch.project, {"trusted": options(scratch.trusted, ahead=ahead)})
        await editor.until(lambda: editor.state in _STATES, "loading the model", _LOAD)
        if editor.state != "ready":
            raise ModelError(" ".join(editor.messages) or editor.state_message)
        ms = 1e3 * (time.perf_counter() - began)
        async with _probe(scratch) as probe:
            yield Served(scratch, editor, probe, ms)
        await editor.quit()
    except asyncio.CancelledError:
        # The bench was stopped. Killing the server could leave behind a model process that it has just
        # started.
        with contextlib.suppress(LspCalibError, TimeoutError):
            await asyncio.wait_for(editor.quit(), _END)
        raise
    finally:
        await editor.close()
        _end_models(scratch.home)


@contextlib.asynccontextmanager
async def _probe(scratch: Scratch) -> AsyncIterator[ModelProcess]:
    """A second client of the model process that the server uses. Raises EngineError without one."""
    trusted = scratch.trusted
    with state_folder(scratch.home):
        process = ModelProcess(
            EngineChoice(
                str(scratch.model),
                threads=trusted.threads,
                gpu_layers=trusted.gpu_layers,
                linger=0.0,
            )
        )
        try:
            await process.ready()
        except BaseException:
            await process.close()
            raise
    try:
        yield process
    finally:
        await process.close()


async def evaluated_ahead(editor: Editor) -> Ahead:
    """What the server has evaluated where the cursor rested, and what of it was of use."""
    return Ahead(**(await editor.command("lsp-calib.status"))["ahead"])


async def settled(probe: ModelProcess) -> Stats:
    """As `until_idle`, after a wait in which the server can begin its evaluation in pauses."""
    await asyncio.sleep(2 * AHEAD_PAUSE)
    return await until_idle(probe)


async def at_rest(probe: ModelProcess) -> Stats:
    """As `until_idle`, after a wait in which the server can begin to evaluate where the cursor rests."""
    await asyncio.sleep(REST + AHEAD_PAUSE)
    return await until_idle(probe)


async def until_idle(probe: ModelProcess) -> Stats:
    """Wait until there is no work; returns the stats. Raises EngineError after two minutes."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        stats = await probe.stats()
        if stats.idle_since is not None and not stats.running and not stats.waiting:
            return stats
        await asyncio.sleep(_POLL)
    raise EngineError(f"The model process has been busy for {_PATIENCE:.0f} s. Is another program using it?")
