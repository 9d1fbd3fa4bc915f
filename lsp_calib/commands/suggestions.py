"""`lsp-calib complete` and `summarize`: a model's suggestions for files, with examples from their repository.

`complete`: a completion at a place in a file. `summarize`: a summary of the function at a place, or of all
functions of a file or a tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import attrs

from lsp_calib.badges import DOTS, counted, percent, tier_sentence, tier_words
from lsp_calib.characters import code_span, escape_markdown, escape_prose, split_lines
from lsp_calib.commands.engine import Say, estimator_for, layouts_for, settings_in_force, with_engine
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.completion.reasons import Nothing, Removal
from lsp_calib.completion.related_code import Nearby, Neighbourhood
from lsp_calib.completion.second import Witness, second_opinion
from lsp_calib.completion.service import Completion, CompletionService
from lsp_calib.corpus.source import HEADER, languages_below, source_files
from lsp_calib.errors import DataError, LspCalibError
from lsp_calib.exclusion import SECRET_NAME, Exclusion
from lsp_calib.files import read_file
from lsp_calib.inference.engine import Engine, Priority
from lsp_calib.languages import family_of, language_of, name_of
from lsp_calib.settings import Settings
from lsp_calib.summarization.encoder import installed_encoder
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.service import SummaryService
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, functions, has_grammar, innermost_function
from lsp_calib.values import Suggestion, Tier
from lsp_calib.workspace_files import walk

_END_OF_LINE = 1 << 30
# Of a source file.
_MOST_BYTES = 5_000_000
_LONGEST_SIGNATURE = 120
# Seconds for which examples are looked for: about as long as a small model takes to load; the summaries of a
# tree take minutes.
_LOOKING, _LOOKING_IN_A_TREE = 5.0, 30.0
# For which a header's project is looked through.
_LOOKING_BESIDE = 0.5


def read_source(path: Path) -> tuple[str, ...]:
    """A source file's lines. Raises DataError for one that is excluded, binary, huge or unreadable."""
    _refuse_excluded(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is larger than {_MOST_BYTES // 10**6} MB: too large for a source file.")
        text = read_file(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: is it a source file?") from error
    if "\0" in text:
        raise DataError(f"{path} is binary: is it a source file?")
    return split_lines(text)


def _refuse_excluded(path: Path) -> None:
    """Raises DataError for a file that is excluded, as in an editor, or a link to one."""
    # Problems with the settings are reported when the engine is opened.
    exclusion = Exclusion(settings_in_force().exclude)
    reason = exclusion.reason(str(path.absolute())) or exclusion.reason(str(path.resolve()))
    if reason:
        # No setting takes a name off the list of those that hold secrets.
        change = "" if reason == SECRET_NAME else " or change `exclude` in config.toml"
        raise DataError(
            f"{path} is excluded: {reason}. No model may see it. To use it nevertheless, rename it{change}."
        )


def project_of(path: Path) -> tuple[Path, str]:
    """The folder of a file's repository, else its own, and its path below it."""
    file = path.absolute()
    root = next((folder for folder in file.parents if (folder / ".git").exists()), file.parent)
    return root, file.relative_to(root).as_posix()


class RepositoryExamples:
    """Each repository is read once for each language, for `seconds` at most. exclude: patterns of files that
    no model may see."""

    def __init__(self, exclude: Sequence[str], *, seconds: float) -> None:
        self._exclusion = Exclusion(tuple(exclude))
        self._seconds = seconds
        self._stopped = threading.Event()
        self._of: dict[Path, WorkspaceExamples] = {}
        self._read: set[tuple[Path, str]] = set()

    def best(self, path: Path, function: Function, language: str) -> Sequence[Example]:
        """The examples for a function of a file, the best first. Blocks while a repository is read."""
        root, at = project_of(path)
        index = self._of.setdefault(root, WorkspaceExamples(root, lambda: self._exclusion))
        if (root, family_of(language)) not in self._read:
            self._read.add((root, family_of(language)))
            index.scan(language, (root / at).parent, seconds=self._seconds, goes_on=self._goes_on)
        return index.best(function, language, at, SHOTS)

    async def find(self, path: Path, function: Function, language: str) -> Sequence[Example]:
        """As `best`, in a thread, which reads no further file once this is cancelled."""
        try:
            return await asyncio.to_thread(self.best, path, function, language)
        except asyncio.CancelledError:
            self._stopped.set()
            raise

    def _goes_on(self, _: float) -> bool:
        return not self._stopped.is_set()


def complete_at(path: Path, line: int, column: int | None, given: Settings, say: Say) -> list[Suggestion]:
    """Suggestions at a place, counted from 0, with a second opinion where there is one; an empty list if the
    model has none, and the reason is said. Of one that goes over closers behind the place the part before
    them.

    The model is shown as much as in the editor, with the file's repository, or else its folder, as the
    workspace.
    column: of the cursor; None: the line's end. given, say: as for `settings_in_force`.
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
    trusted = settings_in_force(given, say)
    exclusion = Exclusion(trusted.exclude)

    def around(_document: str, cursor: Cursor, layout: Layout) -> Callable[[], Surroundings]:
        return partial(Neighbourhood().around, path.absolute(), root, (), exclusion, cursor, layout)

    async def ask(engine: Engine) -> list[Suggestion]:
        estimator, where = estimator_for(trusted), str(path.absolute())
        # Only text of the file itself goes to another machine.
        nearby = Nearby(around) if trusted.remote_url is None else None
        layouts = layouts_for(trusted, estimator.store)
        service = CompletionService(engine, estimator, layout_of=layouts.of, nearby=nearby)
        at = cursor.without_closers_behind()
        found = await service.complete(at, document=where)
        if at is not cursor and isinstance(found, Completion):
            found = found.over(cursor.after)
        if isinstance(found, Nothing):
            say(found.sentence)
        if not isinstance(found, Completion):
            return []
        loaded = await engine.ready()
        made: tuple[Completion, ...] = (found,)
        if nearby is not None:
            witness = Witness.for_(found, loaded, layouts.of(loaded), estimator, where)
            if witness is not None:
                # Too late, or failing, it says nothing of the first.
                with contextlib.suppress(TimeoutError, LspCalibError):
                    other = partial(service.complete, at, Priority.BACKGROUND, document=where)
                    made = await second_opinion(found, witness, lambda one: other(layout=one)) or made
        like = made[0].suggestion.confidence
        decide = partial(estimator.tier, like=like, language=language, document=where)
        parts = [part.suggestion for one in made if (part := one.up_to_closers(decide)) is not None]
        if not parts:
            say(Nothing(Removal.REPEATS_SUFFIX).sentence)
        return parts

    return with_engine(ask, trusted, say)


def summarize_at(path: Path, line: int, given: Settings, say: Say) -> Suggestion:
    """The summary of the innermost function that holds `line` (from 0).

    Documented functions of the file's repository are examples for it, unless a remote server is asked: only
    text of the file goes there. given, say: as for `settings_in_force`.
    Raises DataError if the file cannot be used or no function is there, and what `with_engine` raises.
    """
    lines = read_source(path)
    language = language_of_file(path, project_of(path)[0])
    function = innermost_function(lines, line, language)
    if function is None:
        what = f"{name_of(language)} function" if has_grammar(language) else "function that can be found"
        raise DataError(f"There is no {what} at line {line + 1} of {path}.")
    trusted = settings_in_force(given, say)

    async def ask(engine: Engine) -> Suggestion:
        examples: Sequence[Example] = ()
        if trusted.remote_url is None:
            repository = RepositoryExamples(trusted.exclude, seconds=_LOOKING)
            looking = repository.find(path, function, language)
            examples, _ = await asyncio.gather(looking, engine.ready())
        service = SummaryService(engine, estimator_for(trusted), installed_encoder())
        summary = await _summary(service, path, function, language, examples)
        if summary is None:
            raise DataError(f"The model gave no summary of {function.name}. Another model may.")
        return summary

    return with_engine(ask, trusted, say)


async def _summary(
    service: SummaryService,
    path: Path,
    function: Function,
    language: str,
    examples: Sequence[Example],
) -> Suggestion | None:
    """The summary of a function of a file; None if the model has nothing to say."""
    found = await service.summarize(function, language, examples=examples, document=str(path.absolute()))
    return None if found is None else found.suggestion


Progress = Callable[[int, int], None]
"""Called with how many functions are done, and how many there are."""


@attrs.frozen
class Entry:
    """A function of a file.

    depth: how many functions it stands in. within: the class that it is a method of, "" if there is none.
    summary: None if the model had nothing to say.
    """

    name: str
    line: int
    signature: str
    depth: int
    documented: bool
    summary: Suggestion | None
    within: str = ""

    def to_wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "line": self.line + 1,
            "signature": self.signature,
            "class": self.within or None,
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
        functions = counted(self.functions, "function")
        share = functions if self.is_complete else f"{done:,} of {functions}"
        lines += [f"{share}, in the words of {models}." if models else f"{share}."]
        if self.skipped:
            lines += [f"Left out: {counted(self.skipped, 'file')}, excluded or no text."]
        lines += ["", *_meanings(made)]
        for path, entries in self.files.items():
            lines += ["", f"## {escape_markdown(path)}", ""]
            lines += [f"{'  ' * entry.depth}- {_line(entry)}" for entry in entries]
        return "\n".join(lines) + "\n"


def overview(root: Path, given: Settings, say: Say, progress: Progress, into: Overview) -> None:
    """Summarise the functions of a file, or of the files below a folder, one after the other.

    Documented functions of the repository are examples, as for `summarize_at`. given, say: as for
    `settings_in_force`. into: gets each summary once it is made: finished
    ones stay when the user stops the command, or when the model fails.
    Raises DataError if there is no function, and what `with_engine` raises.
    """
    found = list(_functions(root, into))
    into.functions = len(found)
    if not found:
        raise DataError(f"No function was found in {root}, in the languages that lsp-calib can read.")
    trusted = settings_in_force(given, say)
    repository = RepositoryExamples(trusted.exclude, seconds=_LOOKING_IN_A_TREE)

    async def ask(engine: Engine) -> None:
        await engine.ready()
        service = SummaryService(engine, estimator_for(trusted), installed_encoder())
        for done, (path, name, language, function, entry) in enumerate(found):
            progress(done, len(found))
            examples: Sequence[Example] = ()
            if trusted.remote_url is None:
                examples = await repository.find(path, function, language)
            made = await _summary(service, path, function, language, examples)
            into.files.setdefault(name, []).append(attrs.evolve(entry, summary=made))
        progress(len(found), len(found))

    with_engine(ask, trusted, say)


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


def language_of_file(path: Path, root: Path) -> str:
    """The language of a file: of a header C++ if there is C++ beside it, or else below `root`, its project.

    Raises nothing: what cannot be read says nothing.
    """
    own = language_of(path)
    if path.suffix != HEADER:
        return own
    try:
        beside = {language_of(other) for other in path.absolute().parent.iterdir() if _tells(other)}
    except OSError:
        beside = set()
    if not beside:
        files = walk(root, path.absolute().parent, _tells, seconds=_LOOKING_BESIDE)
        beside = {"cpp"} if any(language_of(other) == "cpp" for other in files) else set()
    return "cpp" if "cpp" in beside else own


def _tells(path: PurePath) -> bool:
    """Whether a file tells C from C++."""
    return path.suffix != HEADER and language_of(path) in ("c", "cpp")


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
    return Entry(function.name, function.start, signature, depth, documented, None, function.within)


def _line(entry: Entry) -> str:
    of = f" of {code_span(entry.within)}" if entry.within else ""
    signature = f"{code_span(entry.signature)}{of}, line {entry.line + 1}"
    if entry.summary is None:
        return f"{signature}: the model gave no summary"
    confidence = entry.summary.confidence
    share = "" if confidence.calibrated is None else f" ({percent(confidence.calibrated)})"
    return f"{DOTS[confidence.tier.value]} {signature}: {escape_markdown(entry.summary.text)}{share}"


def _meanings(made: Sequence[Suggestion]) -> Iterator[str]:
    """What the marks mean: of each tier, with the sentence of one of its summaries."""
    if any(one.confidence.calibrated is not None for one in made):
        words = ", ".join(f"{DOTS[tier.value]} {tier_words(tier).lower()}" for tier in Tier)
        yield f"{words}; the percentage: how many summaries like this one match what a person wrote."
    elif made:
        words = tier_words(Tier.REVIEW)
        yield f"{DOTS['review']} {words}: {escape_prose(tier_sentence(made[0].confidence))}."
