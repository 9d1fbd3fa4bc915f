"""Neovims with the shipped plugin; `.ci/neovim` gets them (make test-editors)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))
sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from nvim import NVIM, SOURCE, Neovim, scripted, short_folder
from scripted_editor import install_calibrator

Open = Callable[..., Neovim]


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def file(folder: Path) -> Path:
    file = folder / "arithmetic.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def open_editor(folder: Path) -> Iterator[Open]:
    """Opens editors, as `Neovim` says; they are closed at the end."""
    opened: list[Neovim] = []

    def open_(*files: Path, program: str = NVIM, attached: bool = True, **options: Any) -> Neovim:
        place = folder / f"editor{len(opened)}"
        place.mkdir()
        opened.append(Neovim(program, place, *files, **options))
        if attached:
            opened[-1].attached()
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


@pytest.fixture
def open_scripted(open_editor: Open, folder: Path, file: Path, home: Path) -> Open:
    """Opens an editor on `file` with the real server and an engine that answers as a script says.

    calibrated: its answers have probabilities.
    """

    def open_(script: Mapping[str, Any], *files: Path, calibrated: bool = True, **options: Any) -> Neovim:
        if calibrated:
            install_calibrator(home)
        options.setdefault("server", scripted(folder, script))
        return open_editor(*(files or (file,)), home=home, **options)

    return open_
