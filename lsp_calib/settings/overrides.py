"""The setting `tiers.overrides`: a list of objects, each of which makes tiers stricter somewhere."""

from __future__ import annotations

from collections.abc import Mapping

from lsp_calib.exclusion import is_pattern
from lsp_calib.languages import ANY, identifier_of, is_choice
from lsp_calib.settings.kinds import Kind, object_list
from lsp_calib.values import Override

_MOST = 50
_SHARES = ("acceptFrom", "rejectBelow")
_TEXTS = ("language", "path")
_WORDS = (
    f'a list of at most {_MOST} objects such as {{"path": "crypto/**", "acceptFrom": 0.95}}: a language or a '
    "path, and acceptFrom or rejectBelow, from 0 to 1"
)


def overrides_kind() -> Kind:
    share = {"type": "number", "minimum": 0, "maximum": 1}
    properties = {**{name: {"type": "string"} for name in _TEXTS}, **dict.fromkeys(_SHARES, share)}
    return object_list(override, _WORDS, properties, _MOST)


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
    if not (_is_share(accept) and _is_share(reject)):
        return None
    language = None if language is None else identifier_of(language)
    return Override(language=language, path=path, accept_from=float(accept), reject_below=float(reject))


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
