"""Real VS Code with the packaged extension and a real server; `.ci/vscode` sets it up (make test-editors)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from editor import CHROMIUM, VSCode

SERVER = os.environ.get("LSP_CALIB_SERVER") or str(Path(sys.executable).with_name("lsp-calib"))
# What a browser on a machine without a screen needs; nothing of it reaches the network.
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, model_path: Path) -> dict[str, str]:
    """The environment of an editor with its own state folder, in which the default model is installed."""
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o700)
    models = home / "models"
    models.mkdir(mode=0o700)
    (models / model_path.name).symlink_to(model_path)
    kept = {name: value for name, value in os.environ.items() if name != "LSP_CALIB_MODEL"}
    return kept | {"LSP_CALIB_HOME": str(home)}


Editor = Callable[..., VSCode]


@pytest.fixture(scope="module")
def editor(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """Makes editors, each with a profile of its own; they are closed at the end."""
    made: list[VSCode] = []

    def make(workspace: Path, **options: Any) -> VSCode:
        options.setdefault("machine", {"lspCalib.server.path": SERVER})
        options.setdefault("light", os.environ.get("LSP_CALIB_THEME") == "light")
        made.append(VSCode(browser, tmp_path_factory.mktemp("profile"), workspace, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
