"""Repositories that were made to harm whoever reads them: nothing of theirs runs, and nothing else is read.

Each trap is first shown to work with plain git in the checkout, where it can: then the canary sings.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from git_scene import Scene, needs_git

from lsp_calib.cli import main
from lsp_calib.corpus.commits import repository_of
from lsp_calib.errors import DataError

pytestmark = needs_git

SOURCE = "".join(f"name_{n} = compute({n})\n" for n in range(5))
LINES = {line for line in SOURCE.split("\n") if line}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.begin(tmp_path)
    made.commit({"a.py": SOURCE})
    return made


def refused(scene: Scene, match: str) -> None:
    with pytest.raises(DataError, match=match):
        scene.taken()


def plainly(scene: Scene, *arguments: str) -> None:
    """Run git as a user would in the checkout, who trusts it."""
    subprocess.run(["git", *arguments], cwd=scene.root, capture_output=True, timeout=60, check=False)


def lose(scene: Scene, name: str) -> str:
    """Remove the object of a file in HEAD from the repository; returns its id."""
    id_ = scene.git("rev-parse", f"HEAD:{name}")
    (scene.root / ".git/objects" / id_[:2] / id_[2:]).unlink()
    return id_


def promises(scene: Scene) -> None:
    """What is missing would be fetched by a program of the repository's choice."""
    scene.commit({"gone.py": "to_be_fetched = compute(1)\n"})
    scene.git("config", "extensions.partialClone", "origin")
    scene.git("config", "core.repositoryformatversion", "1")
    scene.git("config", "remote.origin.url", "ssh://nobody@localhost/x")
    scene.git("config", "remote.origin.promisor", "true")
    scene.git("config", "core.sshCommand", str(scene.makes_canary()))
    plainly(scene, "cat-file", "-p", lose(scene, "gone.py"))


def watches(scene: Scene) -> None:
    scene.git("config", "core.fsmonitor", str(scene.makes_canary()))
    plainly(scene, "status")


def converts(scene: Scene) -> None:
    program = str(scene.makes_canary())
    scene.commit({".gitattributes": "*.py diff=trap filter=trap\n", "b.py": "x_y = 1\n"})
    for key in ("diff.trap.textconv", "diff.trap.command", "diff.external"):
        scene.git("config", key, program)
    (scene.root / ".git/info").mkdir(exist_ok=True)
    (scene.root / ".git/info/attributes").write_text("* diff=trap\n")
    plainly(scene, "log", "-p", "--ext-diff", "--textconv", "-1")


def hooks(scene: Scene) -> None:
    folder = scene.root / ".git/hooks"
    folder.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (folder / name).write_bytes(scene.makes_canary().read_bytes())
        (folder / name).chmod(0o755)
    plainly(scene, "checkout", "-b", "another")


def includes(scene: Scene) -> None:
    """Through another file, with an alias, a pager and a way to list what alternates have."""
    program = scene.makes_canary()
    other = scene.root.parent / "included"
    other.write_text(
        f"[core]\n\tfsmonitor = {program}\n\tpager = {program}\n\talternateRefsCommand = {program}\n"
        f'[alias]\n\tcat-file = "!{program}"\n[credential]\n\thelper = "!{program}"\n'
    )
    scene.git("config", "include.path", str(other))
    plainly(scene, "status")


@pytest.mark.parametrize("trap", [promises, watches, converts, hooks, includes])
def test_nothing_of_the_repository_runs(scene: Scene, trap: Callable[[Scene], None]) -> None:
    trap(scene)
    assert scene.canary.exists(), "the trap works where it is walked into"
    scene.canary.unlink()
    assert scene.texts() >= LINES
    assert not scene.canary.exists()


def test_what_is_missing_is_left_out_and_not_fetched(scene: Scene) -> None:
    promises(scene)
    assert scene.texts() == LINES
    assert scene.taken().left_out["changes of large, binary or missing files"] == 1


def test_a_program_named_git_in_the_workspace_is_not_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.makes_canary().rename(scene.root / "git")
    monkeypatch.chdir(scene.root)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert scene.texts() == LINES
    assert not scene.canary.exists()


def test_the_user_s_own_variables_do_not_direct_git(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    program = scene.makes_canary()
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(program))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(scene.root))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert scene.texts() == LINES
    assert not scene.canary.exists()


def test_replacements_are_not_followed(scene: Scene) -> None:
    commit = scene.git("rev-parse", "HEAD")
    other = scene.commit({"a.py": "replaced = compute(1)\n"})
    scene.git("reset", "-q", "--hard", commit)
    scene.git("replace", "-f", commit, other)
    assert "replaced" in scene.git("show", "HEAD:a.py"), "plain git follows them"
    assert scene.texts() == LINES


def test_a_huge_file_is_not_read(scene: Scene) -> None:
    scene.commit({"huge.py": "x_y = compute(1)\n" * 1_000_000})
    huge, small = (scene.git("rev-parse", f"HEAD:{name}") for name in ("huge.py", "a.py"))
    with repository_of(scene.root) as repository:
        assert repository.texts([huge, "0" * 40, repository.head, small]) == {small: SOURCE}
    assert scene.texts() == LINES


