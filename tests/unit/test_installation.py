"""The advice to install something names the place that lsp-calib came from, and the installer."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp_calib.installation import install_command

CHECKOUT = {"url": "file:///home/ann/lsp%20calib", "dir_info": {"editable": True}}
WHEEL = {"url": "file:///tmp/lsp_calib-0.1.0-py3-none-any.whl", "archive_info": {}}
REPOSITORY = {"url": "https://example.org/lsp-calib.git", "vcs_info": {"vcs": "git", "commit_id": "0"}}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    install_command.cache_clear()
    yield
    install_command.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are of POSIX systems")
@pytest.mark.parametrize(
    ("came_from", "installer", "prefix", "command"),
    [
        (None, "pip", "/home/ann/.venv", "pip install 'lsp-calib[local]'"),
        (None, "uv", "/home/ann/.venv", "uv pip install 'lsp-calib[local]'"),
        (CHECKOUT, "pip", "/home/ann/.venv", "pip install -e '/home/ann/lsp calib[local]'"),
        (
            {"url": "file:///home/ann%2Bbob/it%27s", "dir_info": {}},
            "pip",
            "/v",
            "pip install '/home/ann+bob/it'\"'\"'s[local]'",
        ),
        (WHEEL, "pip", "/v", "pip install '/tmp/lsp_calib-0.1.0-py3-none-any.whl[local]'"),
        (
            WHEEL,
            "pip",
            "/pipx/venvs/lsp-calib",
            "pipx inject lsp-calib '{wheel}[local]'",
        ),
        (
            None,
            "uv",
            "/home/ann/.local/share/uv/tools/lsp-calib",
            "uv pip install --python {prefix} 'lsp-calib[local]'",
        ),
        (
            REPOSITORY,
            "pip",
            "/v",
            "pip install 'lsp-calib[local] @ git+https://example.org/lsp-calib.git'",
        ),
    ],
)
def test_the_command_is_for_this_installation(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    came_from: object,
    installer: str,
    prefix: str,
    command: str,
) -> None:
    folder = tmp_path / "lsp_calib-0.1.0.dist-info"
    folder.mkdir()
    (folder / "INSTALLER").write_text(installer + "\n")
    if came_from is not None:
        (folder / "direct_url.json").write_text(json.dumps(came_from))
    about = importlib.metadata.Distribution.at(folder)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: about)
    monkeypatch.setattr(sys, "prefix", prefix)
    wheel = "/tmp/lsp_calib-0.1.0-py3-none-any.whl"
    assert install_command("local") == command.format(wheel=wheel, prefix=prefix)


@pytest.mark.parametrize("content", ["", "{"])
def test_without_a_readable_note_it_is_the_package_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    (tmp_path / "direct_url.json").write_text(content)
    about = importlib.metadata.Distribution.at(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: about)
    monkeypatch.setattr(sys, "prefix", "/v")
    assert install_command("local", "figures") == "pip install 'lsp-calib[local,figures]'"
