"""`lsp-calib complete`: a completion at a place in a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lsp_calib.commands.engine import Say, estimator_for, settings_in_force, with_engine
from lsp_calib.commands.source_files import project_of, read_source
from lsp_calib.completion import Completion, CompletionService, Cursor
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.nearby import NOTHING_NEARBY, Nearby
from lsp_calib.completion.neighbourhood import Neighbourhood
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.evaluation.lines import language_of_file
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.engine import Engine
from lsp_calib.settings import Trusted
from lsp_calib.values import Suggestion

_END_OF_LINE = 1 << 30


def complete_at(path: Path, line: int, column: int | None, given: Trusted, say: Say) -> list[Suggestion]:
    """Suggestions at a place, counted from 0; an empty list if the model has none.

    The model is shown as much as in the editor, with the file's repository, or else its folder, as the
    workspace.
    column: of the cursor. None asks for the whole line after its indentation; its present text is not shown
        to the model. given, say: as for `with_engine`.
    Raises DataError if the file cannot be used or has no such line, and what `with_engine` raises.
    """
    lines = list(read_source(path))
    if column is None and 0 <= line < len(lines):
        lines[line] = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    root, _ = project_of(path)
    language = language_of_file(path, root)
    cursor = Cursor.at(lines, line, _END_OF_LINE if column is None else column, language)
    trusted = settings_in_force(given, lambda _: None)
    exclusion = Exclusion(trusted.exclude)

    def around(_document: str, cursor: Cursor, layout: Layout) -> Callable[[], Surroundings]:
        return partial(Neighbourhood().around, path.absolute(), root, (), exclusion, cursor, layout)

    async def ask(engine: Engine) -> list[Suggestion]:
        estimator = estimator_for(given)
        layouts = Layouts(estimator.store.has_labels)
        # Only text of the file itself goes to another machine.
        nearby = Nearby(around) if trusted.remote_url is None else NOTHING_NEARBY
        service = CompletionService(engine, estimator, layout_of=layouts.of, nearby=nearby)
        completion = await service.complete(cursor, document=str(path.absolute()))
        return [completion.suggestion] if isinstance(completion, Completion) else []

    return with_engine(ask, given, say)
