"""AMX is withheld by a thread with a small signal stack; `faulthandler` keeps its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from lsp_calib.inference import processor

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="AMX is a matter of Linux on x86-64"
)

# In a process of its own: what a process has been refused, or was given, holds for its life.
_PROGRAM = """
import ctypes, faulthandler, sys
libc = ctypes.CDLL(None, use_errno=True)
class Stack(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))
def size():
    now = Stack()
    assert libc.sigaltstack(None, ctypes.byref(now)) == 0
    return now.size
faulthandler.enable()
before = size()
if "withhold" in sys.argv:
    from lsp_calib.inference.local import llama
    assert llama.withhold_amx()
    assert llama.withhold_amx()
assert size() == before, "the main thread's stack is another"
code = libc.syscall(158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
print(code, ctypes.get_errno())
"""


def ask(*arguments: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    code, error = done.stdout.split()
    return int(code), int(error)


def test_the_thread_holds_its_stack_and_leaves_the_main_threads_alone() -> None:
    code, _ = ask("withhold")
    assert code != 0, "the process was given AMX all the same"


@pytest.mark.skipif(not processor.has_amx(), reason="this processor has no AMX")
def test_where_there_is_amx_the_kernel_refuses_it_for_want_of_room() -> None:
    assert ask() == (0, 0)
    assert ask("withhold") == (-1, 28)  # ENOSPC
