"""From a cursor in a document to a line completion with its confidence."""

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.hiding import Hidden
from lsp_calib.completion.postprocess import Cut, Removal
from lsp_calib.completion.selected import Selected
from lsp_calib.completion.service import Completion, CompletionService, Nothing

__all__ = ["Completion", "CompletionService", "Cursor", "Cut", "Hidden", "Nothing", "Removal", "Selected"]
