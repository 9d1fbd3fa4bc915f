"""One real function of a real project in each language: its documentation as it is found, and its summary.

    python tests/programs/real_functions.py FOLDER... [--model NAME] [--language ID]... [--json FILE]
    python tests/programs/real_functions.py FOLDER... --broken 150

Each FOLDER holds `projects` (Python) and `projects-LANGUAGE`, as `lsp-calib data pull` makes them; for a
language without a pinned set, put checkouts there. The function is chosen by a rule that knows nothing of its
summary: files in the order of the SHA-256 of their paths, the first that has functions with documentation and
8 to 40 lines, and of these the one with the lowest SHA-256 of its name. It is summarised as in an editor,
with examples of its own project, and again in the same file while somebody writes in it: below the first
line of the body of the nearest function of several lines above, a call is begun, and its bracket is open.

--broken N: no model. For N functions of each language, up to three of a file: how many are found, with the
same code and documentation, while a call is begun above them.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.characters import split_lines
from lsp_calib.commands.engine import estimator_for, settings_in_force, with_engine
from lsp_calib.corpus.source import source_files
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.engine import Engine
from lsp_calib.languages import name_of
from lsp_calib.settings import Settings
from lsp_calib.studies.data import SETS
from lsp_calib.summarization.encoder import installed_encoder
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.service import SummaryService
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.terminal import tell

FEWEST, MOST = 8, 40
# Lines of a file beyond which it is left out: the largest are generated.
LONGEST = 3000
LOOKING = 20.0


@attrs.frozen
class Chosen:
    """path: of the file below its project."""

    language: str
    project: Path
    path: str
    lines: tuple[str, ...]
    function: Function


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--language", action="append")
    parser.add_argument("--broken", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    languages = given.language or [one for one in LANGUAGES if not one.endswith("react")]
    if given.broken:
        for language in languages:
            print(count_broken(projects_of(given.folders, language), language, given.broken), flush=True)
        return
    chosen = [
        one for language in languages if (one := choose(projects_of(given.folders, language), language))
    ]
    trusted = settings_in_force(Settings(model=given.model, threads=given.threads), tell)

    async def ask(engine: Engine) -> list[dict[str, Any]]:
        service = SummaryService(engine, estimator_for(trusted), installed_encoder())
        return [await summarised(service, one) for one in chosen]

    rows = with_engine(ask, trusted, tell)
    if given.json:
        given.json.write_text(json.dumps(rows, ensure_ascii=False, indent=2) + "\n", "utf-8")
    for row in rows:
        print(json.dumps(row, ensure_ascii=False, indent=2))


def projects_of(folders: Sequence[Path], language: str) -> list[Path]:
    """The folders of a language's projects, in order of their names."""
    name = next((one.name for one in SETS.values() if one.language == language), f"projects-{language}")
    return sorted(
        (path for one in folders for path in (one / name).glob("[!.]*")), key=lambda path: path.name
    )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def files_of(projects: Sequence[Path], language: str) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Project, path below it and lines of each file, by the SHA-256 of the project's name and the path."""
    found = [
        (project, path.relative_to(project).as_posix())
        for project in projects
        for path in source_files(project, language)
    ]
    for project, path in sorted(found, key=lambda one: digest(f"{one[0].name}/{one[1]}")):
        try:
            lines = split_lines((project / path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        if len(lines) <= LONGEST:
            yield project, path, lines


def choose(projects: Sequence[Path], language: str) -> Chosen | None:
    """The function of a language, by the rule above; None without a project."""
    for project, path, lines in files_of(projects, language):
        fitting = [
            one
            for one in functions(lines, language)
            if one.docstring is not None and FEWEST <= one.end - one.start <= MOST
        ]
        if fitting:
            function = min(fitting, key=lambda one: digest(one.name))
            return Chosen(language, project, path, lines, function)
    return None


def with_call_begun_above(
    lines: Sequence[str], found: Sequence[Function], function: Function
) -> list[str] | None:
    """The lines while a call is begun in the nearest function above; None if there is none.

    found: all functions of the lines.
    """
    first = function.start if function.documented is None else min(function.start, function.documented[0])
    above = [one for one in found if one.end <= first and one.start < one.body < one.end]
    if not above:
        return None
    at = max(above, key=lambda one: (one.end, one.start)).body
    line = lines[at]
    typed = line[: len(line) - len(line.lstrip())] + "call("
    return [*lines[: at + 1], typed, *lines[at + 1 :]]


def same_in(broken: Sequence[str], function: Function, language: str) -> Function | None:
    """The function as it is found in the broken lines, one line lower."""
    found = (one for one in functions(broken, language) if one.start == function.start + 1)
    return next((one for one in found if one.name == function.name), None)


async def summarised(service: SummaryService, one: Chosen) -> dict[str, Any]:
    """The row of a function."""
    examples = WorkspaceExamples(one.project, lambda: Exclusion(()))
    await asyncio.to_thread(examples.scan, one.language, (one.project / one.path).parent, seconds=LOOKING)
    row = {
        "language": name_of(one.language),
        "project": one.project.name,
        "file": one.path,
        "line": one.function.start + 1,
        "function": one.function.name,
        "lines": one.function.end - one.function.start,
        "documentation": one.function.docstring,
        "sentence": documentation_sentence(one.function, one.language),
        **await made(service, examples, one, one.function),
    }
    broken = with_call_begun_above(one.lines, functions(one.lines, one.language), one.function)
    if broken is None:
        return {**row, "broken": "no function above"}
    again = same_in(broken, one.function, one.language)
    if again is None:
        return {**row, "broken": "not found"}
    summary = await made(service, examples, one, again)
    kept = again.code == one.function.code and again.docstring == one.function.docstring
    same = kept and summary["summary"] == row["summary"]
    return {**row, "broken": "the same" if same else {"code": again.code, **summary}}


async def made(
    service: SummaryService, examples: WorkspaceExamples, one: Chosen, function: Function
) -> dict[str, Any]:
    best = examples.best(function, one.language, one.path, SHOTS)
    summary = await service.summarize(function, one.language, examples=best)
    if summary is None:
        return {"summary": None, "tier": None, "probability": None}
    suggestion = summary.suggestion
    return {
        "summary": suggestion.text,
        "tier": suggestion.confidence.tier.value,
        "probability": suggestion.confidence.calibrated,
        "examples": len(best),
    }


def count_broken(projects: Sequence[Path], language: str, count: int) -> str:
    """How many functions are found while a call is begun above them."""
    tried = found = documented = sentences = 0
    for _, _, lines in files_of(projects, language):
        if tried >= count:
            break
        whole = functions(lines, language)
        for function in random.Random(0).sample(whole, min(3, len(whole))):
            broken = with_call_begun_above(lines, whole, function)
            if broken is None:
                continue
            again = same_in(broken, function, language)
            same = again is not None and again.code == function.code
            sentence = documentation_sentence(function, language)
            tried += 1
            found += same
            documented += sentence is not None
            sentences += (
                sentence is not None
                and again is not None
                and documentation_sentence(again, language) == sentence
            )
    return (
        f"{name_of(language):<12}{tried:>6} functions{found:>6} found{documented:>6} with{sentences:>6} found"
    )


if __name__ == "__main__":
    main()
