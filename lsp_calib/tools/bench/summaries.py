"""Measures summaries: the first one of a long function, hovers, and what completions pay for those in the
background.

The functions are those of the standard library of the Python that runs the bench: real code that every
machine has.
"""

from __future__ import annotations

import asyncio
import hashlib
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types

from lsp_calib.badges import tier_shown
from lsp_calib.errors import LspCalibError
from lsp_calib.settings import Settings
from lsp_calib.syntax import Function, functions
from lsp_calib.tools.bench.probe import Probe, settled, until_idle
from lsp_calib.tools.bench.server import Scratch
from lsp_calib.tools.bench.trace import Edit
from lsp_calib.tools.bench.typist import Answered, type_in_rhythm
from lsp_calib.tools.client import Document, Editor

FIRST = 8
"""Functions that are summarised one after the other."""
LINES = (55, 65)
"""Lines of each of them, documentation left out."""
BUDGET = Settings().hover_budget_ms
"""Milliseconds that a hover waits for its summary, as the server does by default."""

_ANSWER = 120.0
# Lines of the functions that are read while somebody types: those of a screen.
_SHORT = (8, 40)
# Characters of a module beyond which it is left out: the first summary in it would measure the parser.
_LARGEST = 100_000
# Seconds between two hovers of somebody who reads while typing goes on.
_LOOKS = 0.25
# Functions that are known and looked at again, in turns.
_AGAIN = 8


@attrs.frozen
class FirstSummary:
    """wall_ms: from asking until the answer. The others as the engine reports them."""

    wall_ms: float
    prompt_ms: float
    generate_ms: float
    prompt_tokens: int
    reused: int
    tokens: int
    lines: int


@attrs.define
class SummariesNotes:
    """Readings of summaries.

    first: of long functions, while nothing else is done. known_ms, new_ms: milliseconds that hovers took
    while somebody typed, on functions with a known summary and on others. made, late: of the latter, those
    that had the summary, and those that said that it is being made. without, beside: answers of each excerpt
    of the typing, by its number; beside: while summaries are made. evaluated: prompt tokens evaluated for
    each of these answers, by excerpt and whether it was beside summaries.
    """

    first: list[FirstSummary] = attrs.field(factory=list)
    known_ms: list[float] = attrs.field(factory=list)
    new_ms: list[float] = attrs.field(factory=list)
    made: int = 0
    late: int = 0
    without: dict[int, list[Answered]] = attrs.field(factory=dict)
    beside: dict[int, list[Answered]] = attrs.field(factory=dict)
    evaluated: dict[tuple[int, bool], list[int]] = attrs.field(factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.first or self.known_ms or self.new_ms)

    def evaluated_pairs(self) -> list[tuple[int, int]]:
        """(beside, without) of the prompt tokens evaluated for each key, first ones left out."""
        return [
            pair
            for at in self.without
            for pair in list(
                zip(self.evaluated.get((at, True), ()), self.evaluated.get((at, False), ()), strict=False)
            )[1:]
        ]

    def pairs(self) -> list[tuple[float, float]]:
        """(beside, without) of each key for which the model was asked both times, first ones left out."""
        found = []
        for at, alone in self.without.items():
            for one, two in list(zip(self.beside.get(at, ()), alone, strict=False))[1:]:
                if one[1] and two[1]:
                    found.append((one[0], two[0]))
        return found


async def first_summaries(
    editor: Editor, scratch: Scratch, probe: Probe, notes: SummariesNotes, step: Callable[[int, int], None]
) -> None:
    """Summarise functions of about 60 lines, each of another file, none of which the model has seen.

    Raises LspCalibError if the standard library has no such function.
    """
    found = _opened(editor, scratch, LINES)
    for at, (document, function) in zip(range(FIRST), found, strict=False):
        await until_idle(probe)
        place = document.position(function.start, 0)
        argument = {"uri": document.uri, "position": {"line": place.line, "character": place.character}}
        began = asyncio.get_running_loop().time()
        made: Any = await editor.command("lsp-calib.showSummary", argument, seconds=_ANSWER)
        wall = 1e3 * (asyncio.get_running_loop().time() - began)
        document.close()
        if made is not None:
            notes.first.append(_first(wall, made, function))
        step(at + 1, FIRST)
    if not notes.first:
        raise LspCalibError("The standard library of this Python has no functions to summarise.")


def _first(wall: float, made: Any, function: Function) -> FirstSummary:
    timing = made["timing"]
    return FirstSummary(
        wall,
        timing["promptMs"],
        timing["generateMs"],
        timing["promptTokens"],
        timing["promptReused"],
        made["tokens"],
        function.code.count("\n") + 1,
    )


