"""Files of a workspace that a model may see: what git ignores is not among them, wherever that is said."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.completion.related_code import Neighbourhood, OpenFile
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.models.cards import load_cards
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


def walked(root: Path, nearest: Path | None = None) -> list[str]:
    """The Python files of a workspace."""
    files = walk(root, nearest or root, lambda path: path.suffix == ".py", seconds=60)
    return sorted(path.relative_to(root).as_posix() for path in files)


@pytest.mark.parametrize("nearest", ["app", "app/sub"])
def test_what_is_ignored_above_the_workspace_is_ignored(repository: Path, nearest: str) -> None:
    assert walked(repository / "app", repository / nearest) == ["a.py", "sub/d.py"]


def test_of_one_file_the_same_is_known(repository: Path) -> None:
    """As of a document that is open."""
    app = repository / "app"
    files = [*app.rglob("*.py"), app / "new" / "unsaved.py"]
    assert len(files) == 8
    known = {path.relative_to(app).as_posix() for path in files if not is_left_out(path, app)}
    assert known == {*walked(app), "new/unsaved.py"}


def test_patterns_count_below_their_own_folder(tmp_path: Path) -> None:
    """The folder of the workspace may have a name that is ignored below it, such as `lib`."""
    root = tmp_path / "lib" / "py"
    (root / "lib").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib" / ".gitignore").write_text("lib/\n")
    for name in ("a.py", "lib/b.py"):
        (root / name).write_text("x = 1\n")
    assert walked(root) == ["a.py"]
    assert not is_left_out(root / "a.py", root)
    assert is_left_out(root / "lib" / "b.py", root)


LINE = "total = price_of(item) + tax_of(item)\n"


def around(path: Path, root: Path, *opened: OpenFile, above: tuple[str, ...] = ()) -> set[str]:
    """The files of which a large window shows pieces to who writes in a document."""
    layout = Layout.of(load_cards()["qwen2.5-coder-1.5b"], WindowSize.LARGE)
    cursor = Cursor.at((*above, "total = price_of(item)", ""), len(above) + 1, 0, "python")
    found = Neighbourhood().around(path, root, opened, Exclusion(), cursor, layout)
    return {snippet.name for snippet in found.snippets}


def test_ignored_documents_are_no_context_while_they_are_open(repository: Path) -> None:
    root = repository / "app"
    opened = [OpenFile(root / name, (LINE.strip(),) * 3) for name in ("sub/d.py", "sub/e.py")]
    assert around(root / "a.py", root, *opened) == {"sub/d.py"}


def test_of_a_workspace_that_is_a_link_both_names_decide(tmp_path: Path) -> None:
    for folder, shown in (("plain", {"beside.py"}), (".ssh", set())):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "beside.py").write_text(LINE * 3)
        (root := tmp_path / f"link to {folder}").symlink_to(tmp_path / folder)
        assert around(root / "open.py", root) == shown


@pytest.fixture
def outside(repository: Path, tmp_path: Path) -> None:
    """A link in the workspace to a folder that lies elsewhere."""
    (tmp_path / "outside" / "deeper").mkdir(parents=True)
    (repository / "app" / "link").symlink_to(tmp_path / "outside")


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("folder", ["sub", "node_modules", ".x", "link", "link/deeper"])
def test_a_folder_that_is_not_looked_into_stays_so_where_a_document_in_it_is_open(
    repository: Path, folder: str
) -> None:
    """Its neighbours would go to the model, and with a remote one to another machine."""
    root = repository / "app"
    for name in ("open.py", "beside.py"):
        (root / folder / name).write_text(LINE * 3)
    names = around(root / folder / "open.py", root) - {f"{folder}/open.py"}
    assert names == ({"sub/beside.py"} if folder == "sub" else set())


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    "folder", ["node_modules", ".x", "link", "link/deeper", "sub/../../../outside", "made"]
)
def test_a_walk_does_not_begin_in_a_folder_that_is_not_looked_into(repository: Path, folder: str) -> None:
    root = repository / "app"
    (root / folder / "beside.py").write_text("x = 1\n")
    assert walked(root, root / folder) == ["a.py", "sub/d.py"]


@pytest.mark.parametrize(
    "ignores",
    [
        b"\xef\xbb\xbfsecret.py\n",
        "# priv\xe9\nsecret.py\n".encode("latin-1"),
        b"[^a].py\n[^a]?????.py\n",
        "d\xe9j\xe0.py\nsecret.py\n".encode("latin-1"),
    ],
    ids=["mark at the beginning", "not UTF-8", "caret", "names that are not UTF-8"],
)
def test_ignores_are_read_as_git_reads_them(tmp_path: Path, ignores: bytes) -> None:
    (tmp_path / ".gitignore").write_bytes(ignores)
    for name in ("a.py", "secret.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert walked(tmp_path) == ["a.py"]


def test_a_disk_that_is_gone_hides_the_rest_of_no_workspace(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that lost its server answers each question about itself with an error."""
    (repository / "app" / "mount").mkdir()
    scandir = os.scandir

    def entry(of: os.DirEntry[str]) -> Any:
        def is_dir(*, follow_symlinks: bool) -> bool:
            if of.name == "mount":
                raise OSError(107, "Transport endpoint is not connected")
            return of.is_dir(follow_symlinks=follow_symlinks)

        return SimpleNamespace(name=of.name, is_dir=is_dir)

    @contextmanager
    def listed(folder: Path) -> Iterator[Any]:
        with scandir(folder) as entries:
            yield map(entry, entries)

    monkeypatch.setattr(os, "scandir", listed)
    assert walked(repository / "app") == ["a.py", "sub/d.py"]


def test_a_folder_with_endless_files_is_not_read_to_its_end(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def endless(_: Path) -> Iterator[Any]:
        names = (f"{number}.txt" for number in itertools.count())
        yield (
            SimpleNamespace(name=name, is_dir=lambda *, follow_symlinks: follow_symlinks) for name in names
        )

    monkeypatch.setattr(os, "scandir", endless)
    assert list(walk(repository, repository, lambda _: False, seconds=60, most_names=100)) == []


def test_very_many_ignores_hold_nothing_up(repository: Path) -> None:
    root = repository / "app"

    def walked(pattern: str) -> tuple[int, float]:
        """The number of files found, and the seconds it took, with 5,000 patterns."""
        (root / ".gitignore").write_text("".join(f"{pattern}{n}\n" for n in range(5000)))
        began = time.process_time()
        found = list(walk(root, root, lambda path: path.suffix == ".py", seconds=60))
        return len(found), time.process_time() - began

    (some, plain), (none, hostile) = walked("name_"), walked("{a,b}{c,d}{e,f}{g,h}{i,j}")
    assert (some > 0, none) == (True, 0)
    assert hostile < 20 * plain


def test_a_long_document_hides_no_other(repository: Path) -> None:
    root = repository / "app"
    long, other = (
        OpenFile(root / "long.py", ("x = 1",) * 20_001),
        OpenFile(root / "sub/d.py", (LINE.strip(),) * 3),
    )
    assert "sub/d.py" in around(root / "a.py", root, long, other, above=("import long",))
