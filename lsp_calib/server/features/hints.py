"""What some editors say of a suggestion: that it is on the screen, that a part of it was accepted.

The shape is that of the Copilot language server: `item` is an item of `textDocument/inlineCompletion`, whose
command names the suggestion, `acceptedLength` counts UTF-16 units from the beginning of its text. These are
notifications, so one that does not fit is ignored. Nothing depends on them.
"""

from __future__ import annotations

import logging
from typing import Any

from lsp_calib.server.language_server import CalibServer
from lsp_calib.values import is_suggestion_id

DID_SHOW = "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT = "textDocument/didPartiallyAcceptCompletion"

_log = logging.getLogger(__name__)


def register(server: CalibServer) -> None:
    @server.feature(DID_SHOW)
    def shown(ls: CalibServer, params: Any) -> None:
        if (identity := _suggestion(params)) is not None:
            ls.session.suggestions.tracking.displayed(identity)

    @server.feature(DID_PARTIALLY_ACCEPT)
    def partially_accepted(ls: CalibServer, params: Any) -> None:
        units = _get(params, "acceptedLength")
        counts = isinstance(units, int) and not isinstance(units, bool)
        if counts and (identity := _suggestion(params)) is not None:
            ls.session.suggestions.tracking.part_accepted(identity, units)


def _suggestion(params: Any) -> str | None:
    """The id of the suggestion that the item offers; None if it is none of this server's."""
    arguments = _get(_get(_get(params, "item"), "command"), "arguments")
    found = _get(arguments[0], "id") if isinstance(arguments, list | tuple) and arguments else None
    if is_suggestion_id(found):
        return str(found)
    _log.debug("A notification about a completion names no suggestion of this server. It is ignored.")
    return None


def _get(value: Any, name: str) -> Any:
    """A field of an object, which pygls reads as a dict or with attributes; None if there is none."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
