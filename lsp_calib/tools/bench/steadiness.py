"""Whether suggestions stay as they are while they are typed, and add nothing that is there already. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib.tools.bench.trace import Place, Step

_PAIRS = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"\w")


@attrs.frozen
class Shown:
    """What is on screen after a step: the text at the cursor, None if nothing is offered."""

    cursor: Place
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

    def to_json(self) -> dict[str, Any]:
        return {
            "typedAlong": self.typed_along,
            "changed": self.changed,
            "repeatsRest": self.repeats_rest,
            "repeatsNext": self.repeats_next,
        }

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


def repeats_rest(lines: Sequence[str], cursor: Place, text: str) -> bool:
    """Whether a text ends with what stands after the cursor. Brackets that it opens itself it must close."""
    rest = lines[cursor[0]][cursor[1] :].strip()
    if not rest or not text.rstrip().endswith(rest):
        return False
    return bool(_WORD.search(rest)) or not _closes_its_own(text)


def repeats_next(lines: Sequence[str], cursor: Place, text: str) -> bool:
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
