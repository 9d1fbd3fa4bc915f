"""How many functions of real projects are found while somebody writes above them, language by language.

    python tests/programs/real_functions.py FOLDER... --broken 150

Each FOLDER holds `projects` (Python) and `projects-LANGUAGE`, as `lsp-calib data pull` makes them; for a
language without a pinned set, put checkouts there. Of each language N functions are looked for, up to three
of a file: below the first line of the body of the nearest function of several lines above, a call is begun,
and its bracket is open. Told is how many are found with the same code, and with the same documentation.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsp_calib.characters import split_lines
from lsp_calib.corpus.source import source_files
from lsp_calib.languages import name_of
from lsp_calib.studies.data import SETS
from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES

# Lines of a file beyond which it is left out: the largest are generated.
LONGEST = 3000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--language", action="append")
    parser.add_argument("--broken", type=int, default=150)
    given = parser.parse_args()
    for language in given.language or [one for one in LANGUAGES if not one.endswith("react")]:
        print(count_broken(projects_of(given.folders, language), language, given.broken), flush=True)


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
