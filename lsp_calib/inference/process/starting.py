"""Starting the model process from a client, and how the client reacts to its death.

A process outlives its client as long as others use it. One that dies is started again by the next request,
or by the server in the meantime (`server.model`). One that dies while it loads, or whose native code crashes
before the first answer, would leave its user waiting: it is started again at once, in a safer way where
native code has crashed. After three deaths without an answer the client gives up.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import LspCalibError
from lsp_calib.files import open_file, why
from lsp_calib.inference.backend import EIGHT_BIT
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process import protocol
from lsp_calib.installation import how_to_install

logger = logging.getLogger(__name__)

# -P: the working folder is the user's workspace, whose modules must not be run.
PROGRAM = ("-P", "-m", "lsp_calib.inference.process")
# After so many deaths without one answer between them, another start would not help.
_MOST = 3
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

    def __init__(self, card: ModelCard, path: Path, place: str, safety: Safety = Safety()) -> None:
        """Raises OSError if it cannot be started. place: the name of the one where it is to listen."""
        self.problem = ""
        self.listening: Future[bool] = Future()
        self.code: Future[int] = Future()
        for future in (self.listening, self.code):
            future.set_running_or_notify_cancel()
        with _log_file() as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, *PROGRAM, f"--model={path.absolute()}", f"--place={place}"),
                    *("--sha256", card.sha256, "--size", str(card.size), "--context", str(card.context)),
                    *(["--careful"] if safety.careful else []),
                    *(f"--avoid={name}" for name in safety.avoid),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                cwd=home.state_dir(),  # it must not keep the workspace busy
                # An interrupt typed in a client's terminal must not end it for the other clients.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        self.pid = self._process.pid
        # A daemon thread: a client that ends does not wait for the process to end.
        threading.Thread(target=self._watch, name="model process", daemon=True).start()

    def stop(self) -> None:
        """Kill it unless it has begun to listen: others may be using it then."""
        if not self.listening.done():
            self._process.kill()

    def _watch(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            said = output.readline().decode("utf-8", "replace").strip()
        if said.startswith(protocol.UNABLE):
            self.problem = said.removeprefix(protocol.UNABLE)
        self.listening.set_result(said == protocol.LISTENING)
        self.code.set_result(self._process.wait())


def log_path() -> Path:
    """The log of all model processes."""
    return home.state_dir() / "log" / "model.log"


def how(code: int) -> str:
    """How a process ended, for messages."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _environment() -> dict[str, str]:
    return {
        # Large pages for llama.cpp's memory (repacked weights, the KV cache) where glibc and the kernel
        # support them: Qwen 1.5B generates 8 % faster.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        **os.environ,
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


class RestartPolicy:
    """The deaths since the last answer. Pure: no processes, no clock.

    count: of deaths. safety: how the next process is started. at_once: whether waiting requests wait for it.
    """

    def __init__(self) -> None:
        self.safety = Safety()
        self.at_once = False
        self.count = 0
        self._loaded = self._answered = self._tried = False
        self._acceleration = ""

    @property
    def too_many(self) -> bool:
        return self.count >= _MOST

    def ready(self, acceleration: str, *, tried: bool = False) -> None:
        """A process has loaded the model, with this acceleration. tried: whether a trial of it succeeded."""
        self._loaded, self._answered, self.at_once = True, False, False
        self._acceleration, self._tried = acceleration, tried

    def answered(self) -> None:
        """A process has answered: earlier deaths no longer count."""
        self.count = 0
        self._answered = True
        self.safety = Safety()

    def died(self, code: int | None) -> str:
        """Count a death and return a message for the user. code: the exit code, None if it is not known."""
        self.count += 1
        ended = "" if code is None else f" ({how(code)})"
        native = code in _CRASHES and not self._answered
        if native:
            # An acceleration that crashed although its trial succeeded is not used again; nor is one that the
            # model can do without at little cost.
            hopeless = self._tried or self.safety.careful or self._acceleration == EIGHT_BIT
            again = (self._acceleration,) if hopeless and self._acceleration else ()
            self.safety = Safety(careful=True, avoid=(*self.safety.avoid, *again))
        self.at_once = (native or not self._loaded) and not self.too_many
        self._loaded = self._answered = self._tried = False
        self._acceleration = ""
        if self.too_many:
            return (
                f"The model process ended {self.count} times before it answered{ended}. Use a smaller model "
                f"(`lsp-calib models list`), the prebuilt engine ({how_to_install('prebuilt')} and "
                "LSP_CALIB_ENGINE=prebuilt) or a remote server (`remote.url`), or restart the model to try "
                "again. `lsp-calib doctor` shows what works here."
            )
        safer = " in a safer way" if self.safety.careful else ""
        next_ = f"It is started again{safer}." if self.at_once else "The next request starts it again."
        return f"The model process ended unexpectedly{ended}. {next_}"
