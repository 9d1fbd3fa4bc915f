"""Code that means harm is contained, is never reported as passing, and leaves the machine as it was."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import socket
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lsp_calib.errors import SandboxError
from lsp_calib.studies.sandbox.bwrap import Limits, TestedProgram, run_tests, usable

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="generated code is run on Linux only"),
]

LIMITS = Limits(
    wall_s=4.0,
    cpu_s=2,
    memory=512 << 20,
    disk=16 << 20,
    file_size=8 << 20,
    output_total=4 << 20,
)

# What each says where it succeeds in what it must not do.
ESCAPED = "ESCAPED"

# None of these squares a number, so none may pass. <folder>: a project of the user's. <home>: their home
# folder. <marker>: in the environment. <port>: where somebody listens. <pid>: the tests' process.
# <NAME>(): makes a system call; -1 if it fails. <ring>: the session keyring.
PROGRAMS = {
    "a fork bomb": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "a bomb of threads": """
        import threading, time
        while True:
            try:
                threading.Thread(target=time.sleep, args=(60,)).start()
            except RuntimeError:
                time.sleep(0.01)""",
    "sleepers that ignore signals": """
        import os, signal, time
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        time.sleep(60)""",
    "memory without end": "held = []\nwhile True:\n    held.append(bytearray(1 << 20))",
    "memory of many processes": """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                held = bytearray(100 << 20)
                time.sleep(60)
        time.sleep(60)""",
    "a huge mapping": "import mmap\nmmap.mmap(-1, 1 << 40)\nprint('ESCAPED')",
    "memory shared without a name": """
        import os
        files = []
        while True:
            files.append(os.memfd_create("x"))
            os.write(files[-1], bytes(7 << 20))""",
    "a disk filled": """
        try:
            for number in range(10000):
                with open(f"file{number}", "wb") as file:
                    file.write(bytes(1 << 20))
        except OSError as error:
            print(error)
        import os
        if sum(os.path.getsize(name) for name in os.listdir(".")) > 17 << 20:
            print("ESCAPED")""",
    "one large file": "with open('x', 'wb') as file:\n    file.write(bytes(64 << 20))\nprint('ESCAPED')",
    "a sparse file": """
        import os
        os.truncate(os.open('x', os.O_RDWR | os.O_CREAT), 1 << 30)
        print('ESCAPED')""",
    "a million files": """
        for number in range(1000000):
            open(f"file{number}", "w").close()
        print("ESCAPED")""",
    "too many open files": "files = []\nwhile True:\n    files.append(open('/dev/null'))",
    "the home folder": "import os\nprint('ESCAPED', os.listdir(<home>), open(<folder> + '/secret').read())",
    "the passwords": "print('ESCAPED', open('/etc/shadow').read())",
    "the environment of others": """
        import os
        if <marker> in str(os.environ): print('ESCAPED')
        raise SystemExit(1)""",
    "the project overwritten": "open(<folder> + '/main.py', 'w').write('x')\nprint('ESCAPED')",
    "the system overwritten": "open('/usr/bin/escaped', 'w').write('x')\nprint('ESCAPED')",
    "the interpreter overwritten": "import json\nopen(json.__file__, 'a').write('x')\nprint('ESCAPED')",
    "a link out": """
        import os
        os.symlink(<folder>, "out")
        open("out/main.py", "w").write("x")
        print("ESCAPED")""",
    "a hard link": "import os\nos.link('/etc/passwd', 'passwd')\nprint('ESCAPED')",
    "the way up": """
        import os
        os.chroot(".")
        print("ESCAPED")""",
    "the network": "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)\nprint('ESCAPED')",
    "a port of this machine": """
        import socket
        socket.create_connection(('127.0.0.1', <port>), 2)
        print('ESCAPED')""",
    "names of hosts": "import socket\nsocket.getaddrinfo('example.com', 80)\nprint('ESCAPED')",
    "raw packets": "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('ESCAPED')",
    "killing the parent": "import os\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(60)",
    "killing by number": "import os\nos.kill(<pid>, 9)\nprint('ESCAPED')",
    "killing everybody": "import os\nos.kill(-1, 9)\nimport time\ntime.sleep(60)",
    "stopping the parent": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nwhile True:\n    pass",
    # The parent is the first process of the sandbox, which may do no more than the program itself.
    "the parent traced and held": """
        import os, time
        if os.fork():
            time.sleep(0.5)
            os._exit(0)
        <ptrace>(16, os.getppid(), 0, 0)
        <ptrace>(16, 1, 0, 0)
        time.sleep(60)""",
    "the first process made to outlive the run": """
        # It is to end with the process outside that watches it: this prctl takes that back. x86-64 alone.
        import os, time
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if os.fork() == 0:
            attach, get, set_, step, detach, wall = 16, 12, 13, 9, 17, 0x40000000
            before, now = (ctypes.c_uint64 * 27)(), (ctypes.c_uint64 * 27)()
            libc.ptrace(attach, 1, None, None)
            os.waitpid(1, wall)
            libc.ptrace(get, 1, None, before)
            now[:] = before[:]
            # rax, rdi (PR_SET_PDEATHSIG), rsi, orig_rax, and rip: back to the instruction `syscall`.
            now[10], now[14], now[13], now[15], now[16] = 157, 1, 0, 2**64 - 1, before[16] - 2
            libc.ptrace(set_, 1, None, now)
            libc.ptrace(step, 1, None, None)
            os.waitpid(1, wall)
            before[10], before[15], before[16] = 61, 2**64 - 1, before[16] - 2
            libc.ptrace(set_, 1, None, before)
            libc.ptrace(detach, 1, None, None)
            os.closerange(0, 256)
            time.sleep(60)
        time.sleep(1)
        os._exit(0)""",
    "the parent's code overwritten": """
        import os
        with open("/proc/1/mem", "rb+", buffering=0) as memory:
            for line in open("/proc/1/maps"):
                if " r-xp " in line and "bwrap" in line:
                    start, end = (int(word, 16) for word in line.split()[0].split("-"))
                    memory.seek(start)
                    memory.write(bytes(end - start))""",
    "the parent's files": """
        import os
        for name in os.listdir("/proc/1/fd"):
            with open(f"/proc/1/fd/{name}", "wb") as file:
                file.write(b'{ "exit-code": 0 }')""",
    "a daemon": """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(1)
            os._exit(0)
        time.sleep(0.2)
        raise SystemExit(0)""",
    "zombies": """
        import os, time
        for _ in range(40):
            if os.fork() == 0:
                os._exit(0)
        time.sleep(60)""",
    "waiting for input": "input('your name? ')\nprint('ESCAPED')",
    "output without end": "while True:\n    print('x' * 10000)",
    "one endless line": "import os\nwhile True:\n    os.write(2, b'x' * 100000)",
    "an endless loop": "while True:\n    pass",
    "sleep for ever": "import time\ntime.sleep(1e6)",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return f(x)\nf(1)",
    "a crash": "import ctypes\nctypes.string_at(0)",
    "an abort": "import os\nos.abort()",
    "a core dump": """
        import os, resource
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("ESCAPED")""",
    "limits raised": """
        import resource
        for what in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NPROC):
            resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print("ESCAPED")""",
    "another folder as root": """
        import os
        os.chdir('/..')
        if os.path.exists(<folder>): print('ESCAPED')
        raise SystemExit(1)""",
    "a mount": """
        import ctypes
        libc = ctypes.CDLL(None)
        if libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0 or libc.umount2(b"/usr", 2) == 0:
            print("ESCAPED")
        raise SystemExit(1)""",
    "namespaces of its own": """
        import ctypes
        if ctypes.CDLL(None).unshare(0x10000000) == 0:
            print("ESCAPED")
        raise SystemExit(1)""",
    "becoming root": "import os\nos.setuid(0)\nprint('ESCAPED')",
    "a set-user-id program": """
        import os, shutil
        os.execv("/bin/su", ["su", "-c", "echo ESCAPED"])""",
    "kernel settings": "open('/proc/sys/kernel/hostname', 'w').write('x')\nprint('ESCAPED')",
    "its own map of users": """
        import os
        os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1")
        print("ESCAPED")""",
    "devices": """
        import os
        for name in ("sda", "vda", "mem", "kmem", "kmsg", "tty", "fuse", "kvm"):
            if os.path.exists("/dev/" + name):
                print("ESCAPED")
        os.mknod("device", 0o600 | 0o060000, os.makedev(254, 0))
        print("ESCAPED")""",
    "the keys of the login": """
        text = ctypes.create_string_buffer(100)
        key = <keyctl>(10, <ring>, b"user", b"hostile", None)
        if <keyctl>(11, key, text, 100) > 0 or <request_key>(b"user", b"hostile", None, 0) > 0:
            print("ESCAPED", text.value)
        raise SystemExit(1)""",
    "those keys cleared": "<keyctl>(7, <ring>)\n<keyctl>(3, <ring>)\nraise SystemExit(1)",
    "a key for the login": """
        <add_key>(b"user", b"planted", b"x", 1, <ring>)
        raise SystemExit(1)""",
    "the names of keys": "if 'hostile' in open('/proc/keys').read(): print('ESCAPED')\nraise SystemExit(1)",
    "code in the kernel": """
        attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
        if <bpf>(0, attributes, 72) >= 0:
            print("ESCAPED")
        raise SystemExit(1)""",
    "the new calls for mounts": """
        if <fsopen>(b"tmpfs", 0) >= 0 or <open_tree>(-100, b"/", 1) >= 0:
            print("ESCAPED")
        raise SystemExit(1)""",
    "namespaces by every call": """
        import os
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
            arguments = (ctypes.c_uint64 * 11)(flag)
            arguments[4] = 17
            for made in (<unshare>(flag), <clone3>(arguments, 88)):
                if made == 0:
                    print("ESCAPED")
        for name in os.listdir("/proc/self/ns"):
            if <setns>(os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0) == 0:
                print("ESCAPED")
        raise SystemExit(1)""",
    "the log of the kernel": """
        text = ctypes.create_string_buffer(4096)
        if <syslog>(3, text, 4096) > 0:
            print("ESCAPED")
        raise SystemExit(1)""",
    "a higher priority": "import os\nos.nice(-5)\nprint('ESCAPED')",
    "real-time scheduling": """
        import os
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        print('ESCAPED')""",
    # Those that would pass if success were an exit status or a word.
    "exit status 0": "import os\nos._exit(0)",
    "a plain exit": "raise SystemExit(0)",
    "an exit from the function": "import os\ndef square(x):\n    os._exit(0)",
    "a word of success": "print('passed')\nprint('OK')\nimport os\nos._exit(0)",
    "an exit that is patched": """
        import sys, os, builtins
        sys.exit = os._exit = exit = quit = lambda *a: None""",
    "an exit handler": "import atexit, os\natexit.register(lambda: os._exit(0))",
    "a patched exception": """
        import builtins
        builtins.AssertionError = type('Never', (BaseException,), {})
        def square(x):
            return 0""",
    "an exception that is caught by all": """
        import builtins
        builtins.BaseException = builtins.Exception = ValueError
        def square(x):
            return 0""",
    "builtins that agree": """
        import builtins
        builtins.abs = lambda x: 0
        builtins.all = lambda x: True
        def square(x):
            return 7""",
    "a builtin of its own": "abs = lambda x: 0\ndef square(x):\n    return 4",
    "mathematics that agrees": """
        import math
        math.isclose = lambda *a, **k: True
        def square(x):
            return 4 if x == 2 else 0""",
    "a value that equals all": """
        class Anything:
            def __eq__(self, other): return True
            def __sub__(self, other): return 0
            def __float__(self): return 0.0
        def square(x):
            return Anything()""",
    "a number that equals all": """
        class Number(float):
            def __eq__(self, other): return True
            __hash__ = float.__hash__
            def __sub__(self, other): return 0.0
        def square(x):
            return Number(9.0)""",
    "a check of its own": "def check(candidate):\n    pass\ndef square(x):\n    return 0",
    "the tests overwritten": """
        import glob
        for name in glob.glob("**/*", recursive=True) + ["tests", "tests.py", "main.py"]:
            open(name, "w").write("")
        def square(x):
            return 0""",
    "a trace that skips": "import sys\nsys.settrace(lambda *a: sys.exit(0))\ndef square(x):\n    return 0",
    "whatever is open": """
        import os
        for number in range(3, 20):
            try:
                os.write(number, b"passed" * 4)
            except OSError:
                pass
        os._exit(0)""",
    "a process that answers for it": """
        import os
        if os.fork():
            os._exit(0)
        os._exit(0)""",
}

TESTS = """
import math
def check(candidate):
    assert candidate(2) == 4
    assert candidate(3) == 9
    assert abs(candidate(4) - 16) < 1e-9
    assert math.isclose(candidate(5), 25)