async def type_beside(
    editor: Editor,
    scratch: Scratch,
    probe: Probe,
    edits: Sequence[Edit],
    notes: SummariesNotes,
    step: Callable[[int, int], None],
) -> None:
    """Type each edit in the recorded rhythm without and with summaries in the background, by turns.

    Each is typed once more before that, so that the cache holds equally much of it both times.
    """
    total, done = 3 * sum(len(edit.steps) for edit in edits), 0
    reader = _Reader(_opened(editor, scratch, _SHORT), notes)

    def count(into: list[Answered], answered: Answered) -> None:
        nonlocal done
        done += 1
        into.append(answered)
        step(done, total)

    for at, edit in enumerate(edits):
        await type_in_rhythm(editor, scratch, edit, partial(count, []), pace=0.0)
        for beside in (False, True) if at % 2 else (True, False):
            await settled(probe)
            kept = (notes.beside if beside else notes.without).setdefault(at, [])
            evaluated = notes.evaluated.setdefault((at, beside), [])
            typing = type_in_rhythm(
                editor,
                scratch,
                edit,
                partial(count, kept),
                on_suggestion=lambda one, into=evaluated: into.append(_evaluated(one)),  # type: ignore[misc]
            )
            if beside:
                await reader.while_(typing)
            else:
                await typing
    await until_idle(probe)


def _evaluated(suggestion: dict[str, Any] | None) -> int:
    """Prompt tokens that a suggestion cost; 0 for one from memory, and for none."""
    timing = suggestion["timing"] if suggestion else {"promptTokens": 0, "promptReused": 0}
    return int(timing["promptTokens"]) - int(timing["promptReused"])


class _Reader:
    """Simulates hovering over one function after the other, and over known ones again."""

    def __init__(self, found: Iterator[tuple[Document, Function]], notes: SummariesNotes) -> None:
        self._found = found
        self._notes = notes
        self._known: list[tuple[Document, Function]] = []
        self._stopped = asyncio.Event()

    async def while_(self, typing: Any) -> None:
        """Read until `typing` has ended, and a last summary that is being made has been as well."""
        self._stopped = asyncio.Event()
        new, known = asyncio.create_task(self._new()), asyncio.create_task(self._again())
        try:
            await typing
        finally:
            self._stopped.set()
            await asyncio.gather(new, known)

    async def _new(self) -> None:
        """There is a summary being made at any time."""
        while not self._stopped.is_set() and (one := next(self._found, None)) is not None:
            while not self._stopped.is_set():
                ms, value = await self._hover(*one)
                if not value:
                    break  # the model has nothing to say of it
                self._notes.new_ms.append(ms)
                if tier_shown(value):
                    self._notes.made += 1
                    self._known.append(one)
                    break
                self._notes.late += 1

    async def _again(self) -> None:
        at = 0
        while not self._stopped.is_set():
            await asyncio.sleep(_LOOKS)
            if self._known:
                ms, _ = await self._hover(*self._known[-1 - at % min(len(self._known), _AGAIN)])
                self._notes.known_ms.append(ms)
                at += 1

    async def _hover(self, document: Document, function: Function) -> tuple[float, str]:
        """Its milliseconds and its text: with a tier if there is a summary; "" without a hover."""
        # By the loop's clock: with several requests under way, the bytes that came last may be another's.
        began = asyncio.get_running_loop().time()
        found = await document.hover(function.start, 0, _ANSWER)
        ms = 1e3 * (asyncio.get_running_loop().time() - began)
        return ms, found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""


def _opened(editor: Editor, scratch: Scratch, lines: tuple[int, int]) -> Iterator[tuple[Document, Function]]:
    """Functions of so many lines with their files, each opened when it is met.

    Of long functions one of each file, so that none of its prompt is cached; of others all.
    """
    for path in modules():
        try:
            source = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(source) > _LARGEST:
            continue
        fitting = [
            one
            for one in functions(source.split("\n"), "python")
            if lines[0] <= one.code.count("\n") + 1 <= lines[1]
        ]
        if not fitting:
            continue
        copy = scratch.project / f"{path.stem}_{lines[0]}.py"
        copy.write_text(source, "utf-8")
        document = Document(editor, copy, "python")
        for one in fitting[:1] if lines == LINES else fitting:
            yield document, one


def modules() -> list[Path]:
    """The modules of the standard library, by the SHA-256 of their names."""
    folder = Path(sysconfig.get_path("stdlib"))
    return sorted(folder.glob("*.py"), key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())
