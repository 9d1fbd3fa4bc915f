"""`workspace/executeCommand`: the commands of this server."""

from __future__ import annotations

from typing import Any

from lsp_calib.errors import SettingsError
from lsp_calib.server import arguments as checked
from lsp_calib.server.arguments import errors_as_answers
from lsp_calib.server.language_server import CalibServer


def register(server: CalibServer) -> None:
    @server.command("lsp-calib.accepted")
    async def accepted(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has accepted a suggestion. Answered once it is on disk."""
        with errors_as_answers():
            await ls.session.suggestions.hinted("accepted", checked.suggestion_id(arguments))

    @server.command("lsp-calib.rejected")
    async def rejected(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has rejected a suggestion. Answered once it is on disk."""
        with errors_as_answers():
            await ls.session.suggestions.hinted("rejected", checked.suggestion_id(arguments))

    @server.command("lsp-calib.markReviewed")
    async def mark_reviewed(ls: CalibServer, *arguments: Any) -> None:
        ls.session.suggestions.tracking.reviewed(checked.suggestion_id(arguments))

    @server.command("lsp-calib.refit")
    async def refit(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with errors_as_answers():
            done = await ls.session.suggestions.refit()
        ls.show_result(f"Refit: {done['reason']}.")
        return done

    @server.command("lsp-calib.calibrateWorkspace")
    async def calibrate_workspace(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        """Fit a calibrator on lines of the workspace folder, or on those that the user has committed."""
        from lsp_calib.server.workspace_calibration import CalibrationWish

        wanted = checked.calibration(arguments)
        with errors_as_answers():
            if ls.over_tcp:
                raise SettingsError("A client over TCP may not choose a folder on this machine.")
            return await ls.session.calibrate_workspace(CalibrationWish.of(ls, **wanted))

    @server.command("lsp-calib.rollbackCalibrator")
    async def rollback_calibrator(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        with errors_as_answers():
            return await ls.session.user_requests.roll_back(checked.calibrator_id(arguments))

    @server.command("lsp-calib.exportFeedback")
    async def export_feedback(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        path = checked.path(arguments)
        with errors_as_answers():
            if path is not None and ls.over_tcp:
                raise SettingsError(
                    "A client over TCP may not choose a file: leave the path out, and the export is written "
                    "to the state folder."
                )
            done = await ls.session.user_requests.export_feedback(path)
        ls.show_result(f"Exported: {done['n']} suggestions, to {done['path']}.")
        return done

    @server.command("lsp-calib.purgeFeedback")
    async def purge_feedback(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with errors_as_answers():
            return {"n": await ls.session.user_requests.purge_feedback()}

    @server.command("lsp-calib.showReport")
    async def show_report(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        with errors_as_answers():
            # A client over TCP may be on another machine, where the page is not.
            return {"path": await ls.session.user_requests.show_report(opens=not ls.over_tcp)}

    @server.command("lsp-calib.status")
    async def status(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        status = ls.session.status.to_wire()
        ls.show_result(f"lsp-calib: {status['state']}. {status['message']}")
        return status

    @server.command("lsp-calib.explain")
    async def explain(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion."""
        uri = checked.uri(arguments)
        document = None if uri is None else ls.open_document(uri)
        # Clients escape one URI in several ways: the one with which the document was opened counts.
        uri = uri if document is None else document.uri
        absence = ls.session.user_requests.explain(uri)
        if absence is not None:
            ls.show_result(absence["message"])
        elif ls.session.user_requests.was_asked(uri):
            ls.show_result("The last request was answered with a suggestion.")
        else:
            ls.show_result("No completion has been asked for yet. Type, or open the completion menu.")
        return absence

    @server.command("lsp-calib.pause")
    async def pause(ls: CalibServer, *arguments: Any) -> None:
        """No completions but those asked for by hand, for some minutes or until `lsp-calib.resume`."""
        ls.session.pause.begin(checked.minutes(arguments))
        ls.show_result(ls.session.pause.message)

    @server.command("lsp-calib.resume")
    async def resume(ls: CalibServer, *_arguments: Any) -> None:
        ls.session.pause.end()
        ls.show_result("Completions are on again.")

    @server.command("lsp-calib.restartModel")
    async def restart_model(ls: CalibServer, *_arguments: Any) -> None:
        with errors_as_answers():
            await ls.session.restart_model()