check(square)
"""

_MARKER = "a-secret-of-this-process"
# Linux, the tables of system calls: on x86_64, and on the architectures that share one.
_NUMBERS = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "clone3": (435, 435), "fsopen": (430, 430),
    "open_tree": (428, 428), "ptrace": (101, 117), "syslog": (103, 116),
}  # fmt: skip
_CALLS = {name: numbers[platform.machine() != "x86_64"] for name, numbers in _NUMBERS.items()}
_RING = ctypes.c_int(-3)  # KEY_SPEC_SESSION_KEYRING
_SEARCH = 10  # KEYCTL_SEARCH
# Where the system lets every user do it.
_LEFT_TO_THE_SYSTEM = {
    "code in the kernel": Path("/proc/sys/kernel/unprivileged_bpf_disabled"),
    "the log of the kernel": Path("/proc/sys/kernel/dmesg_restrict"),
}


def _call(name: str, *arguments: object) -> int:
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(_CALLS[name]), *arguments))


@pytest.fixture(scope="module", autouse=True)
def _isolated() -> None:
    try:
        usable()
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def _orphans_come_home() -> Iterator[None]:
    """A process that outlives its jail would become this one's child."""
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARKER", _MARKER)
        yield


@pytest.fixture(scope="module", autouse=True)
def key() -> int:
    """A key in the session keyring, if this machine has such; else -1."""
    _call("keyctl", 1, None)  # a keyring of these tests' own
    return _call("add_key", b"user", b"hostile", b"secret", 6, _RING)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "main.py").write_text("print('mine')\n")
    (tmp_path / "secret").write_text("ESCAPED")
    return tmp_path


