"""A connection to an editor, as its services use it. Imports here delay the answer to `initialize`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

import attrs
from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_calib import __version__
from lsp_calib.inference.engines import open_engine
from lsp_calib.server.messages import CalibProtocol
from lsp_calib.settings import Settings, Trusted, engine_choice

if TYPE_CHECKING:
    from lsp_calib.inference.engine import Engine, StateListener
    from lsp_calib.server.events import Clock, Pace
    from lsp_calib.server.text import CalibDocument

# Of every kind, with all cells: their order, kinds and languages change.
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook(notebook="*")], save=True
)


@attrs.frozen
class ClientTraits:
    """What some editors do and their capabilities do not tell, by the name that each gives itself.

    draws_labels_alone: the completion menu shows label and kind of an item, and its detail only beside the
    selected one. drops_results: the user sees nothing of what a command answers.
    """

    draws_labels_alone: bool = False
    drops_results: bool = False


USUAL = ClientTraits()
KNOWN = {
    # Tried with 25.07 (tests/editors/helix).
    "helix": ClientTraits(draws_labels_alone=True, drops_results=True),
}
"""By `clientInfo.name`, in small letters."""


class Connection(LanguageServer):
    """The editor's settings and documents, and messages to it.

    settings: those in force now. problems: sentences about wrong settings, not yet shown to the user.
    clock: Unix seconds. pace: when idle work is done; None: as usual.
    """

    protocol: CalibProtocol

    def __init__(self) -> None:
        super().__init__(
            "lsp-calib",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=_NOTEBOOKS,
            protocol_cls=CalibProtocol,
        )
        self.settings = Settings()
        self.trusted = Trusted()
        self.problems: list[str] = []
        self.client_traits = USUAL
        self.make_engine: Callable[[StateListener], Engine] = lambda on_state: open_engine(
            engine_choice(self.trusted), on_state
        )
        self.clock: Clock = time.time
        self.pace: Pace | None = None

    def open_document(self, uri: str) -> CalibDocument | None:
        """The document, None unless it is open: no handler reads from disk behind the editor's back."""
        # pygls keeps documents by their names without percent escapes.
        document: CalibDocument | None = self.workspace.text_documents.get(unquote(uri))
        return document

    def folder_of(self, document: CalibDocument) -> str:
        """The address of the workspace folder of a document, "" if it is in none."""
        from lsp_calib.workspace_files import folder_of

        return folder_of(document.file, tuple(self.workspace.folders))

    def show_result(self, text: str) -> None:
        """Show what a command has answered, where the editor does not."""
        if self.client_traits.drops_results:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    def window_show_message(self, params: types.ShowMessageParams) -> None:
        from lsp_calib.characters import shown

        # A message may repeat a name from a file, a model or a workspace.
        super().window_show_message(types.ShowMessageParams(params.type, shown(params.message)))

    def open_documents(self) -> list[CalibDocument]:
        """All open documents, in the order in which they were opened."""
        documents: list[CalibDocument] = list(self.workspace.text_documents.values())
        return documents