def test_folders_within_each_other_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten folders of ten folders of ten folders ...: a few objects that would unpack to millions of files."""
    inner = scene.git("write-tree")
    for _ in range(8):
        rows = "".join(f"040000 tree {inner}\t{n}\n" for n in range(10))
        inner = scene.git("mktree", text=rows)
    bomb = scene.git("commit-tree", "-p", "HEAD", "-m", "x", inner)
    scene.git("update-ref", "refs/heads/main", bomb)
    monkeypatch.setattr("lsp_calib.corpus.commits._PROCESSOR_S", 1)
    refused(scene, "something too large")


def test_an_object_that_never_ends_is_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_calib.corpus.commits._PATIENCE_S", 1.0)
    id_ = scene.git("rev-parse", "HEAD:a.py")
    path = scene.root / ".git/objects" / id_[:2] / id_[2:]
    path.unlink()
    os.mkfifo(path)
    refused(scene, "git could not read an object")


def test_a_damaged_object_is_left_out(scene: Scene) -> None:
    scene.commit({"b.py": "another = compute(1)\n"})
    id_ = scene.git("rev-parse", "HEAD:a.py")
    path = scene.root / ".git/objects" / id_[:2] / id_[2:]
    path.chmod(0o644)
    path.write_bytes(b"nothing that git has written")
    assert scene.texts() == {"another = compute(1)"}
    assert scene.taken().left_out["changes of large, binary or missing files"] == 1


@pytest.mark.usefixtures("home")
def test_no_terminal_is_directed_by_a_name(scene: Scene) -> None:
    scene.commit({"b.py": "x_y = compute(1)\n"}, by="evil\x1b]0;x\x07@x.org")
    result = CliRunner().invoke(main, ["calibrate", str(scene.root), "--from-git", "--author", "eve@x"])
    assert "evil]0;x@x.org (1)" in result.stderr


@pytest.fixture
def private(tmp_path: Path) -> Scene:
    """Another repository of the same user."""
    made = Scene.begin(tmp_path / "private")
    made.commit({"a.py": "".join(f"secret_{n} = hide({n})\n" for n in range(5))})
    return made


class TestAnotherRepository:
    """A checkout that names one of the user's other repositories as its own: nothing is taken from there."""

    def pointing(self, scene: Scene, at: Path) -> None:
        """Make `.git` a file that names a folder."""
        shutil.rmtree(scene.root / ".git", ignore_errors=True)
        (scene.root / ".git").write_text(f"gitdir: {os.path.relpath(at, scene.root)}\n")

    def test_as_a_file(self, scene: Scene, private: Scene) -> None:
        self.pointing(scene, private.root / ".git")
        assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows it"
        refused(scene, "does not know this folder.*none is taken")

    def test_the_repair_that_is_named_connects_them(self, scene: Scene) -> None:
        apart = scene.root.parent / "apart, with spaces"
        scene.git("init", "-q", "--separate-git-dir", str(apart))
        with pytest.raises(DataError, match=r"core\.worktree") as refusal:
            scene.texts()
        command = str(refusal.value).split("`")[3]
        subprocess.run(shlex.split(command), check=True, cwd=scene.root)
        assert scene.texts() == LINES

    def test_as_a_worktree_of_it_that_is_another_folder(self, scene: Scene, private: Scene) -> None:
        private.git("worktree", "add", "-q", "-b", "other", str(private.root.parent / "beside"))
        self.pointing(scene, private.root / ".git/worktrees/beside")
        assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows it"
        refused(scene, "does not know this folder.*git worktree repair")

    @pytest.mark.parametrize("inside", ["state", "worktrees/state", ".git/worktrees/state"])
    def test_as_a_worktree_whose_state_is_of_the_checkout_s_making(
        self, scene: Scene, private: Scene, inside: str
    ) -> None:
        state = scene.root / "sub" / inside
        state.mkdir(parents=True)
        self.pointing(scene, state)
        (state / "gitdir").write_text(f"{scene.root}/.git\n")
        (state / "commondir").write_text(f"{private.root}/.git\n")
        (state / "HEAD").write_text("ref: refs/heads/main\n")
        assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows it"
        refused(scene, "does not know this folder")

    def test_by_commondir(self, scene: Scene, private: Scene) -> None:
        (scene.root / ".git/commondir").write_text(f"{private.root}/.git\n")
        (scene.root / ".git/gitdir").write_text(".\n")
        assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows it"
        refused(scene, "does not know this folder")

    @pytest.mark.parametrize("relative", [False, True])
    def test_by_alternates_and_a_commit_whose_id_is_known(
        self, scene: Scene, private: Scene, relative: bool
    ) -> None:
        objects = scene.root / ".git/objects"
        place = private.root / ".git/objects"
        (objects / "info").mkdir(exist_ok=True)
        named = os.path.relpath(place, objects) if relative else str(place)
        (objects / "info/alternates").write_text(f"# a comment\n{named}\n")
        (scene.root / ".git/HEAD").write_text(private.git("rev-parse", "HEAD"))
        assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows them"
        refused(scene, "borrows objects.*git repack -a -d")

    def test_by_alternates_of_http_or_grafts_or_a_configured_worktree_nothing_changes(
        self, scene: Scene, private: Scene
    ) -> None:
        git, other = scene.root / ".git", private.root / ".git"
        (git / "objects/info").mkdir(exist_ok=True)
        (git / "objects/info/http-alternates").write_text(f"{other}/objects\n")
        (git / "info").mkdir(exist_ok=True)
        grafted = f"{scene.git('rev-parse', 'HEAD')} {private.git('rev-parse', 'HEAD')}\n"
        (git / "info/grafts").write_text(grafted)
        scene.git("config", "core.worktree", str(private.root))
        assert scene.texts() == LINES

    @pytest.mark.parametrize("name", ["GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"])
    def test_nor_by_variables(
        self, scene: Scene, private: Scene, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, str(private.root / ".git/objects"))
        monkeypatch.setenv("GIT_DIR", str(private.root / ".git"))
        monkeypatch.setenv("GIT_COMMON_DIR", str(private.root / ".git"))
        (scene.root / ".git/HEAD").write_text(private.git("rev-parse", "HEAD"))
        refused(scene, "git could not read an object")

    def test_nor_by_a_gitlink(self, scene: Scene, private: Scene) -> None:
        head = private.git("rev-parse", "HEAD")
        scene.git("update-index", "--add", "--cacheinfo", f"160000,{head},inner")
        scene.git("commit", "-q", "-m", "x")
        assert scene.texts() == LINES

    @pytest.mark.parametrize("level", ["objects", "pack", "pack file", "object"])
    def test_nor_by_links(self, scene: Scene, private: Scene, level: str) -> None:
        mine, theirs = scene.root / ".git/objects", private.root / ".git/objects"
        head = private.git("rev-parse", "HEAD")
        private.git("repack", "-a")
        places = {"objects": ["."], "pack": ["pack"], "object": [f"{head[:2]}/{head[2:]}"]}
        places["pack file"] = [f"pack/{path.name}" for path in (theirs / "pack").iterdir()]
        for name in places[level]:
            shutil.rmtree(mine / name, ignore_errors=True)
            (mine / name).parent.mkdir(exist_ok=True, parents=True)
            (mine / name).symlink_to(theirs / name)
        (scene.root / ".git/HEAD").write_text(f"{head}\n")
        if level != "object":
            assert "secret" in scene.git("show", "HEAD:a.py"), "plain git follows them"
        refused(scene, "borrows objects from elsewhere, by a link")

    def test_nor_where_its_own_is_a_link(self, scene: Scene, private: Scene) -> None:
        shutil.rmtree(scene.root / ".git")
        (scene.root / ".git").symlink_to(private.root / ".git")
        refused(scene, "does not know this folder")


