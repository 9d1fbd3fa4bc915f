"""The kinds of values that settings take: a check, words for messages, a schema for editors. And the bounds
of those that a workspace sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from lsp_calib.characters import in_one_line
from lsp_calib.exclusion import is_pattern
from lsp_calib.languages import ANY, identifier_of, is_choice
from lsp_calib.values import Override

# Characters of a value that a message repeats: a setting may hold anything, at any length.
_LONGEST = 80
# The end of such a message, see `_kind`.
_REPEATED = re.compile(r", not .*; the default is used")

# Of an override of the tiers.
_MOST_OVERRIDES = 50
_SHARES = ("acceptFrom", "rejectBelow")
_TEXTS = ("language", "path")
_OVERRIDE_WORDS = (
    f'a list of at most {_MOST_OVERRIDES} objects such as {{"path": "crypto/**", "acceptFrom": 0.95}}: a '
    "language or a path, and acceptFrom or rejectBelow, from 0 to 1"
)


@attrs.frozen(eq=False)
class Kind:
    """A kind of value. Values are those of JSON, as `json` or `tomllib` decode them.

    words: the values that fit, to follow "must be". schema: the same as JSON Schema. read: gives for a value
    the setting (None: its default) and the end of a message ("": nothing is wrong).
    """

    words: str
    schema: dict[str, Any]
    read: Callable[[object], tuple[Any, str]]


@attrs.frozen(eq=False)
class Bound:
    """How far a workspace's value of a setting counts beside the user's own one.

    words: the values that count, to follow "a workspace can". combined: the value that holds, of the user's
    and the workspace's.
    """

    words: str
    combined: Callable[[Any, Any], Any]


KEPT_OFF = Bound("turn it off, never on where the user has turned it off", lambda own, wished: own and wished)
KEPT_ON = Bound("turn it on, never off where the user has it on", lambda own, wished: own or wished)
THE_USERS = Bound("never change it", lambda own, _wished: own)


def raised(order: Sequence[Any] | None = None, words: str = "only raise it") -> Bound:
    """A workspace's value counts where it is higher, or where the user has none. order: all values from the
    lowest on; None: numbers."""

    def combined(own: Any, wished: Any) -> Any:
        return wished if own is None else max(own, wished, key=order.index if order else float)

    return Bound(words, combined)


def shortened(text: str) -> str:
    """A text as messages repeat it."""
    text = in_one_line(text[: 2 * _LONGEST], 2 * _LONGEST)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def without_value(message: str) -> str:
    """A message without the value that it repeats: anything can be set by mistake, a key included."""
    return _REPEATED.sub(", not what is set; the default is used", message)


def switch() -> Kind:
    return _kind("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))


def text() -> Kind:
    return _kind("a text", {"type": "string"}, lambda value: isinstance(value, str))


def one_of(*options: str | bool) -> Kind:
    """Some texts, and perhaps true and false."""

    def fits(value: object) -> bool:
        # 1 == True and 0 == False, but neither is a truth value.
        return any(value is option or (isinstance(option, str) and value == option) for option in options)

    *first, last = (str(option).lower() if isinstance(option, bool) else f'"{option}"' for option in options)
    types = dict.fromkeys("boolean" if isinstance(option, bool) else "string" for option in options)
    return _kind(f"{', '.join(first)} or {last}", {"type": [*types], "enum": [*options]}, fits)


def whole_number(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`, both included."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return _kind(
        f"a whole number from {low} to {high}", schema, lambda value: _between(low, value, high, (int,))
    )


def number(low: float, high: float) -> Kind:
    """A number from `low` to `high`, both included; the setting becomes a float."""
    schema = {"type": "number", "minimum": low, "maximum": high}
    words = f"a number from {low} to {high}"
    return _kind(words, schema, lambda value: _between(low, value, high, (int, float)), float)


def chance() -> Kind:
    """A number from 0.001 to 0.999: with smaller ones the labels that it takes could not be counted."""
    return number(0.001, 0.999)


def share_or_off() -> Kind:
    """A number from 0 on below 1, or false, which becomes 0.0."""

    def fits(value: object) -> bool:
        return value is False or (_between(0, value, 1, (int, float)) and value != 1)

    share = {"type": ["number", "boolean"], "minimum": 0, "exclusiveMaximum": 1}
    schema = {**share, "not": {"const": True}}
    return _kind("false or a number from 0 on below 1", schema, fits, float)


def or_auto(kind: Kind) -> Kind:
    """A value of some kind, or "auto", which is the default. Editors leave such a setting unset instead."""
    return _kind(
        f'"auto" or {kind.words}',
        kind.schema,
        lambda value: value == "auto" or not kind.read(value)[1],
        lambda value: None if value == "auto" else value,
    )


def checked_text(accepts: Callable[[str], bool], words: str) -> Kind:
    """A text of some form. Messages do not repeat one that does not fit: it may hold a password."""

    def read(value: object) -> tuple[Any, str]:
        if isinstance(value, str) and accepts(value):
            return value, ""
        return None, f"must be {words}; it is ignored"

    return Kind(words, {"type": "string"}, read)


def text_list(accepts: Callable[[str], bool], words: str, most: int) -> Kind:
    """A list of texts, `most` at most."""

    def read_one(value: object) -> str | None:
        return value if isinstance(value, str) and accepts(value) else None

    return _list(read_one, words, {"type": "string"}, most)


def _list(read_one: Callable[[object], Any], words: str, items: dict[str, Any], most: int) -> Kind:
    """A list of `most` entries at most; the setting becomes a tuple of what `read_one` makes of them.

    read_one: gives None for what does not fit. items: an entry, as JSON Schema. Entries that fit count even
    where others do not; if none does, the default counts.
    """

    def read(value: object) -> tuple[Any, str]:
        given = value if isinstance(value, list) else []
        found = [read_one(one) for one in given[:most]]
        good = tuple(one for one in found if one is not None)
        if isinstance(value, list) and len(good) == len(given):
            return good, ""
        return good or None, f"must be {words}; what does not fit is ignored"

    return Kind(words, {"type": "array", "items": items, "maxItems": most}, read)


def _kind(
    words: str,
    schema: dict[str, Any],
    fits: Callable[[object], bool],
    convert: Callable[[Any], Any] = lambda value: value,
) -> Kind:
    """A kind whose messages name the wrong value."""

    def read(value: object) -> tuple[Any, str]:
        if fits(value):
            return convert(value), ""
        return None, f"must be {words}, not {shortened(repr(value))}; the default is used"

    return Kind(words, schema, read)


def _between(low: float, value: object, high: float, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool) or not isinstance(value, types):
        return False
    return low <= value <= high  # type: ignore[operator]


def overrides_kind() -> Kind:
    """The setting `tiers.overrides`: a list of objects, each of which makes tiers stricter somewhere."""
    share = {"type": "number", "minimum": 0, "maximum": 1}
    properties = {**{name: {"type": "string"} for name in _TEXTS}, **dict.fromkeys(_SHARES, share)}
    entry = {"type": "object", "properties": properties, "additionalProperties": False}
    return _list(override, _OVERRIDE_WORDS, entry, _MOST_OVERRIDES)


def override(value: object) -> Override | None:
    """The override in an entry of the list; None if it is none."""
    if not isinstance(value, Mapping) or not set(value) <= {*_TEXTS, *_SHARES}:
        return None
    # Editors send unset members as null.
    given = {name: one for name, one in value.items() if one is not None}
    if not given.keys() & {*_TEXTS} or not given.keys() & {*_SHARES}:
        return None
    language, path = given.get("language"), given.get("path")
    if language is not None and not (isinstance(language, str) and is_choice(language) and language != ANY):
        return None
    if path is not None and not (isinstance(path, str) and is_pattern(path)):
        return None
    accept, reject = (given.get(name, 0) for name in _SHARES)
    if not all(_between(0, one, 1, (int, float)) for one in (accept, reject)):
        return None
    language = None if language is None else identifier_of(language)
    return Override(language=language, path=path, accept_from=float(accept), reject_below=float(reject))
