"""Documents of JSON types: read into declared types, each error naming file and field, and written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
import msgspec.structs

from lsp_calib.characters import in_one_line
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.json_text import converted

T = TypeVar("T")

_LIMIT = 1e100  # keeps weight * (x - mean) / scale from overflowing for any feature that occurs

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # up to there a float is exact
Text = Annotated[str, msgspec.Meta(min_length=1)]


class FieldError(DataError, ValueError):
    """A number that a part of a file cannot have: where a file is read, its place is named."""


class Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of a file: an unknown field is refused, because it might change what the others mean."""


def parse(data: bytes, file: str) -> object:
    """The JSON value in `data`. Raises CalibratorError naming `file`."""
    try:
        value: object = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise CalibratorError(f"{file} is not readable as JSON: {error}.") from error
    return value


def read(document: object, kind: type[T], file: str) -> T:
    """The object of a type that `written` made a document of.

    Raises CalibratorError naming file and field for a missing or wrong value, and for values that contradict
    each other.
    """
    try:
        found = converted(document, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        named = f"{place.rstrip('`')}: " if place else ""
        newer = (
            " (another version wrote it: newer files need a newer lsp-calib)"
            if place.startswith("schema")
            else ""
        )
        raise CalibratorError(f"{file}: {in_one_line(f'{named}{problem}{newer}', 300)}.") from error
    except (DataError, CalibratorError) as error:
        raise CalibratorError(f"{file}: {error}") from error
    again = written(found)
    if document != again:
        given = document if isinstance(document, dict) else {}
        fields = sorted(name for name in {*given, *again} if given.get(name, again) != again.get(name, given))
        named = in_one_line(", ".join(fields), 100)
        raise CalibratorError(f"{file}: {named}: something is missing, or is not known.")
    return found


def written(value: object) -> Any:
    """A document's JSON types. `read` gives back an equal object."""
    return json.loads(json.dumps(msgspec.to_builtins(value, enc_hook=float)))


def as_floats(one: msgspec.Struct, *, bounded: Iterable[str] = (), positive: Iterable[str] = ()) -> None:
    """Make fields of a frozen object floats. Raises DataError for one that is not finite, or, of `positive`,
    not in [1e-9, 1e9]."""
    for names, least, most in ((bounded, -_LIMIT, _LIMIT), (positive, 1e-9, 1e9)):
        for name in names:
            value = float(getattr(one, name))
            if not least <= value <= most:
                wanted = "a finite number" if most == _LIMIT else "a number in [1e-9, 1e9]"
                raise FieldError(f"{name} must be {wanted}, not {value}.")
            msgspec.structs.force_setattr(one, name, value)
