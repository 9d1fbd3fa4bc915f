"""Lines of commits: which are taken, in which document, and from which repositories."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import zlib
from collections import Counter
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result
from feedback_scene import suggestion
from git_scene import ANN, Scene, needs_git, wish
from openai_server import END, Tok, serving

from lsp_calib.calibration.calibrators.refit import COMMITS
from lsp_calib.cli import main
from lsp_calib.corpus.commits import commit_task, committed_lines
from lsp_calib.corpus.places import INSERTING, STRATA, WRITING_ON, line_item_of
from lsp_calib.corpus.rebuilding import item_of
from lsp_calib.corpus.records import read_records
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Evidence, ModelIdentity, new_suggestion_id

pytestmark = needs_git

OLD = "import os\n\n\ndef first():\n    return os.name\n\n\ndef last():\n    return os.sep\n"
# Two functions between the first and the last.
NEW = OLD.replace(
    "\n\n\ndef last",
    "\n\n\ndef second(value):\n    total = value + 1\n    return total\n\n\ndef third(value):\n"
    "    return second(value) * 2\n\n\ndef last",
)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.begin(tmp_path)


@pytest.fixture
def two(scene: Scene) -> Scene:
    """Somebody's file, to which Ann adds two functions."""
    scene.commit({"a.py": OLD}, by="bob@example.org")
    scene.commit({"a.py": NEW})
    return scene


ADDED = {
    "def second(value):",
    "    total = value + 1",
    "    return total",
    "def third(value):",
    "    return second(value) * 2",
}


def suggest(store: FeedbackStore, line: str, kind: EventKind) -> None:
    """A suggestion that makes a line, and what became of it."""
    id_ = new_suggestion_id()
    store.record_shown(
        suggestion("x", id_),
        model=ModelIdentity("m", "q", "0" * 64),
        prompt_version="p",
        language="python",
        evidence=Evidence(),
        at=1.0,
        line=line,
    )
    store.record_events([Event(id_, kind, 2.0)])


class TestTheDocument:
    def test_the_lines_that_the_user_added_are_taken_and_no_others(self, two: Scene) -> None:
        assert two.texts() == ADDED

    def test_above_stands_what_the_commit_left_and_below_what_it_did_not_add(self, two: Scene) -> None:
        lines = NEW.split("\n")
        for item in two.taken().items:
            at = lines.index(item.cursor.before + item.target)
            assert list(item.cursor.lines[: item.cursor.line]) == lines[:at]
            below = list(item.cursor.lines[item.cursor.line + 1 :])
            assert [line for line in below if line] == ["def last():", "    return os.sep"]
            assert item.condition == INSERTING
            assert item.cursor.after == ""
            assert f".{at + 1}:{item.cursor.column + 1}" in item.id

    def test_with_nothing_left_below_it_is_writing_on(self, scene: Scene) -> None:
        scene.commit({"a.py": OLD, "new.py": "\n\n"}, by="bob@example.org")
        scene.commit(
            {"a.py": OLD + "\n\ndef more():\n    return first()\n", "new.py": "alpha = beta(1)\n\n\n"}
        )
        items = scene.taken().items
        assert len(items) == 3
        assert {item.condition for item in items} == {WRITING_ON}
        assert all(item.cursor.line == len(item.cursor.lines) - 1 for item in items)

    def test_the_place_is_of_a_known_kind_and_the_same_again(self, two: Scene) -> None:
        items = two.taken().items
        assert items == two.taken().items
        two.commit({"b.py": "another = module(1)\n"})
        assert {item.id for item in items} < {item.id for item in two.taken().items}, "no place moves"
        assert {item.stratum for item in items} <= STRATA.keys()

    def test_it_survives_the_way_to_a_worker_and_names_its_source(self, two: Scene) -> None:
        for name in ("more", "some"):
            two.commit({f"{name}.py": "".join(f"{name}_{n} = compute({n})\n" for n in range(15))})
        task, (said,) = commit_task([two.root], 100, 0, None, wish())
        items = [line_item_of(json.loads(json.dumps(payload))) for _, payload in task.items]
        assert {item.source for item in items} == {"git"}
        assert {item.id.rsplit(":", 2)[0] for item in items} == {
            "project/a.py",
            "project/more.py",
            "project/some.py",
        }
        assert len({item.id for item in items}) == len(items) == 35
        assert f"{two.root}: 35 lines of 3 commits, 30 with nothing below." in said


