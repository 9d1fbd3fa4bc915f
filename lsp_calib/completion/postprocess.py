"""What is left of an answer before anybody sees it."""

from __future__ import annotations

import re
import unicodedata

from lsp_calib.completion.context import Cursor

# Bidirectional controls make a line look like another one than it is (CVE-2021-42574).
_HIDDEN = re.compile("[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")
_OPENING = {")": "(", "]": "[", "}": "{"}


def clean(text: str, cursor: Cursor) -> str:
    """The completion to offer at `cursor`; empty if there is nothing worth offering.

    Trailing white space goes; what already stands after the cursor is not offered a second time.
    An answer with control characters, line separators or bidirectional controls is dropped whole: a terminal
    or an editor would act on them.
    """
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char != "\t" for char in text):
        return ""
    if _HIDDEN.search(text) or "\ufffd" in text:
        return ""
    text = text.rstrip()
    rest = cursor.after.rstrip()
    if not text.endswith(rest):
        rest = rest.lstrip()
    if rest and text.endswith(rest) and not (_OPENING.keys() & set(rest) and _is_balanced(text)):
        text = text[: -len(rest)]
    return text if text.strip() else ""


def _is_balanced(text: str) -> bool:
    """Whether each closing bracket has its opening one within `text`: none belongs to what stands before."""
    open_: list[str] = []
    for char in text:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return False
    return True