def _left() -> list[psutil.Process]:
    """Processes of a run that are still there a while after it."""
    for _ in range(100):
        left = []
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    left.append(child)
                elif child.ppid() == os.getpid():
                    # It was ended together with its parent, which would have done this.
                    os.waitpid(child.pid, 0)
        if not left:
            break
        time.sleep(0.05)
    return left


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_contained_and_fails(name: str, project: Path, key: int) -> None:
    setting = _LEFT_TO_THE_SYSTEM.get(name)
    if setting is not None and setting.read_text() == "0\n":
        pytest.skip(f"{setting} allows it to all users")
    before = {path: path.read_bytes() for path in project.iterdir()}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.01)
        source = textwrap.dedent(PROGRAMS[name])
        for placeholder, value in {
            "<folder>": str(project),
            "<home>": str(Path.home()),
            "<marker>": _MARKER,
            "<port>": listener.getsockname()[1],
            "<pid>": os.getpid(),
        }.items():
            source = source.replace(placeholder, repr(value))
        if "libc." in source or "<ring>" in source or any(f"<{call}>" in source for call in _CALLS):
            source = f"import ctypes\nlibc = ctypes.CDLL(None)\n{source}"
        source = source.replace("<ring>", "ctypes.c_int(-3)")
        for call, number in _CALLS.items():
            source = source.replace(f"<{call}>", f"(lambda *a: libc.syscall(ctypes.c_long({number}), *a))")
        started = time.monotonic()
        outcome = run_tests(TestedProgram(source, TESTS, ("square",)), limits=LIMITS)
        took = time.monotonic() - started
        with pytest.raises(TimeoutError):
            listener.accept()
    assert not outcome.proved, outcome
    said = outcome.stdout + outcome.stderr
    assert ESCAPED not in outcome.stdout, said
    assert len(said) <= 2 * LIMITS.output
    # Each ends soon after its limit; the rest is for a busy machine.
    assert took < 10 * LIMITS.wall_s
    assert {path: path.read_bytes() for path in project.iterdir()} == before
    assert _left() == []
    assert _call("keyctl", _SEARCH, _RING, b"user", b"hostile", None) == key
    assert _call("keyctl", _SEARCH, _RING, b"user", b"planted", None) == -1
    assert not Path("/usr/bin/escaped").exists()


def test_code_that_is_right_passes_between_all_this() -> None:
    assert run_tests(
        TestedProgram("def square(x):\n    return x * x\n", TESTS, ("square",)), limits=LIMITS
    ).proved


def test_there_is_as_much_disk_as_before() -> None:
    """What a program writes lies in its own memory, not on the disk."""
    free = shutil.disk_usage("/tmp").free
    test = TestedProgram(textwrap.dedent(PROGRAMS["a disk filled"]), TESTS, ("square",))
    for _ in range(5):
        assert not run_tests(test, limits=LIMITS).proved
    assert shutil.disk_usage("/tmp").free > free - 5 * LIMITS.disk
