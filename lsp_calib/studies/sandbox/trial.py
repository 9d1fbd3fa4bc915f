"""Tries in the sandbox what must not be possible there, and prints what was: JSON.

This text is run as a program (`python -c`) within the sandbox. Arguments: the content of a file of the
user's, its folder, a port that somebody listens on, a process, the number of the system call `keyctl`, the
user's session keyring. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_USER_NAMESPACE = 0x10000000


def _done(action: Callable[[], object]) -> bool:
    try:
        found = action()
    except (OSError, ValueError):
        return False
    return found is None or bool(found)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(name))


def _main() -> None:
    content, folder, port, pid, keyctl, keyring = sys.argv[1:]
    libc = ctypes.CDLL(None)
    # The sandbox's own are its first, this one, and the one that started it.
    processes = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
    others = processes - {1, os.getpid(), os.getppid()}
    attempts: dict[str, Callable[[], object]] = {
        "read a file in your home folder": lambda: Path(folder, "file").read_text() == content,
        "write beside it": lambda: Path(folder, "written").touch(),
        "write to /usr": lambda: Path("/usr/written").touch(),
        "reach a port of this machine": lambda: socket.create_connection(("127.0.0.1", int(port)), 1),
        "see a network": lambda: {name for _, name in socket.if_nameindex()} - {"lo"},
        "reach another process": lambda: os.kill(int(pid), 0),
        "see another process": lambda: others,
        "hold privileges": lambda: _status("CapEff") or _status("CapBnd"),
        "gain privileges": lambda: _status("NoNewPrivs") != 1,
        # /usr is root's. In a user namespace of anybody else it seems to be nobody's.
        "act as root": lambda: os.getuid() in (0, Path("/usr").stat().st_uid),
        "use your keys": lambda: libc.syscall(int(keyctl), 0, -3, 0) == int(keyring) > 0,
        "make namespaces": lambda: libc.unshare(_USER_NAMESPACE) == 0,
    }
    print(json.dumps({what: _done(action) for what, action in attempts.items()}))


if __name__ == "__main__":
    _main()
