"""The sandbox: what a program sees and may use, how its end is told; without bubblewrap nothing is run."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import attrs
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lsp_calib.errors import SandboxError
from lsp_calib.studies.sandbox import bwrap
from lsp_calib.studies.sandbox.bwrap import Limits, isolated_python, run, run_suite

if not sys.platform.startswith("linux"):
    pytest.skip("generated code runs on Linux alone", allow_module_level=True)

LIMITS = Limits(wall_s=20.0)
TOOLS = {"bwrap", "choom", "prlimit", "setpriv", "timeout"}
ADD_KEY = 248 if platform.machine() == "x86_64" else 217


def python(source: str, **changes: float) -> tuple[str, str]:
    """How it ended, and what it said."""
    command = isolated_python("-c", textwrap.dedent(source))
    outcome = run(command, limits=attrs.evolve(LIMITS, **changes))
    return outcome.ended, outcome.stdout


@pytest.mark.usefixtures("walls")
class TestWhatAProgramSees:
    def test_an_environment_and_a_home_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", "x")
        found = python("""
            import getpass, os, pwd
            assert "SECRET" not in os.environ
            assert os.getcwd() == os.environ["HOME"] == pwd.getpwuid(os.getuid()).pw_dir
            open("mine", "w").write("x")
            print(os.listdir("."))""")
        assert found == ("exit status 0", "['mine']\n")

    def test_no_file_of_ours_but_the_three_standard_ones(self) -> None:
        """bubblewrap's reports go to one that the program does not have."""
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
        try:
            _, said = python("""
                import os
                for number in range(3, 1000):
                    try:
                        os.fstat(number)
                        print(number)
                    except OSError:
                        pass
                print(os.read(0, 1))""")
        finally:
            for one in held:
                os.close(one)
        assert said == "b''\n"

    def test_one_folder_that_can_be_written(self) -> None:
        found = python("""
            import os
            for folder in ("/", "/usr", "/etc", "/dev", "/proc", os.path.dirname(os.__file__)):
                try:
                    open(f"{folder}/x", "w")
                    print(folder)
                except OSError:
                    pass
            print(os.statvfs("/dev/shm").f_blocks * os.statvfs("/tmp").f_frsize)""")
        assert found == ("exit status 0", f"{LIMITS.disk}\n")

    def test_a_network_of_its_own(self) -> None:
        _, said = python("""
            import socket
            with socket.create_server(("localhost", 0)) as server:
                socket.create_connection(server.getsockname())
            print(socket.if_nameindex())""")
        assert said == "[(1, 'lo')]\n"

    def test_no_keys_of_the_login(self) -> None:
        """Neither in the session keyring, which parts of the kernel use for a program, nor by name."""
        # In a program of its own, since the tests' session keyring is not to be changed.
        code = f"""
            import ctypes
            from lsp_calib.studies.sandbox.bwrap import isolated_python, run
            call = ctypes.CDLL(None).syscall
            if call({bwrap.KEYCTL}, 1, None) < 0:
                raise SystemExit("no keyrings")
            call({ADD_KEY}, b"user", b"a key of mine", b"secret", 6, -3)
            search = "call({bwrap.KEYCTL}, 10, -3, b'user', b'a key of mine', 0) > 0"
            words = "import ctypes; call = ctypes.CDLL(None).syscall; print({{}}, open('/proc/keys').read())"
            print(eval(search), run(isolated_python("-c", words.format(search))).stdout)"""
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
        )
        if "no keyrings" in done.stderr:
            pytest.skip("the kernel or the container has no keyrings")
        assert done.stdout.split() == ["True", "False"], done.stderr

    def test_processes_and_threads(self) -> None:
        _, said = python("""
            import asyncio, multiprocessing, subprocess, threading
            thread = threading.Thread(target=print, args=("thread",))
            thread.start(); thread.join()
            print(subprocess.run(["/bin/echo", "process"], capture_output=True, text=True).stdout.strip())
            with multiprocessing.Manager() as manager, multiprocessing.Pool(2) as pool:
                print(manager.list([1]), pool.map(abs, [-1]))
            asyncio.run(asyncio.sleep(0))""")
        assert said.splitlines() == ["thread", "process", "[1] [1]"]


