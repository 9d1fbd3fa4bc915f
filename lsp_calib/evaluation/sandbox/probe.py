"""Tests the sandbox on this machine: a trial program inside attempts forbidden actions."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import tempfile
from functools import lru_cache
from pathlib import Path

from lsp_calib.errors import SandboxError
from lsp_calib.evaluation.sandbox import launcher
from lsp_calib.evaluation.sandbox.execution import execute
from lsp_calib.evaluation.sandbox.isolation import Isolation, candidates, none_at_all
from lsp_calib.evaluation.sandbox.limits import Limits

# Each attempt prints its name if it succeeds. The placeholders are replaced by the targets of the attempts.
_ATTEMPTS = """
import json, os, socket
def attempt(action):
    try:
        return bool(action())
    except Exception:
        return False
def read():
    return CANARY in open(FILE).read()
def write():
    open(FOLDER + "/written", "w").close()
    return True
def system():
    open("/usr/written", "w").close()
    return True
def connect():
    return socket.create_connection(("127.0.0.1", PORT), 1)
def signal():
    return os.kill(PID, 0) is None
def processes():
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}
def privileged():
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
    return int(status["CapEff"], 16) or int(status["CapBnd"], 16) or status["NoNewPrivs"].strip() != "1"
print(json.dumps({
    "read a file in your home folder": attempt(read),
    "write beside it": attempt(write),
    "write to /usr": attempt(system),
    "reach a port of this machine": attempt(connect),
    "reach another process": attempt(signal),
    "see another process": attempt(processes),
    "hold privileges": attempt(privileged),
}))
"""


def isolation(*, allow_none: bool = False) -> Isolation:
    """The isolation to use here; it is tested once in each process.

    allow_none: continue without isolation if none works and LSP_CALIB_ALLOW_UNISOLATED is 1.
    Raises SandboxError if none works.
    """
    try:
        return _best()
    except SandboxError:
        if allow_none:
            return none_at_all()
        raise


@lru_cache(maxsize=1)
def _best() -> Isolation:
    complaints = []
    for candidate in candidates():
        try:
            holes = probe(candidate)
        except SandboxError as error:
            complaints.append(f"{candidate.kind}: {error}")
            continue
        if not holes:
            return candidate
        complaints.append(f"{candidate.kind}: code inside could {', '.join(holes)}.")
    raise SandboxError(
        "Generated code runs only in isolation, and no kind of isolation works on this machine. "
        f"{' '.join(complaints) or 'Isolation needs Linux.'} "
        "Install bubblewrap, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, and "
        "kernel.apparmor_restrict_unprivileged_userns=0 where AppArmor guards them), or use another machine."
    )


def probe(candidate: Isolation) -> list[str]:
    """The forbidden actions that a program inside could do; empty if the isolation works.

    Raises SandboxError if no program can be run in it.
    """
    canary = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix=".lsp-calib-canary-", dir=_place()))
        )
        (folder / "canary").write_text(canary)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = {
            "CANARY": canary,
            "FILE": str(folder / "canary"),
            "FOLDER": str(folder),
            "PORT": listener.getsockname()[1],
            "PID": os.getpid(),
        }
        settings = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        files = {"main.py": settings + _ATTEMPTS}
        outcome = execute(launcher.python("main.py"), Limits(wall_s=60.0), candidate, files=files)
        try:
            holes = json.loads(outcome.stdout)
        except ValueError as error:
            said = outcome.stderr.strip()[-300:]
            raise SandboxError(f"A trial program could not be run: {outcome.words}. {said}") from error
        return [what for what, done in holes.items() if done]


def _place() -> Path | None:
    """The home folder if it is writable, else the folder for temporary files."""
    with contextlib.suppress(RuntimeError):
        home = Path.home()
        if os.access(home, os.W_OK):
            return home
    return None
