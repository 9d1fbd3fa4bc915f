"""What is left of an answer before anybody sees it."""

from __future__ import annotations

import unicodedata

from lsp_calib.completion.context import Cursor


def clean(text: str, cursor: Cursor) -> str:
    """The completion to offer at `cursor`; empty if there is nothing worth offering.

    Trailing white space goes; what already stands after the cursor is not offered a second time.
    An answer with control characters is dropped whole: a terminal would act on them.
    """
    if any(unicodedata.category(char) in ("Cc", "Cs") and char != "\t" for char in text) or "\ufffd" in text:
        return ""
    text = text.rstrip()
    rest = cursor.after.strip()
    if rest and text.endswith(rest):
        text = text[: -len(rest)]
    return text if text.strip() else ""
