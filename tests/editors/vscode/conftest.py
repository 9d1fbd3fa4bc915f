"""Real VS Code with the packaged extension and a real server; `.ci/vscode` sets it up (make test-editors)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from editor import SERVER, SOURCE, VSCode, browser_flags, environment_with_model


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(**browser_flags())
        yield started
        started.close()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, model_path: Path) -> dict[str, str]:
    """The environment of editors that share a state folder, in which the default model is installed."""
    return environment_with_model(tmp_path_factory.mktemp("home"), model_path)


Editor = Callable[..., VSCode]


def _factory(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    made: list[VSCode] = []

    def make(workspace: Path, **options: Any) -> VSCode:
        options.setdefault("machine", {"lspCalib.server.path": SERVER})
        made.append(VSCode(browser, tmp_path_factory.mktemp("profile"), workspace, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def editor(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """Makes editors, each with a profile of its own; they are closed at the end of the test."""
    yield from _factory(browser, tmp_path_factory)


@pytest.fixture(scope="session")
def running(
    browser: Any, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VSCode]:
    """One VS Code for all tests that do not need one of their own: a start takes ten seconds."""
    workspace = tmp_path_factory.mktemp("statistics")
    (workspace / "averages.py").write_text(SOURCE)
    factory = _factory(browser, tmp_path_factory)
    vscode = next(factory)(workspace, environment=environment)
    vscode.install()
    vscode.start("averages.py")
    yield vscode
    next(factory, None)


@pytest.fixture
def vscode(running: VSCode) -> VSCode:
    """VS Code with a new file, the cursor at its end, and a server that is ready."""
    name = f"averages_{len(list(running.workspace.glob('*.py')))}.py"
    (running.workspace / name).write_text(SOURCE)
    running.show(running.workspace / name)
    running.to_end()
    running.until_ready()
    return running
