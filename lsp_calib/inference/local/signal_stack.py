"""Keeping llama.cpp from using AMX, without another build of it.

A process has to ask Linux for AMX (`arch_prctl(ARCH_REQ_XCOMP_PERM)`), and Linux refuses while any thread has
an alternative signal stack that could not hold the registers of AMX. llama.cpp asks when it loads its first
model, and works without AMX where Linux refuses.

The stack belongs to a thread of its own that waits for ever: `faulthandler` gives the main thread another.
Source: the kernel's Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import threading

# The kernel wants about 12,000 bytes with AMX, and 3,500 with AVX-512 but without AMX.
_BYTES = 8192


class _Stack(ctypes.Structure):
    """`stack_t` of <signal.h> on Linux."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@functools.cache
def withhold_amx() -> bool:
    """From now on this process cannot be given AMX. False where there is no AMX to withhold, or it failed."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    done = threading.Event()
    sizes: list[int] = []
    threading.Thread(target=_park, args=(done, sizes), name="signal stack", daemon=True).start()
    done.wait()
    return sizes == [_BYTES]


def _park(done: threading.Event, sizes: list[int]) -> None:
    """Hold a small signal stack for the life of the process. sizes: receives the kernel's report of it."""
    memory = ctypes.create_string_buffer(_BYTES)
    try:
        sigaltstack = ctypes.CDLL(None, use_errno=True).sigaltstack
        if sigaltstack(ctypes.byref(_Stack(ctypes.addressof(memory), 0, _BYTES)), None) == 0:
            now = _Stack()
            sigaltstack(None, ctypes.byref(now))
            sizes.append(now.size)
    finally:
        done.set()
    threading.Event().wait()
