"""`lsp-calib summarize --all`: the functions of a file or a tree, each in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.badges import DOTS, percent, tier_words
from lsp_calib.commands.engine import Say, estimator_for, settings_in_force, with_engine
from lsp_calib.commands.source_files import RepositoryExamples, project_of, read_source
from lsp_calib.errors import DataError
from lsp_calib.evaluation.lines import language_of_file, languages_below, source_files
from lsp_calib.inference.engine import Engine
from lsp_calib.markdown import code_span, escape_markdown, escape_prose
from lsp_calib.settings import Trusted
from lsp_calib.summarization import Example, SummaryService
from lsp_calib.summarization.installed_encoder import installed_encoder
from lsp_calib.summarization.wording import tier_sentence
from lsp_calib.syntax import Function, functions
from lsp_calib.values import Suggestion, Tier

_LONGEST_SIGNATURE = 120
# Seconds for which examples in one language are looked for: the summaries of a tree take minutes.
_LOOKING = 30.0

Progress = Callable[[int, int], None]
"""Called with how many functions are done, and how many there are."""


@attrs.frozen
class Entry:
    """A function of a file.

    depth: how many functions it stands in. summary: None if the model had nothing to say.
    """

    name: str
    line: int
    signature: str
    depth: int
    documented: bool
    summary: Suggestion | None

    def to_wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "line": self.line + 1,
            "signature": self.signature,
            "documented": self.documented,
            "summary": None if self.summary is None else self.summary.to_wire(),
        }


@attrs.define
class Overview:
    """What is known of a file or a tree so far.

    files: by the path below the tree, in order. functions: how many there are. skipped: files that no model
    may see, or that cannot be read.
    """

    name: str
    functions: int = 0
    skipped: int = 0
    files: dict[str, list[Entry]] = attrs.field(factory=dict)

    @property
    def is_complete(self) -> bool:
        return sum(map(len, self.files.values())) == self.functions

    def to_wire(self) -> dict[str, Any]:
        return {
            "complete": self.is_complete,
            "functions": self.functions,
            "skippedFiles": self.skipped,
            "files": [
                {"path": path, "functions": [entry.to_wire() for entry in entries]}
                for path, entries in self.files.items()
            ],
        }

    def markdown(self) -> str:
        """As a page: a section for each file, a line for each function."""
        done = sum(map(len, self.files.values()))
        made = [entry.summary for entries in self.files.values() for entry in entries if entry.summary]
        lines = [f"# Summaries of {escape_markdown(self.name)}", ""]
        models = " and ".join(escape_markdown(name) for name in sorted({one.model for one in made}))
        share = f"{done} functions" if self.is_complete else f"{done} of {self.functions} functions"
        lines += [f"{share}, in the words of {models}." if models else f"{share}."]
        if self.skipped:
            lines += [f"{self.skipped} files were left out: excluded, or no text."]
        lines += ["", *_meanings(made)]
        for path, entries in self.files.items():
            lines += ["", f"## {escape_markdown(path)}", ""]
            lines += [f"{'  ' * entry.depth}- {_line(entry)}" for entry in entries]
        return "\n".join(lines) + "\n"


def overview(
    root: Path, given: Trusted, say: Say, progress: Progress, into: Overview, *, augment: bool = False
) -> None:
    """Summarise the functions of a file, or of the files below a folder, one after the other.

    Documented functions of the repository are examples, as for `summarize_at`. given, say: as for
    `with_engine`. augment: as for `SummaryService`. into: gets each summary once it is made, so that what is
    done stays when the user stops the command, or when the model fails.
    Raises DataError if there is no function, and what `with_engine` raises.
    """
    found = list(_functions(root, into))
    trusted = settings_in_force(given, lambda _: None)
    repository = RepositoryExamples(trusted.exclude, seconds=_LOOKING)
    into.functions = len(found)
    if not found:
        raise DataError(f"No function was found in {root}, in the languages that lsp-calib can read.")

    async def ask(engine: Engine) -> None:
        service = SummaryService(engine, estimator_for(given), installed_encoder())
        for done, (path, name, language, function, entry) in enumerate(found):
            progress(done, len(found))
            examples: Sequence[Example] = ()
            if trusted.remote_url is None:
                examples = await asyncio.to_thread(repository.best, path, function, language)
            top, at = project_of(path)
            summary = await service.summarize(
                function,
                language,
                examples=examples,
                augment=augment,
                repository=top.name,
                path=at,
                document=str(path.absolute()),
            )
            made = None if summary is None else summary.suggestion
            into.files.setdefault(name, []).append(attrs.evolve(entry, summary=made))
        progress(len(found), len(found))

    with_engine(ask, given, say)


def _functions(root: Path, into: Overview) -> Iterator[tuple[Path, str, str, Function, Entry]]:
    """The functions of a tree with their files, these files' names below it, and languages."""
    for path, language in _files(root):
        try:
            lines = read_source(path)
        except DataError:
            if root.is_file():
                raise
            into.skipped += 1
            continue
        name = path.name if root.is_file() else path.relative_to(root).as_posix()
        holding: list[Function] = []
        for function in functions(lines, language):
            holding = [one for one in holding if one.end >= function.end]
            yield path, name, language, function, _entry(function, lines, len(holding))
            holding.append(function)


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    """The files with the languages as whose source they are found: a header is C's or C++'s."""
    if root.is_file():
        yield root, language_of_file(root, project_of(root)[0])
        return
    inside = root.resolve()
    found = {path: language for language in languages_below(root) for path in source_files(root, language)}
    for path, language in sorted(found.items()):
        # A link may lead out of what the user has named.
        if path.is_file() and path.resolve().is_relative_to(inside):
            yield path, language


def _entry(function: Function, lines: Sequence[str], depth: int) -> Entry:
    signature = " ".join(" ".join(lines[function.start : function.signature_end]).split())
    signature = signature.rstrip("{ ").rstrip(":")
    if len(signature) > _LONGEST_SIGNATURE:
        signature = f"{signature[:_LONGEST_SIGNATURE]} \N{HORIZONTAL ELLIPSIS}"
    documented = function.docstring is not None
    return Entry(function.name, function.start, signature, depth, documented, None)


def _line(entry: Entry) -> str:
    signature = f"{code_span(entry.signature)}, line {entry.line + 1}"
    if entry.summary is None:
        return f"{signature}: the model gave no summary"
    confidence = entry.summary.confidence
    share = "" if confidence.calibrated is None else f" ({percent(confidence.calibrated)})"
    return f"{DOTS[confidence.tier.value]} {signature}: {escape_markdown(entry.summary.text)}{share}"


def _meanings(made: Sequence[Suggestion]) -> Iterator[str]:
    """What the marks mean: of each tier, with the sentence of one of its summaries."""
    if any(one.confidence.calibrated is not None for one in made):
        words = ", ".join(f"{DOTS[tier.value]} {tier_words(tier, 'summary').lower()}" for tier in Tier)
        yield f"{words}; the percentage: how many summaries like this one match what a person wrote."
    elif made:
        words = tier_words(Tier.REVIEW, "summary")
        yield f"{DOTS['review']} {words}: {escape_prose(tier_sentence(made[0].confidence))}."
