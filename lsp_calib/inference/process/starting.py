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
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import LspCalibError, ModelFileError
from lsp_calib.files import open_file, why
from lsp_calib.inference.backend import EIGHT_BIT
from lsp_calib.inference.models import converted
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process import protocol
from lsp_calib.installation import install_command

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

    def __init__(self, card: ModelCard, path: Path, place: str, safety: Safety = Safety()) -> None:
        """Raises OSError if it cannot be started. place: the name of the one where it is to listen."""
        command = [
            *(sys.executable, *PROGRAM, f"--model={path.absolute()}"),
            *("--sha256", card.sha256, "--size", str(card.size), "--context", str(card.context)),
            *(["--careful"] if safety.careful else []),
            *(f"--avoid={name}" for name in safety.avoid),
            f"--place={place}",
        ]
        self.problem = ""
        self.listening: Future[bool] = Future()
        self.code: Future[int] = Future()
        for future in (self.listening, self.code):
            future.set_running_or_notify_cancel()
        with _log_file() as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(os.environ),
                cwd=home.state_dir(),  # it must not keep the workspace busy
                # An interrupt typed in a client's terminal must not end it for the other clients.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
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
        listening = said == protocol.LISTENING
        if said.startswith(protocol.UNABLE):
            self.problem = said.removeprefix(protocol.UNABLE)
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
        # 36.5); `lsp-calib bench` includes the effect in `overhead`, whose bare loop does not use
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


# After so many deaths without one answer between them, another start would not help.
_MOST = 3
# Seconds before a start, by the number of deaths just before it.
_BACK_OFF = (0.0, 0.0, 0.5)
_SMALLER = (
    "The system does that where memory runs out. Use a smaller model (`lsp-calib models list`) or a remote "
    "server (`remote.url`), or restart the model to try again."
)


def _otherwise() -> str:
    return (
        f"Use the prebuilt engine (`{install_command('prebuilt')}` and LSP_CALIB_ENGINE=prebuilt) or a "
        "remote server (`remote.url`), or restart the model to try again. `lsp-calib doctor` shows what "
        "works here."
    )


class RestartPolicy:
    """The deaths since the last answer. Pure: no processes, no clock.

    safety: how the next process is started. at_once: whether the waiting requests wait for it. last: a
    sentence on the last death, "" once a process is ready again.
    """

    def __init__(self) -> None:
        self.safety = Safety()
        self.at_once = False
        self.last = ""
        self._count = 0
        self._loaded = self._answered = self._tried = False
        self._acceleration = ""

    @property
    def back_off(self) -> float:
        """Seconds until the next start."""
        return _BACK_OFF[min(self._count, len(_BACK_OFF) - 1)]

    @property
    def too_many(self) -> bool:
        return self._count >= _MOST

    def ready(self, acceleration: str, *, tried: bool = False) -> None:
        """A process has loaded the model, with this acceleration. tried: whether a trial of it succeeded."""
        self.last = ""
        self._loaded, self._answered = True, False
        self._acceleration, self._tried = acceleration, tried

    def answered(self) -> None:
        """A process has answered: earlier deaths no longer count."""
        self._count = 0
        self._answered = True
        self.at_once = False
        self.safety = Safety()

    def died(self, code: int | None) -> str:
        """Count a death and return a message for the user. code: the exit code, None if it is not known."""
        self._count += 1
        ended = "" if code is None else f" ({how(code)})"
        native = crashed(code) and not self._answered
        self.at_once = native or not self._loaded
        if native:
            # An acceleration that crashed although its trial succeeded is not used again; nor is one that the
            # model can do without at little cost.
            hopeless = self._tried or self.safety.careful or self._acceleration == EIGHT_BIT
            again = (self._acceleration,) if hopeless and self._acceleration else ()
            self.safety = Safety(careful=True, avoid=(*self.safety.avoid, *again))
        self._loaded = self._answered = self._tried = False
        self._acceleration = ""
        if self.too_many:
            self.at_once = False
            advice = _SMALLER if killed(code) else _otherwise()
            return f"The model process ended {self._count} times before it answered{ended}. {advice}"
        self.last = f"The model process ended unexpectedly{ended}."
        if not self.at_once:
            next_ = "The next request starts it again."
        elif self.safety.careful:
            next_ = "It is started again in a safer way."
        else:
            next_ = "It is started again."
        return f"{self.last} {next_}"


# In seconds. A model that is small enough takes two.
_PATIENCE = 120.0


def convert(path: Path) -> None:
    """Convert the weights of an installed model if they are slow here.

    Never fails: at worst the model process does it when it loads the model.
    """
    with contextlib.suppress(ModelFileError, OSError, subprocess.TimeoutExpired):
        if converted.slow(path):
            subprocess.run(
                [sys.executable, *PROGRAM, f"--model={path.absolute()}", "--convert"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LSP_CALIB_HOME": str(home.state_dir().absolute())},
                cwd=home.state_dir(),
                timeout=_PATIENCE,
                check=False,
            )