@pytest.mark.parametrize(
    "head",
    [
        b"ref: ../../../../etc/passwd\n",
        b"--output=/tmp/x\n",
        b"0123456789abcdef\n",
        b"",
        b"ref: refs/heads/none\n",
    ],
)
def test_a_head_that_is_none_is_refused(scene: Scene, head: bytes) -> None:
    (scene.root / ".git/HEAD").write_bytes(head)
    refused(scene, "no commit yet")


def test_a_pipe_is_not_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_calib.corpus.commits._PATIENCE_S", 1.0)
    (scene.root / ".git/refs/heads/main").unlink()
    os.mkfifo(scene.root / ".git/refs/heads/main")
    refused(scene, "git could not read")


@pytest.mark.parametrize("content", ["", "gitdir: /nonexistent\n", "gitdir: .\n", "something else\n", "\0"])
def test_a_file_named_git_that_leads_nowhere_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)
    with pytest.raises(DataError, match="no commit yet"), repository_of(tmp_path):
        pass


def test_an_empty_folder_named_git_does_not_lead_to_the_repository_around_it(scene: Scene) -> None:
    inner = scene.root / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / "b.py").write_text(SOURCE)
    with pytest.raises(DataError, match="does not know this folder"):
        scene.taken(inner)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
class TestAnotherUser:
    @pytest.mark.parametrize("name", ["", ".git"])
    def test_what_belongs_to_another_user_is_refused(self, scene: Scene, name: str) -> None:
        os.chown(scene.root / name, 12345, 12345)
        refused(scene, r"belongs to another user.*Clone")

    def test_a_repository_above_that_is_another_user_s_is_refused(self, scene: Scene) -> None:
        """As a .git in /tmp, which anybody can make."""
        inner = scene.root / "mine"
        inner.mkdir()
        os.chown(scene.root / ".git", 12345, 12345)
        with pytest.raises(DataError, match="belongs to another user"):
            scene.taken(inner)


def test_nothing_is_left_behind_and_the_repository_is_as_it_was(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = {path: path.lstat().st_mtime_ns for path in scene.root.rglob("*")}
    assert scene.texts() == LINES
    assert {path: path.lstat().st_mtime_ns for path in scene.root.rglob("*")} == before
    assert list(scratch.iterdir()) == []
