"""Files of a workspace that a model may see: what git ignores is not among them, wherever that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_calib.workspace_files import is_left_out, walk


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a workspace in the folder `app`."""
    top = tmp_path / "repository"
    for name in ("app/a.py", "app/made/b.py", "app/mine/c.py", "app/sub/d.py", "app/sub/e.py", "app/.x/f.py"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x = 1\n")
    (top / "app" / "node_modules").mkdir()
    (top / "app" / "node_modules" / "g.py").write_text("x = 1\n")
    (top / ".git" / "info").mkdir(parents=True)
    (top / ".git" / "info" / "exclude").write_text("# mine alone\nmine/\n")
    (top / ".gitignore").write_text("app/made\n")
    (top / "app" / "sub" / ".gitignore").write_text("e.py\n!d.py\n")
    return top


@pytest.mark.parametrize("nearest", ["app", "app/sub"])
def test_what_is_ignored_above_the_workspace_is_ignored(repository: Path, nearest: str) -> None:
    root = repository / "app"
    files = walk(root, repository / nearest, lambda path: path.suffix == ".py", seconds=60)
    assert sorted(path.relative_to(root).as_posix() for path in files) == ["a.py", "sub/d.py"]


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        *(("a.py", False), ("sub/d.py", False), ("sub/e.py", True), ("made/b.py", True), ("mine/c.py", True)),
        *((".x/f.py", True), ("node_modules/g.py", True), ("new/unsaved.py", False)),
    ],
)
def test_of_one_file_the_same_is_known(repository: Path, name: str, left_out: bool) -> None:
    """As of a document that is open."""
    assert is_left_out(repository / "app" / name, repository / "app") == left_out


def test_without_a_repository_a_workspace_has_its_own_ignores_alone(repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").unlink()
    (repository / ".git" / "info").rmdir()
    (repository / ".git").rmdir()
    root = repository / "app"
    files = walk(root, root, lambda path: path.suffix == ".py", seconds=60)
    names = sorted(path.relative_to(root).as_posix() for path in files)
    assert names == ["a.py", "made/b.py", "mine/c.py", "sub/d.py"]
