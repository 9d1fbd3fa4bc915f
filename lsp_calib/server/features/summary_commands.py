"""`workspace/executeCommand`: the commands for the summary of the function at a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_calib.errors import SettingsError
from lsp_calib.server import arguments as checked
from lsp_calib.server.arguments import errors_as_answers
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.server.summary_target import Target
    from lsp_calib.server.text import CalibDocument


def register(server: CalibServer) -> None:
    @server.command("lsp-calib.insertSummary")
    async def insert(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        """Insert the summary as documentation: {applied, reason, suggestion}."""
        with errors_as_answers():
            document, target = await _target(ls, arguments, for_prompt=True)
            done = await ls.session.summaries.edits.insert(document, target)
            if not done["applied"]:
                ls.session.inform(done["reason"])
            return done

    @server.command("lsp-calib.showSummary")
    async def show(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """The summary in a message; made now unless it is known. Returns the suggestion."""
        from lsp_calib.server.summary_edits import NONE_MADE
        from lsp_calib.summarization.wording import tier_sentence

        with errors_as_answers():
            document, target = await _target(ls, arguments, for_prompt=True)
            summary = await ls.session.summaries.requests.of(document.uri, target.function, target.language)
            ls.session.summaries.hovered(document.uri, target.function.start)
            if summary is None or summary == "pending":
                ls.session.inform(NONE_MADE)
                return None
            ls.session.status.shown(summary)
            sentence = tier_sentence(summary.confidence)
            ls.session.inform(f"{summary.text} ({summary.confidence.tier.value}: {sentence})")
            return summary.to_wire()

    @server.command("lsp-calib.regenerateSummary")
    async def regenerate(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """Another wording in place of the summary. Returns the suggestion."""
        from lsp_calib.server.summary_edits import NONE_MADE

        with errors_as_answers():
            document, target = await _target(ls, arguments, for_prompt=True)
            made = await ls.session.summaries.requests.reword(document.uri, target.function, target.language)
            # Not every editor shows a summary that has changed.
            ls.session.inform(NONE_MADE if made is None else f"The summary is now: {made.text}")
            return None if made is None else made.to_wire()

    @server.command("lsp-calib.reportSummary")
    async def report(ls: CalibServer, *arguments: Any) -> None:
        """The user says that the summary is wrong. Answered once it is on disk."""
        with errors_as_answers():
            document, target = await _target(ls, arguments)
            known = ls.session.summaries.requests.known(document.uri, target.function, target.language)
            if known is None:
                raise SettingsError("This function has no summary yet, so there is nothing to report.")
            await ls.session.summaries.edits.report_wrong(document.uri, known)


async def _target(
    ls: CalibServer, arguments: tuple[Any, ...], *, for_prompt: bool = False
) -> tuple[CalibDocument, Target]:
    """The open document and the function that the argument names.

    for_prompt: the model is to see it. Raises SettingsError if there is none, or if the model may not.
    """
    from lsp_calib.server.summary_target import function_around

    uri, position = checked.place(arguments)
    document = ls.open_document(uri)
    if document is None:
        raise SettingsError("This document is not open in the editor, so its functions are not known.")
    refusal = await ls.session.refusal(uri) if for_prompt else None
    if refusal is not None:
        raise SettingsError(refusal.message)
    target = function_around(document, position)
    if target is None:
        raise SettingsError("There is no function at this place, or none that can be found in this language.")
    return document, target