@pytest.mark.usefixtures("walls")
class TestHowItsEndIsTold:
    @pytest.mark.parametrize(
        ("source", "changes", "ended"),
        [
            ("raise SystemExit(7)", {}, "exit status 7"),
            ("1 / 0", {}, "exit status 1"),
            ("import os; os.kill(os.getpid(), 9)", {}, "signal 9"),
            ("import ctypes; ctypes.string_at(0)", {}, "signal 11"),
            ("while True: pass", {"cpu_s": 1}, "processor limit"),
            ("import time; time.sleep(60)", {"wall_s": 0.5}, "wall limit"),
            ("import os, time; os.closerange(0, 99); time.sleep(60)", {"wall_s": 0.5}, "wall limit"),
            ("while True: print('x' * 9999)", {"output_total": 1 << 20}, "output limit"),
            ("open('x', 'wb').write(bytes(2 << 20))", {"disk": 1 << 20}, "exit status 1"),
        ],
    )
    def test_each_ending_has_its_name(self, source: str, changes: dict[str, float], ended: str) -> None:
        assert python(source, **changes)[0] == ended

    def test_of_much_output_the_beginning_is_kept(self) -> None:
        assert python("print('a' * 100 + 'b' * 100000)", output=150)[1] == "a" * 100 + "b" * 50

    def test_a_program_that_does_not_start_is_no_wrong_answer(self) -> None:
        with pytest.raises(SandboxError, match=r"did not start in the sandbox.*status 127.*/no/such/program"):
            run(["/no/such/program"], payload=b"x")

    def test_a_run_is_stopped(self) -> None:
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        outcome = run(isolated_python("-c", "import time; time.sleep(60)"), limits=LIMITS, stop=stop)
        assert outcome.ended == "stopped"

    def test_runs_at_the_same_time_do_not_meet(self) -> None:
        said: list[str] = []

        def one(number: int) -> None:
            said.append(python(f"import os\nopen('x{number}', 'w')\nprint(os.listdir('.'))")[1])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == [f"['x{number}']\n" for number in range(4)]

    @pytest.mark.parametrize(
        ("number", "started", "wall_s"),
        [(signal.SIGKILL, True, 300), (signal.SIGINT, True, 300), (signal.SIGKILL, False, 1)],
    )
    def test_it_ends_with_its_caller(self, number: int, started: bool, wall_s: int) -> None:
        """However that ends: killed, or by Ctrl-C. Killed while the sandbox is built, time alone ends it."""
        seconds = f"{4000 + os.getpid()}.{number}{wall_s}"
        code = (
            "from lsp_calib.studies.sandbox.bwrap import Limits, run\n"
            f"run(['/usr/bin/sleep', {seconds!r}], limits=Limits(wall_s={wall_s}))"
        )

        def running() -> bool:
            words = [one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])]
            return any(one[-1] == seconds and (not started or one[0] == "/usr/bin/sleep") for one in words)

        def wait_until(there: bool) -> None:
            deadline = time.monotonic() + 30
            while running() != there:
                assert time.monotonic() < deadline
                time.sleep(0.002)

        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as caller:
            wait_until(True)
            caller.send_signal(number)
            assert caller.wait(20) != 0
        wait_until(False)


@pytest.mark.usefixtures("walls")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=50))
def test_text_comes_out_as_it_went_in(text: str) -> None:
    assert python(f"import sys\nsys.stdout.write({text!r})")[1] == text


