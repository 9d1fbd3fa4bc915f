"""Starting the model process from a client. It outlives that client as long as others use it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.files import open_file, why
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process import rendezvous

logger = logging.getLogger(__name__)

# -P: the working folder is the user's workspace, whose modules must not be run.
PROGRAM = ("-P", "-m", "lsp_calib.inference.process")
# Seconds for a process to end that has closed its output without saying that it listens.
_END = 2.0
# Bytes of the first line of its output.
_LONGEST = 8192


# How native code ends a process: an instruction or an address that is not valid, a failed assertion.
_CRASHES = frozenset(
    -getattr(signal, name)
    for name in ("SIGILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE")
    if hasattr(signal, name)
) | {0xC0000005, 0xC000001D, 0xC0000409}  # the same on Windows


@attrs.frozen
class Safety:
    """How a process is to be started after others crashed before they answered.

    careful: try everything before it is used. avoid: names of accelerations with which one crashed although
    it had been tried.
    """

    careful: bool = False
    avoid: tuple[str, ...] = ()


class Child:
    """A model process that was just started; a thread waits for its first line and for its end.

    listening: True once it can be connected to, False if it has ended or will not listen.
    problem: why it will not listen, in words for the user; "" if it did not say.
    code: its exit code, negative for a signal, when it has ended.
    The futures are those of `concurrent.futures`: cancelling a waiter does not cancel them.
    """

    def __init__(
        self, card: ModelCard, path: Path, safety: Safety = Safety(), *, new_session: bool = True
    ) -> None:
        """Raises EngineError if it cannot be started.

        new_session: in a session of its own (POSIX): an interrupt typed in a client's terminal must not end
        the process for the other clients.
        """
        command = [
            *(sys.executable, *PROGRAM, f"--model={path.absolute()}"),
            *("--sha256", card.sha256, "--size", str(card.size), "--context", str(card.context)),
            *(["--careful"] if safety.careful else []),
            *(f"--avoid={name}" for name in safety.avoid),
        ]
        self.problem = ""
        self.listening: Future[bool] = Future()
        self.code: Future[int] = Future()
        for future in (self.listening, self.code):
            future.set_running_or_notify_cancel()
        try:
            with _log_file() as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_environment(os.environ),
                    cwd=home.state_dir(),  # it must not keep the workspace busy
                    start_new_session=new_session and os.name == "posix",
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                )
        except OSError as error:
            raise EngineError(
                f"The model process cannot be started with {sys.executable}: {error}."
            ) from error
        # A daemon thread: a client that ends does not wait for the process to end.
        threading.Thread(target=self._watch, name="model process", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Kill it unless it has begun to listen: others may be using it then."""
        if not self.listening.done():
            with contextlib.suppress(OSError):
                self._process.kill()

    def _watch(self) -> None:
        output = self._process.stdout
        assert output is not None
        with output:
            said = output.readline(_LONGEST).decode("utf-8", "replace").strip()
        listening = said == rendezvous.LISTENING
        if said.startswith(rendezvous.UNABLE):
            self.problem = said.removeprefix(rendezvous.UNABLE)
        self.listening.set_result(listening)
        if not listening:
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self.code.set_result(self._process.wait())


def log_path() -> Path:
    """The log of all model processes."""
    return home.state_dir() / "log" / "model.log"


def how(code: int) -> str:
    """How a process ended, for messages."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def crashed(code: int | None) -> bool:
    """Whether native code ended the process; False where that is not known."""
    return code in _CRASHES


def killed(code: int | None) -> bool:
    """Whether the process was ended from outside; the system does it where memory runs out."""
    return code is not None and code in (-getattr(signal, "SIGKILL", 9), -signal.SIGTERM)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {
        # Large pages for llama.cpp's memory (repacked weights, the KV cache) where glibc and the kernel
        # support them. In three runs by hand Qwen 1.5B generated 8 % faster (33.5 ms a token instead of
        # 36.5); `lsp-calib bench` includes the effect in `overhead.overRaw`, whose bare loop does not use
        # them.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        **ours,
        # In the process's working folder a relative path would mean another folder.
        "LSP_CALIB_HOME": str(home.state_dir().absolute()),
    }


@contextlib.contextmanager
def _log_file() -> Iterator[int]:
    try:
        home.private_folder(log_path().parent)
        # Append: a process that does not get the lock must not erase the log of the one that holds it.
        descriptor = open_file(log_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except (OSError, LspCalibError) as error:
        logger.warning("The model process has no log: %s cannot be written (%s).", log_path(), why(error))
        descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
