"""What an editor asks for: completions, the commands (`workspace/executeCommand`), and the hovers, lenses and
code actions of summaries.

The arguments of commands are checked. A LspCalibError is an answer with its message (`CalibProtocol`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams

from lsp_calib.badges import BADGES, counted, percent, tier_and_reason, tier_sentence, tier_words
from lsp_calib.server.app import CalibServer
from lsp_calib.server.documents import CalibDocument, cursor_at, part_of_line
from lsp_calib.server.messages import is_of_kind
from lsp_calib.values import is_suggestion_id

if TYPE_CHECKING:
    from lsp_calib.completion.context import Cursor
    from lsp_calib.completion.service import Completion
    from lsp_calib.server.summaries import Target
    from lsp_calib.values import Suggestion

logger = logging.getLogger(__name__)
Arguments = tuple[Any, ...]
# A week.
_MOST_MINUTES = 10_080
# The most that LSP's unsigned numbers can hold.
_MOST = 2**31 - 1
_NO_SUMMARY = "The model gave no summary of this function."


def register(server: CalibServer) -> None:
    # Without options pygls does not advertise the feature.
    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
    async def inline_completion(
        ls: CalibServer, params: types.InlineCompletionParams
    ) -> types.InlineCompletionList | None:
        document = ls.open_document(params.text_document.uri)
        if document is None:
            return None
        cursor = cursor_at(document, params.position)
        found = await ls.session.completions.inline(document, cursor, params.context)
        if found is None:
            return None
        return types.InlineCompletionList([_ghost_text(document, *one) for one in found])

    options = types.CompletionOptions(trigger_characters=[".", "(", "=", " "])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    async def complete(ls: CalibServer, params: types.CompletionParams) -> types.CompletionList:
        document = ls.open_document(params.text_document.uri)
        if document is None:
            return types.CompletionList(is_incomplete=False, items=[])
        cursor = cursor_at(document, params.position)
        found = await ls.session.completions.menu(document, cursor, params.context)
        return types.CompletionList(found is not None, _items(ls, document, cursor, found or ()))

    @server.feature("lsp-calib/cursor")
    def cursor(ls: CalibServer, params: Any) -> None:
        """Where the cursor is now."""
        try:
            place = _place_of_request(params)
        except JsonRpcInvalidParams:
            logger.warning("Ignored lsp-calib/cursor of the editor: it names no place in a document.")
            return
        ls.session.cursor(*place)

    @server.feature("lsp-calib/nextEdit")
    async def next_edit(ls: CalibServer, params: Any) -> dict[str, Any] | None:
        """Where the last edit probably belongs next."""
        uri, position = _place_of_request(params)
        document = ls.open_document(uri)
        return None if document is None else await ls.session.next_edits.next(document, position)

    @server.command("lsp-calib.editApplied")
    async def edit_applied(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has applied edits. Answered once it is on disk."""
        for one in arguments or (None,):
            await ls.session.recorder.hint("accepted", _suggestion_id((one,)))

    @server.command("lsp-calib.editDismissed")
    async def edit_dismissed(ls: CalibServer, *arguments: Any) -> None:
        """The user does not want an edit. Answered once it is on disk."""
        await ls.session.next_edits.dismissed(_suggestion_id(arguments))

    @server.command("lsp-calib.accepted")
    async def accepted(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has accepted a suggestion. Answered once it is on disk."""
        await ls.session.recorder.hint("accepted", _suggestion_id(arguments))

    @server.command("lsp-calib.rejected")
    async def rejected(ls: CalibServer, *arguments: Any) -> None:
        """A hint that the user has rejected a suggestion. Answered once it is on disk."""
        suggestion = _suggestion_id(arguments)
        ls.session.suggestions.refused.rejected(suggestion)
        await ls.session.recorder.hint("rejected", suggestion)

    @server.command("lsp-calib.markReviewed")
    async def mark_reviewed(ls: CalibServer, *arguments: Any) -> None:
        ls.session.suggestions.reviewed(_suggestion_id(arguments))

    @server.command("lsp-calib.refit")
    async def refit(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        done = await ls.session.learning.refit()
        ls.show_result(f"Refit: {done['reason']}.")
        return done

    @server.command("lsp-calib.rollbackCalibrator")
    async def rollback_calibrator(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        return await ls.session.learning.roll_back(
            _optional(arguments, "id", _is_text, 'the "id" of a calibrator, or left out')
        )

    @server.command("lsp-calib.exportFeedback")
    async def export_feedback(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        # The server's working folder is the workspace: a relative path would lead into it.
        path = _optional(arguments, "path", _is_absolute, 'an absolute "path", or left out')
        from lsp_calib import home
        from lsp_calib.feedback.store import export_file

        file = (
            home.state_dir() / f"feedback-{time.strftime('%Y%m%dT%H%M%S')}.jsonl"
            if path is None
            else Path(path)
        )
        n = await ls.session.recorder.run(lambda store: export_file(store, file))
        ls.show_result(f"Exported: {counted(n, 'suggestion')}, to {file}.")
        return {"path": str(file), "n": n}

    @server.command("lsp-calib.purgeFeedback")
    async def purge_feedback(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        """Remove everything that is stored of suggestions, and empty the logs."""
        from lsp_calib import home
        from lsp_calib.feedback.removal import remove_everything

        state = home.state_dir()
        return {"n": await ls.session.recorder.run(lambda store: remove_everything(store, state))}

    @server.command("lsp-calib.showReport")
    async def show_report(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        return {"path": await ls.session.report_page.show()}

    @server.command("lsp-calib.status")
    async def status(ls: CalibServer, *_arguments: Any) -> dict[str, Any]:
        status = ls.session.status.to_wire()
        ls.show_result(f"lsp-calib: {status['state']}. {status['message']}")
        return status

    @server.command("lsp-calib.explain")
    async def explain(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion, or why no next edit is offered."""
        uri = _optional(arguments, "uri", _is_text, 'the "uri" of a document, or left out')
        document = None if uri is None else ls.open_document(uri)
        if _optional(arguments, "kind", _is_text, 'a "kind", "line" or "edit", or left out') == "edit":
            return None if document is None else await ls.session.next_edits.explain(document)
        # Clients escape one URI in several ways: the one with which the document was opened counts.
        uri = uri if document is None else document.uri
        if (last := ls.session.completions.last(uri)) is None:
            ls.show_result("No completion has been asked for yet. Type, or open the completion menu.")
            return None
        absence = ls.session.completions.explain(last)
        answered = "The last request was answered with a suggestion."
        ls.show_result(answered if absence is None else absence["message"])
        return absence

    @server.command("lsp-calib.pause")
    async def pause(ls: CalibServer, *arguments: Any) -> None:
        """No completions but those asked for by hand, for some minutes or until `lsp-calib.resume`."""
        number = f'"minutes", a number above 0 and up to {_MOST_MINUTES}'
        words = f"{number}, or left out to pause until lsp-calib.resume"
        ls.session.admission.pause.begin(_optional(arguments, "minutes", _is_minutes, words))
        ls.show_result(ls.session.admission.pause.message)

    @server.command("lsp-calib.resume")
    async def resume(ls: CalibServer, *_arguments: Any) -> None:
        ls.session.admission.pause.end()
        ls.show_result("Completions are on again.")

    @server.command("lsp-calib.restartModel")
    async def restart_model(ls: CalibServer, *_arguments: Any) -> None:
        await ls.session.model.restart()

    @server.command("lsp-calib.insertSummary")
    async def insert(ls: CalibServer, *arguments: Any) -> dict[str, Any]:
        """Insert the summary as documentation: {applied, reason, suggestion}."""
        done = await ls.session.summaries.insert(await _target(ls, arguments))
        if not done["applied"]:
            ls.session.messages.inform(done["reason"])
        return done

    @server.command("lsp-calib.showSummary")
    async def show(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """The summary in a message; made now unless it is known. Returns the suggestion."""
        summary = await ls.session.summaries.show(await _target(ls, arguments))
        if summary is None:
            ls.session.messages.inform(_NO_SUMMARY)
            return None
        words = tier_words(summary.confidence.tier).lower()
        ls.session.messages.inform(f"{summary.text} ({words}: {tier_sentence(summary.confidence)})")
        return summary.to_wire()

    @server.command("lsp-calib.regenerateSummary")
    async def regenerate(ls: CalibServer, *arguments: Any) -> dict[str, Any] | None:
        """Another wording in place of the summary. Returns the suggestion."""
        made = await ls.session.summaries.requests.reword(await _target(ls, arguments))
        # Not every editor shows a summary that has changed.
        ls.session.messages.inform(_NO_SUMMARY if made is None else f"The summary is now: {made.text}")
        return None if made is None else made.to_wire()

    @server.command("lsp-calib.reportSummary")
    async def report(ls: CalibServer, *arguments: Any) -> None:
        """The user says that the summary is wrong. Answered once it is on disk."""
        await ls.session.summaries.report(await _target(ls, arguments, for_prompt=False))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: CalibServer, params: types.HoverParams) -> types.Hover | None:
        ls.session.completions.ahead.seen(params.text_document.uri, params.position)
        return await ls.session.summaries.hover(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def lenses(ls: CalibServer, params: types.CodeLensParams) -> list[types.CodeLens] | None:
        return await ls.session.summaries.lenses(params.text_document.uri)

    kinds = [types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def actions(
        ls: CalibServer, params: types.CodeActionParams
    ) -> list[types.CodeAction | types.Command] | None:
        if params.range.start == params.range.end:
            ls.session.completions.ahead.seen(params.text_document.uri, params.range.start)
        found = await ls.session.summaries.actions(params)
        if (document := ls.open_document(params.text_document.uri)) is None:
            return found
        only, kind = params.context.only, types.CodeActionKind.RefactorRewrite
        if only is None or any(is_of_kind(kind, wanted) for wanted in only):
            found = [*await ls.session.next_edits.actions(document, params), *(found or ())]
        return found


def _ghost_text(
    document: CalibDocument, completion: Completion, suggestion: Suggestion
) -> types.InlineCompletionItem:
    """suggestion: that of the completion, or of the block that begins with it."""
    cursor = completion.cursor
    start, end = cursor.column, cursor.column + len(completion.replaced)
    return types.InlineCompletionItem(
        insert_text=suggestion.text,
        range=part_of_line(document, cursor.own_line, completion.present_line, start, end),
        command=types.Command(
            title="Tell lsp-calib", command="lsp-calib.accepted", arguments=[suggestion.to_wire()]
        ),
    )


def _word_start(text: str) -> int:
    """The index at which the word at the end of a text begins."""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return start


def _items(
    ls: CalibServer, document: CalibDocument, cursor: Cursor, found: Sequence[Completion]
) -> list[types.CompletionItem]:
    """The items of the menu for completions at a cursor."""
    start = _word_start(cursor.before)
    word = cursor.before[start:]
    edit_range = part_of_line(document, cursor.own_line, cursor.before, start, cursor.column)
    client = ls.client_capabilities
    has_details = get_capability(client, "text_document.completion.completion_item.label_details_support")
    items = []
    for suggestion in (one.suggestion for one in found):
        tier, text = suggestion.confidence.tier, word + suggestion.text
        number = percent(suggestion.confidence.calibrated)
        mark = f"{BADGES[tier.value]['mark']} " if ls.client_traits.draws_labels_alone else ""
        details = types.CompletionItemLabelDetails(description=tier.value) if has_details else None
        items.append(
            types.CompletionItem(
                label=mark + (text.strip() or text),
                label_details=details,
                detail=number if has_details else f"{tier.value} · {number}",
                documentation=tier_and_reason(suggestion),
                kind=types.CompletionItemKind.Text,
                # Sorted after everything that the language's own server offers.
                sort_text="\U0010ffff" * suggestion.rank,
                filter_text=text,
                text_edit=types.TextEdit(edit_range, text),
                data=suggestion.to_wire(),
            )
        )
    return items


async def _target(ls: CalibServer, arguments: Arguments, *, for_prompt: bool = True) -> Target:
    """The function of an open document that the argument names, see `Summaries.target`."""
    return await ls.session.summaries.target(*_place(arguments), for_prompt=for_prompt)


def _suggestion_id(arguments: Arguments) -> str:
    """The id of a suggestion."""
    # It is stored: anything else could be a text of any length, perhaps source code.
    found = arguments[0].get("id") if arguments and isinstance(arguments[0], dict) else None
    if not is_suggestion_id(found):
        raise _wrong('the "id" of a suggestion, 16 hexadecimal digits')
    return str(found)


def _place(arguments: Arguments) -> tuple[str, types.Position]:
    """A place in a document: its URI and an LSP position."""
    argument = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
    named, position = argument.get("uri"), argument.get("position")
    position = position if isinstance(position, dict) else {}
    line, character = position.get("line"), position.get("character")
    if not isinstance(named, str) or not _is_count(line) or not _is_count(character):
        raise _wrong('the "uri" of a document and a "position", {"line", "character"} from 0')
    return named, types.Position(line, character)


def _place_of_request(params: Any) -> tuple[str, types.Position]:
    """The place that the parameters of a method of our own name, as of `_place`."""
    try:
        return _place(({"uri": params["textDocument"]["uri"], "position": params["position"]},))
    except (TypeError, LookupError):
        raise _wrong('a "textDocument" and a "position"') from None


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
