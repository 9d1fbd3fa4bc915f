"""Replays an edit: one change, one request, one reading, and the faults of the suggestion."""

from __future__ import annotations

import asyncio
import enum
import itertools
import re
from collections.abc import AsyncGenerator, Sequence
from difflib import SequenceMatcher
from typing import Any

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import build_prompt
from lsp_calib.inference.generation.kv_cache import common_prefix
from lsp_calib.tools.bench import trace
from lsp_calib.tools.bench.processes import Raw, Replayed
from lsp_calib.tools.bench.server import Scratch, Served, settled, until_idle
from lsp_calib.tools.bench.trace import Edit, Kind, Step
from lsp_calib.tools.client import Document, Editor, suggestion_of
from lsp_calib.values import Prompt, Segment

# Seconds; enough on a busy machine.
ANSWER = 120.0
_names = itertools.count()
_PAIRS = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"\w")

Answered = tuple[float, bool]
"""Milliseconds until an answer, and whether the model was asked for it."""


class Place(enum.StrEnum):
    """The kind of a keystroke in a reading."""

    COLD = "cold"  # the first in a document
    JUMP = "jump"  # the first after the cursor was moved to another place
    NEWLINE = "newLine"
    KEYSTROKE = "keystroke"


@attrs.frozen
class Shown:
    """What is on screen after a step: the text at the cursor, None if nothing is offered."""

    cursor: trace.Place
    text: str | None


@attrs.frozen
class Counts:
    """Faults of suggestions.

    typed_along: keystrokes that typed the next character of the suggestion on screen, with some of it left.
    changed: those of them after which something else than its rest was offered, or nothing.
    repeats_rest: suggestions that end with what stands after the cursor anyway. repeats_next: those that make
    their line the same as the next one.
    """

    typed_along: int = 0
    changed: int = 0
    repeats_rest: int = 0
    repeats_next: int = 0

    def after(self, before: Shown | None, step: Step, lines: Sequence[str], now: Shown) -> Counts:
        """The counts with one more step. before: the screen before it, None at the start. lines: after it."""
        rest = _rest(before, step)
        text = now.text or ""
        return Counts(
            self.typed_along + (rest is not None),
            self.changed + (rest is not None and text != rest),
            self.repeats_rest + repeats_rest(lines, now.cursor, text),
            self.repeats_next + repeats_next(lines, now.cursor, text),
        )


@attrs.frozen
class Reading:
    """The cost of one change.

    wall_ms: from sending the change's bytes to receiving the answer's bytes. source: "model", "memory", or
    "none" if nothing was offered. prompt: its tokens, empty if unknown. needed: number of them that are new
    compared with the model's previous prompt; None for the first. evaluated, generated, decode_ms: as counted
    by the model process, 0 if it was not asked. tail: after a new line, tokens of the finished line and the
    prompt after it, else None. raw: the same tokens in a bare loop, None if it was not run. counts: the
    faults of this suggestion.
    """

    edit: str
    at: int
    place: Place
    wall_ms: float
    source: str
    suggestion: dict[str, Any] | None
    prompt: tuple[int, ...]
    needed: int | None
    evaluated: int
    generated: int
    decode_ms: float
    tail: int | None = None
    raw: Replayed | None = None
    counts: Counts = attrs.field(factory=Counts)

    @property
    def asked_model(self) -> bool:
        """Whether the model had work to do."""
        return self.evaluated > 0


class Typist:
    """Types an edit into a document that one server has open, and asks after each step."""

    def __init__(self, editor: Editor, scratch: Scratch, edit: Edit) -> None:
        self.edit = edit
        self._editor = editor
        # A new file each time: the server remembers its answers for the previous one.
        path = scratch.project / f"typed_{next(_names)}.py"
        path.write_text("\n".join(edit.before), "utf-8")
        self.document = Document(editor, path, "python")
        self._layout = scratch.layout

    async def answer(self, step: Step) -> tuple[float, dict[str, Any] | None]:
        """Make a step and ask at the cursor; returns (milliseconds until the answer, suggestion)."""
        self.document.edit(step.start, step.end, step.inserted)
        began = self._editor.sent_at
        item = await self.document.complete(*step.cursor, ANSWER)
        return 1e3 * (self._editor.received_at - began), suggestion_of(item)

    def prompt(self, step: Step) -> Prompt:
        """The prompt that the server sends to its model after the step just made."""
        cursor = Cursor(self.document.lines, *step.cursor, "python")
        return build_prompt(cursor.without_closers_behind(), self._layout)

    def close(self) -> None:
        self.document.close()


