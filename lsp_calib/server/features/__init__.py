"""What an editor can use, a module for each kind of feature, all of them registered here."""

from __future__ import annotations

from lsp_calib.server.features import commands, completions, documents, lifecycle, summaries
from lsp_calib.server.language_server import CalibServer


def register_all(server: CalibServer) -> None:
    for feature in (lifecycle, documents, completions, summaries, commands):
        feature.register(server)
