"""JSON: values from a text that nobody has checked, and as text that an output can hold. Pure."""

from __future__ import annotations

import codecs
import json
import threading
from typing import Any, TypeVar

import msgspec

from lsp_calib.characters import shown

T = TypeVar("T")

_one_at_a_time = threading.RLock()


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def converted(value: object, kind: type[T]) -> T:
    """The object of a declared type in a value of JSON types. Raises msgspec.ValidationError.

    One thread at a time: msgspec (0.22) may end the process where several convert.
    """
    with _one_at_a_time:
        return msgspec.convert(value, kind)


def json_text(value: Any, encoding: str | None) -> str:
    """A value as JSON for an output with this encoding (None: not known).

    Characters are escaped, as JSON can, where the encoding may not have them, and where a name of a file is
    not UTF-8: Python holds its bytes as characters that nothing encodes.

    >>> json_text("é", "utf-8"), json_text("é", "cp1252"), json_text(chr(0xDCE9), "utf-8")
    ('"é"', '"\\\\u00e9"', '"\\\\udce9"')
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if shown(text) != text:  # controls beyond ASCII, which could direct a terminal
        return json.dumps(value, indent=2)
    is_utf8 = codecs.lookup(encoding or "ascii").name == "utf-8"
    held = text.isascii() or (is_utf8 and not any("\ud800" <= char <= "\udfff" for char in text))
    return text if held else json.dumps(value, indent=2)
