"""What a release is made of agrees, and what does not agree is named with what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from release import ROOT, faults, notes

from lsp_calib import __version__

FILES = (
    "CITATION.cff",
    "lsp_calib/__init__.py",
    "editor-configs/vscode/package.json",
    "editor-configs/vscode/package-lock.json",
)
LOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2030-01-02

### Added

- New.

## [1.2.2] - 2029-01-01

- Old.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of version 1.2.3, with nothing to find fault with."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
        change(tmp_path, name, __version__, "1.2.3")
    change(tmp_path, "CITATION.cff", r"(?<=^date-released: ).*", "2030-01-02")
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    return tmp_path


def change(tree: Path, name: str, pattern: str, text: str) -> None:
    changed = re.sub(pattern, text, (tree / name).read_text("utf-8"), flags=re.M)
    (tree / name).write_text(changed, "utf-8")


def test_the_versions_of_this_tree_agree() -> None:
    """Lines under [Unreleased] are for the next release: they are no fault until then."""
    assert [one for one in faults() if "[Unreleased]" not in one] == []


def test_a_release_is_found_whole(tree: Path) -> None:
    assert faults(tree) == faults(tree, "v1.2.3") == []
    assert notes((tree / "CHANGELOG.md").read_text("utf-8"), "1.2.3") == "### Added\n\n- New.\n"


@pytest.mark.parametrize(
    ("name", "pattern", "text", "said"),
    [
        ("CITATION.cff", "^version: .*", "version: 1.2.2", "write 1.2.3 into CITATION.cff"),
        ("CITATION.cff", "^version: .*", "", "CITATION.cff has version none"),
        ("CITATION.cff", "2030-01-02", "2030-01-03", "released on 2030-01-03, CHANGELOG.md says 2030-01-02"),
        ("editor-configs/vscode/package.json", '"1.2.3"', '"1.2.2"', "vscode/package.json has version 1.2.2"),
        ("editor-configs/vscode/package-lock.json", '"1.2.3"', '"1.2.2"', "vscode/package-lock.json has"),
        ("CHANGELOG.md", r"(?<=\[Unreleased\]\n)", "\n- Newer.\n", "move them under a heading"),
        ("CHANGELOG.md", r"## \[Unreleased\]\n", "", "put it above the newest version"),
        ("CHANGELOG.md", "### Added\n\n- New.\n", "", "no section"),
        ("CHANGELOG.md", " - 2030-01-02", "", "no section"),
    ],
)
def test_what_disagrees_is_named(tree: Path, name: str, pattern: str, text: str, said: str) -> None:
    change(tree, name, pattern, text)
    (found,) = faults(tree)
    assert said in found


def test_the_tag_is_that_of_the_version(tree: Path) -> None:
    (found,) = faults(tree, "v1.2.4")
    assert "tag v1.2.3" in found
