"""Values of JSON types from a text or an object that nobody has checked. Pure."""

from __future__ import annotations

import json
import threading
from typing import Any, TypeVar

import msgspec

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
