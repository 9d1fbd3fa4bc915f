"""HTML and SVG from calls: every text is escaped, unless it is markup already."""

from __future__ import annotations

import functools
import html
from collections.abc import Iterable, Sequence
from importlib import resources

from lsp_calib.characters import without_hidden

_VOID = frozenset({"br", "img", "meta", "source"})


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


@functools.cache
def style() -> str:
    """The style sheet: light or dark, as the reader's system prefers or `data-theme` of the root says."""
    return resources.files(__package__).joinpath("style.css").read_text("utf-8")


def section(title: str, lead: str | None, *children: str | None) -> Markup:
    """A section with its heading. lead: a text above its content, see `prose`."""
    return tag("section", tag("h2", title), tag("p", prose(lead)) if lead else None, *children)


def prose(text: str) -> Markup:
    """A text in which what stands between backticks is code."""
    parts = text.split("`")
    return joined(*(tag("code", part) if at % 2 else part for at, part in enumerate(parts)))


def legend(items: Iterable[tuple[Markup, str]]) -> Markup:
    """What the marks of a figure mean."""
    size: dict[str, str | float] = {"viewBox": "0 0 12 12", "width": 12, "height": 12, "aria_hidden": "true"}
    return tag("ul", *(tag("li", tag("svg", mark, **size), text) for mark, text in items), class_="legend")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), kind: str | None = None
) -> Markup:
    """A table. right: the columns that are aligned to the right. kind: its class."""
    kinds = ["n" if at in right else None for at in range(len(head))]

    def line(cell_tag: str, cells: Sequence[str]) -> Markup:
        return tag("tr", *(tag(cell_tag, cell, class_=kinds[at]) for at, cell in enumerate(cells)))

    body = tag("tbody", *(line("td", row) for row in rows))
    return tag("table", tag("thead", line("th", head)), body, class_=kind)