class TestTheTrial:
    @pytest.mark.parametrize("missing", ["bwrap", "prlimit"])
    def test_nothing_runs_unconfined(
        self, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in TOOLS - {missing}:
            (tmp_path / name).symlink_to(shutil.which("true") or "/bin/true")
        monkeypatch.setenv("PATH", str(tmp_path))
        bwrap.usable.cache_clear()
        package = {"bwrap": "bubblewrap"}.get(missing, "util-linux")
        with pytest.raises(SandboxError) as caught:
            run(isolated_python("-c", ""))
        for words in (f"{package} is not installed: ", f"apt install {package}", f"dnf install {package}"):
            assert words in str(caught.value)

    def test_without_what_bubblewrap_tells_nothing_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even success: the kernel may forbid namespaces, and a program's status would be the same."""
        for name in TOOLS:
            (tmp_path / name).symlink_to(shutil.which("true") or "/bin/true")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxError, match=r"could not build the sandbox.*make user namespaces"):
            run(isolated_python("-c", ""), proc=("--proc", "/proc"))

    def test_a_hole_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bwrap, "trial", lambda _proc: ["see a network"])
        bwrap.usable.cache_clear()
        with pytest.raises(SandboxError, match="a trial program could see a network"):
            bwrap.usable()
        bwrap.usable.cache_clear()

    def test_outside_it_finds_every_hole(self) -> None:
        """So that one that finds nothing means something. As root also what only root may do."""
        with bwrap.attempts() as words:
            said = subprocess.run(isolated_python(*words), capture_output=True, text=True, check=True).stdout
        found = json.loads(said)
        Path("/usr/written").unlink(missing_ok=True)
        keyrings = ctypes.CDLL(None).syscall(bwrap.KEYCTL, 0, -3, 0) > 0
        for_root = {"write to /usr", "hold privileges", "act as root"} if os.geteuid() != 0 else set()
        assert {what for what, done in found.items() if not done} <= {
            *for_root,
            *([] if keyrings else ["use your keys"]),
            *([] if len(list(Path("/sys/class/net").iterdir())) > 1 else ["see a network"]),
        }

    @pytest.mark.usefixtures("walls")
    def test_a_container_that_covers_its_processes(self) -> None:
        """Another /proc is forbidden there; that of the container is shown, read-only."""
        command = "mount -t tmpfs none /proc/tty && exec " + sys.executable + ' -c "$0"'
        code = "from lsp_calib.studies.sandbox import bwrap; print(bwrap.usable()[0])"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command, code], capture_output=True, text=True, check=False
        )
        if "unshare" in done.stderr or "mount:" in done.stderr:
            pytest.skip("this user may not mount anything")
        assert done.stdout == "--ro-bind\n", done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("def twice(x):\n    return x + x\n")
    (folder / "test_it.py").write_text(
        "import os\nfrom package import twice\n"
        "def test_copied():\n    assert sorted(os.listdir()) == ['link', 'package', 'test_it.py']\n"
        "    assert os.readlink('link') == '/etc'\n"
        "def test_twice():\n    assert twice(4) == 8\n    open('made', 'w')\n"
    )
    (folder / ".git").mkdir()
    (folder / "link").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    return folder


JOB = {"tests": ["test_it.py::test_copied", "test_it.py::test_twice"], "paths": ["."]}


@pytest.mark.usefixtures("walls")
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the tests do not run in a virtual environment")
class TestASuiteOfTests:
    def proved(self, project: Path, **job: object) -> bool:
        return run_suite(project, Path(sys.prefix), {**JOB, **job}, limits=LIMITS).proved

    def test_it_is_run_in_a_copy(self, project: Path) -> None:
        before = sorted(path.name for path in project.rglob("*"))
        assert self.proved(project)
        assert sorted(path.name for path in project.rglob("*")) == before

    def test_it_sees_the_change_and_the_project_does_not(self, project: Path) -> None:
        assert not self.proved(project, changes={"package/__init__.py": "def twice(x):\n    return x\n"})
        assert "x + x" in (project / "package" / "__init__.py").read_text()

    def test_a_change_behind_a_link_stays_inside(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (project / "way").symlink_to(tmp_path / "outside")
        with pytest.raises(SandboxError, match="could not be run by the pytest"):
            self.proved(project, changes={"way/x": "written"})
        assert not list((tmp_path / "outside").iterdir())

    def test_an_environment_is_shown_and_not_writable(self) -> None:
        code = "import attrs, sys; print(sys.prefix); open(attrs.__file__, 'a')"
        outcome = run([f"{sys.prefix}/bin/python", "-c", code], environment=Path(sys.prefix), limits=LIMITS)
        assert outcome.stdout == f"{Path(sys.prefix).absolute()}\n"
        assert outcome.stderr.count("Read-only file system") + outcome.stderr.count("Permission denied") == 1

    def test_a_project_that_is_too_large_is_an_error_of_ours(self, project: Path) -> None:
        (project / "large").write_bytes(bytes(2 << 20))
        with pytest.raises(SandboxError, match="more than 1 MB of files"):
            run_suite(project, Path(sys.prefix), JOB, limits=attrs.evolve(LIMITS, disk=1 << 20))


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("copies", [False, True])
def test_an_environment_whose_python_lies_behind_links_starts(tmp_path: Path, copies: bool) -> None:
    """As uv makes them: the folder of its Python is a link."""
    (tmp_path / "python").symlink_to(sys.base_prefix)
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to("real")
    name, environment = f"python3.{sys.version_info[1]}", tmp_path / "named" / "environment"
    how = ["--copies"] if copies else ["--symlinks"]
    command = [tmp_path / "python" / "bin" / name, "-m", "venv", "--without-pip", *how, environment]
    subprocess.run(command, check=True)
    code = "import ctypes, sys; print(sys.prefix, sys.base_prefix)"
    outcome = run([f"{environment}/bin/python", "-c", code], environment=environment, limits=LIMITS)
    assert outcome.stdout.split() == [str(environment), str(tmp_path / "python")], outcome
