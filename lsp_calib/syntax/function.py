"""A function of a source file. Pure."""

from __future__ import annotations

import attrs


@attrs.frozen
class Function:
    """A function or method; lines count from 0, ends are exclusive.

    start: the line where its definition begins, decorators, annotations and attributes left out.
    signature_end: after the line where its signature ends: that of the colon, the opening brace or the arrow.
    body: first line of the body after documentation in it.
    docstring: the documentation as written, with its quotes or comment marks, None if there is none.
    code: its source without the documentation.
    documented: first line of the documentation, and the line after it; None if there is none.
    """

    name: str
    start: int
    body: int
    end: int
    signature_end: int
    docstring: str | None
    code: str
    documented: tuple[int, int] | None = None
