"""The task of summaries: functions with their documentation hidden, and the sentence that a person wrote."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA, Origin
from lsp_calib.evaluation.datasets.catalogue import data_set
from lsp_calib.evaluation.datasets.code_to_text import functions as documented_functions
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.tasks import Task
from lsp_calib.summarization.examples import Example, ExamplePool
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.service import first_sentence
from lsp_calib.summarization.similarity import plain_words
from lsp_calib.syntax import Function, functions
from lsp_calib.text_lines import split_lines

SUMMARY = "summary"
STRATUM = "function"

# CodeXGLUE leaves out documentation of fewer than three tokens: it says nothing.
_FEWEST_WORDS = 3

# Where the first paragraph ends: a blank line or HTML's like, block tags, fields, sections, examples.
_END = re.compile(
    r"\n\s*\n|<(?:p|br|ul|ol|pre|h\d)\s*/?>|\n\s*@\w+|\n\s*:\w+[^:\n]*:|\n\s*-{3,}|\n\s*>>>"
    r"|\n\s*(?:args|arguments|parameters|params|returns?|raises|yields|examples?|notes?)\s*:?\s*\n",
    re.IGNORECASE,
)
_INLINE_TAG = re.compile(r"\{@\w+\s+([^{}]*)\}")
_HTML = re.compile(r"</?[a-zA-Z][^<>]*>")
_ROLE = re.compile(r":\w+:`([^`]*)`")


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


def reference_of(documentation: str) -> str:
    """The first sentence of the first paragraph, without markup; empty if there is none.

    It is the summary line of the conventions (PEP 257, Javadoc), and what the rated pairs were made of.

    >>> reference_of("Returns the {@link Foo}. It is new.\\n\\n@return a foo")
    'Returns the Foo.'
    """
    text = documentation.strip()
    end = _END.search(text)
    text = text[: end.start()] if end else text
    if text.startswith(("@", ":param", ":return", ">>>")):
        return ""
    text = _HTML.sub(" ", _ROLE.sub(r"\1", _INLINE_TAG.sub(r"\1", text)))
    return first_sentence(text, whole=True)


def summary_task(folder: Path | None, language: str, samples: int | None, seed: int) -> Task:
    """Functions of code-to-text in one language; each repository is a group.

    folder: the evaluation data; None: LSP_CALIB_DATA. samples: number of functions, drawn at random; None:
    all. Functions whose documentation has no first sentence of three words, and those that cannot be parsed
    alone, are left out before anything is drawn. The examples of each are those of all functions of other
    repositories that resemble it most, near-duplicates left out. Raises DataError if the data are missing.
    """
    name = f"code-to-text-{language}"
    found = [
        (row.id, payload)
        for row in documented_functions(language, folder)
        if is_usable(
            payload := {
                "item": row.id,
                "group": row.repository,
                "path": row.path,
                "language": language,
                "code": row.code,
                "reference": reference_of(row.summary),
            }
        )
    ]
    shown = _examples(found)
    if samples is not None and samples < len(found):
        found = [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), samples))]
    entry = data_set(name)
    return Task(
        SUMMARY,
        tuple((id_, {**payload, **shown(payload)}) for id_, payload in found),
        language=language,
        criteria=SUMMARY_CRITERIA,
        sources=(Origin(entry.name, entry.sha256[:12], len(found)),),
    )


def _examples(rows: Sequence[tuple[str, Plain]]) -> Callable[[Plain], Plain]:
    """The examples for a function among the rows, and their scores, as plain data."""
    pool = ExamplePool([_example(payload) for _, payload in rows], [payload["group"] for _, payload in rows])

    def shown(payload: Plain) -> Plain:
        return shown_examples(pool.scored(_example(payload).code, SHOTS, without=payload["group"]))

    return shown


def shown_examples(best: Sequence[tuple[Example, float]]) -> Plain:
    """Examples with their scores, as payloads hold them."""
    return {"examples": [attrs.asdict(one) for one, _ in best], "scores": [score for _, score in best]}


def _example(payload: Plain) -> Example:
    function = function_of(payload["code"], payload["language"])
    assert function is not None, "such functions are left out"
    return Example(payload["path"], function.name, function.code, payload["reference"])


def is_usable(payload: Plain) -> bool:
    """Whether there is a sentence to compare with, and a function to show."""
    enough = len(plain_words(payload["reference"]).split()) >= _FEWEST_WORDS
    return enough and function_of(payload["code"], payload["language"]) is not None


def summary_item_of(payload: Plain) -> SummaryItem:
    """The item of a payload of `summary_task`."""
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