class TestWhichLines:
    def test_a_rewritten_file_is_left_before_it_is_compared(self, two: Scene) -> None:
        for at in (0, 3000):
            two.commit({"b.py": "".join(f"name_{n} = compute({n})\n" for n in range(at, at + 2000))})
        taken = committed_lines(two.root, "p", 9999, 0, "python", wish(commits=1))
        assert taken.items == []
        assert taken.left_out["changes of files that were rewritten"] == 1

    def test_another_author_s_are_left(self, two: Scene) -> None:
        two.commit({"b.py": "somebody = else_(1)\n"}, by="bob@example.org")
        assert two.texts() == ADDED
        of_bob = committed_lines(two.root, "p", 99, 0, "python", wish("BOB@example.org")).items
        assert "somebody = else_(1)" in {item.cursor.before + item.target for item in of_bob}
        by_name = committed_lines(two.root, "p", 99, 0, "python", wish("ann")).items
        assert len(by_name) == len(ADDED)

    def test_what_was_moved_indented_or_renamed_was_not_written_now(self, two: Scene) -> None:
        two.git("mv", "a.py", "b.py")
        two.commit()
        body = NEW.replace("    total = value + 1", "    if value:\n        total = value + 1")
        two.commit({"b.py": body + "\n\nhelper = third(1)\n"})
        assert two.texts() == {*ADDED, "    if value:", "helper = third(1)"}
        assert two.taken().left_out["moved lines"] == 10 + 1, "all of the renamed file, and one indented"

    def test_merges_are_left_and_both_their_sides_are_taken(self, two: Scene) -> None:
        two.git("checkout", "-q", "-b", "side")
        two.commit({"side.py": "on_the_side = compute(1)\n"})
        two.git("checkout", "-q", "main")
        two.commit({"main.py": "on_main = compute(2)\n"})
        two.now += 60
        two.git("merge", "-q", "side", "-m", "m")
        assert two.texts() == {*ADDED, "on_the_side = compute(1)", "on_main = compute(2)"}
        assert len(two.taken().items) == len(ADDED) + 2, "each once"

    def test_documentation_generated_and_excluded_files_are_left(self, two: Scene) -> None:
        two.commit(
            {
                "doc.py": '"""What it is for.\n\nIn several lines.\n"""\n# a comment\nvalue = compute(9)\n',
                "made.py": "# @generated by a program\nvalue = compute(10)\n",
                "build/out.py": "value = compute(11)\n",
                "vendored/.ssh/key.py": "value = compute(12)\n",
                "private/a.py": "value = compute(13)\n",
                "notes.txt": "value = compute(14)\n",
                "a.js": "value = compute(15)\n",
            }
        )
        taken = committed_lines(two.root, "p", 99, 0, "python", wish(exclude=("private",)))
        texts = {item.cursor.before + item.target for item in taken.items}
        assert texts == {*ADDED, "value = compute(9)"}
        assert taken.left_out["changes of excluded files"] == 1
        assert taken.left_out["changes of generated files"] == 1

    def test_a_secret_file_is_left_by_its_name(self, two: Scene) -> None:
        """As it is for every model: `.env.py` matches the names of files that hold secrets."""
        two.commit({".env.py": "password = 'hunter2hunter2'\n"})
        assert two.texts() == ADDED

    def test_other_languages_are_other_calibrators(self, two: Scene) -> None:
        two.commit({"a.js": "const value = compute(15);\n"})
        (item,) = two.taken(language="javascript").items
        assert item.cursor.language == "javascript"

    def test_one_day_s_work_is_not_all(self, scene: Scene) -> None:
        for day in range(4):
            scene.commit({f"day{day}.py": "".join(f"name_{day}_{n} = compute({n})\n" for n in range(100))})

        def days(count: int) -> Counter[str]:
            return Counter(item.id.split(":")[0] for item in scene.taken(count=count).items)

        assert days(100) == {"project/day3.py": 40, "project/day2.py": 40, "project/day1.py": 20}
        assert sum(days(300).values()) == 300, "but where there are too few commits, it may be more of each"
        assert scene.taken(count=999).commits == 4

    def test_only_the_newest_commits_are_looked_at(self, two: Scene) -> None:
        two.commit({"b.py": "newest = compute(1)\n"})
        taken = committed_lines(two.root, "p", 99, 0, "python", wish(commits=1))
        assert [item.cursor.before + item.target for item in taken.items] == ["newest = compute(1)"]
        assert taken.seen == {ANN: 1}

    def test_a_line_is_taken_once(self, two: Scene) -> None:
        """Where it was added last; also of another repository."""
        two.commit({"b.py": "again = compute(1)\nother = compute(2)\n"})
        two.commit({"c.py": "again = compute(1)\n" * 30, "d.py": "  again = compute(1)\n"})
        taken = two.taken()
        (item,) = [item for item in taken.items if item.text == "again = compute(1)"]
        assert item.name in ("c.py", "d.py")
        assert len({item.text for item in taken.items}) == len(taken.items) == len(ADDED) + 2
        assert taken.left_out["repeated lines"] == 30 + 1
        known = {"again = compute(1)"}
        rest = committed_lines(two.root, "p", 99, 0, "python", wish(), known).items
        assert {item.text for item in rest} == {item.text for item in taken.items} - known

    def test_below_a_folder_only_its_files(self, two: Scene) -> None:
        two.commit({"src/deep/b.py": "inside = compute(1)\n", "srcs/c.py": "outside = compute(2)\n"})
        assert two.texts(two.root / "src") == {"inside = compute(1)"}
        (item,) = two.taken(two.root / "src").items
        assert item.id.startswith("project/deep/b.py:")

    def test_a_commit_of_hundreds_of_files_is_an_import(self, two: Scene) -> None:
        two.commit({f"lib/f{n}.py": f"imported = compute({n})\n" for n in range(201)})
        assert two.texts() == ADDED
        assert two.taken().left_out["commits of too many files, or that are not complete"] == 1

    def test_too_few_lines_name_those_who_commit_here(self, two: Scene) -> None:
        with pytest.raises(
            DataError, match=r"only 0 different lines by eve@x .* ann@example.org \(1\)"
        ) as caught:
            commit_task([two.root], 100, 0, "python", wish("eve@x"))
        assert "--author" in str(caught.value)

    def test_a_line_that_an_accepted_suggestion_made_is_left(self, two: Scene, home: Path) -> None:
        store = FeedbackStore(home / "feedback.db")
        suggest(store, "total = value + 1", EventKind.INSERTED)
        suggest(store, "def third(value):", EventKind.ACCEPTED)
        suggest(store, "    return total", EventKind.SHOWN)
        made = attrs.evolve(wish(), labelled=store.accepted_lines())
        taken = committed_lines(two.root, "p", 99, 0, "python", made)
        store.close()
        texts = {item.cursor.before + item.target for item in taken.items}
        assert texts == ADDED - {"    total = value + 1", "def third(value):"}
        assert taken.left_out["lines with labels already"] == 2


