"""The task of summaries on a code base of the user's: its own documented functions, documentation hidden."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.lines import read_lines_of, source_files
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.summary_task import SUMMARY, is_usable, shown_examples
from lsp_calib.evaluation.tasks import FEWEST, Task, language_below, project_names
from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import name_of
from lsp_calib.summarization.examples import Example, ExamplePool, has_length, is_short
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES


def documented_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    language: str | None = None,
    exclude: Sequence[str] = (),
) -> Task:
    """About `samples` documented functions of the source below `paths`, equally many from each project.

    language: of the source; None: Python if there is any, else the only one there is. exclude: patterns of
    files that no model may see. The examples of a
    function are those of its own project that the editor would show; near-duplicates are left out.
    Raises DataError if there are fewer than 20 such functions, or several languages; SettingsError for a
    language without a grammar.
    """
    named = language or language_below(paths)
    if named not in LANGUAGES:
        raise SettingsError(f"The source of {named!r} cannot be read. Known: {', '.join(LANGUAGES)}.")
    projects = project_names(paths)
    each = -(-samples // len(projects))
    exclusion = Exclusion(tuple(exclude))
    items = [
        item for root, group in projects for item in _of_project(root, group, each, seed, named, exclusion)
    ]
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} functions of {name_of(named)} have a sentence of documentation; at least "
            f"{FEWEST} are needed. Name more source."
        )
    return Task(SUMMARY, tuple(items), language=named, criteria=SUMMARY_CRITERIA)


def _of_project(
    root: Path, group: str, count: int, seed: int, language: str, exclusion: Exclusion
) -> Iterator[tuple[str, Plain]]:
    """Functions of a project, drawn at random, with their examples."""
    found = list(_payloads(root, group, language, exclusion))
    # As in the editor: neither code or sentences of another length, nor what holds the function or is in it,
    # whose code may hold the very sentence that is asked for.
    fit = [(function, p) for function, p in found if has_length(function.code) and is_short(p["reference"])]
    pool = ExamplePool([Example(p["path"], p["name"], p["code"], p["reference"]) for _, p in fit])
    rng = random.Random(f"{seed}:{group}".encode("utf-8", "surrogatepass"))
    drawn = rng.sample(range(len(found)), min(count, len(found)))
    for at in sorted(drawn):
        function, payload = found[at]
        apart = {
            other
            for other, (one, p) in enumerate(fit)
            if p["path"] != payload["path"] or one.end <= function.start or function.end <= one.start
        }
        best = pool.scored(payload["code"], SHOTS, admits=apart.__contains__)
        yield payload["item"], {**payload, **shown_examples(best)}


def _payloads(
    root: Path, group: str, language: str, exclusion: Exclusion
) -> Iterator[tuple[Function, Plain]]:
    for path in source_files(root, language):
        name = path.relative_to(root).as_posix() if path != root else path.name
        lines = () if exclusion.reason(str(path)) else read_lines_of(path, language)
        for function in functions(lines, language):
            payload = _payload(function, group, name, language)
            if is_usable(payload):
                yield function, payload


def _payload(function: Function, group: str, name: str, language: str) -> Plain:
    return {
        "item": f"{group}/{name}:{function.start + 1}:1",
        "group": group,
        "path": name,
        "name": function.name,
        "language": language,
        # A method alone is no valid source before it is dedented.
        "code": textwrap.dedent(function.code),
        "reference": documentation_sentence(function, language) or "",
    }
