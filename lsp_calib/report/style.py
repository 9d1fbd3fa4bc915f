"""The look of the page: light or dark, as the reader's system prefers or `data-theme` of the root says."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def style() -> str:
    """The style sheet."""
    return resources.files(__package__).joinpath("style.css").read_text("utf-8")
