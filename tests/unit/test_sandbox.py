"""The sandbox: what a program sees and may use, how its end is told; without walls nothing is run."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lsp_calib.errors import SandboxError
from lsp_calib.studies.sandbox import execution, runner
from lsp_calib.studies.sandbox.isolation import (
    Ending,
    Limits,
    candidates,
    interpreter,
)
from lsp_calib.studies.sandbox.runner import run, run_suite

LIMITS = Limits(wall_s=20.0)


def python(source: str, **changes: float) -> tuple[Ending, int, str]:
    outcome = run(textwrap.dedent(source), limits=attrs.evolve(LIMITS, **changes))
    return outcome.ending, outcome.code, outcome.stdout


@pytest.mark.usefixtures("walls")
class TestWhatAProgramSees:
    def test_an_empty_environment_and_a_home_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", "x")
        ending, code, said = python("""
            import os
            assert set(os.environ) == {"HOME", "TMPDIR", "PATH", "LANG"}, os.environ
            assert os.getcwd() == os.environ["HOME"]
            open("mine", "w").write("x")
            print(sorted(os.listdir(".")))""")
        assert (ending, code, said) == (Ending.EXIT, 0, "['main.py', 'mine']\n")

    def test_no_file_of_ours_but_the_three_standard_ones(self) -> None:
        _, _, said = python("""
            import os
            for number in range(3, 1000):
                try:
                    os.fstat(number)
                    print(number)
                except OSError:
                    pass
            print(os.read(0, 1))""")
        assert said == "b''\n"

    def test_no_report_of_its_own_whatever_the_numbers_of_our_files(self) -> None:
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
        try:
            outcome = run(
                textwrap.dedent("""
                    import os
                    for number in range(3, 1024):
                        try:
                            os.write(number, b'{"ended": "exit", "code": 0, "proved": true}'.ljust(65536))
                        except OSError:
                            pass
                    raise SystemExit(7)"""),
                limits=LIMITS,
            )
        finally:
            for one in held:
                os.close(one)
        assert (outcome.ending, outcome.code, outcome.proved) == (Ending.EXIT, 7, False)

    def test_one_folder_that_can_be_written(self) -> None:
        _, code, said = python("""
            import os
            for folder in ("/", "/usr", "/etc", "/dev", "/proc", os.path.dirname(os.__file__)):
                try:
                    open(f"{folder}/x", "w")
                    print(folder)
                except OSError:
                    pass
            print(os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize)""")
        assert (code, said) == (0, f"{LIMITS.disk}\n")

    def test_files_that_are_given_lie_in_its_home(self) -> None:
        outcome = run("print(open('data/a.txt').read())", files={"data/a.txt": "kept\r\nas it is"})
        assert outcome.stdout == "kept\nas it is\n"

    def test_a_command_is_run_as_well_as_source(self) -> None:
        assert run(["/bin/sh", "-c", "echo $0 $1; exit 3", "a", "b"]).stdout == "a b\n"


@pytest.mark.usefixtures("walls")
class TestHowItsEndIsTold:
    @pytest.mark.parametrize(
        ("source", "changes", "ending", "code"),
        [
            ("raise SystemExit(7)", {}, Ending.EXIT, 7),
            ("1 / 0", {}, Ending.EXIT, 1),
            ("import os; os.kill(os.getpid(), 9)", {}, Ending.SIGNAL, 9),
            ("import ctypes; ctypes.string_at(0)", {}, Ending.SIGNAL, 11),
            ("while True: pass", {"cpu_s": 1}, Ending.CPU, 0),
            ("import time; time.sleep(60)", {"wall_s": 0.5}, Ending.WALL, 0),
            ("while True: print('x' * 9999)", {"output_total": 1 << 20}, Ending.OUTPUT, 0),
        ],
    )
    def test_each_ending_has_its_name(
        self, source: str, changes: dict[str, float], ending: Ending, code: int
    ) -> None:
        found = python(source, **changes)
        assert found[:2] == (ending, code)

    def test_the_end_of_memory_of_all_processes_together(self) -> None:
        ending, _, _ = python(
            """
            import os, time
            for _ in range(6):
                if os.fork() == 0:
                    held = bytearray(60 << 20)
                    time.sleep(60)
            time.sleep(60)""",
            memory_total=200 << 20,
        )
        assert ending is Ending.MEMORY

    def test_a_limit_is_said_in_words(self) -> None:
        assert (
            run("import time; time.sleep(60)", limits=Limits(wall_s=0.2)).words == "it reached its wall limit"
        )

    def test_of_much_output_the_beginning_is_kept(self) -> None:
        outcome = run("print('a' * 100 + 'b' * 100000)", limits=attrs.evolve(LIMITS, output=150))
        assert outcome.words == "it ended with exit status 0"
        assert outcome.stdout == "a" * 100 + "b" * 50

    def test_a_program_that_is_not_there_is_an_error_of_ours(self) -> None:
        with pytest.raises(SandboxError, match="/no/such/program"):
            run(["/no/such/program"])

    def test_runs_at_the_same_time_do_not_meet(self) -> None:
        said: list[str] = []

        def one(number: int) -> None:
            said.append(run(f"import os\nopen('x{number}', 'w')\nprint(sorted(os.listdir('.')))").stdout)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == [f"['main.py', 'x{number}']\n" for number in range(4)]


@pytest.mark.usefixtures("walls")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=50))
def test_text_comes_out_as_it_went_in(text: str) -> None:
    assert run(f"import sys\nsys.stdout.write({text!r})").stdout == text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("def twice(x):\n    return x + x\n")
    (folder / "test_it.py").write_text("from package import twice\nassert twice(4) == 8\nopen('made', 'w')\n")
    (folder / ".git").mkdir()
    (folder / "link").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.usefixtures("walls")
class TestASuiteOfTests:
    COMMAND = ("python3", "-c", "exec(open('test_it.py').read())")

    def command(self) -> list[str]:
        return [Path(interpreter()).name, *self.COMMAND[1:]]

    def test_it_is_run_in_a_copy(self, project: Path) -> None:
        before = sorted(path.name for path in project.rglob("*"))
        assert run_suite(project, self.command()).words == "it ended with exit status 0"
        assert sorted(path.name for path in project.rglob("*")) == before

    def test_it_sees_the_change_and_the_project_does_not(self, project: Path) -> None:
        changed = {"package/__init__.py": "def twice(x):\n    return x\n"}
        assert run_suite(project, self.command(), changes=changed).words != "it ended with exit status 0"
        assert "x + x" in (project / "package" / "__init__.py").read_text()

    @pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b"])
    def test_a_change_outside_of_it_is_refused(self, project: Path, name: str) -> None:
        with pytest.raises(SandboxError, match="within the project"):
            run_suite(project, self.command(), changes={name: ""})

    def test_a_change_behind_a_link_stays_inside(self, project: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (project / "way").symlink_to(outside)
        with pytest.raises(SandboxError):
            run_suite(project, self.command(), changes={"way/x": "written"})
        assert not list(outside.iterdir())

    def test_an_environment_is_shown_and_not_writable(self, project: Path) -> None:
        if sys.prefix == sys.base_prefix:
            pytest.skip("the tests do not run in a virtual environment")
        command = ["python", "-c", "import attrs, sys; print(sys.prefix); open(attrs.__file__, 'a')"]
        outcome = run_suite(project, command, environment=Path(sys.prefix))
        assert outcome.stdout == f"{Path(sys.prefix).absolute()}\n"
        assert outcome.stderr.count("Read-only file system") + outcome.stderr.count("Permission denied") == 1

    def test_a_program_that_is_not_installed_is_named(self, project: Path) -> None:
        with pytest.raises(SandboxError, match="no-such-runner"):
            run_suite(project, ["no-such-runner"])

    def test_a_project_that_is_too_large_is_an_error_of_ours(self, project: Path) -> None:
        (project / "large").write_bytes(bytes(2 << 20))
        with pytest.raises(SandboxError, match="No space left"):
            run_suite(project, self.command(), limits=attrs.evolve(LIMITS, disk=1 << 20))


@pytest.mark.parametrize("number", range(len(candidates())))
def test_each_way_that_works_here_holds(number: int) -> None:
    candidate = candidates()[number]
    try:
        holes = runner.probe(candidate)
    except SandboxError as error:
        pytest.skip(str(error))
    assert holes == []


FEW = Limits(memory_total=100, disk=20, processes=7)


class TestControlGroups:
    """The files that are written for each version, in a folder that looks like their mount."""

    @pytest.fixture(autouse=True)
    def _in_the_top_group(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "_own", lambda _controller: "/")
        # A real group's folder goes with its files.
        monkeypatch.setattr(execution, "_remove", lambda _folder: None)

    def test_version_1_has_a_group_for_each_controller(self, tmp_path: Path) -> None:
        for controller in ("memory", "pids"):
            (tmp_path / controller).mkdir()
        with execution.control_groups(FEW, tmp_path) as (memory, pids):
            assert (memory / "memory.limit_in_bytes").read_text() == "120"
            assert int((pids / "pids.max").read_text()) >= 7

    def test_version_2_has_one_group(self, tmp_path: Path) -> None:
        (tmp_path / "cgroup.controllers").write_text("memory pids")
        with execution.control_groups(FEW, tmp_path) as (group,):
            assert (group / "memory.max").read_text() == "120"
            assert int((group / "pids.max").read_text()) >= 7

    def test_where_none_can_be_made_the_run_goes_on_without(self, tmp_path: Path) -> None:
        with execution.control_groups(FEW, tmp_path / "nothing") as made:
            assert made == []

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
            ("memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 2\n", True),
            ("memory.events", "low 0\nhigh 0\nmax 5\noom 0\noom_kill 0\n", False),
        ],
    )
    def test_the_kernel_says_whether_memory_ran_out(
        self, tmp_path: Path, name: str, text: str, expected: bool
    ) -> None:
        (tmp_path / name).write_text(text)
        assert execution.ran_out_of_memory([tmp_path]) is expected
