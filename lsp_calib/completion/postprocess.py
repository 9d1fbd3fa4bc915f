"""From a model's answer to the text to offer."""

from __future__ import annotations

import enum

import attrs

from lsp_calib.characters import has_hidden
from lsp_calib.completion.context import Cursor

_OPENING = {")": "(", "]": "[", "}": "{"}


class Removal(enum.StrEnum):
    """Why nothing of a model's answer is offered."""

    EMPTY = "empty"  # the model ended the line at once
    WHITE_SPACE = "onlyWhiteSpace"
    REPEATS_SUFFIX = "repeatsSuffix"
    HIDDEN_CHARACTERS = "hiddenCharacters"
    NEVER_ENDED = "neverEnded"  # within the tokens that a line can have


@attrs.frozen
class Cleaned:
    """The text to offer, and if that is empty, why nothing is left of the answer."""

    text: str
    removal: Removal | None = None


def clean(text: str, cursor: Cursor) -> str:
    """The completion to offer at `cursor`; empty if there is nothing worth offering. See `cleaned`."""
    return cleaned(text, cursor).text


def cleaned(text: str, cursor: Cursor) -> Cleaned:
    """The completion to offer at `cursor`, or why there is nothing worth offering.

    Trailing white space is removed; text that already stands after the cursor is not offered again.
    An answer with control characters, line separators or invisible characters is dropped completely: a
    terminal or an editor would act on them, and the text without them is not the one whose probability is
    known. Such characters in the user's own text do not matter.
    """
    if not text:
        return Cleaned("", Removal.EMPTY)
    if has_hidden(text, cursor.before, cursor.after) or "\ufffd" in text:
        return Cleaned("", Removal.HIDDEN_CHARACTERS)
    text = text.rstrip()
    if not text:
        return Cleaned("", Removal.WHITE_SPACE)
    rest = cursor.after.rstrip()
    if not text.endswith(rest):
        rest = rest.lstrip()
    if rest and text.endswith(rest) and not (_OPENING.keys() & set(rest) and _is_balanced(text)):
        text = text[: -len(rest)]
    return Cleaned(text) if text.strip() else Cleaned("", Removal.REPEATS_SUFFIX)


def _is_balanced(text: str) -> bool:
    """Whether each closing bracket has its opening one within `text`, rather than before it."""
    open_: list[str] = []
    for char in text:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return False
    return True
