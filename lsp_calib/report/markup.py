"""HTML and SVG from calls: every text is escaped, unless it is markup already."""

from __future__ import annotations

import html

from lsp_calib.characters import without_hidden

_VOID = frozenset({"meta", "br"})


class Markup(str):
    """Text that is markup: it is not escaped again."""

    __slots__ = ()


def tag(element: str, /, *children: str | None, **attributes: str | float | None) -> Markup:
    """An element. A child or an attribute that is None is left out.

    `class_` is the attribute class, `stroke_width` is stroke-width.

    >>> tag("p", "a < b", tag("b", "!"), class_="x", title=None)
    '<p class="x">a &lt; b<b>!</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Markup(f"<{element}{given}>")
    return Markup(f"<{element}{given}>{joined(*children)}</{element}>")


def joined(*children: str | None) -> Markup:
    """The children one after the other."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else _escaped(child) for child in children if child is not None
        )
    )


def number(value: str | float) -> str:
    """A number with at most two decimals, as attributes have it; a text as it is.

    >>> number(3.14159), number(2.0), number("x")
    ('3.14', '2', 'x')
    """
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _escaped(text: str) -> str:
    return html.escape(without_hidden(text), quote=True)
