"""`lsp-calib summarize`: a summary of the function at a place in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lsp_calib.commands.engine import Say, estimator_for, settings_in_force, with_engine
from lsp_calib.commands.source_files import RepositoryExamples, project_of, read_source
from lsp_calib.errors import DataError
from lsp_calib.evaluation.lines import language_of_file
from lsp_calib.inference.engine import Engine
from lsp_calib.languages import name_of
from lsp_calib.settings import Trusted
from lsp_calib.summarization import Example, SummaryService
from lsp_calib.summarization.installed_encoder import installed_encoder
from lsp_calib.syntax import has_grammar, innermost_function
from lsp_calib.values import Suggestion

# Seconds for which examples are looked for: about as long as a small model takes to load.
_LOOKING = 5.0


def summarize_at(path: Path, line: int, given: Trusted, say: Say, *, augment: bool = False) -> Suggestion:
    """The summary of the innermost function that holds `line` (from 0). given, say: as for `with_engine`.

    Documented functions of the file's repository are examples for it, unless a remote server is asked: only
    text of the file goes there. augment: as for `SummaryService`.
    Raises DataError if the file cannot be used or no function is there, and what `with_engine` raises.
    """
    lines = read_source(path)
    root, at = project_of(path)
    language = language_of_file(path, root)
    function = innermost_function(lines, line, language)
    if function is None:
        what = f"{name_of(language)} function" if has_grammar(language) else "function that can be found"
        raise DataError(f"There is no {what} at line {line + 1} of {path}.")
    trusted = settings_in_force(given, lambda _: None)

    async def ask(engine: Engine) -> Suggestion:
        examples: Sequence[Example] = ()
        if trusted.remote_url is None:
            repository = RepositoryExamples(trusted.exclude, seconds=_LOOKING)
            looking = asyncio.to_thread(repository.best, path, function, language)
            examples, _ = await asyncio.gather(looking, engine.ready())
        service = SummaryService(engine, estimator_for(given), installed_encoder())
        summary = await service.summarize(
            function,
            language,
            examples=examples,
            augment=augment,
            repository=root.name,
            path=at,
            document=str(path.absolute()),
        )
        if summary is None:
            raise DataError(f"The model gave no summary of {function.name}. Another model may.")
        return summary.suggestion

    return with_engine(ask, given, say)
