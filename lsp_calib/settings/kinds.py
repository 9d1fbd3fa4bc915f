"""The kinds of values that settings take: which fit, in words for messages, as a schema for editors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import attrs

# Characters of a value that a message repeats: a setting may hold anything, at any length.
_LONGEST = 80


def shortened(text: str) -> str:
    """A text as messages repeat it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class Kind(ABC):
    """A kind of value. Values are those of JSON, as `json` or `tomllib` decode them."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What fits, after "must be"."""

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """What fits, as JSON Schema."""

    @abstractmethod
    def fits(self, value: object) -> bool: ...

    def read(self, value: object) -> tuple[Any, str]:
        """What the setting becomes (None: its default), and the end of a message ("": nothing is wrong)."""
        if self.fits(value):
            return value, ""
        return None, f"must be {self.words}, not {shortened(repr(value))}; the default is used"


@attrs.frozen
class Switch(Kind):
    words = "true or false"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def fits(self, value: object) -> bool:
        return isinstance(value, bool)


@attrs.frozen
class OneOf(Kind):
    """Some texts, and perhaps true and false."""

    options: tuple[str | bool, ...]

    @property
    def words(self) -> str:
        *first, last = (str(o).lower() if isinstance(o, bool) else f'"{o}"' for o in self.options)
        return f"{', '.join(first)} or {last}"

    @property
    def schema(self) -> dict[str, Any]:
        types = {"boolean" if isinstance(option, bool) else "string": None for option in self.options}
        return {"type": [*types], "enum": [*self.options]}

    def fits(self, value: object) -> bool:
        # 1 == True and 0 == False, but neither is a truth value.
        return any(
            value is option or (isinstance(option, str) and value == option) for option in self.options
        )


@attrs.frozen
class Number(Kind):
    """A number in a range, both ends included. Where it need not be whole the setting becomes a float."""

    low: int
    high: int
    whole: bool = True

    @property
    def words(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.low} to {self.high}"

    @property
    def schema(self) -> dict[str, Any]:
        kind = "integer" if self.whole else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}

    def fits(self, value: object) -> bool:
        types = (int,) if self.whole else (int, float)
        return isinstance(value, types) and not isinstance(value, bool) and self.low <= value <= self.high

    def read(self, value: object) -> tuple[Any, str]:
        found, problem = super().read(value)
        return found if problem or self.whole else float(found), problem


@attrs.frozen
class OrAuto(Kind):
    """A value of some kind, or "auto", which is the default. Editors leave such a setting unset instead."""

    kind: Kind

    @property
    def words(self) -> str:
        return f'"auto" or {self.kind.words}'

    @property
    def schema(self) -> dict[str, Any]:
        return self.kind.schema

    def fits(self, value: object) -> bool:
        return value == "auto" or self.kind.fits(value)

    def read(self, value: object) -> tuple[Any, str]:
        return (None, "") if value == "auto" else super().read(value)


@attrs.frozen
class Text(Kind):
    words = "a text"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def fits(self, value: object) -> bool:
        return isinstance(value, str)


@attrs.frozen
class CheckedText(Text):
    """A text that may hold a password where it does not fit: messages do not repeat it."""

    accepts: Callable[[str], bool]
    words: str

    def fits(self, value: object) -> bool:
        return isinstance(value, str) and self.accepts(value)

    def read(self, value: object) -> tuple[Any, str]:
        return (value, "") if self.fits(value) else (None, f"must be {self.words}; it is ignored")


@attrs.frozen
class TextList(Kind):
    """A list of texts, `most` at most. Entries that fit count even where others do not."""

    accepts: Callable[[str], bool]
    words: str
    most: int

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}, "maxItems": self.most}

    def fits(self, value: object) -> bool:
        return isinstance(value, list) and len(self._fitting(value)) == len(value)

    def read(self, value: object) -> tuple[Any, str]:
        problem = "" if self.fits(value) else f"must be {self.words}; what does not fit is ignored"
        return self._fitting(value) if isinstance(value, list) else None, problem

    def _fitting(self, value: list[object]) -> tuple[str, ...]:
        return tuple(one for one in value[: self.most] if isinstance(one, str) and self.accepts(one))
