"""`lsp-calib summarize`: a summary of the function at a place in a file."""

from __future__ import annotations

from pathlib import Path

from lsp_calib.commands.engine import Say, estimator_for, with_engine
from lsp_calib.commands.source_files import read_source
from lsp_calib.errors import DataError
from lsp_calib.inference.engine import Engine
from lsp_calib.languages import language_of, name_of
from lsp_calib.settings import Trusted
from lsp_calib.summarization import SummaryService
from lsp_calib.syntax import has_grammar, innermost_function
from lsp_calib.values import Suggestion


def summarize_at(path: Path, line: int, given: Trusted, say: Say) -> Suggestion:
    """The summary of the innermost function that holds `line` (from 0). given, say: as for `with_engine`.

    Raises DataError if the file cannot be used or no function is there, and what `with_engine` raises.
    """
    lines, language = read_source(path), language_of(path)
    function = innermost_function(lines, line, language)
    if function is None:
        what = f"{name_of(language)} function" if has_grammar(language) else "function that can be found"
        raise DataError(f"There is no {what} at line {line + 1} of {path}.")

    async def ask(engine: Engine) -> Suggestion:
        service = SummaryService(engine, estimator_for(given))
        summary = await service.summarize(function, language)
        if summary is None:
            raise DataError(f"The model gave no summary of {function.name}. Another model may.")
        return summary.suggestion

    return with_engine(ask, given, say)
