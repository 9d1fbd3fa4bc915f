"""JSON as text that an output can hold, whatever its encoding. Pure."""

from __future__ import annotations

import codecs
import json
from typing import Any


def json_text(value: Any, encoding: str | None) -> str:
    """A value as JSON for an output with this encoding (None: not known).

    Characters are escaped, as JSON can, where the encoding may not have them, and where a name of a file is
    not UTF-8: Python holds its bytes as characters that nothing encodes.

    >>> json_text("é", "utf-8"), json_text("é", "cp1252"), json_text(chr(0xDCE9), "utf-8")
    ('"é"', '"\\\\u00e9"', '"\\\\udce9"')
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    is_utf8 = codecs.lookup(encoding or "ascii").name == "utf-8"
    held = text.isascii() or (is_utf8 and not any("\ud800" <= char <= "\udfff" for char in text))
    return text if held else json.dumps(value, indent=2)