async def type_edit(
    server: Served, edit: Edit, raw: Raw | None, *, replay: bool
) -> AsyncGenerator[Reading, None]:
    """Yield a reading for each step. raw: used to tokenise, and with `replay` to repeat the model's work."""
    typist = Typist(server.editor, server.scratch, edit)
    asked: Sequence[int] = ()
    shown: Shown | None = None
    before = await until_idle(server.probe)
    for at, step in enumerate(edit.steps):
        wall, suggestion = await typist.answer(step)
        after = await settled(server.probe)
        prompt = typist.prompt(step)
        tokens = await raw.tokens_of(prompt) if raw else []
        screen = Shown(step.cursor, suggestion["text"] if suggestion else None)
        counts = Counts().after(shown, step, typist.document.lines, screen)
        shown = screen
        tail = None
        if raw and step.kind is Kind.NEWLINE:
            tail = len(tokens) - len(await raw.tokens_of(before_last_line(prompt)))
        reading = Reading(
            edit=edit.name,
            at=at,
            place=_place(at, step),
            wall_ms=wall,
            source=suggestion["source"] if suggestion else "none",
            suggestion=suggestion,
            prompt=tuple(tokens),
            needed=tokens_needed(asked, tokens) if asked and tokens else None,
            evaluated=after.prompt_tokens - before.prompt_tokens,
            generated=after.generated_tokens - before.generated_tokens,
            decode_ms=after.decode_ms - before.decode_ms,
            tail=tail,
            counts=counts,
        )
        if reading.asked_model:
            asked = tokens
            if raw and replay:
                reading = attrs.evolve(reading, raw=await _replay(raw, prompt, reading, after.threads))
        yield reading
        before = after
    typist.close()


async def type_in_rhythm(
    editor: Editor, scratch: Scratch, edit: Edit, pace: float = 1.0
) -> AsyncGenerator[tuple[float, dict[str, Any] | None], None]:
    """Type an edit; yield each answer, as `Typist.answer` returns it.

    pace: factor for the recorded pauses; an answer that takes longer than its pause delays the next step.
    """
    typist = Typist(editor, scratch, edit)
    waited = 0.0
    for step in edit.steps:
        await asyncio.sleep(max(pace * step.pause_ms - waited, 0.0) / 1e3)
        waited, suggestion = await typist.answer(step)
        yield waited, suggestion
    typist.close()


def tokens_needed(before: Sequence[int], after: Sequence[int]) -> int:
    """Number of tokens of `after` outside its longest common subsequence with `before`; at least 1.

    It counts changed tokens at any position. An exact cache reaches this number only if no unchanged tokens
    follow the change; the last token is always evaluated.
    """
    head = common_prefix(before, after)
    matcher = SequenceMatcher(None, before[head:], after[head:], autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return max(len(after) - head - same, 1)


def before_last_line(prompt: Prompt) -> Prompt:
    """The part of a prompt before the last complete line above the cursor."""
    at = next(n for n, (kind, _) in enumerate(prompt.segments) if kind is Segment.TEXT)
    text = prompt.segments[at][1]
    end = text.rfind("\n")
    known = text[: text.rfind("\n", 0, max(end, 0)) + 1]
    return Prompt((*prompt.segments[:at], (Segment.TEXT, known)), "", prompt.version)


def asked_model(suggestion: dict[str, Any] | None) -> bool:
    """Whether an answer came from the model, not from memory. An empty answer comes from the model."""
    return suggestion is None or suggestion["source"] == "model"


def repeats_rest(lines: Sequence[str], cursor: trace.Place, text: str) -> bool:
    """Whether a text ends with what stands after the cursor. Brackets that it opens itself it must close."""
    rest = lines[cursor[0]][cursor[1] :].strip()
    if not rest or not text.rstrip().endswith(rest):
        return False
    return bool(_WORD.search(rest)) or not _closes_its_own(text)


def repeats_next(lines: Sequence[str], cursor: trace.Place, text: str) -> bool:
    """Whether a text makes its line the same as the next one that is not blank.

    Lines of brackets alone do not count: they often stand there twice.
    """
    line, column = cursor
    whole = (lines[line][:column] + text + lines[line][column:]).strip()
    following = next((other.strip() for other in lines[line + 1 :] if other.strip()), "")
    return bool(text) and whole == following and _WORD.search(whole) is not None


def _rest(before: Shown | None, step: Step) -> str | None:
    """What must be offered after the step; None if it is not the next piece of what was on screen."""
    if before is None or not before.text or not step.text:
        return None
    along = step.start == step.end == before.cursor and before.text.startswith(step.text)
    return before.text[len(step.text) :] or None if along else None


def _closes_its_own(text: str) -> bool:
    opened: list[str] = []
    for char in text:
        if char in _PAIRS.values():
            opened.append(char)
        elif char in _PAIRS and (not opened or opened.pop() != _PAIRS[char]):
            return False
    return True


def _place(at: int, step: Step) -> Place:
    if at == 0:
        return Place.COLD
    if step.jump:
        return Place.JUMP
    return Place.NEWLINE if step.kind is Kind.NEWLINE else Place.KEYSTROKE


async def _replay(raw: Raw, prompt: Prompt, reading: Reading, threads: int) -> Replayed | None:
    """Repeat the work in the bare loop: evaluate as many tokens and generate the same answer."""
    if not reading.generated:
        return None
    text = prompt.forced + (reading.suggestion["text"] if reading.suggestion else "") + "\n"
    keep = max(len(reading.prompt) - reading.evaluated, 0)
    return await raw.replay(reading.prompt, keep, await raw.tokens_of_text(text), reading.generated, threads)
