"""Which processor this machine has, as far as llama.cpp's kernels depend on it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@functools.cache
def _fields() -> dict[str, str]:
    """Linux's description of the first processor; empty on other systems."""
    try:
        first = _CPUINFO.read_text("ascii", "replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def has_amx() -> bool:
    """Whether the processor has a matrix unit for 8-bit integers (Intel AMX) that Linux supports."""
    return "amx_int8" in _fields().get("flags", "").split()


def name() -> str:
    """The processor, with a digest of its features: a virtual machine may hide some of them."""
    fields = _fields()
    title = fields.get("model name") or platform.processor() or platform.machine()
    features = fields.get("flags") or fields.get("Features") or ""
    return f"{title} ({hashlib.sha256(features.encode()).hexdigest()[:8]})" if features else title


def default_threads() -> int:
    """Threads to decode with on a quiet machine: usually no more than physical cores.

    Where there are more than 4 processors, two of them usually share a core. Threads spin at barriers, so
    one too many costs far more than one too few.
    """
    available = os.cpu_count() or 1
    with contextlib.suppress(AttributeError):  # not on every platform
        available = len(os.sched_getaffinity(0))
    return available if available <= 4 else available // 2
