"""`lsp-calib complete`: a completion at a place in a file."""

from __future__ import annotations

from pathlib import Path

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.commands.engine import Say, with_engine
from lsp_calib.commands.source_files import read_source
from lsp_calib.completion import Completion, CompletionService, Cursor
from lsp_calib.completion.layouts import Layouts
from lsp_calib.inference.engine import Engine
from lsp_calib.languages import language_of
from lsp_calib.settings import Trusted
from lsp_calib.values import Suggestion

_END_OF_LINE = 1 << 30


def complete_at(path: Path, line: int, column: int | None, given: Trusted, say: Say) -> list[Suggestion]:
    """Suggestions at a place, counted from 0; an empty list if the model has none.

    column: of the cursor. None asks for the whole line after its indentation; its present text is not shown
    to the model. given, say: as for `with_engine`.
    Raises DataError if the file cannot be used or has no such line, and what `with_engine` raises.
    """
    lines = list(read_source(path))
    if column is None and 0 <= line < len(lines):
        lines[line] = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    cursor = Cursor.at(lines, line, _END_OF_LINE if column is None else column, language_of(path))

    async def ask(engine: Engine) -> list[Suggestion]:
        calibrators = CalibratorStore.open()
        layouts = Layouts(calibrators.has_labels)
        service = CompletionService(engine, ConfidenceEstimator(calibrators), layout_of=layouts.of)
        completion = await service.complete(cursor)
        return [completion.suggestion] if isinstance(completion, Completion) else []

    return with_engine(ask, given, say)
