"""The task of summaries: functions with their documentation hidden, and the sentence that a person wrote."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import attrs

from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA
from lsp_calib.characters import split_lines
from lsp_calib.corpus.places import FEWEST, Plain, Task, distinct
from lsp_calib.corpus.source import language_below, project_names, read_lines_of, source_files
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import name_of
from lsp_calib.summarization.examples import Example, Ranking, chosen, has_length, is_short, terms_of
from lsp_calib.summarization.features import plain_words
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages import LANGUAGES

SUMMARY = "summary"
STRATUM = "function"

# CodeXGLUE leaves out documentation of fewer than three tokens: it says nothing.
_FEWEST_WORDS = 3


class ExamplePool:
    """Examples in memory, ranked by how much they resemble a function."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples
        self._ranking = Ranking[int]()
        for at, example in enumerate(examples):
            self._ranking.put(at, (terms_of(example.code),))

    def shown(self, code: str, admits: Callable[[int], bool]) -> Plain:
        """The examples that resemble a function most, the best first, near-duplicates left out, and the score
        of each over the one that the function itself would have: as payloads hold them.

        admits: whether the example at an index may be taken.
        """
        query = terms_of(code)
        ideal = self._ranking.ideal(query)
        ranked = self._ranking.best(query, max(20 * SHOTS, 200))
        best = list(chosen(ranked, query, SHOTS, lambda one: admits(one.group)))
        return {
            "examples": [attrs.asdict(self._examples[one.group]) for one in best],
            "scores": [one.score / ideal if ideal else 0.0 for one in best],
        }


@attrs.frozen
class SummaryItem:
    """A function whose documentation is hidden. group: its repository. path: below the repository.

    reference: the first sentence of its documentation. examples: functions of other repositories, the best
    first. scores: of BM25 for each, over the one that the function itself would have; empty if unknown.
    """

    id: str
    group: str
    path: str
    language: str
    function: Function
    reference: str
    examples: tuple[Example, ...] = ()
    scores: tuple[float, ...] = ()


def is_usable(payload: Plain) -> bool:
    """Whether there is a sentence to compare with, and a function to show."""
    enough = len(plain_words(payload["reference"]).split()) >= _FEWEST_WORDS
    return enough and function_of(payload["code"], payload["language"]) is not None


def summary_item_of(payload: Plain) -> SummaryItem:
    """The item of a payload of a task of summaries."""
    function = function_of(payload["code"], payload["language"])
    assert function is not None, "items without a function are left out"
    return SummaryItem(
        id=payload["item"],
        group=payload["group"],
        path=payload["path"],
        language=payload["language"],
        function=function,
        reference=payload["reference"],
        examples=tuple(Example(**example) for example in payload.get("examples", ())),
        scores=tuple(payload.get("scores", ())),
    )


def function_of(code: str, language: str) -> Function | None:
    """The outermost function of a piece of source, as the editor finds it, with its documentation apart."""
    return next(iter(functions(split_lines(code), language)), None)


def documented_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    language: str | None = None,
    exclude: Sequence[str] = (),
) -> Task:
    """About `samples` documented functions of the source below `paths`, equally many from each project.

    language: of the source; None: Python if there is any, else the only one there is. exclude: patterns of
    files that no model may see. The examples of a function are those of its own project that the editor would
    show. Of functions with the same code only one is drawn.
    Raises DataError if there are fewer than 20 such functions, or several languages; SettingsError for a
    language without a grammar.
    """
    named = language or language_below(paths)
    if named not in LANGUAGES:
        raise SettingsError(f"The source of {named!r} cannot be read. Known: {', '.join(LANGUAGES)}.")
    projects = project_names(paths)
    each = -(-samples // len(projects))
    exclusion = Exclusion(tuple(exclude))
    items: list[tuple[str, Plain]] = []
    for root, group in projects:
        known = {payload["code"] for _, payload in items}
        items += _of_project(root, group, each, seed, named, exclusion, known)
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} different functions of {name_of(named)} have a sentence of documentation; at "
            f"least {FEWEST} are needed. Name more source."
        )
    return Task(
        SUMMARY,
        tuple(items),
        language=named,
        criteria=SUMMARY_CRITERIA,
        doing="Summarising functions",
    )


def _of_project(
    root: Path,
    group: str,
    count: int,
    seed: int,
    language: str,
    exclusion: Exclusion,
    known: Collection[str],
) -> Iterator[tuple[str, Plain]]:
    """Functions of a project, drawn at random, with their examples. known: code that is not drawn."""
    found = list(_payloads(root, group, language, exclusion))
    # As in the editor: neither code or sentences of another length, nor what holds the function or is in it,
    # whose code may hold the very sentence that is asked for.
    fit = [(function, p) for function, p in found if has_length(function.code) and is_short(p["reference"])]
    pool = ExamplePool([Example(p["path"], p["name"], p["code"], p["reference"]) for _, p in fit])
    rng = random.Random(f"{seed}:{group}".encode("utf-8", "surrogatepass"))
    places = distinct(range(len(found)), lambda at: str(found[at][1]["code"]), known)
    drawn = rng.sample(places, min(count, len(places)))
    for at in sorted(drawn):
        function, payload = found[at]
        apart = {
            other
            for other, (one, p) in enumerate(fit)
            if p["path"] != payload["path"] or one.end <= function.start or function.end <= one.start
        }
        yield payload["item"], {**payload, **pool.shown(payload["code"], apart.__contains__)}


def _payloads(
    root: Path, group: str, language: str, exclusion: Exclusion
) -> Iterator[tuple[Function, Plain]]:
    for path in source_files(root, language):
        name = path.relative_to(root).as_posix() if path != root else path.name
        lines = () if exclusion.reason(str(path)) else read_lines_of(path, language)
        for function in functions(lines, language):
            payload = {
                "item": f"{group}/{name}:{function.start + 1}:1",
                "group": group,
                "path": name,
                "name": function.name,
                "language": language,
                # A method alone is no valid source before it is dedented.
                "code": textwrap.dedent(function.code),
                "reference": documentation_sentence(function, language) or "",
            }
            if is_usable(payload):
                yield function, payload