class TestKindsOfRepositories:
    def test_references_in_one_file(self, two: Scene) -> None:
        two.git("checkout", "-q", "-b", "feature/deep")
        two.git("pack-refs", "--all")
        assert not (two.root / ".git/refs/heads/feature/deep").exists()
        assert two.texts() == ADDED

    def test_a_branch_of_an_ambiguous_name(self, two: Scene) -> None:
        two.git("update-ref", "refs/heads/HEAD", "HEAD~1")
        assert two.texts() == ADDED

    def test_no_branch(self, two: Scene) -> None:
        two.git("checkout", "-q", "--detach")
        assert two.texts() == ADDED

    def test_packed_objects(self, two: Scene) -> None:
        two.git("gc", "-q")
        assert two.texts() == ADDED

    def test_sha_256(self, tmp_path: Path) -> None:
        scene = Scene.begin(tmp_path, "--object-format=sha256")
        scene.commit({"a.py": NEW})
        assert scene.texts() >= ADDED

    def test_a_worktree(self, two: Scene) -> None:
        beside = two.root.parent / "beside"
        two.git("worktree", "add", "-q", "-b", "other", str(beside))
        (beside / "w.py").write_text("in_the_worktree = compute(1)\n")
        two.now += 60
        two.git("add", "-A", cwd=beside)
        two.git("commit", "-q", "-m", "w", cwd=beside)
        assert two.texts(beside) == {*ADDED, "in_the_worktree = compute(1)"}
        assert two.texts() == ADDED
        beside.rename(beside.with_name("moved"))
        with pytest.raises(DataError, match="git worktree repair"):
            two.texts(beside.with_name("moved"))

    def test_a_submodule(self, two: Scene) -> None:
        outer = Scene.begin(two.root.parent / "outer")
        outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(two.root), "inner")
        assert (outer.root / "inner/.git").is_file()
        assert two.texts(outer.root / "inner") == ADDED

    def test_objects_of_another_repository(self, two: Scene) -> None:
        beside = two.root.parent / "shared"
        two.git("clone", "-q", "--shared", str(two.root), str(beside))
        with pytest.raises(DataError, match=r"borrows objects.*git repack -a -d.*alternates"):
            two.texts(beside)
        two.git("repack", "-q", "-a", "-d", cwd=beside)
        (beside / ".git/objects/info/alternates").unlink()
        assert two.texts(beside) == ADDED

    def test_a_shallow_clone_ends_where_it_ends(self, two: Scene) -> None:
        """The oldest commit there would seem to add all that there is."""
        two.commit({"b.py": "newest = compute(1)\n"})
        beside = two.root.parent / "shallow"
        two.git("clone", "-q", "--depth", "2", f"file://{two.root}", str(beside))
        assert two.texts(beside) == {"newest = compute(1)"}

    def test_a_path_with_any_characters(self, tmp_path: Path) -> None:
        scene = Scene.begin(tmp_path / 'a:b;"c"\\d\ne')
        scene.commit({"a.py": NEW})
        assert scene.texts() >= ADDED

    def test_names_that_no_source_has_are_left(self, two: Scene) -> None:
        folder = os.fsencode(two.root)
        for name in (b"a\nb.py", b"\xff\xfe.py", b"esc\x1b[31m.py"):
            Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"strange = compute(1)\n")
        two.commit({"binary.py": "x = compute(1)\0\n", "huge.py": "large = compute(1)\n" * 30_000})
        (two.root / "latin.py").write_bytes("name = 'caf\xe9'\n".encode("latin-1"))
        two.commit()
        assert two.texts() == ADDED
        assert two.taken().left_out["changes of large, binary or missing files"] == 3

    def test_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no checkout of git"):
            committed_lines(tmp_path, "p", 9, 0, "python", wish())

    def test_there_is_no_commit(self, scene: Scene) -> None:
        with pytest.raises(DataError, match="no commit yet"):
            scene.taken()


