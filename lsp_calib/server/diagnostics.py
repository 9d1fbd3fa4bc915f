"""Diagnostics on inserted suggestions: pulled if the client pulls, otherwise pushed, never both."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types

from lsp_calib.badges import tier_words
from lsp_calib.server.convert import part_of_line, whole_line
from lsp_calib.server.text import CalibDocument
from lsp_calib.settings import Settings
from lsp_calib.values import Suggestion

SOURCE = "lsp-calib"

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


class Diagnostics:
    """The diagnostics of each document, as it is now.

    settings: those in force now.
    document: an open document by its URI, None if it is not open.
    inserted: (line from 0, suggestion) of each line of a document that carries a diagnostic.
    doubtful: (start, end) of the least certain word of a suggestion, given its id and its line's text, in
        code points of the line; None: the diagnostic is on the whole line.
    request_pull: asks the client to pull again; None if it does not pull.
    publish: pushes to the client.
    """

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        document: Callable[[str], CalibDocument | None],
        inserted: Callable[[str], list[tuple[int, Suggestion]]],
        doubtful: Callable[[str, str], tuple[int, int] | None],
        request_pull: Callable[[], object] | None,
        publish: Callable[[types.PublishDiagnosticsParams], None],
    ) -> None:
        self._settings = settings
        self._document = document
        self._inserted = inserted
        self._doubtful = doubtful
        self._request_pull = request_pull
        self._publish = publish

    def current(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of a document; none if it is not open."""
        settings = self._settings()
        document = self._document(uri) if settings.diagnostics else None
        if document is None:
            return []
        lines = document.bare_lines
        found = (
            self._diagnostic(settings, document, line, lines[line], suggestion)
            for line, suggestion in self._inserted(uri)
            if line < len(lines)
        )
        return [diagnostic for diagnostic in found if diagnostic is not None]

    def refresh(self, uri: str) -> None:
        """Tell the client that the diagnostics of a document may have changed."""
        if self._request_pull is not None:
            self._request_pull()
        else:
            self._publish(types.PublishDiagnosticsParams(uri=uri, diagnostics=self.current(uri)))

    def _diagnostic(
        self, settings: Settings, document: CalibDocument, line: int, text: str, suggestion: Suggestion
    ) -> types.Diagnostic | None:
        confidence = suggestion.confidence
        severity = {
            "accept": settings.severity_accept,
            "review": settings.severity_review,
            "reject": settings.severity_reject,
        }[confidence.tier.value]
        if severity == "off":
            return None
        span = self._doubtful(suggestion.id, text)
        return types.Diagnostic(
            range=part_of_line(document, line, text, *span) if span else whole_line(document, line, text),
            message=f"{tier_words(confidence.tier)}: {_reason(suggestion)}",
            severity=_SEVERITY[severity],
            code=confidence.tier.value,
            source=SOURCE,
            data={"id": suggestion.id},
        )


def _reason(suggestion: Suggestion) -> str:
    if suggestion.kind != "summary":
        return suggestion.confidence.reason
    from lsp_calib.summarization.wording import tier_sentence

    return tier_sentence(suggestion.confidence)
