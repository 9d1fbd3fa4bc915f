"""How the features of syntax judge true lines of real projects, in each language with a pinned set.

    python tests/programs/language_fit.py FOLDER [--lines N] [LANGUAGE]...

FOLDER: the evaluation data (`data pull projects`, `projects-java` ...); for a language without a pinned set,
what you put into `projects-LANGUAGE` there. For N lines of each language: the
share that is marked as broken where it stands (with the lines below, and without them), the share that uses a
new name, and the share that is marked once one bracket was taken out of the line. Then the functions found in
the same projects' files, and how many of them have documentation.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.characters import split_lines
from lsp_calib.completion.features import text_features
from lsp_calib.corpus.lines import LineItem, sample_lines, source_files, without_below
from lsp_calib.studies.data import SETS
from lsp_calib.syntax import functions
from lsp_calib.syntax.languages import LANGUAGES

BRACKETS = "()[]{}"
FILES = 10


@attrs.define
class Shares:
    """Counts over lines; `maimed` only those that have a bracket."""

    lines: int = 0
    broken: int = 0
    broken_at_end: int = 0
    new_names: int = 0
    maimed: int = 0
    maimed_found: int = 0
    maimed_found_at_end: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs="*")
    parser.add_argument("--lines", type=int, default=400)
    given = parser.parse_intermixed_args()
    titles = (
        "lines",
        "broken",
        "at end",
        "new names",
        "maimed",
        "found",
        "at end",
        "functions",
        "documented",
    )
    print(f"{'language':<12}" + "".join(f"{title:>11}" for title in titles))
    sets = [(one.name, one.language) for one in SETS.values()]
    pinned = {language for _, language in sets}
    sets += [(f"projects-{language}", language) for language in LANGUAGES if language not in pinned]
    for name, language in sets:
        projects = sorted((given.folder / name).glob("[!.]*"))
        if not projects or (given.languages and language not in given.languages):
            continue
        shares = Shares()
        rng = random.Random(0)
        for project in projects:
            for item in sample_lines(project, project.name, -(-given.lines // len(projects)), 0, language):
                judge(item, shares, rng)
        found, documented = count_functions(projects, language)
        n, m = max(shares.lines, 1), max(shares.maimed, 1)
        numbers = [f"{shares.lines}", *(f"{k / n:.1%}" for k in (shares.broken, shares.broken_at_end))]
        numbers += [f"{shares.new_names / n:.1%}", f"{shares.maimed}", f"{shares.maimed_found / m:.1%}"]
        numbers += [f"{shares.maimed_found_at_end / m:.1%}", f"{found}", f"{documented}"]
        print(f"{language:<12}" + "".join(f"{number:>11}" for number in numbers), flush=True)


def judge(item: LineItem, shares: Shares, rng: random.Random) -> None:
    """Count what is said of the true line, and of the line without one of its brackets."""
    cursor, text = item.cursor, item.target
    whole = text_features(cursor, text)
    if "broken" not in whole:
        return
    shares.lines += 1
    above = without_below(cursor)
    shares.broken += bool(whole["broken"])
    shares.broken_at_end += bool(text_features(above, text)["broken"])
    shares.new_names += whole["new-names"] > 0
    places = [at for at, letter in enumerate(text) if letter in BRACKETS]
    if not places:
        return
    at = rng.choice(places)
    maimed = text[:at] + text[at + 1 :]
    shares.maimed += 1
    shares.maimed_found += bool(text_features(cursor, maimed)["broken"])
    shares.maimed_found_at_end += bool(text_features(above, maimed)["broken"])


def count_functions(projects: list[Path], language: str) -> tuple[int, int]:
    """Functions of some files of each project, and how many of them have documentation."""
    found = documented = 0
    for project in projects:
        for lines in some_files(project, language):
            for function in functions(lines, language):
                found += 1
                documented += function.docstring is not None
    return found, documented


def some_files(project: Path, language: str) -> Iterator[tuple[str, ...]]:
    paths = list(source_files(project, language))
    for path in random.Random(0).sample(paths, min(FILES, len(paths))):
        try:
            yield split_lines(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue


if __name__ == "__main__":
    main()
