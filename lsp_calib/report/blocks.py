"""What sections of the page are made of: headings, prose, tables, keys of figures."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.report.markup import Markup, joined, tag


def section(title: str, lead: str | None, *children: str | None) -> Markup:
    """A section with its heading. lead: a text above its content, see `prose`."""
    return tag("section", tag("h2", title), tag("p", prose(lead)) if lead else None, *children)


def prose(text: str) -> Markup:
    """A text in which what stands between backticks is code."""
    parts = text.split("`")
    return joined(*(tag("code", part) if at % 2 else part for at, part in enumerate(parts)))


def key(mark: Markup) -> Markup:
    """A mark of a figure, to stand in a legend."""
    return tag("svg", mark, viewBox="0 0 12 12", width=12, height=12, aria_hidden="true")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), kind: str | None = None
) -> Markup:
    """A table. right: the columns that are aligned to the right. kind: its class."""
    kinds = ["n" if at in right else None for at in range(len(head))]

    def line(cell_tag: str, cells: Sequence[str]) -> Markup:
        return tag("tr", *(tag(cell_tag, cell, class_=kinds[at]) for at, cell in enumerate(cells)))

    body = tag("tbody", *(line("td", row) for row in rows))
    return tag("table", tag("thead", line("th", head)), body, class_=kind)
