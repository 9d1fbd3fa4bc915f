"""How one client reacts to the deaths of model processes. Pure: no processes, no clock.

A process that dies is started again by the next request. One that dies while it loads, or whose native code
crashes before the first answer, would leave its user waiting: it is started again at once, in a safer way
where native code has crashed. After three deaths without an answer the client gives up.
"""

from __future__ import annotations

import time
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import LspCalibError, ModelFileError, NoModelError
from lsp_calib.inference.backend import EIGHT_BIT
from lsp_calib.inference.process import starting
from lsp_calib.inference.process.starting import Safety
from lsp_calib.installation import install_command

_Files = frozenset[tuple[str, int, int]]


@attrs.frozen
class Failure:
    """files: those of models, as they were when it happened; None if it has nothing to do with them.

    until: the moment, on the monotonic clock, from which on another try is worth while; None: there is none.
    """

    error: LspCalibError
    files: _Files | None = None
    until: float | None = None

    @classmethod
    def of(cls, error: LspCalibError, wanted: str | None) -> Failure:
        """wanted: the model that was asked for, as for `choose`."""
        of_files = isinstance(error, NoModelError | ModelFileError)
        return cls(error, _files(wanted) if of_files else None)

    def is_over(self, wanted: str | None) -> bool:
        """Whether another try is worth while: a model was pulled, removed or replaced, or time has passed."""
        if self.until is not None:
            return time.monotonic() >= self.until
        return self.files is not None and self.files != _files(wanted)


def _files(wanted: str | None) -> _Files:
    """The files that can be models: names, sizes and times."""
    found = set()
    try:
        entries = [path for path in (home.state_dir() / "models").iterdir() if path.suffix == ".gguf"]
    except OSError:
        entries = []
    for path in (*entries, *([Path(wanted)] if wanted and Path(wanted).is_absolute() else [])):
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        found.add((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(found)


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
    """The deaths since the last answer.

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

    def died(self, code: int | None, *, silent: bool = False) -> str:
        """Count a death and return a message for the user.

        code: the exit code, None if it is not known. silent: the process was ended because it did not react.
        """
        self._count += 1
        how = "" if code is None else f" ({starting.how(code)})"
        how = " (it did not react)" if silent else how
        crashed = starting.crashed(code) and not self._answered
        self.at_once = crashed or silent or not self._loaded
        if crashed:
            # An acceleration that crashed although its trial succeeded is not used again; nor is one that the
            # model can do without at little cost.
            hopeless = self._tried or self.safety.careful or self._acceleration == EIGHT_BIT
            again = (self._acceleration,) if hopeless and self._acceleration else ()
            self.safety = Safety(careful=True, avoid=(*self.safety.avoid, *again))
        self._loaded = self._answered = self._tried = False
        self._acceleration = ""
        if self.too_many:
            self.at_once = False
            advice = _SMALLER if starting.killed(code) else _otherwise()
            return f"The model process ended {self._count} times before it answered{how}. {advice}"
        self.last = f"The model process ended unexpectedly{how}."
        if silent:
            self.last = "The model process did not react, as one that is stopped, and was ended."
        if not self.at_once:
            next_ = "The next request starts it again."
        elif self.safety.careful:
            next_ = "It is started again in a safer way."
        else:
            next_ = "It is started again."
        return f"{self.last} {next_}"
