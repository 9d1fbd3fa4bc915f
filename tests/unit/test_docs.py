"""What the documentation says of commands and figures is so."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from lsp_calib import errors
from lsp_calib.calibration import power_table
from lsp_calib.cli import main
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.inference.models.card import load_cards
from lsp_calib.settings.table import TRUSTED, WORKSPACE
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.stopping import Stopped

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


def section(page: str, heading: str) -> str:
    """A section of a page of docs/, up to the next heading of its level or above."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    level = heading.split()[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, heading
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.M)[0]


def test_every_exit_code_is_listed() -> None:
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type)}
    codes |= {stopped.exit_code for stopped in Stopped}
    listed = [
        int(code) for code in re.findall(r"^\| (\d+) \|", section("reference.md", "## Exit codes"), re.M)
    ]
    assert listed == sorted(codes)


def test_every_part_of_the_bench_is_listed() -> None:
    (row,) = re.findall(r"^\| `--only PART` \|.*$", (ROOT / "docs/reference.md").read_text("utf-8"), re.M)
    assert re.findall("`([a-z-]+)`", row) == list(PARTS)


def test_the_windows_of_the_cards_are_those_of_the_page() -> None:
    text = section("reference.md", "### The window")
    cards = load_cards()
    windows = [card.window for card in cards.values()]
    assert f"{min(windows):,} (some 40 lines) to {max(windows):,} characters" in text
    small = {name for name, card in cards.items() if Layout.of(card, WindowSize.LARGE) == Layout.of(card)}
    (said,) = re.findall(r"cannot hold the large one \(([^)]*)\)", text)
    assert set(re.findall("`([^`]+)`", said)) == small
    for name, card in cards.items():
        if name not in small:
            assert Layout.of(card, WindowSize.LARGE).window == 2 * card.window, name
