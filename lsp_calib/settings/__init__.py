"""Settings: their declarations, their sources, and the handling of wrong values."""

from lsp_calib.settings.sources import (
    engine_choice,
    of_the_user,
    parse,
    parse_trusted,
    resolve_trusted,
)
from lsp_calib.settings.table import Settings, Trusted

__all__ = [
    "Settings",
    "Trusted",
    "engine_choice",
    "of_the_user",
    "parse",
    "parse_trusted",
    "resolve_trusted",
]
