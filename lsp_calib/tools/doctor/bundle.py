"""Writes a file for a bug report: the findings of the doctor, and the parts of logs without source text.

It can be sent without checking it first: it contains no text of a document, no suggestion, no key and no name
of the user. Of each line of a log only the time, the level, the module and the types of the errors are kept;
the message is dropped, since it may quote typed text.
"""

from __future__ import annotations

import builtins
import inspect
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from lsp_calib import errors, home
from lsp_calib.files import exported, read_file
from lsp_calib.settings import without_value

_MOST_LINES = 2000
_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[,.]\d{1,6})?) "
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<module>(?:lsp_calib|pygls)(?:\.[a-z_]+)*): "
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
# Errors that this package, Python or its libraries raise: a class from the user's code is not among them.
_KNOWN = {
    name
    for name, one in (vars(builtins) | vars(errors)).items()
    if inspect.isclass(one) and issubclass(one, BaseException)
} | {
    *("JsonRpcException", "JsonRpcInvalidParams", "FeatureRequestError", "StructureHandlerError"),
    "SQLITE_BUSY",
}
_READ_ME = """\
Written by `lsp-calib doctor --bundle` for a bug report.

doctor.json  what was found on the machine
log.txt      of each line of the logs its time, level, module, and the types of errors it names

Messages are left out, since they may quote what was typed; your home folder reads ~, your name reads user.
"""

_new_file = partial(exported, what="bundle", option=" with --bundle")


def check_place(path: Path) -> None:
    """Raises SettingsError if there is a file of this name, DataError if none can be made there.

    The file is made and removed again: the folder's permissions alone do not say whether it can be.
    """
    with _new_file(path):
        pass
    path.unlink(missing_ok=True)


def write_bundle(path: Path, report: dict[str, Any]) -> None:
    """Write a new ZIP file, readable only by its owner. What was written of one that could not be finished is
    removed.

    Raises as `check_place`.
    """
    with _new_file(path) as stream, zipfile.ZipFile(stream.buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", _READ_ME)
        archive.writestr("doctor.json", json.dumps(scrubbed(report), indent=2))
        archive.writestr("log.txt", "".join(line + "\n" for line in _logs()))


def scrubbed(value: Any, folder: Path | None = None) -> Any:
    """JSON without text that identifies the user: the home folder, and its name in paths and addresses.

    folder: the home folder; None for that of the current user.
    """
    if folder is None:
        try:
            folder = Path.home()
        except RuntimeError:  # a user without one is not named either
            return value
    if isinstance(value, dict):
        return {key: scrubbed(one, folder) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [scrubbed(one, folder) for one in value]
    if not isinstance(value, str):
        return value
    text = value
    if folder.name:
        user = re.escape(folder.name)
        text = re.sub(rf"{re.escape(str(folder))}(?![\w.-])", "~", text)
        text = re.sub(rf"(?<=[/\\]){user}(?![\w.-])|(?<![\w.-]){user}(?=@)", "user", text)
    return re.sub(r"(?<=://)[^/@\s]+@", "", without_value(text))


def safe_lines(lines: Iterable[str]) -> Iterator[str]:
    """The parts of each log line that cannot be source text; lines of another form are only counted."""
    matched = ((line, _LINE.match(line)) for line in lines)
    for known, found in groupby(matched, lambda one: one[1] is not None):
        if not known:
            count = len(list(found))
            yield f"({count} line{'' if count == 1 else 's'} left out)"
            continue
        for line, match in found:
            assert match is not None
            named = sorted(set(_WORD.findall(line[match.end() :])) & _KNOWN)
            yield " ".join([match["time"], match["level"], match["module"], *named])


def _logs() -> Iterator[str]:
    for path in sorted((home.state_dir() / "log").glob("*.log")):
        yield f"== {path.name if path.name in ('model.log', 'server.log') else 'a log'}"
        try:
            lines = read_file(path).decode("utf-8", "replace").splitlines(keepends=True)
        except OSError as error:
            yield f"(it cannot be read: {error.strerror})"
        else:
            yield from safe_lines(lines[-_MOST_LINES:])
