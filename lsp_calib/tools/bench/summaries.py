"""Measures summaries: the first one of a long function, hovers, and what completions pay for those in the
background.

The functions are those of the standard library of the Python that runs the bench: real code that every
machine has.
"""

from __future__ import annotations

import asyncio
import hashlib
import sysconfig
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types

from lsp_calib.badges import tier_shown
from lsp_calib.errors import LspCalibError
from lsp_calib.settings import Settings
from lsp_calib.syntax import Function, functions
from lsp_calib.tools.bench.server import Served, settled, until_idle
from lsp_calib.tools.bench.trace import Edit
from lsp_calib.tools.bench.typist import ANSWER, asked_model, type_in_rhythm
from lsp_calib.tools.client import Document

FIRST = 8
"""Functions that are summarised one after the other."""
LINES = (55, 65)
"""Lines of each of them, documentation left out."""
BUDGET = Settings().hover_budget_ms
"""Milliseconds that a hover waits for its summary, as the server does by default."""

# Lines of the functions that are read while somebody types: those of a screen.
_SHORT = (8, 40)
# Characters of a module beyond which it is left out: the first summary in it would measure the parser.
_LARGEST = 100_000
# Seconds between two hovers of somebody who reads while typing goes on.
_LOOKS = 0.25
# Functions that are known and looked at again, in turns.
_AGAIN = 8


@attrs.frozen
class Typed:
    """The answer to a key: its milliseconds, whether the model was asked, prompt tokens evaluated for it."""

    ms: float
    asked: bool
    evaluated: int


@attrs.define
class Summaries:
    """Readings of summaries.

    first: of long functions, while nothing else is done: by name, the milliseconds from asking until the
    answer, and what the engine reports. known_ms, new_ms: milliseconds that hovers took
    while somebody typed, on functions with a known summary and on others. made, late: of the latter, those
    that had the summary, and those that said that it is being made. typed: each key, beside summaries that
    are made and without, the first ones of a document left out.
    """

    first: list[dict[str, float]] = attrs.field(factory=list)
    known_ms: list[float] = attrs.field(factory=list)
    new_ms: list[float] = attrs.field(factory=list)
    made: int = 0
    late: int = 0
    typed: list[tuple[Typed, Typed]] = attrs.field(factory=list)


async def first_summaries(server: Served, notes: Summaries) -> None:
    """Summarise functions of about 60 lines, each of another file, none of which the model has seen.

    Raises LspCalibError if the standard library has no such function.
    """
    for _, (document, function) in zip(range(FIRST), _opened(server, LINES), strict=False):
        await until_idle(server.probe)
        place = document.position(function.start, 0)
        argument = {"uri": document.uri, "position": {"line": place.line, "character": place.character}}
        began = asyncio.get_running_loop().time()
        made: Any = await server.editor.command("lsp-calib.showSummary", argument, seconds=ANSWER)
        wall = 1e3 * (asyncio.get_running_loop().time() - began)
        document.close()
        if made is not None:
            timing = made["timing"]
            notes.first.append(
                {
                    "lines": function.code.count("\n") + 1,
                    "wallMs": wall,
                    "promptMs": timing["promptMs"],
                    "generateMs": timing["generateMs"],
                    "promptTokens": timing["promptTokens"],
                    "evaluated": timing["promptTokens"] - timing["promptReused"],
                    "generated": made["tokens"],
                }
            )
    if not notes.first:
        raise LspCalibError("The standard library of this Python has no functions to summarise.")


async def type_beside(
    server: Served, edits: Sequence[Edit], notes: Summaries, step: Callable[[int, int], None]
) -> None:
    """Type each edit in the recorded rhythm without and with summaries in the background, by turns.

    Each is typed once more before that, so that the cache holds equally much of it both times.
    """
    total, done = 3 * sum(len(edit.steps) for edit in edits), 0
    reader = _Reader(_opened(server, _SHORT), notes)

    async def type_(edit: Edit, into: list[Typed], other: Sequence[Typed] = (), pace: float = 1.0) -> None:
        """other: of the same keys, without summaries if these are typed beside some, else beside some."""
        nonlocal done
        async for ms, suggestion in type_in_rhythm(server.editor, server.scratch, edit, pace):
            done += 1
            into.append(Typed(ms, asked_model(suggestion), _evaluated(suggestion)))
            if 1 < len(into) <= len(other):
                both = into[-1], other[len(into) - 1]
                notes.typed.append(both if into is beside else both[::-1])
            step(done, total)

    for at, edit in enumerate(edits):
        await type_(edit, [], pace=0.0)
        beside, without = list[Typed](), list[Typed]()
        for into, other in ((without, beside), (beside, without))[:: -1 if not at % 2 else 1]:
            await settled(server.probe)
            typing = type_(edit, into, other)
            await (reader.while_(typing) if into is beside else typing)
    await until_idle(server.probe)


def _evaluated(suggestion: dict[str, Any] | None) -> int:
    """Prompt tokens that a suggestion cost; 0 for one from memory, and for none."""
    timing = suggestion["timing"] if suggestion else {"promptTokens": 0, "promptReused": 0}
    return int(timing["promptTokens"]) - int(timing["promptReused"])


class _Reader:
    """Simulates hovering over one function after the other, and over known ones again."""

    def __init__(self, found: Iterator[tuple[Document, Function]], notes: Summaries) -> None:
        self._found = found
        self._notes = notes
        self._known: list[tuple[Document, Function]] = []
        self._stopped = asyncio.Event()

    async def while_(self, typing: Coroutine[Any, Any, None]) -> None:
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
        found = await document.hover(function.start, 0, ANSWER)
        ms = 1e3 * (asyncio.get_running_loop().time() - began)
        return ms, found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""


def _opened(server: Served, lines: tuple[int, int]) -> Iterator[tuple[Document, Function]]:
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
        copy = server.scratch.project / f"{path.stem}_{lines[0]}.py"
        copy.write_text(source, "utf-8")
        document = Document(server.editor, copy, "python")
        for one in fitting[:1] if lines == LINES else fitting:
            yield document, one


def modules() -> list[Path]:
    """The modules of the standard library, by the SHA-256 of their names."""
    folder = Path(sysconfig.get_path("stdlib"))
    return sorted(folder.glob("*.py"), key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())
