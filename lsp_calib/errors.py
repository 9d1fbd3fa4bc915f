"""Every error this package raises on purpose.

    LspCalibError
    ├── SettingsError        a setting or an argument is wrong             exit code 2
    ├── DataError            arrays or files that a computation cannot use exit code 3
    ├── CalibratorError      a calibrator's JSON is unreadable or foreign  exit code 3
    ├── ModelError           the model cannot be used                      exit code 4
    │   ├── NoModelError         none is installed
    │   ├── ModelFileError       truncated, not GGUF, wrong checksum
    │   └── DownloadError        no source delivered the file
    ├── EngineError          the model is there but did not answer         exit code 5
    │   ├── EngineDiedError      the model process ended during a request
    │   ├── RequestCancelledError
    │   │   └── SupersededError  by a newer request for the same document
    │   └── DeadlineError        not answered in the time allowed
    ├── StoppedError         the user pressed Ctrl-C; work is kept         exit code 130
    └── SandboxError         unread code cannot be run safely              exit code 6

Each message says what happened, what it means if that is not obvious, and what to do.
An `LspCalibError` becomes exactly one of: a log line, a `window/showMessage`, a JSON-RPC error or an exit
code.
"""

import typing


class LspCalibError(Exception):
    """Base of all errors raised on purpose. `str(error)` is fit to be shown to the user."""

    exit_code = 1


class SettingsError(LspCalibError):
    exit_code = 2


class DataError(LspCalibError):
    exit_code = 3


class CalibratorError(LspCalibError):
    exit_code = 3


class ModelError(LspCalibError):
    exit_code = 4


class NoModelError(ModelError):
    pass


class ModelFileError(ModelError):
    pass


class DownloadError(ModelError):
    pass


class EngineError(LspCalibError):
    exit_code = 5


class EngineDiedError(EngineError):
    pass


class RequestCancelledError(EngineError):
    pass


class SupersededError(RequestCancelledError):
    pass


class DeadlineError(EngineError):
    pass


class StoppedError(LspCalibError):
    exit_code = 130


class SandboxError(LspCalibError):
    exit_code = 6


E = typing.TypeVar("E", bound=LspCalibError)


def copy_error(error: E) -> E:
    """A copy of an error: raise a new copy for each further caller.

    An exception that is kept and raised again collects the frames of all its callers in its traceback, with
    their variables. These take memory and hold the prompts of users.
    """
    return type(error)(str(error))
