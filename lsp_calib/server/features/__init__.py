"""The features that an editor can use: one small module for each, all of them registered here."""

from __future__ import annotations

from lsp_calib.server.features import (
    code_action,
    code_lens,
    commands,
    completion,
    diagnostics,
    documents,
    hints,
    hover,
    inline_completion,
    lifecycle,
    summary_commands,
)
from lsp_calib.server.language_server import CalibServer

_FEATURES = (
    *(lifecycle, documents, hints, inline_completion, completion, hover, diagnostics, commands),
    *(summary_commands, code_action, code_lens),
)


def register_all(server: CalibServer) -> None:
    for feature in _FEATURES:
        feature.register(server)
