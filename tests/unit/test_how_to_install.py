"""What messages tell to run adds an extra to this installation. No index is asked for lsp-calib."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from release import ROOT

from lsp_calib import installation
from lsp_calib.installation import how_to_install

METADATA = """Metadata-Version: 2.4
Name: lsp-calib
Version: 9
Requires-Dist: attrs>=24.1
Provides-Extra: quick
Requires-Dist: pytest>=8; extra == 'quick'
Provides-Extra: similarity
Requires-Dist: no-such-package<2,>=1.20; extra == 'similarity'
Requires-Dist: tokenizers<1,>=0.20; extra == 'similarity'
"""


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment that lsp-calib is installed in."""
    prefix = tmp_path / "environment"
    prefix.mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", "/its own/python")
    return prefix


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    clone = tmp_path / "the clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    return clone


def installed(prefix: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None, **directory: bool) -> None:
    packages = prefix / "lsp_calib-9.dist-info"
    packages.mkdir()
    (packages / "METADATA").write_text(METADATA)
    if origin is not None:
        url: dict[str, Any] = {"url": origin, "dir_info": directory}
        (packages / "direct_url.json").write_text(json.dumps(url))
    monkeypatch.syspath_prepend(str(prefix))


PACKAGES = "'no-such-package<2,>=1.20' 'tokenizers<1,>=0.20'"


def test_an_editable_clone_is_named(prefix: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(prefix, monkeypatch, clone.as_uri(), editable=True)
    command = f"`'/its own/python' -m pip install --editable '{clone}[quick,similarity]'`"
    assert how_to_install("quick", "similarity") == command


@pytest.mark.parametrize(
    "origin", [None, "file:///gone/lsp_calib-9-py3-none-any.whl", "https://example.invalid/a.whl"]
)
def test_of_a_wheel_or_a_clone_that_is_gone_the_packages_are_named(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None
) -> None:
    installed(prefix, monkeypatch, origin)
    assert how_to_install("similarity") == f"`'/its own/python' -m pip install {PACKAGES}`"
    newer = f"`'/its own/python' -m pip install --upgrade {PACKAGES}`"
    assert how_to_install("similarity", newer=True) == newer


def test_an_environment_without_pip_is_filled_by_uv(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(prefix, monkeypatch, None)
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    assert how_to_install("similarity") == f"`uv pip install --python '/its own/python' {PACKAGES}`"


@pytest.mark.parametrize("receipt", ["uv-receipt.toml", "pipx_metadata.json"])
def test_the_tool_of_a_clone_is_made_anew_with_what_it_has(
    prefix: Path, clone: Path, monkeypatch: pytest.MonkeyPatch, receipt: str
) -> None:
    (prefix / receipt).touch()
    installed(prefix, monkeypatch, clone.as_uri())
    assert how_to_install("similarity") == f"`make install EXTRAS=quick,similarity` in {clone}"
    (clone / "pyproject.toml").unlink()
    assert PACKAGES in how_to_install("similarity")


def test_the_encoder_of_vscodes_extension_is_left_to_it(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix / "installed.json").touch()
    installed(prefix, monkeypatch, None)
    package = json.loads(ROOT.joinpath("editor-configs/vscode/package.json").read_text("utf-8"))
    (title,) = (
        one["title"] for one in package["contributes"]["commands"] if one["command"] == "lspCalib.install"
    )
    assert how_to_install("similarity") == f"`lsp-calib: {title}` in VS Code"
    assert how_to_install("quick") == "`'/its own/python' -m pip install 'pytest>=8'`", (
        "it installs no other extra"
    )


ASKS = re.compile(r"(pip|pipx|uv tool) install( -\S+)* ['\"]?lsp-calib\b(?!\S* @)")


def test_no_text_of_the_package_or_of_a_client_asks_an_index_for_lsp_calib() -> None:
    assert ASKS.search("pip install --upgrade 'lsp-calib[local]'")
    assert not ASKS.search("pip install 'lsp-calib[local] @ file:///wheel'")
    suffixes = {".py", ".lua", ".txt", ".ts", ".json", ".md", ".el", ".toml"}
    files = [
        path
        for folder in ("lsp_calib", "editor-configs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "node_modules" not in path.parts
    ]
    asking = [str(path) for path in files if ASKS.search(path.read_text("utf-8", errors="replace"))]
    assert len(files) > 200
    assert asking == []
