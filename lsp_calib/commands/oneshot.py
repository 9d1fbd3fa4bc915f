"""One question from the command line, asked of the services without a server."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion import CompletionService, Cursor
from lsp_calib.completion.context import split_lines
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.errors import DataError
from lsp_calib.exclusion import Exclusion
from lsp_calib.feedback.learning import Refits, refit_languages
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.choice import open_engine
from lsp_calib.inference.engine import Engine
from lsp_calib.settings import Trusted, engine_choice, resolve_trusted
from lsp_calib.summarization import SummaryService
from lsp_calib.syntax import functions
from lsp_calib.values import Suggestion

T = TypeVar("T")

# As editors call them: a calibrator that learned there is found here.
_LANGUAGES = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".sh", ".bash"), "shellscript"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".htm", ".html"), "html"),
    **dict.fromkeys((".ex", ".exs"), "elixir"),
    **dict.fromkeys((".pl", ".pm"), "perl"),
    ".jsx": "javascriptreact",
    ".tsx": "typescriptreact",
    ".rs": "rust",
    ".go": "go",
    ".java": "java",
    ".kt": "kotlin",
    ".scala": "scala",
    ".swift": "swift",
    ".cs": "csharp",
    ".rb": "ruby",
    ".php": "php",
    ".lua": "lua",
    ".hs": "haskell",
    ".r": "r",
    ".jl": "julia",
    ".zig": "zig",
    ".dart": "dart",
    ".sql": "sql",
    ".css": "css",
    ".scss": "scss",
    ".json": "json",
    ".toml": "toml",
}
_MOST_BYTES = 5_000_000


def complete_at(
    path: Path,
    line: int,
    column: int | None,
    *,
    model: str | None,
    threads: int = 0,
    remote: str | None = None,
) -> list[Suggestion]:
    """Suggestions at a place, counted from 0; an empty list if the model has none.

    column: where the cursor stands. None asks what the whole line would be, from its indentation on: what
    stands there now is not shown to the model.
    """
    _refuse_excluded(path)
    lines = list(read_lines(path))
    if column is None and 0 <= line < len(lines):
        lines[line] = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    column = 1 << 30 if column is None else column  # the end of the line
    cursor = Cursor.at(lines, line, column, language_of(path))

    async def ask(engine: Engine) -> list[Suggestion]:
        completion = await CompletionService(engine, ConfidenceEstimator(CalibratorStore.open())).complete(
            cursor
        )
        return [] if completion is None else [completion.suggestion]

    return with_engine(ask, model=model, threads=threads, remote=remote)


def summarize_at(
    path: Path, line: int, *, model: str | None, threads: int = 0, remote: str | None = None
) -> Suggestion:
    """The summary of the innermost function that holds `line` (from 0). Raises DataError if there is none."""
    _refuse_excluded(path)
    lines = read_lines(path)
    language = language_of(path)
    holding = [function for function in functions(lines, language) if function.start <= line < function.end]
    if not holding:
        raise DataError(f"There is no Python function at line {line + 1} of {path}.")
    function = max(holding, key=lambda function: function.start)

    async def ask(engine: Engine) -> Suggestion:
        summary = await SummaryService(engine, ConfidenceEstimator(CalibratorStore.open())).summarize(
            function, language
        )
        if summary is None:
            raise DataError(f"The model has nothing to say about {function.name}.")
        return summary.suggestion

    return with_engine(ask, model=model, threads=threads, remote=remote)


def refit_now(model: str | None, remote: str | None = None) -> Refits:
    """Refit from the feedback store, as `lsp-calib.refit` does."""

    async def ask(engine: Engine) -> Refits:
        # The model is asked only who it is: labels of other models say nothing about it.
        loaded = await engine.ready()
        purpose = line_purpose(loaded, "python")
        store = FeedbackStore(home.home() / "feedback.db")
        try:
            today = datetime.date.today().isoformat()
            return refit_languages(store, CalibratorStore.open(), purpose, today)
        finally:
            store.close()

    return with_engine(ask, model=model, remote=remote)


def with_engine(
    ask: Callable[[Engine], Awaitable[T]],
    *,
    model: str | None,
    threads: int = 0,
    remote: str | None = None,
) -> T:
    """Run `ask` with an engine that is let go afterwards: the model process, or a remote server.

    What is not given comes from where the server takes it: the environment, the user's `config.toml`.
    """
    trusted, problems = resolve_trusted(Trusted(model=model, threads=threads, remote_url=remote), Trusted())
    for problem in problems:
        click.echo(f"lsp-calib: {problem}", err=True)

    async def run() -> T:
        engine = open_engine(engine_choice(trusted))
        try:
            return await ask(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def _refuse_excluded(path: Path) -> None:
    """Raises DataError for a file that is left alone, as in an editor, or a link to one."""
    # What is wrong with the settings is told when the engine is opened.
    trusted, _ = resolve_trusted(Trusted(), Trusted())
    exclusion = Exclusion(trusted.exclude)
    reason = exclusion.reason(str(path.absolute())) or exclusion.reason(str(path.resolve()))
    if reason:
        raise DataError(
            f"{path} is left alone: {reason}. Nothing of it is shown to a model. "
            "To use it all the same, give it another name or change `exclude` in config.toml."
        )


def read_lines(path: Path) -> tuple[str, ...]:
    """A source file's lines. Raises DataError for one that is binary, huge or unreadable."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is over {_MOST_BYTES >> 20} MB: too large for a source file.")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: is it a source file?") from error
    if "\0" in text:
        raise DataError(f"{path} has binary content: is it a source file?")
    return split_lines(text)


def language_of(path: Path) -> str:
    return _LANGUAGES.get(path.suffix.lower(), "plaintext")
