"""What commands have in common: arguments, checked, and expected errors as answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from lsp_calib.errors import LspCalibError
from lsp_calib.values import is_suggestion_id

# A week.
_MOST_MINUTES = 10_080
# The most that LSP's unsigned numbers can hold.
_MOST = 2**31 - 1

# Lines that a calibration on the workspace completes.
SAMPLES = 200
FEWEST_SAMPLES, MOST_SAMPLES = 20, 5000
_CALIBRATION = (
    f'"uri" (of a document), "task" ("line"), "samples" ({FEWEST_SAMPLES} to {MOST_SAMPLES}) and "fromGit" '
    "(true or false), each of which may be left out"
)

Arguments = tuple[Any, ...]


def uri(arguments: Arguments) -> str | None:
    """The document that the argument names, None if there is no argument or it names none."""
    found: str | None = _optional(arguments, "uri", _is_text, 'the "uri" of a document, or left out')
    return found


def calibrator_id(arguments: Arguments) -> str | None:
    """The id that the argument names, None if there is no argument or it names none."""
    found: str | None = _optional(arguments, "id", _is_text, 'the "id" of a calibrator, or left out')
    return found


def path(arguments: Arguments) -> Path | None:
    """The absolute path that the argument names, None if there is no argument or it names none."""
    # The server's working folder is the workspace: a relative path would lead into it.
    named = _optional(arguments, "path", _is_absolute, 'an absolute "path", or left out')
    return None if named is None else Path(named)


def minutes(arguments: Arguments) -> float | None:
    """The minutes that the argument names, None if it names none."""
    number = f'"minutes", a number above 0 and up to {_MOST_MINUTES}'
    words = f"{number}, or left out to pause until lsp-calib.resume"
    found: float | None = _optional(arguments, "minutes", _is_minutes, words)
    return found


def suggestion_id(arguments: Arguments) -> str:
    """The id of a suggestion."""
    # It is stored: anything else could be a text of any length, perhaps source code.
    found = arguments[0].get("id") if arguments and isinstance(arguments[0], dict) else None
    if not is_suggestion_id(found):
        raise _wrong('the "id" of a suggestion, 16 hexadecimal digits')
    return str(found)


def place(arguments: Arguments) -> tuple[str, types.Position]:
    """A place in a document: its URI and an LSP position."""
    argument = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
    named, position = argument.get("uri"), argument.get("position")
    position = position if isinstance(position, dict) else {}
    line, character = position.get("line"), position.get("character")
    if not isinstance(named, str) or not _is_count(line) or not _is_count(character):
        raise _wrong('the "uri" of a document and a "position", {"line", "character"} from 0')
    return named, types.Position(line, character)


def calibration(arguments: Arguments) -> dict[str, Any]:
    """The document, the number of lines and where they come from, as `CalibrationWish.of` takes them."""
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    if not isinstance(argument, dict):
        raise _wrong(_CALIBRATION)
    named, task = argument.get("uri"), argument.get("task", "line")
    samples, from_git = argument.get("samples", SAMPLES), argument.get("fromGit", False)
    counts = _is_count(samples) and FEWEST_SAMPLES <= samples <= MOST_SAMPLES
    if not (isinstance(named, str | None) and task == "line" and counts and isinstance(from_git, bool)):
        raise _wrong(_CALIBRATION)
    return {"uri": named, "samples": samples, "from_git": from_git}


def _optional(arguments: Arguments, key: str, fits: Callable[[object], bool], words: str) -> Any:
    """The value of a key of the argument, None if there is no argument or no such value.

    words: what the argument must be an object with.
    """
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    found = argument.get(key) if isinstance(argument, dict) else argument
    if not isinstance(argument, dict) or not (found is None or fits(found)):
        raise _wrong(words)
    return found


def _wrong(words: str) -> JsonRpcInvalidParams:
    return JsonRpcInvalidParams(f"The argument must be an object with {words}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_absolute(value: object) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()


def _is_minutes(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST_MINUTES


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


@contextlib.contextmanager
def errors_as_answers() -> Iterator[None]:
    """Answer an expected error with its message, instead of reporting a fault of the server."""
    try:
        yield
    except LspCalibError as error:
        raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed.value) from error
