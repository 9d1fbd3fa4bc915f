"""From a model's answer to the text to offer."""

from __future__ import annotations

from lsp_calib.characters import has_hidden
from lsp_calib.completion.context import Cursor

_OPENING = {")": "(", "]": "[", "}": "{"}


def clean(text: str, cursor: Cursor) -> str:
    """The completion to offer at `cursor`; empty if there is nothing worth offering.

    Trailing white space is removed; text that already stands after the cursor is not offered again.
    An answer with control characters, line separators or invisible characters is dropped completely: a
    terminal or an editor would act on them, and the text without them is not the one whose probability is
    known. Such characters in the user's own text do not matter.
    """
    if has_hidden(text, cursor.before, cursor.after) or "\ufffd" in text:
        return ""
    text = text.rstrip()
    rest = cursor.after.rstrip()
    if not text.endswith(rest):
        rest = rest.lstrip()
    if rest and text.endswith(rest) and not (_OPENING.keys() & set(rest) and _is_balanced(text)):
        text = text[: -len(rest)]
    return text if text.strip() else ""


def _is_balanced(text: str) -> bool:
    """Whether each closing bracket has its opening one within `text`, rather than before it."""
    open_: list[str] = []
    for char in text:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return False
    return True
