"""`lsp-calib complete`: a completion at a place in a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lsp_calib.commands.engine import Say, estimator_for, settings_in_force, wanted_window, with_engine
from lsp_calib.commands.source_files import project_of, read_source
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import REMOVED, Removal
from lsp_calib.completion.prompt import Layout, LayoutChooser, Surroundings
from lsp_calib.completion.related_code import NOTHING_NEARBY, Nearby, Neighbourhood
from lsp_calib.completion.service import Completion, CompletionService, Nothing
from lsp_calib.errors import DataError
from lsp_calib.evaluation.lines import language_of_file
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.engine import Engine
from lsp_calib.settings import Trusted
from lsp_calib.values import Suggestion

_END_OF_LINE = 1 << 30


def complete_at(path: Path, line: int, column: int | None, given: Trusted, say: Say) -> list[Suggestion]:
    """Suggestions at a place, counted from 0; an empty list if the model has none, and the reason is said.
    Of one that goes over closers behind the place the part before them.

    The model is shown as much as in the editor, with the file's repository, or else its folder, as the
    workspace.
    column: of the cursor; None: the line's end. given, say: as for `with_engine`.
    Raises DataError if the file cannot be used or has no such place, and what `with_engine` raises.
    """
    lines = read_source(path)
    root, _ = project_of(path)
    language = language_of_file(path, root)
    cursor = Cursor.at(lines, line, _END_OF_LINE if column is None else column, language)
    if column is not None and column > len(cursor.before + cursor.after):
        raise DataError(
            f"Line {line + 1} ends at column {len(cursor.before) + 1}: there is no column {column + 1}. "
            "Without a column the line is completed at its end."
        )
    trusted = settings_in_force(given, lambda _: None)
    exclusion = Exclusion(trusted.exclude)

    def around(_document: str, cursor: Cursor, layout: Layout) -> Callable[[], Surroundings]:
        return partial(Neighbourhood().around, path.absolute(), root, (), exclusion, cursor, layout)

    async def ask(engine: Engine) -> list[Suggestion]:
        estimator = estimator_for(given)
        layouts = LayoutChooser(estimator.store.has_labels, lambda: wanted_window(trusted))
        # Only text of the file itself goes to another machine.
        nearby = Nearby(around) if trusted.remote_url is None else NOTHING_NEARBY
        service = CompletionService(engine, estimator, layout_of=layouts.of, nearby=nearby)
        at = cursor.without_closers_behind()
        found = await service.complete(at, document=str(path.absolute()))
        if at is not cursor and isinstance(found, Completion):
            found = found.over(cursor.after)
        if isinstance(found, Nothing):
            say(REMOVED[found.removal])
        if not isinstance(found, Completion):
            return []
        like, where = found.suggestion.confidence, str(path.absolute())
        decide = partial(estimator.tier, like=like, language=language, document=where)
        part = found.up_to_closers(decide)
        if part is None:
            say(REMOVED[Removal.REPEATS_SUFFIX])
        return [] if part is None else [part.suggestion]

    return with_engine(ask, given, say)
