"""`workspace/executeCommand`: the commands of this server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.server.language_server import CalibServer
from lsp_calib.values import is_suggestion_id

# A week.
_MOST_MINUTES = 10_080


def register(server: CalibServer) -> None:
    @server.command("lsp-calib.accepted")
    async def accepted(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has accepted a suggestion. Answered once it is on disk."""
        with _errors_as_answers():
            await ls.session.suggestions.hinted("accepted", _id(arguments))

    @server.command("lsp-calib.rejected")
    async def rejected(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has rejected a suggestion. Answered once it is on disk."""
        with _errors_as_answers():
            await ls.session.suggestions.hinted("rejected", _id(arguments))

    @server.command("lsp-calib.markReviewed")
    async def mark_reviewed(ls: CalibServer, *arguments: Any) -> None:
        ls.session.suggestions.tracking.reviewed(_id(arguments))

    @server.command("lsp-calib.refit")
    async def refit(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with _errors_as_answers():
            return await ls.session.suggestions.refit()

    @server.command("lsp-calib.calibrateWorkspace")
    async def calibrate_workspace(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        """Fit a calibrator on lines of the workspace folder, or on those that the user has committed."""
        from lsp_calib.server.workspace_calibration import CalibrationWish

        wanted = _calibration(arguments)
        with _errors_as_answers():
            if ls.over_tcp:
                raise SettingsError("A client over TCP may not choose a folder on this machine.")
            return await ls.session.calibrate_workspace(CalibrationWish.of(ls, **wanted))

    @server.command("lsp-calib.rollbackCalibrator")
    async def rollback_calibrator(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        with _errors_as_answers():
            return await ls.session.user_requests.roll_back(_calibrator_id(arguments))

    @server.command("lsp-calib.exportFeedback")
    async def export_feedback(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        path = _path(arguments)
        with _errors_as_answers():
            if path is not None and ls.over_tcp:
                raise SettingsError(
                    "A client over TCP may not choose a file: leave the path out, and the export is written "
                    "to the state folder."
                )
            return await ls.session.user_requests.export_feedback(path)

    @server.command("lsp-calib.purgeFeedback")
    async def purge_feedback(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with _errors_as_answers():
            return {"n": await ls.session.user_requests.purge_feedback()}

    @server.command("lsp-calib.showReport")
    async def show_report(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with _errors_as_answers():
            # A client over TCP may be on another machine, where the page is not.
            return {"path": await ls.session.user_requests.show_report(opens=not ls.over_tcp)}

    @server.command("lsp-calib.status")
    async def status(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        return ls.session.status.to_wire()

    @server.command("lsp-calib.explain")
    async def explain(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion."""
        uri = _uri(arguments)
        document = None if uri is None else ls.open_document(uri)
        # Clients escape one URI in several ways: the one with which the document was opened counts.
        return ls.session.user_requests.explain(uri if document is None else document.uri)

    @server.command("lsp-calib.pause")
    async def pause(ls: CalibServer, *arguments: Any) -> None:
        """No completions but those asked for by hand, for some minutes or until `lsp-calib.resume`."""
        ls.session.pause.begin(_minutes(arguments))

    @server.command("lsp-calib.resume")
    async def resume(ls: CalibServer, *_arguments: Any) -> None:
        ls.session.pause.end()

    @server.command("lsp-calib.restartModel")
    async def restart_model(ls: CalibServer, *_arguments: Any) -> None:
        with _errors_as_answers():
            await ls.session.restart_model()


@contextlib.contextmanager
def _errors_as_answers() -> Iterator[None]:
    """Answer an expected error with its message, instead of reporting a fault of the server."""
    try:
        yield
    except LspCalibError as error:
        raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed.value) from error


def _uri(arguments: tuple[Any, ...]) -> str | None:
    """The document that the argument names, None if there is no argument or it names none."""
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    uri = argument.get("uri") if isinstance(argument, dict) else argument
    if not isinstance(argument, dict) or not isinstance(uri, str | None):
        raise JsonRpcInvalidParams(
            'The argument must be an object with the "uri" of a document, or left out.'
        )
    return uri


def _calibrator_id(arguments: tuple[Any, ...]) -> str | None:
    """The id that the argument names, None if there is no argument or it names none."""
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    found = argument.get("id") if isinstance(argument, dict) else argument
    if not isinstance(argument, dict) or not isinstance(found, str | None):
        raise JsonRpcInvalidParams(
            'The argument must be an object with the "id" of a calibrator, or left out.'
        )
    return found


def _path(arguments: tuple[Any, ...]) -> Path | None:
    """The absolute path that the argument names, None if there is no argument or it names none."""
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    named = argument.get("path") if isinstance(argument, dict) else argument
    if isinstance(argument, dict) and named is None:
        return None
    # The server's working folder is the workspace: a relative path would lead into it.
    if not isinstance(argument, dict) or not isinstance(named, str) or not Path(named).is_absolute():
        raise JsonRpcInvalidParams('The argument must be an object with an absolute "path", or left out.')
    return Path(named)


def _minutes(arguments: tuple[Any, ...]) -> float | None:
    """The minutes that the argument names, None if it names none."""
    argument = arguments[0] if arguments and arguments[0] is not None else {}
    minutes = argument.get("minutes") if isinstance(argument, dict) else argument
    fits = isinstance(minutes, int | float) and not isinstance(minutes, bool) and 0 < minutes <= _MOST_MINUTES
    if not isinstance(argument, dict) or not (fits or minutes is None):
        raise JsonRpcInvalidParams(
            f'The argument must be an object with "minutes", a number above 0 and up to {_MOST_MINUTES}, or '
            "left out to pause until lsp-calib.resume."
        )
    return minutes


def _calibration(arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The document, the number of lines and where they come from that the argument names."""
    from lsp_calib.server.workspace_calibration import FEWEST, MOST, SAMPLES

    argument = arguments[0] if arguments and arguments[0] is not None else {}
    if not isinstance(argument, dict):
        raise JsonRpcInvalidParams("The argument must be an object, or left out.")
    uri, task = argument.get("uri"), argument.get("task", "line")
    samples, from_git = argument.get("samples", SAMPLES), argument.get("fromGit", False)
    counts = isinstance(samples, int) and not isinstance(samples, bool) and FEWEST <= samples <= MOST
    if not (isinstance(uri, str | None) and task == "line" and counts and isinstance(from_git, bool)):
        raise JsonRpcInvalidParams(
            'The argument must be an object with "uri" (of a document), "task" ("line"), "samples" '
            f'({FEWEST} to {MOST}) and "fromGit" (true or false), each of which may be left out.'
        )
    return {"uri": uri, "samples": samples, "from_git": from_git}


def _id(arguments: tuple[Any, ...]) -> str:
    found = arguments[0].get("id") if arguments and isinstance(arguments[0], dict) else None
    # The id is stored: anything else could be a text of any length, perhaps source code.
    if not isinstance(found, str) or not is_suggestion_id(found):
        raise JsonRpcInvalidParams(
            'The argument must be an object with the "id" of a suggestion, 16 hexadecimal digits.'
        )
    return found
