"""What the documentation says of commands and figures is so."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from lsp_calib.calibration import power_table
from lsp_calib.cli import main
from lsp_calib.settings.table import TRUSTED, WORKSPACE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EDITORS = sorted((ROOT / "editor-configs").glob("*/README.md"))


@pytest.mark.parametrize("page", [*PAGES, *EDITORS], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_that_is_named_exists(page: Path) -> None:
    for first, second in re.findall(r"lsp-calib ([a-z]+)(?: ([a-z-]+))?", page.read_text("utf-8")):
        command = main.commands.get(first)
        if command is None:
            assert not re.search(
                rf"`lsp-calib {first}|^    lsp-calib {first}", page.read_text("utf-8"), re.M
            ), first
        elif isinstance(command, click.Group) and second:
            assert second in command.commands, (first, second)


def test_every_command_is_documented() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    for name in main.commands:
        assert f"lsp-calib {name}" in text, name


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "reference.md").read_text("utf-8")
    for key in (*WORKSPACE, *TRUSTED):
        assert f"`{key}`" in text, key


def test_the_power_of_certificates_is_what_the_table_says() -> None:
    text = (ROOT / "docs" / "calibration.md").read_text("utf-8")
    for row in power_table():
        assert f"| {row.true_error:.0%} | {' | '.join(map(str, row.labels))} |".replace("%", " %") in text
