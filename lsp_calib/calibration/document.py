"""Strict reading of a JSON document: every error message names the file and the field."""

from __future__ import annotations

import json
import math
from typing import Any, Never

import attrs

from lsp_calib.errors import CalibratorError


def parse(text: str, file: str) -> object:
    """The JSON value in `text`. NaN, infinities and repeated keys are refused; nothing is executed.

    Raises CalibratorError naming `file`.
    """

    def constant(name: str) -> Never:
        raise ValueError(f"{name} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key appears twice")
        return found

    try:
        value: object = json.loads(text, parse_constant=constant, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CalibratorError(f"{file} is not readable as JSON: {error}.") from error
    return value


@attrs.frozen
class Fields:
    """One JSON object, read field by field; a missing or wrong value raises CalibratorError."""

    values: dict[str, object]
    file: str
    path: str = ""

    @classmethod
    def of(cls, value: object, file: str, path: str = "") -> Fields:
        if not isinstance(value, dict):
            raise CalibratorError(f"{file}: {path or 'the document'} must be an object.")
        return cls(value, file, path)

    def only(self, known: set[str]) -> None:
        """Refuse fields that this version does not know: they might change what the others mean."""
        for name in self.values:
            if name not in known:
                self.wrong(name, "is not a known field")

    def wrong(self, name: str, complaint: str) -> Never:
        raise CalibratorError(f"{self.file}: {self._full(name)} {complaint}.")

    def get(self, name: str) -> object:
        if name not in self.values:
            self.wrong(name, "is missing")
        return self.values[name]

    def text(self, name: str, *, empty: bool = False) -> str:
        value = self.get(name)
        if not isinstance(value, str) or not (value or empty):
            self.wrong(name, "must be a text" if empty else "must be a text that is not empty")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in known:
            self.wrong(name, f"must be one of {', '.join(known)}, not {value!r}")
        return value

    def count(self, name: str) -> int:
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.wrong(name, "must be a whole number, not negative")
        return value

    def optional_count(self, name: str) -> int | None:
        return None if self.get(name) is None else self.count(name)

    def number(self, name: str) -> float:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(name, "must be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.wrong(name, "must be a finite number")
        return number

    def optional_number(self, name: str) -> float | None:
        return None if self.get(name) is None else self.number(name)

    def numbers(self, name: str) -> tuple[float, ...]:
        values = self.get(name)
        if not isinstance(values, list):
            self.wrong(name, "must be a list")
        items = Fields({f"{name}[{i}]": value for i, value in enumerate(values)}, self.file, self.path)
        return tuple(items.number(item) for item in items.values)

    def object(self, name: str) -> Fields:
        return Fields.of(self.get(name), self.file, self._full(name))

    def objects(self, name: str) -> list[Fields]:
        value = self.get(name)
        if not isinstance(value, list):
            self.wrong(name, "must be a list")
        return [Fields.of(item, self.file, f"{self._full(name)}[{i}]") for i, item in enumerate(value)]

    def _full(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
