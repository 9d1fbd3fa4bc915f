"""From a function to a one-line summary with its confidence."""

from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.service import Summary, SummaryService

__all__ = ["Example", "Summary", "SummaryService"]
