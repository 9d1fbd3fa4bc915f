"""Output for a terminal: no text that comes from a file or a model can direct it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from lsp_calib.characters import shown


class Console(rich.console.Console):
    """rich's, for texts from anywhere: their controls are left out, and brackets in them are no markup.

    Styles and colours are those of the renderables alone.
    """

    def __init__(self, *, markup: bool = False, **options: Any) -> None:
        super().__init__(markup=markup, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))


def tell(text: str) -> None:
    """Print a line on standard error at once, if that is not closed."""
    if sys.stderr is not None:  # otherwise `print` would use standard output
        print(shown(text), file=sys.stderr, flush=True)