@pytest.mark.usefixtures("home")
class TestCommand:
    def invoke(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(main, ["calibrate", *map(str, arguments)])

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (("--from-git",), "name its folder"),
            ((".", "--author", "a@b"), "add --from-git"),
            ((".", "--commits", "3"), "add --from-git"),
            ((".", "--from-git", "--no-suffix", "20"), "--no-suffix"),
            ((__file__, "--from-git"), "is no folder"),
        ],
    )
    def test_what_does_not_go_together_is_said(self, arguments: tuple[str, ...], complaint: str) -> None:
        result = self.invoke(*arguments)
        assert result.exit_code == SettingsError.exit_code, result.output
        assert complaint in result.stderr

    def test_too_few_files_are_said_before_the_model_is_asked(self, two: Scene) -> None:
        two.commit({"a.py": NEW + "".join(f"name_{n} = compute({n})\n" for n in range(30))})
        result = self.invoke(two.root, "--from-git", "--author", ANN)
        assert "35 lines are of 1 files (" in result.stderr
        assert "35 lines of" in result.stderr

    def test_without_an_address_it_asks_for_one(
        self, two: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The checkout's own user.email is not asked: it would say whose lines they are."""
        two.git("config", "user.email", ANN)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("GIT_AUTHOR_EMAIL", "EMAIL", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(two.root)
        result = self.invoke(two.root, "--from-git")
        assert result.exit_code == SettingsError.exit_code
        assert "--author" in result.stderr
        (tmp_path / ".gitconfig").write_text("[user]\n\temail = nobody@example.org\n")
        result = self.invoke(two.root, "--from-git")
        assert "only 0 different lines by nobody@example.org" in result.stderr

    async def test_a_personal_calibrator_comes_of_it(self, scene: Scene, home: Path, tmp_path: Path) -> None:
        """Over HTTP, with a server that knows every second line; a stopped run would go on in the records."""
        written: list[str] = []
        for day in range(5):
            body = [f"result_{day}_{n} = compute_{n % 7}(value, {n})" for n in range(20)]
            written += body
            scene.commit({f"day{day}.py": "\n".join(body) + "\n"})

        def says(prompt: str) -> list[Tok]:
            typed = prompt.rsplit("\n", 1)[-1]
            line = next((one for one in written if typed and one.startswith(typed)), "")
            sure = len(line) % 2 == 0
            # As of a real model, no two answers have the same probabilities: those would count as one line's.
            end = Tok("\n", -0.1 - zlib.crc32(prompt.encode()) % 5000 / 1e5)
            return [Tok(line[len(typed) :] or "x = 1", -0.05 if sure else -2.5), end, Tok(END)]

        (home / "config.toml").write_text('exclude = ["day4.py"]\n')
        store = FeedbackStore(home / "feedback.db")
        suggest(store, written[70], EventKind.ACCEPTED)
        store.close()
        records = tmp_path / "mine.jsonl"
        async with serving(tokens=says) as server:
            arguments = (scene.root, "--from-git", "--author", ANN, "--records", records)
            arguments += ("--remote", server.url, "--samples", "60", "--json")
            result = await asyncio.to_thread(self.invoke, *arguments)
            assert result.exit_code == 0, result.output
            asked = len(server.completions)
            again = await asyncio.to_thread(self.invoke, *arguments)
            assert again.exit_code == 0, again.output
            assert len(server.completions) == asked, "nothing is asked for twice"
        assert result.stderr == (
            f"{scene.root}: 60 lines of 4 commits, 60 with nothing below. "
            "Left out: 1 changes of excluded files, 1 lines with labels already.\n"
        )
        document = json.loads(result.stdout)
        assert document["asked"] == 60
        learned = document["calibrator"]
        assert learned["source"] == "workspace"
        origin = {"name": COMMITS, "version": learned["created"], "items": learned["n"]}
        assert origin in learned["provenance"]
        report = CliRunner().invoke(main, ["report", "--json"])
        (row,) = [one for one in json.loads(report.stdout)["sources"] if one["name"] == "git"]
        assert (row["n"], row["labels"]) == (learned["n"], learned["n"])
        assert row["right"] == learned["nCorrect"] / learned["n"]
        header, found = read_records(records)
        assert {(record.source, record.condition) for record in found} == {("git", WRITING_ON)}
        assert header.task == "line"
        assert "day4" not in records.read_text()
        shutil.rmtree(scene.root)
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert b"compute_" not in path.read_bytes(), f"{path} holds source"
        result = self.invoke("--records", records, "--json")
        assert result.exit_code == 0, "fitted again without the repository"
        with pytest.raises(DataError, match="is a line of a commit"):
            item_of(found[0], tmp_path)
