"""The filter of system calls: its program, run here on the calls of each processor, and in the sandbox."""

from __future__ import annotations

import errno
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lsp_calib.studies.sandbox import runner, system_calls
from lsp_calib.studies.sandbox.isolation import interpreter, isolated_python
from lsp_calib.studies.sandbox.runner import run_suite

ALLOWED, REFUSED, NO_FAMILY = 0x7FFF0000, 0x50000 | errno.ENOSYS, 0x50000 | errno.EAFNOSUPPORT
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM, RISCV = 0x40000003, 0x40000028, 0xC00000F3
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
# read, write, openat, close, mmap, execve, futex, exit_group, wait4, clone's number.
ORDINARY = {
    "x86_64": (0, 1, 257, 3, 9, 59, 202, 231, 61),
    "aarch64": (63, 64, 56, 57, 222, 221, 98, 94, 260),
}
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKET, SOCKETPAIR = {"x86_64": 41, "aarch64": 198}, {"x86_64": 53, "aarch64": 199}


def answer(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would do with a call: it runs the program as the kernel does."""
    words = [number, ARCHITECTURES[machine] if architecture is None else architecture, 0, 0]
    for argument in (*arguments, *[0] * 6)[:6]:
        words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
    at, value = 0, 0
    program = system_calls.program(machine)
    while True:
        code, true, false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                value = words[operand // 4]
            case 0x06:
                return operand
            case 0x15 | 0x35 | 0x45:
                held = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
                at += true if held else false
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
class TestTheProgram:
    def test_its_numbers_are_the_kernel_s(self, machine: str) -> None:
        if not (path := Path(HEADERS[machine])).exists():
            pytest.skip("the kernel's headers are not installed")
        numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
        known = {name: int(numbers[name]) for name in system_calls.refused(machine) if name in numbers}
        assert len(known) > 40
        assert known.items() <= system_calls.refused(machine).items()
        for name, of in (("clone", CLONE), ("socket", SOCKET), ("socketpair", SOCKETPAIR)):
            assert int(numbers[name]) == of[machine]

    def test_ordinary_calls_are_made_and_refused_ones_are_not(self, machine: str) -> None:
        assert {answer(machine, number) for number in ORDINARY[machine]} == {ALLOWED}
        for name, number in system_calls.refused(machine).items():
            assert answer(machine, number) == REFUSED, name

    def test_calls_that_are_younger_than_the_list_are_refused(self, machine: str) -> None:
        assert {answer(machine, number) for number in (335, 400, 423, 480, 999, 1 << 31)} == {REFUSED}
        assert {answer(machine, number) for number in (434, 436, 439, 449)} == {ALLOWED}

    def test_the_numbers_of_another_interface_mean_nothing(self, machine: str) -> None:
        for architecture in {I386, ARM, RISCV, *ARCHITECTURES.values()} - {ARCHITECTURES[machine]}:
            assert {answer(machine, number, architecture=architecture) for number in range(600)} == {REFUSED}
        x32 = {answer(machine, 0x40000000 | number) for number in range(600)}
        assert x32 == {REFUSED}

    def test_threads_and_processes_are_made_and_namespaces_are_not(self, machine: str) -> None:
        thread, process = 0x3D0F00, 0x1200011
        assert answer(machine, CLONE[machine], thread) == answer(machine, CLONE[machine], process) == ALLOWED
        for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            assert answer(machine, CLONE[machine], flag | 17) == REFUSED

    def test_sockets_are_local_ones(self, machine: str) -> None:
        for number in (SOCKET[machine], SOCKETPAIR[machine]):
            made = {family for family in range(300) if answer(machine, number, family, 1) == ALLOWED}
            assert made == {socket.AF_UNIX}
            assert answer(machine, number, 40, 1) == NO_FAMILY
        # The kernel looks at the lower half.
        assert answer(machine, SOCKET[machine], 1 << 32 | 40, 1) == NO_FAMILY


def test_a_processor_whose_calls_are_unknown_is_refused() -> None:
    with pytest.raises(OSError, match="s390x"):
        system_calls.program("s390x")


def test_the_trial_finds_what_the_filter_refuses(tmp_path: Path) -> None:
    """Without the sandbox, so that a trial that finds nothing means something."""
    with runner.trial() as source:
        plain = source.replace("/usr/written", str(tmp_path / "written"))
        said = subprocess.run(isolated_python("-c", plain), capture_output=True, text=True, check=True).stdout
    for hole in (
        "make the system call add_key",
        "make the system call ptrace",
        "make the system call unshare",
        "open a socket of the family 2",
        "open a socket of the family 16",
    ):
        assert f'"{hole}": true' in said


# Its own program, for the tests' session keyring is not to be changed.
KEYS = """
import ctypes, os
from lsp_calib.studies.sandbox import system_calls
from lsp_calib.studies.sandbox.runner import run
libc = ctypes.CDLL(None)
calls = system_calls.refused(os.uname().machine)
ring = ctypes.c_int(-3)
if libc.syscall(calls["keyctl"], 1, None) < 0:
    raise SystemExit("no keyrings")
libc.syscall(calls["add_key"], b"user", b"a key of mine", b"secret", 6, ring)
source = '''
import ctypes, os
libc = ctypes.CDLL(None)
ring = ctypes.c_int(-3)
key = libc.syscall(KEYCTL, 10, ring, b"user", b"a key of mine", 0)
text = ctypes.create_string_buffer(9)
print(libc.syscall(KEYCTL, 11, key, text, 9), text.value)
print(libc.syscall(KEYCTL, 7, ring))
print(open("/proc/keys").read())
'''
print(run(source.replace("KEYCTL", str(calls["keyctl"]))).stdout.split())
print(libc.syscall(calls["keyctl"], 10, ring, b"user", b"a key of mine", 0) > 0)
"""


@pytest.mark.usefixtures("walls")
class TestInTheSandbox:
    def test_the_keys_of_the_login_are_neither_read_nor_cleared(self) -> None:
        done = subprocess.run([sys.executable, "-c", KEYS], capture_output=True, text=True, check=False)
        if "no keyrings" in done.stderr:
            pytest.skip("the kernel or the container has no keyrings")
        assert done.stdout == "['-1', \"b''\", '-1']\nTrue\n", done.stderr

    def test_parts_of_the_kernel_do_not_use_those_keys_for_it_either(self) -> None:
        """They look into the session keyring without a call of the program's: it is left."""
        before, _, after = KEYS.partition("source = ")
        leave = "from lsp_calib.evaluation.sandbox import kernel; kernel.leave_session_keyring()\n"
        code = f"{before}{leave}{after.splitlines()[-1]}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if "no keyrings" in done.stderr:
            pytest.skip("the kernel or the container has no keyrings")
        assert done.stdout == "False\n", done.stderr

    def test_a_suite_s_processes_and_threads_work(self, tmp_path: Path) -> None:
        (tmp_path / "suite.py").write_text(
            textwrap.dedent("""
                import asyncio, multiprocessing, subprocess, threading
                thread = threading.Thread(target=print, args=("thread",))
                thread.start(); thread.join()
                print(subprocess.run(["/bin/echo", "process"], capture_output=True, text=True).stdout.strip())
                with multiprocessing.Manager() as manager, multiprocessing.Pool(2) as pool:
                    print(manager.list([1]), pool.map(abs, [-1]))
                asyncio.run(asyncio.sleep(0))""")
        )
        command = [Path(interpreter()).name, "suite.py"]
        outcome = run_suite(tmp_path, command)
        assert outcome.stdout.splitlines() == ["thread", "process", "[1] [1]"], outcome
